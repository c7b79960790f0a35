"""Measure the longest step of the event loop under extreme loads.

A step is one event of the engine, or one slice of a response. Each case builds an extreme cluster,
then yields the CPU time of each following step in milliseconds.

`python -m bench.bounds` runs the cases at ten times the sizes documented in docs/security.md, which
names the guard of each. tests/unit/bench/test_steps.py runs them on a small scale.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from time import thread_time_ns
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from prometheus_client import CollectorRegistry
from typing_extensions import override

from bench.decisions.explain_devices import devices_in_use
from scheduler.api.disruption_budgets import (
    DisruptionBudget,
    PodDisruptionBudget,
    disruption_budget,
)
from scheduler.api.objects import Namespace, Node, ObjectMeta, Pod
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo, pod_info
from scheduler.clock import SystemClock
from scheduler.config.load import default_configuration, load_object
from scheduler.config.write import to_object
from scheduler.daemon.bootstrap import implemented_plugins
from scheduler.daemon.bootstrap.explaining import LiveExplainer
from scheduler.daemon.informers.kinds import POD_GROUPS
from scheduler.daemon.recording.flight import FlightRecorder
from scheduler.daemon.recording.records import Header
from scheduler.daemon.serving.endpoints import DebugQuery
from scheduler.daemon.serving.pod_resources import pod_resource_slices
from scheduler.kernel.cache import CacheComparer
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import (
    Activate,
    Configure,
    Decide,
    Event,
    ObjectSet,
    Rejected,
    Tick,
)
from scheduler.kernel.engine.instructions import Bind, Evict
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    EnqueueExtensions,
    PermitPlugin,
    Plugin,
    ReservePlugin,
)
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.plugins.default_preemption import BUDGETS
from scheduler.kernel.preemption.kept_room import KeptRoom
from scheduler.observability.dumps import json_slices
from scheduler.observability.exposition import exposition
from scheduler.observability.instruments import Instruments
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import ClusterObjects, objects_from_documents

T = TypeVar("T")

Steps = Iterator[float]

PROFILE: Final = "bench"
HOSTILE: Final = "hostile"
RACK: Final = "example.com/rack"
_CPUS: Final = 64
_HEADER: Final = Header(
    recording="bench",
    version="0",
    configuration={},
    seed=0,
    max_in_unschedulable_seconds=300.0,
    started=0.0,
    clock=0.0,
)


def node(index: int, cpu: int = _CPUS, rack: int = 0) -> Node:
    """Build a node with zone, rack and hostname."""
    name = f"node-{index}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{index % 10}",
        RACK: f"rack-{rack}",
    }
    allocatable = {"cpu": f"{cpu}", "memory": "256Gi", "pods": "110"}
    return msgspec.convert(
        {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}},
        Node,
    )


def pod(name: str, node_name: str = "", **fields: Any) -> PodInfo:
    """Build a pod; `app` is a label, `cpu` a request, other keywords are fields of its spec."""
    namespace, cpu = fields.pop("namespace", "default"), fields.pop("cpu", "100m")
    annotations = fields.pop("annotations", {})
    labels = {"app": fields.pop("app", name)}
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": PROFILE,
            "nodeName": node_name,
            "containers": [container],
            **fields,
        },
    }
    return pod_info(msgspec.convert(body, Pod))


def keeps_away(selector: dict[str, Any], **term: Any) -> dict[str, Any]:
    """Return a required anti-affinity to the selected pods of the zone."""
    terms = [{"topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector, **term}]
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    }


def unlike(value: str) -> dict[str, Any]:
    """Return a selector that no label indexes and that matches almost all pods."""
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [value]}]}


def budget(name: str, selector: dict[str, Any], allowed: int = 1) -> DisruptionBudget:
    written = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }
    return disruption_budget(msgspec.convert(written, PodDisruptionBudget))


class Driven:
    """An engine, and the time of its steps."""

    def __init__(
        self,
        objects: ClusterObjects,
        profiles: Profiles | None = None,
    ) -> None:
        self.profiles = profiles or Profiles(default_configuration(PROFILE))
        self.engine: Engine = self.profiles.load(objects).engine
        self.now = self.engine.core.now
        self._told: Counter[type] = Counter()

    def step(self, event: Event) -> float:
        """Handle one event; return its CPU time in milliseconds."""
        start = thread_time_ns()
        told = self.engine.handle(event, self.now)
        taken = (thread_time_ns() - start) / 1e6
        self._told.update(map(type, told))
        return taken

    def told(self, kind: type) -> int:
        """Return the number of instructions of one type that measured steps returned."""
        return self._told[kind]

    def tell(self, events: Iterable[Event]) -> None:
        """Handle events without measuring them."""
        for event in events:
            self.engine.handle(event, self.now)

    def decide(self, pods: Iterable[PodInfo]) -> Steps:
        """Create each pod and schedule it; yield the times."""
        for each in pods:
            yield self.step(ObjectSet("pods", each))
            yield self.step(Decide())

    def settle(self) -> Steps:
        """Schedule pods until none is ready; yield the times."""
        while self.engine.has_ready:
            yield self.step(Decide())


def cluster(
    nodes: int, pods: Iterable[PodInfo] = (), budgets: Iterable[DisruptionBudget] = ()
) -> ClusterObjects:
    """Return the objects to load."""
    objects = ClusterObjects()
    objects.nodes.extend(map(node, range(nodes)))
    objects.pods.extend(pods)
    objects.watched.extend((BUDGETS, each) for each in budgets)
    return objects


# --- groups in Permit -----------------------------------------------------------------------------


class Tied(ReservePlugin, PermitPlugin, EnqueueExtensions):
    """Holds the pods of an app in Permit; if one is unreserved, rejects all that are held."""

    NAME: ClassVar[str] = "Tied"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle

    @override
    def events_to_register(self) -> tuple[()]:
        return ()

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return Status()

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        if pod.labels["app"] == HOSTILE:
            for held in self._handle.waiting:
                self._handle.waiting.reject(held.pod.uid, self.NAME, "the group is not complete")

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 600.0) if pod.labels["app"] == HOSTILE else (Status(), 0.0)


def _held(held: int, others: int) -> Driven:
    """Build an engine with a group held in Permit, and other bound pods."""
    plugins: dict[str, type[Plugin]] = {"Tied": Tied}
    enabled = {"multiPoint": {"enabled": [{"name": "Tied"}]}}
    profile = {"schedulerName": PROFILE, "plugins": enabled}
    written = {**to_object(default_configuration(PROFILE)), "profiles": [profile]}
    config = load_object(written, out_of_tree=implemented_plugins(plugins))
    driven = Driven(cluster(200 + (held + others) // 100), Profiles(config, plugins))
    for number in range(held):
        driven.tell((ObjectSet("pods", pod(f"held-{number}", app=HOSTILE)), Decide()))
    for number in range(others):
        driven.tell((ObjectSet("pods", pod(f"other-{number}", app="other")), Decide()))
    if len(driven.engine.core.waiting) != held:
        raise AssertionError(f"{len(driven.engine.core.waiting)} pods are held, not {held}")
    return driven


def group_is_given_back(held: int, others: int) -> Steps:
    """Reject one member, so that the plugin rejects all of them."""
    driven = _held(held, others)
    yield driven.step(Rejected("held-0", "Tied", "no"))
    yield from driven.settle()


def group_runs_out_of_patience(held: int, others: int) -> Steps:
    """Let all members time out in one tick."""
    driven = _held(held, others)
    driven.now += 601.0
    yield driven.step(Tick())
    yield from driven.settle()


def group_is_let_go(held: int, others: int) -> Steps:
    """Allow all members within one event."""
    driven = _held(held, others)
    waiting = driven.engine.core.waiting
    for each in waiting:
        waiting.allow(each.pod.uid, "Tied")
    yield driven.step(Activate(()))
    yield from driven.settle()


# --- pod groups -----------------------------------------------------------------------------------


def pod_group_of_unlike_members(members: int) -> Steps:
    """Schedule two gangs of different pods on half as many nodes; only the first gang fits."""
    config = default_configuration(PROFILE, ("GenericWorkload", "GangScheduling"))
    driven = Driven(cluster(members // 2), Profiles(config))
    for name, last_cpu in (("fits", "100m"), ("refused", f"{_CPUS + 1}")):
        group = PodGroup(ObjectMeta(name=name, namespace="default", uid=name), members)
        yield driven.step(ObjectSet(POD_GROUPS.name, group))
        for number in range(members):
            cpu = last_cpu if number == members - 1 else f"{100 + number % 100}m"
            one = pod(f"{name}-{number}", cpu=cpu, schedulingGroup={"podGroupName": name})
            yield driven.step(ObjectSet("pods", one))
        yield from driven.settle()


def pod_group_that_needs_victims(members: int) -> Steps:
    """Schedule a gang whose members each search for victims, on full nodes."""
    config = default_configuration(PROFILE, ("GenericWorkload", "GangScheduling"))
    running = (
        pod(f"run-{n}", f"node-{n // 4}", app=f"app-{n % 100}", cpu="16", priority=-1)
        for n in range(4 * members)
    )
    driven = Driven(cluster(members, running), Profiles(config))
    group = PodGroup(ObjectMeta(name="vips", namespace="default", uid="vips"), members)
    driven.tell([ObjectSet(POD_GROUPS.name, group)])
    for number in range(members):
        one = pod(f"vip-{number}", cpu="16", schedulingGroup={"podGroupName": "vips"})
        yield driven.step(ObjectSet("pods", one))
    yield from driven.settle()


def pod_group_in_a_rack(members: int, racks: int) -> Steps:
    """Schedule two gangs of members with different specs in one of many racks, one per node.

    The first gang fits in any rack, and a node without capacity changes its rack between its steps.
    The second gang fits in no rack.
    """
    gates = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling")
    objects = ClusterObjects()
    objects.nodes.extend(
        node(n, cpu=_CPUS if n else 0, rack=n % racks) for n in range(2 * members * racks)
    )
    driven = Driven(objects, Profiles(default_configuration(PROFILE, gates)))
    alone = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}}
    for name, last_cpu in (("fits", "100m"), ("refused", f"{_CPUS + 1}")):
        meta = ObjectMeta(name=name, namespace="default", uid=name)
        driven.tell([ObjectSet(POD_GROUPS.name, PodGroup(meta, members, RACK))])
        for number in range(members):
            cpu = last_cpu if number == members - 1 else f"{100 + number}m"
            about: dict[str, Any] = {"schedulingGroup": {"podGroupName": name}, "affinity": rule}
            driven.tell([ObjectSet("pods", pod(f"{name}-{number}", cpu=cpu, app="x", **about))])
        for changes in count():
            if not driven.engine.has_ready:
                break
            yield driven.step(Decide())
            if name == "fits":
                driven.tell([ObjectSet("nodes", node(0, cpu=0, rack=changes % 2))])
    if driven.told(Bind) != members:
        raise AssertionError(f"{driven.told(Bind)} members of {members} were bound")


def victims_of_a_whole_group(members: int, nodes: int) -> Steps:
    """Search for the victims of one gang of different pods, on full nodes.

    Afterwards the cluster changes, so that the victims are checked again.
    """
    gates = ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption")
    running = (
        pod(f"run-{n}", f"node-{n // 4}", app=f"app-{n % 100}", cpu="16", priority=-1)
        for n in range(4 * nodes)
    )
    driven = Driven(cluster(nodes, running), Profiles(default_configuration(PROFILE, gates)))
    group = PodGroup(ObjectMeta(name="vips", namespace="default", uid="vips"), members, priority=5)
    driven.tell([ObjectSet(POD_GROUPS.name, group)])
    driven.tell(
        ObjectSet("pods", pod(f"vip-{n}", cpu="16", schedulingGroup={"podGroupName": "vips"}))
        for n in range(members)
    )
    yield driven.step(Decide())
    driven.tell([ObjectSet("nodes", node(nodes, cpu=1))])
    yield from driven.settle()
    if not driven.told(Evict):
        raise AssertionError("no victims were found")


def room_for_a_pod_group(members: int, nodes: int) -> Steps:
    """Keep room for a gang on full nodes, where half of the pods have a known end.

    The search starts after the gang has waited long enough.
    """
    written = to_object(default_configuration(PROFILE))
    multi_point = {"multiPoint": {"enabled": [{"name": "KeepRoom"}]}}
    args = [{"name": "KeepRoom", "args": {"afterSeconds": 60}}]
    written["profiles"] = [{"schedulerName": PROFILE, "plugins": multi_point, "pluginConfig": args}]
    config = load_object(written, feature_gates=("GenericWorkload", "GangScheduling"))
    driven = Driven(cluster(nodes, _running_until(nodes)), Profiles(config))
    group = PodGroup(ObjectMeta(name="gang", namespace="default", uid="gang"), members)
    driven.tell([ObjectSet(POD_GROUPS.name, group)])
    driven.tell(
        ObjectSet("pods", pod(f"gang-{n}", cpu="32", schedulingGroup={"podGroupName": "gang"}))
        for n in range(members)
    )
    yield from driven.settle()
    driven.now += 400.0
    yield driven.step(Tick())
    yield from driven.settle()
    kept = driven.engine.core.states.known(KeptRoom)
    if kept is None or [len(room.places) for room in kept.rooms()] != [members]:
        raise AssertionError("no room is kept")


def _running_until(nodes: int) -> Iterator[PodInfo]:
    """Yield ten pods for each node; half of them have an expected end."""
    for number in range(10 * nodes):
        said = f"2100-01-01T{number // 7 % 24:02}:{number % 60:02}:00Z"
        annotations = {"stowage.dev/expected-end": said} if number // nodes % 2 else {}
        about: dict[str, Any] = {"app": f"app-{number % 100}", "annotations": annotations}
        yield pod(f"run-{number}", f"node-{number % nodes}", cpu="6", **about)


# --- budgets --------------------------------------------------------------------------------------


def _preemptions(apps: int, budgets: list[DisruptionBudget]) -> Steps:
    """Preempt pods of many apps on full nodes; change a budget's status before each preemption."""
    nodes = max(apps // 4, 4)
    running = (
        pod(f"run-{n}", f"node-{n % nodes}", app=f"app-{n}", cpu="16", priority=0)
        for n in range(4 * nodes)
    )
    driven = Driven(cluster(nodes, running, budgets))
    for number in range(4):
        changed = msgspec.structs.replace(budgets[0], disruptions_allowed=number % 2)
        yield driven.step(ObjectSet("poddisruptionbudgets", changed))
        yield from driven.decide([pod(f"vip-{number}", app="vip", cpu="16", priority=9)])


def budget_for_each_app(apps: int) -> Steps:
    """Give each app one budget, as in an ordinary namespace."""
    matching = [budget(f"b{n}", {"matchLabels": {"app": f"app-{n}"}}) for n in range(apps)]
    yield from _preemptions(apps, matching)


def budgets_of_no_label(apps: int, budgets: int) -> Steps:
    """Use budgets whose selectors must be compared with every label set."""
    exists = {"matchExpressions": [{"key": "none", "operator": "Exists"}]}
    yield from _preemptions(apps, [budget(f"b{n}", exists) for n in range(budgets)])


# --- namespaces, labels, terms --------------------------------------------------------------------


def namespaces_change(label_sets: int, terms: int) -> Steps:
    """Change the labels of a namespace of many label sets, beside terms that select by them."""
    by_label = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    running = [
        pod(f"term-{n}", f"node-{n % 100}", **keeps_away(unlike(f"x{n}"), **by_label))
        for n in range(terms)
    ]
    running += [pod(f"set-{n}", f"node-{n % 100}", namespace="team") for n in range(label_sets)]
    driven = Driven(cluster(100, running))
    driven.tell((ObjectSet("pods", pod("first")), Decide()))
    for team in ("a", "b", "a"):
        written = {"metadata": {"name": "team", "labels": {"team": team}}}
        yield driven.step(ObjectSet("namespaces", msgspec.convert(written, Namespace)))
        yield from driven.decide([pod(f"new-{team}-{driven.now}", namespace="team")])
        driven.now += 1.0


def label_sets_come(label_sets: int, selectors: int) -> Steps:
    """Add running pods with new labels, beside many selectors in use."""
    terms = (
        pod(f"term-{n}", f"node-{n % 100}", **keeps_away({"matchLabels": {"app": f"x{n}"}}))
        for n in range(selectors)
    )
    driven = Driven(cluster(100, terms))
    driven.tell((ObjectSet("pods", pod("first")), Decide()))
    for number in range(label_sets):
        yield driven.step(ObjectSet("pods", pod(f"set-{number}", f"node-{number % 100}")))
    yield driven.step(Tick())
    yield from driven.decide([pod("last")])


def terms_of_bound_pods(terms: int) -> Steps:
    """Schedule pods with new label sets beside very many terms that no label indexes."""
    running = (
        pod(f"term-{n}", f"node-{n % 100}", app="x", **keeps_away(unlike(f"x{n}")))
        for n in range(terms)
    )
    driven = Driven(cluster(100, running))
    driven.tell((ObjectSet("pods", pod("first")), Decide()))
    yield from driven.decide(pod(f"new-{n}", app=f"x{n}") for n in range(10))


# --- endpoints, recordings, configuration ---------------------------------------------------------


def _waiting(pods: int, nodes: int = 10) -> Driven:
    """Build an engine with unschedulable pods that all have different labels."""
    driven = Driven(cluster(nodes))
    for number in range(pods):
        driven.tell((ObjectSet("pods", pod(f"waits-{number}", cpu="1000")), Decide()))
    return driven


def _timed(slices: Iterator[T]) -> Steps:
    """Yield the CPU time of each slice in milliseconds."""
    while True:
        start = thread_time_ns()
        ended = not list(islice(slices, 1))
        yield (thread_time_ns() - start) / 1e6
        if ended:
            return


def queue_is_shown(pods: int) -> Steps:
    """Measure the slices of `/debug/queue`."""
    yield from _timed(json_slices(_waiting(pods).engine.core.queue.rows()))


def cache_is_shown(nodes: int, pods: int) -> Steps:
    """Measure the slices of `/debug/cache`."""
    running = [pod(f"run-{n}", f"node-{n % nodes}", app="a", cpu="1m") for n in range(pods)]
    driven = Driven(cluster(nodes, running))
    cache = driven.engine.core.cache
    comparer = CacheComparer(
        cache,
        {name: info.node for name, info in cache.nodes.items() if info.node is not None},
        {each.key: each for each in running},
        is_wanted=lambda _: True,
        is_queued=lambda _: False,
    )
    yield from _timed(json_slices(comparer.dump()))


def pod_is_explained(nodes: int, waiting: int) -> Steps:
    """Measure the steps of `/debug/explain` with every node and with suggested changes."""
    driven = _waiting(waiting, nodes)
    demands = {f"example.com/{n}": "v" for n in range(12)}
    asked = pod("asked", cpu="1000", nodeSelector=demands, **keeps_away(unlike("x")))
    driven.tell((ObjectSet("pods", asked), Decide()))
    yield from _explained(driven.engine, asked, DebugQuery(asked.key, changes=True))
    yield from _explained(driven.engine, asked, DebugQuery(asked.key, all_nodes=True))


def devices_are_explained(nodes: int) -> Steps:
    """Measure the steps of `/debug/explain` with suggested changes for a pod without devices."""
    profiles = Profiles(None)
    bodies = ((f"o{i}", each) for i, each in enumerate(devices_in_use(nodes)))
    cluster = profiles.load(objects_from_documents(bodies))
    [asked] = cluster.waiting
    cluster.engine.handle(ObjectSet("pods", asked), 0.0)
    cluster.engine.handle(Decide(), 0.0)
    yield from _explained(cluster.engine, asked, DebugQuery(asked.key, changes=True))


def _explained(engine: Engine, asked: PodInfo, query: DebugQuery) -> Steps:
    answering = LiveExplainer(engine, {asked.key: asked}, lambda: True, SystemClock()).explain(
        query
    )
    is_over = False
    while not is_over:
        start = thread_time_ns()
        try:
            answering.send(None)
        except StopIteration:
            is_over = True
        yield (thread_time_ns() - start) / 1e6


def metrics_are_scraped(profiles: int) -> Steps:
    """Measure the slices of `/metrics` with very many label values."""
    registry = CollectorRegistry()
    counted = Instruments(registry).gauge("pods", "Pods.", "plugin", "profile")
    for plugin in range(40):
        for profile in range(profiles):
            counted[f"plugin-{plugin}", f"profile-{profile}"].set(1)
    slices = exposition(registry)

    async def steps() -> list[float]:
        times = []
        while True:
            start = thread_time_ns()
            ended = await anext(slices, None) is None
            times.append((thread_time_ns() - start) / 1e6)
            if ended:
                return times

    yield from asyncio.run(steps())


def events_are_kept(events: int) -> Steps:
    """Record events with the flight recorder until it discards old ones."""
    recorder = FlightRecorder(_HEADER, kept_bytes=32 * 2**20)
    for number in range(events):
        event = ObjectSet("pods", pod(f"p{number}"))
        start = thread_time_ns()
        recorder.note(event, float(number), ())
        yield (thread_time_ns() - start) / 1e6
    start = thread_time_ns()
    recorder.note(Tick(), float(events) + 1e6, ())
    yield (thread_time_ns() - start) / 1e6


def recording_is_fetched(events: int, objects: int) -> Steps:
    """Measure the copy that `/debug/recording` takes in the event loop."""
    recorder = FlightRecorder(_HEADER)
    for number in range(objects):
        recorder.note(ObjectSet("pods", pod(f"old-{number}")), 0.0, ())
    for number in range(events):
        recorder.note(ObjectSet("pods", pod(f"p{number}")), 1000.0, ())
    recorder.note(Tick(), 1000.0, ())
    start = thread_time_ns()
    recorder.copy()
    yield (thread_time_ns() - start) / 1e6


def profiles_change(profiles: int, waiting: int) -> Steps:
    """Load a configuration with many other profiles while many pods wait."""
    driven = _waiting(waiting)
    written = to_object(default_configuration(PROFILE))
    [profile] = written["profiles"]
    written["profiles"] = [
        profile,
        *({**profile, "schedulerName": f"{PROFILE}-{n}"} for n in range(1, profiles)),
    ]
    yield driven.step(Configure(written))
    for _ in range(20):
        yield driven.step(Decide())


def resources_are_scraped(pods: int) -> Steps:
    """Measure the slices of `/metrics/resources`."""
    running = {f"{n}": pod(f"run-{n}", f"node-{n % 5_000}", cpu="1m") for n in range(pods)}
    yield from _timed(pod_resource_slices(running))


Case = Callable[..., Steps]

CASES: Final[dict[str, tuple[Case, tuple[int, ...]]]] = {
    "a group is given back": (group_is_given_back, (15_000, 3_500)),
    "a group runs out of patience": (group_runs_out_of_patience, (15_000, 3_500)),
    "a group is let go": (group_is_let_go, (15_000, 3_500)),
    "a pod group of unlike members": (pod_group_of_unlike_members, (10_000,)),
    "a pod group that needs victims": (pod_group_that_needs_victims, (1_000,)),
    "a pod group in one of many racks": (pod_group_in_a_rack, (100, 25)),
    "victims of a whole pod group": (victims_of_a_whole_group, (100, 5_000)),
    "room for a pod group": (room_for_a_pod_group, (1_000, 5_000)),
    "a budget for each app": (budget_for_each_app, (20_000,)),
    "budgets that no label files": (budgets_of_no_label, (5_000, 4_000)),
    "a namespace's labels change": (namespaces_change, (5_000, 1_000)),
    "new label sets beside selectors": (label_sets_come, (20_000, 10_000)),
    "terms of bound pods": (terms_of_bound_pods, (10_000,)),
    "/debug/queue": (queue_is_shown, (10_000,)),
    "/debug/cache": (cache_is_shown, (5_000, 150_000)),
    "/debug/explain": (pod_is_explained, (50_000, 1_000)),
    "/debug/explain of a pod with devices": (devices_are_explained, (5_000,)),
    "/debug/recording": (recording_is_fetched, (20_000, 150_000)),
    "/metrics": (metrics_are_scraped, (100,)),
    "/metrics/resources": (resources_are_scraped, (150_000,)),
    "recordings": (events_are_kept, (100_000,)),
    "profiles": (profiles_change, (20, 10_000)),
}
"""Cases by name, with their sizes: numbers of pods, budgets, terms, profiles."""
