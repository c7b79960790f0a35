"""An engine that schedules pod groups, driven event by event."""

from typing import Any

from typing_extensions import override

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import ObjectMeta, Pod
from scheduler.api.pod_groups import PodGroup
from scheduler.api.pods import PodInfo
from scheduler.config.args import DefaultPreemptionArgs
from scheduler.config.types import Extender
from scheduler.kernel.engine.events import Bound, ObjectSet
from scheduler.kernel.engine.instructions import Bind, PatchGroupStatus, PatchStatus
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    NODE_ADD,
    POD_GROUP_KIND,
    POD_KIND,
    ClusterEventWithHint,
)
from scheduler.kernel.framework.interface import (
    NodeFilterPlugin,
    PermitPlugin,
    Plugin,
    PreFilterPlugin,
)
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.status import SUCCESS, Code, Status, unschedulable
from scheduler.kernel.groups import GroupMembers
from scheduler.kernel.plugins.default_preemption import BUDGETS, DefaultPreemption
from scheduler.kernel.plugins.gang_scheduling import GangScheduling
from scheduler.kernel.snapshot import Snapshot
from tests.unit.engine.driven import DrivenEngine, Room

NO_GROUP = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
LET_DOWN = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or "
    "more plugins asked to wait and no plugin rejected pod"
)


class Places(Room):
    """So many pods per node; nodes that come are worth another try as well."""

    @override
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (*super().events_to_register(), ClusterEventWithHint(NODE_ADD))


class Breaks(PreFilterPlugin):
    """Fails for the pod that is called `broken`."""

    NAME = "Breaks"

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        if pod.name == "broken":
            raise ValueError("no")
        return None, SUCCESS


class HoldsOne(PermitPlugin):
    """Holds the pod of a name."""

    NAME = "HoldsOne"

    def __init__(self, name: str) -> None:
        self._name = name

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 60.0) if self._name in ("", pod.name) else (SUCCESS, 0.0)


class Beside(NodeFilterPlugin):
    """Lets the pod that is called `follower` on no node but that of `anchor`."""

    NAME = "Beside"

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        names = [other.name for other in node.pods.values()]
        if pod.metadata.name == "follower" and "anchor" not in names:
            return unschedulable("no anchor")
        return SUCCESS


class Gangs(DrivenEngine):
    """An engine that schedules groups; its one node has room for so many pods."""

    def __init__(
        self,
        room: int,
        *plugins: Plugin,
        nodes: Any = ("n",),
        extenders: tuple[Extender, ...] = (),
    ) -> None:
        super().__init__(
            lambda handle: GangScheduling(None, handle),
            lambda handle: DefaultPreemption(DefaultPreemptionArgs(100, 100), handle),
            Places(room),
            *plugins,
            nodes=nodes,
            extenders=extenders,
            kinds=(POD_KIND, POD_GROUP_KIND, BUDGETS),
        )

    def group(self, name: str = "g", least: int | None = 3, **fields: Any) -> PodGroup:
        """A PodGroup comes, or changes."""
        uid, generation = fields.pop("uid", f"uid-of-{name}"), fields.pop("generation", 0)
        meta = ObjectMeta(name=name, namespace="default", uid=uid, generation=generation)
        group = PodGroup(meta, least, **fields)
        self.handle(ObjectSet("podgroups", group))
        return group

    def members(self, count: int, group: str = "g", **fields: Any) -> list[PodInfo]:
        """So many waiting pods of the group come."""
        return [self.add(f"{group}{i}", group=group, **fields) for i in range(count)]

    def bound(self) -> list[str]:
        """The pods that are to be bound, in order."""
        return [each.name for each in self.all(Bind)]

    def held(self, pod: PodInfo) -> str:
        """Why PreEnqueue holds a pod."""
        place = self.engine.core.queue.place_of(pod.uid)
        assert place is not None
        return place.queued.last_failure if place.queued.is_gated else ""

    def message(self, pod: PodInfo) -> str:
        """The last condition written to a pod."""
        patches = [each for each in self.all(PatchStatus) if each.uid == pod.uid]
        written = [each.condition.message for each in patches if each.condition is not None]
        return written[-1] if written else ""

    def conditions(self) -> list[tuple[str, str, str]]:
        """What was written to groups."""
        found = [each.condition for each in self.all(PatchGroupStatus)]
        return [(each.status, each.reason, each.message) for each in found]

    def confirm(self, pod: PodInfo) -> None:
        """The API server binds a pod, and the watch says so."""
        self.handle(Bound(self.attempt(pod).id))
        self.set(pod.on_node("n"))

    def known(self, name: str = "g") -> GroupMembers:
        """What the engine knows of a group."""
        assert self.engine.core.groups is not None
        known = self.engine.core.groups.of("default", name)
        assert known is not None
        return known
