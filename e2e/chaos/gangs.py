"""PodGroups and their members in the load, created as a job controller would.

Missing members are created again, and a gang that has run for a while ends as a whole. The next
action depends only on the cluster's state, so the load continues after a restored backup.

Gangs are `wide` (any node fits a member, and one member may be missing), `tight` (three gangs
compete for the room of one) or `never` (one member fits nowhere, so no member may run).
"""

from collections.abc import Collection, Sequence
from random import Random
from typing import Any, Final

from e2e.support.api import Api
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.pod_groups import API

GANG: Final = "chaos.stowage.dev/gang"
"""Label of members with the name of their group."""
_MEMBERS: Final = 4
_LEAST: Final = {"wide": 3, "tight": 4, "never": 4}
_MOST: Final = {"wide": 3, "tight": 3, "never": 1}
"""Maximum number of gangs of each kind at a time."""
_ROOM: Final = {"chaos.stowage.dev/room": "tight"}
_NODES: Final = 2
_PLACES: Final = 3
"""Members that fit on a node of tight gangs: two nodes hold one and a half gangs."""
_TICKS: Final = 4
"""Ticks that a complete gang runs."""


class Gangs:
    """The gangs of one namespace."""

    def __init__(self, api: Api, draw: Random, namespace: str, may_wait: str) -> None:
        """Create an empty set of gangs.

        Args:
            api: client of the cluster.
            draw: random number generator.
            namespace: namespace of the gangs.
            may_wait: label of pods that may stay unbound.
        """
        self._api = api
        self._may_wait = may_wait
        self._draw = draw
        self._namespace = namespace
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._groups = f"/apis/{API}/namespaces/{namespace}/podgroups"
        self._serial = 0
        self._ran: dict[str, int] = {}
        """Number of ticks that each gang has been complete."""

    async def prepare(self) -> None:
        """Create the nodes that fit one tight gang."""
        taints = [{"key": "dedicated", "value": "gangs", "effect": "NoSchedule"}]
        room = {"cpu": str(_PLACES)}
        await self._api.create_all(
            "/api/v1/nodes",
            [
                make_node(f"gangs-{index}", allocatable=room, labels=_ROOM, taints=taints)
                for index in range(_NODES)
            ],
        )

    async def tick(self, pods: Sequence[Json]) -> None:
        """End old gangs, create missing members, and sometimes a new gang."""
        members, groups = self._members(pods), await self._names()
        gangs = sorted(groups | members.keys())
        for gang in gangs:
            if self._has_run(gang, members.get(gang, ())):
                await self._end(gang, members[gang])
            else:
                await self._complete(gang, members.get(gang, ()), is_made=gang in groups)
        for kind, most in _MOST.items():
            if sum(name.startswith(kind) for name in gangs) < most:
                await self._begin(kind)

    async def complete(self, pods: Sequence[Json]) -> None:
        """Create missing groups and members."""
        members, groups = self._members(pods), await self._names()
        for gang in sorted(groups | members.keys()):
            await self._complete(gang, members.get(gang, ()), is_made=gang in groups)

    @staticmethod
    def _members(pods: Sequence[Json]) -> dict[str, list[Json]]:
        members: dict[str, list[Json]] = {}
        for pod in pods:
            if gang := pod["metadata"]["labels"].get(GANG):
                members.setdefault(gang, []).append(pod)
        return members

    async def _names(self) -> set[str]:
        return {each["metadata"]["name"] for each in await self._api.list_items(self._groups)}

    async def _begin(self, kind: str) -> None:
        """Create a group, or some of its members first; the next tick creates the rest."""
        self._serial += 1
        gang = f"{kind}-{self._serial:05}"
        if self._draw.random() < 0.5:
            await self._make_group(gang)
        else:
            for number in range(self._draw.randrange(1, _MEMBERS)):
                await self._api.post(self._pods, self._member(gang, number))

    async def _complete(self, gang: str, there: Collection[Json], *, is_made: bool) -> None:
        if not is_made:
            await self._make_group(gang)
        names = {pod["metadata"]["name"] for pod in there}
        for number in range(_MEMBERS):
            if f"{gang}-{number}" not in names:
                await self._api.post(self._pods, self._member(gang, number))

    def _has_run(self, gang: str, there: Collection[Json]) -> bool:
        bound = sum("nodeName" in pod["spec"] for pod in there)
        self._ran[gang] = self._ran.get(gang, 0) + 1 if bound == _MEMBERS else 0
        return self._ran[gang] > _TICKS

    async def _end(self, gang: str, there: Collection[Json]) -> None:
        del self._ran[gang]
        await self._api.delete(f"{self._groups}/{gang}")
        for pod in there:
            await self._api.delete(f"{self._pods}/{pod['metadata']['name']}?gracePeriodSeconds=0")

    async def _make_group(self, gang: str) -> None:
        least = _LEAST[gang.partition("-")[0]]
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
        await self._api.post(self._groups, {"metadata": {"name": gang}, "spec": spec})

    def _member(self, gang: str, number: int) -> Json:
        kind = gang.partition("-")[0]
        labels = {"kind": f"gang-{kind}", GANG: gang}
        spec: dict[str, Any] = {"schedulingGroup": {"podGroupName": gang}}
        cpu = "1" if kind == "tight" else "100m"
        if kind != "wide":
            labels[self._may_wait] = ""
        if kind == "tight":
            spec["nodeSelector"] = _ROOM
            spec["tolerations"] = [{"operator": "Exists", "key": "dedicated"}]
        elif kind == "never" and number == 0:
            spec["nodeSelector"] = {"chaos.stowage.dev/nowhere": gang}
        return make_pod(
            f"{gang}-{number}",
            namespace=self._namespace,
            labels=labels,
            requests={"cpu": cpu},
            **spec,
        )
