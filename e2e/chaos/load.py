"""Load: pods and nodes are created and deleted continuously, with claims and preemption.

It replaces the kubelets (terminating pods are deleted), the pod garbage collector (pods of deleted
nodes are deleted) and the volume controller (a volume assigned to a claim is bound). Controllers of
kube-controller-manager handle the claims of devices. Each second it compares the cluster with its
target and corrects differences, so it survives every fault, including a restored backup. All
decisions derive from a seed. Every pod can be scheduled at some time, except those labelled
``MAY_WAIT``.

Some pods belong to groups of four that the plugin `together` holds in Permit until all have a node.
Others belong to PodGroups, use a team's profile, or claim devices. PodDisruptionBudgets cover most
of them.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any, Final

import aiohttp

from e2e.chaos.devices import (
    BY_NAME,
    EXTENDED,
    FROM_TEMPLATE,
    KINDS as WITH_DEVICES,
    MOST as MOST_WITH_DEVICES,
    Devices,
    age,
)
from e2e.chaos.gangs import GANG, Gangs
from e2e.support.api import Api, ApiRefusedError
from e2e.support.objects import Json, make_node, make_pod

NAMESPACE: Final = "chaos"
MAY_WAIT: Final = "chaos.stowage.dev/may-wait"
FOREIGN: Final = "default-scheduler"
TEAM: Final = "team-a"
"""A team's profile, which packs pods; the other profile spreads them."""
GROUP: Final = "acme.com/group"
GROUP_SIZE: Final = "acme.com/group-size"

PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_CLAIMS: Final = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
_VOLUMES: Final = "/api/v1/persistentvolumes"
_NODES: Final = "/api/v1/nodes"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_BUDGETS: Final = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
_STORAGE_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"

_GROUPS: Final = ("apart-a", "apart-b", "apart-c")
_PORTS: Final = (8080, 8081)
_TIGHT: Final = {"dedicated": "tight"}
_STABLE_NODES: Final = 16
_FLUX_NODES: Final = 4
_TIGHT_NODES: Final = 2
_MOST_OF_A_KIND: Final = 6
"""Maximum number of pods with one anti-affinity or host port; less than the number of stable
nodes."""
_LOW_PODS: Final = 4
_HIGH_PODS: Final = 2
_NEVER_FIT: Final = 3
_MEMBERS: Final = 4
"""Pods of a group that is bound together."""
_MOST_GROUPS: Final = 6
_TEAM_SHARE: Final = 0.2
_MOST_WAITING: Final = 120
_TICK_SECONDS: Final = 1.0
_CLAIM_SECONDS: Final = 5.0
"""Age at which a claim without a pod is deleted."""


class Load:
    """The pods of one namespace, which are created and deleted continuously.

    Attributes:
        foreign_share: share of pods for another scheduler.
        problems: unexpected responses, by message.
    """

    def __init__(self, api: Api, seed: int, *, pods_per_second: int, population: int) -> None:
        self._api = api
        self._draw = Random(seed)
        self._rate = pods_per_second
        self._population = population
        self._serial = 0
        self._ticks = 0
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        nodes = [f"stable-{index:02}" for index in range(_STABLE_NODES)]
        self.devices = Devices(api, self._draw, NAMESPACE, nodes)
        self._gangs = Gangs(api, self._draw, NAMESPACE, MAY_WAIT)
        self.foreign_share = 0.0
        self.problems: Counter[str] = Counter()

    async def prepare(self) -> None:
        """Create nodes, classes, volumes and the first pods."""
        await self._api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name, value in (("chaos-low", 10), ("chaos-high", 1000)):
            await self._api.post(_CLASSES, {"metadata": {"name": name}, "value": value})
        local = {"provisioner": "kubernetes.io/no-provisioner"}
        local["volumeBindingMode"] = "WaitForFirstConsumer"
        await self._api.post(_STORAGE_CLASSES, {"metadata": {"name": "chaos"}, **local})
        await self._api.create_all(_NODES, self._stable_nodes())
        await self._api.create_all(_BUDGETS, map(_budget, ("plain", "spread", "low", "group")))
        await self.devices.prepare()
        await self._gangs.prepare()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop after the changes of the current second; the objects stay."""
        if self._task is not None:
            self._stopping = True
            await asyncio.wait([self._task])

    async def pods(self) -> list[Json]:
        return await self._api.list_items(PODS)

    async def recreate_pods(self, count: int) -> None:
        """Delete some pods and create others with the same names at once."""
        pods = await self.pods()
        for pod in self._draw.sample(pods, min(count, len(pods))):
            labels = pod["metadata"]["labels"]
            if labels.keys() & {"claim", MAY_WAIT, GROUP, GANG} or labels["kind"] == BY_NAME:
                continue
            kind, name = labels["kind"], pod["metadata"]["name"]
            await self._try(self._delete(f"{PODS}/{name}"))
            again = self._plain(name)
            if kind in WITH_DEVICES:
                await self.devices.give(kind, again)
                again["metadata"]["labels"]["kind"] = kind
            await self._try(self._api.post(PODS, again))

    async def recreate_nodes(self, count: int) -> None:
        """Delete some nodes and create others with the same names at once."""
        for index in self._draw.sample(range(_STABLE_NODES), count):
            await self._try(self._api.delete(f"{_NODES}/stable-{index:02}"))
            await self._try(self._api.post(_NODES, _node(index)))

    async def end_pods_with_devices(self) -> None:
        """Delete all pods with devices, so that their devices become free."""
        for pod in await self.pods():
            if pod["metadata"]["labels"]["kind"] in WITH_DEVICES:
                await self._delete(f"{PODS}/{pod['metadata']['name']}")

    async def bind_volumes(self, pods: list[Json]) -> None:
        """Bind volumes that the scheduler assigned to claims, as the volume controller does."""
        used = {pod["metadata"]["labels"].get("claim") for pod in pods}
        claims = {each["metadata"]["uid"]: each for each in await self._api.list_items(_CLAIMS)}
        for claim in claims.values():
            # A claim's pod is created right after the claim.
            if claim["metadata"]["name"] not in used and age(claim) > _CLAIM_SECONDS:
                await self._delete(f"{_CLAIMS}/{claim['metadata']['name']}")
        volumes = await self._api.list_items(_VOLUMES)
        for volume in volumes:
            reference = volume["spec"].get("claimRef")
            if reference is None:
                continue
            name = volume["metadata"]["name"]
            bound = claims.get(reference.get("uid", ""))
            if bound is None:
                await self._delete(f"{_VOLUMES}/{name}")
            elif not bound["spec"].get("volumeName"):
                await self._bind_claim(bound["metadata"]["name"], name)
        there = {volume["metadata"]["name"]: volume for volume in volumes}
        for index in range(_STABLE_NODES):
            name = f"volume-{index:02}"
            if name not in there:
                await self._api.post(_VOLUMES, _volume(index))
            elif there[name].get("status", {}).get("phase") not in ("Available", "Bound"):
                await self._set_phase(name, "Available")

    async def complete(self) -> None:
        """Do what kubelets and controllers still owe to the present pods."""
        pods = await self.pods()
        await self.bind_volumes(pods)
        await self._gangs.complete(pods)
        for member in self._missing_members(pods):
            await self._try(member)
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                await self._try(self._delete(f"{PODS}/{pod['metadata']['name']}"))

    async def probe(self) -> str:
        """Create a pod that fits on any node; return its UID."""
        made = await self._api.post(PODS, self._plain(self._name("probe")))
        return str(made["metadata"]["uid"])

    # --- each second ------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping:
            begun = loop.time()
            await self._try(self._tick())
            await asyncio.sleep(max(0.05, begun + _TICK_SECONDS - loop.time()))

    async def _tick(self) -> None:
        self._ticks += 1
        async with asyncio.timeout(5):
            pods, nodes = await self.pods(), await self._api.list_items(_NODES)
        names = {node["metadata"]["name"] for node in nodes}
        work = [*self._leave(pods, names), *self._come(pods), *self._change_nodes(names)]
        work += [*self._groups(pods), self._gangs.tick(pods)]
        if self._ticks % 5 == 0:
            work.append(self._allow_disruptions())
        if self._ticks % 2:
            work.append(self.bind_volumes(pods))
        else:
            work.append(self.devices.remove_unused(pods))
        if self._ticks % 3 == 1:
            work.append(self.devices.renew())
        pause = _TICK_SECONDS / (len(work) + 1)
        tasks = [self._later(number * pause, each) for number, each in enumerate(work)]
        async with asyncio.timeout(5):
            await asyncio.gather(*tasks)

    def _leave(self, pods: list[Json], nodes: set[str]) -> Iterator[Coroutine[Any, Any, object]]:
        """Delete the oldest running pods, terminating pods, and pods of deleted nodes."""
        pods = sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        runs = [pod for pod in pods if pod["spec"].get("nodeName")]
        surplus = len(pods) - self._population
        for pod in runs:
            path = f"{PODS}/{pod['metadata']['name']}"
            if "deletionTimestamp" in pod["metadata"] or pod["spec"]["nodeName"] not in nodes:
                yield self._delete(path)
            elif surplus > 0 and not pod["metadata"]["labels"].keys() & {MAY_WAIT, GANG}:
                surplus -= 1
                yield self._delete(path)

    def _come(self, pods: list[Json]) -> Iterator[Coroutine[Any, Any, object]]:
        waiting = sum(not pod["spec"].get("nodeName") for pod in pods)
        if waiting > _MOST_WAITING:
            return
        kinds = Counter(pod["metadata"]["labels"].get("kind", "") for pod in pods)
        for _ in range(self._rate):
            yield self._create(kinds)
        if self._ticks % 3 == 0 and kinds["high"] < _HIGH_PODS:
            yield self._api.post(PODS, self._tight("high", "chaos-high"))
        for _ in range(_LOW_PODS + 2 - kinds["low"]):
            yield self._api.post(PODS, self._tight("low", "chaos-low"))
        for _ in range(_NEVER_FIT - kinds["never"]):
            pod = make_pod(
                self._name("never"),
                namespace=NAMESPACE,
                labels={"kind": "never", MAY_WAIT: ""},
                nodeSelector={"chaos.stowage.dev/nowhere": self._name("x")},
            )
            yield self._api.post(PODS, pod)

    def _groups(self, pods: list[Json]) -> Iterator[Coroutine[Any, Any, object]]:
        """Create missing members of waiting groups, and new groups."""
        yield from self._missing_members(pods)
        groups = {pod["metadata"]["labels"].get(GROUP) for pod in pods} - {None}
        if self._ticks % 5 == 1 and len(groups) < _MOST_GROUPS:
            group = self._name("group")
            for number in range(_MEMBERS):
                yield self._api.post(PODS, self._member(group, number))

    def _missing_members(self, pods: list[Json]) -> Iterator[Coroutine[Any, Any, object]]:
        """Create missing members of waiting groups, as a Job controller does."""
        members: dict[str, list[Json]] = {}
        for pod in pods:
            if group := pod["metadata"]["labels"].get(GROUP):
                members.setdefault(group, []).append(pod)
        for group, there in members.items():
            if any(not pod["spec"].get("nodeName") for pod in there):
                names = {pod["metadata"]["name"] for pod in there}
                for number in range(_MEMBERS):
                    if f"{group}-{number}" not in names:
                        yield self._api.post(PODS, self._member(group, number))

    async def _allow_disruptions(self) -> None:
        """Update ``disruptionsAllowed``, as the disruption controller does."""
        for budget in await self._api.list_items(_BUDGETS):
            counts = {"disruptionsAllowed": self._draw.randrange(3), "expectedPods": 3}
            status = {**counts, "currentHealthy": 3, "desiredHealthy": 1}
            path = f"{_BUDGETS}/{budget['metadata']['name']}/status"
            await self._api.patch(path, {"status": status})

    def _change_nodes(self, names: set[str]) -> Iterator[Coroutine[Any, Any, object]]:
        """Create and delete unstable nodes; change a label of a stable node."""
        name = f"flux-{self._draw.randrange(_FLUX_NODES)}"
        if self._ticks % 4 == 0:
            if name in names:
                yield self._api.delete(f"{_NODES}/{name}")
            else:
                yield self._api.post(_NODES, make_node(name, zone="zone-1"))
        elif self._ticks % 4 == 2:
            stable = f"stable-{self._draw.randrange(_STABLE_NODES):02}"
            labels = {"labels": {"chaos.stowage.dev/tick": str(self._ticks)}}
            yield self._api.patch(f"{_NODES}/{stable}", {"metadata": labels})

    async def _set_phase(self, volume: str, phase: str) -> None:
        await self._api.patch(f"{_VOLUMES}/{volume}/status", {"status": {"phase": phase}})

    async def _bind_claim(self, claim: str, volume: str) -> None:
        completed = {"pv.kubernetes.io/bind-completed": "yes"}
        body: Json = {"metadata": {"annotations": completed}, "spec": {"volumeName": volume}}
        await self._api.patch(f"{_CLAIMS}/{claim}", body)
        capacity = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
        status: Json = {"status": {**capacity, "accessModes": ["ReadWriteOnce"]}}
        await self._api.patch(f"{_CLAIMS}/{claim}/status", status)
        await self._set_phase(volume, "Bound")

    # --- pods -------------------------------------------------------------------------------------

    async def _create(self, kinds: Counter[str]) -> None:
        kind = self._draw.choices(
            ("plain", "spread", *_GROUPS, *map(str, _PORTS), "claim", *WITH_DEVICES),
            (60, 8, 4, 4, 4, 4, 4, 4, 3, 4, 2, 2),
        )[0]
        if kind not in ("plain", "spread") and self._are_enough(kind, kinds):
            kind = "plain"
        kinds[kind] += 1
        name = self._name("pod")
        pod = self._plain(name)
        pod["metadata"]["labels"]["kind"] = kind
        spec = pod["spec"]
        if kind in _GROUPS:
            term = {"labelSelector": {"matchLabels": {"kind": kind}}}
            term["topologyKey"] = "kubernetes.io/hostname"  # type: ignore[assignment]
            rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec["affinity"] = {"podAntiAffinity": rule}
        elif kind == "spread":
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 5,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"kind": kind}},
                }
            ]
        elif kind == "claim":
            pod["metadata"]["labels"]["claim"] = name
            await self._api.post(_CLAIMS, _claim(name))
            source = {"persistentVolumeClaim": {"claimName": name}}
            spec["volumes"] = [{"name": "data", **source}]
        elif kind in WITH_DEVICES:
            await self.devices.give(kind, pod)
        elif kind != "plain":
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": int(kind)}]
        elif self._draw.random() < self.foreign_share:
            spec["schedulerName"] = FOREIGN
        elif self._draw.random() < _TEAM_SHARE:
            spec["schedulerName"] = TEAM
        await self._api.post(PODS, pod)

    @staticmethod
    def _are_enough(kind: str, kinds: Counter[str]) -> bool:
        own = (BY_NAME, FROM_TEMPLATE, EXTENDED)
        if kind in own:
            return sum(kinds[each] for each in own) >= MOST_WITH_DEVICES
        return kinds[kind] >= _MOST_OF_A_KIND

    def _plain(self, name: str) -> Json:
        cpu = self._draw.choice(("50m", "100m", "200m", "400m"))
        requests = {"cpu": cpu, "memory": "64Mi"}
        return make_pod(name, namespace=NAMESPACE, labels={"kind": "plain"}, requests=requests)

    def _member(self, group: str, number: int) -> Json:
        pod = self._plain(f"{group}-{number}")
        labels = {"kind": "group", GROUP: group, GROUP_SIZE: str(_MEMBERS)}
        pod["metadata"]["labels"] = labels
        return pod

    def _tight(self, kind: str, priority: str) -> Json:
        """Build a pod for the few nodes on which it fits only by preemption."""
        labels = {"kind": kind, "app": kind}
        if kind == "low":
            labels[MAY_WAIT] = ""
        return make_pod(
            self._name(kind),
            namespace=NAMESPACE,
            labels=labels,
            requests={"cpu": "500m"},
            priorityClassName=priority,
            nodeSelector=_TIGHT,
            tolerations=[{"operator": "Exists", "key": "dedicated"}],
            # Victims stay Terminating for a while and could be evicted again.
            terminationGracePeriodSeconds=30,
        )

    def _name(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}-{self._serial:06}"

    def _stable_nodes(self) -> Iterator[Json]:
        yield from map(_node, range(_STABLE_NODES))
        taints = [{"key": "dedicated", "value": "tight", "effect": "NoSchedule"}]
        for index in range(_TIGHT_NODES):
            yield make_node(
                f"tight-{index}", allocatable={"cpu": "1"}, labels=_TIGHT, taints=taints
            )

    # --- requests ---------------------------------------------------------------------------------

    async def _delete(self, path: str) -> None:
        await self._api.delete(f"{path}?gracePeriodSeconds=0")

    async def _later(self, seconds: float, work: Coroutine[Any, Any, object]) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            work.close()
            raise
        await self._try(work)

    async def _try(self, work: Coroutine[Any, Any, object]) -> None:
        """Run one action; the next tick retries it on failure."""
        try:
            await work
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            self.problems[type(problem).__name__] += 1
        except ApiRefusedError as problem:
            if problem.status not in (404, 409):
                self.problems[str(problem)] += 1


def _node(index: int) -> Json:
    return make_node(
        f"stable-{index:02}", zone=f"zone-{index % 3 + 1}", allocatable={"memory": "8Gi"}
    )


def _claim(name: str) -> Json:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "storageClassName": "chaos",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _budget(kind: str) -> Json:
    return {
        "metadata": {"name": kind, "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"kind": kind}}},
    }


def _volume(index: int) -> Json:
    there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"stable-{index:02}"]}
    return {
        "metadata": {"name": f"volume-{index:02}"},
        "spec": {
            "storageClassName": "chaos",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}},
        },
    }
