"""The stories that upstream tells of pod groups, played against the API server in memory.

Each is named by the function of test/integration/scheduler/podgroup (kubernetes v1.36.3), or by the
KEP, that tells it; what happens is in our own words and numbers. All wait for what is to come, and
none for a time to pass. What only an API server does (admission, which API is there) is not here.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import pytest

from apistub import Settings
from tests.scenario.world import World, play

RACK: Final = "example.com/rack"
ZONE: Final = "example.com/zone"
GROUPS: Final = ("GenericWorkload", "GangScheduling")
IN_RACKS: Final = (*GROUPS, "TopologyAwareWorkloadScheduling")
WHOLE: Final = (*GROUPS, "WorkloadAwarePreemption")
IN_RACKS_WHOLE: Final = (*IN_RACKS, "WorkloadAwarePreemption")
BASIC_IN_RACKS: Final = ("GenericWorkload", "TopologyAwareWorkloadScheduling")

INTEGRATION: Final = "TestPodGroupScheduling"
GANG_IN_RACK: Final = "TestTopologyAwareSchedulingWithGangPolicy"
BASIC_IN_RACK: Final = "TestTopologyAwareSchedulingWithBasicPolicy"


class Stage:
    """A cluster for one story: nodes of two CPUs, and pods of one."""

    def __init__(self, world: World) -> None:
        self.world = world

    # --- what there is ----------------------------------------------------------------------------

    def racks(self, **nodes: int) -> None:
        """So many nodes in each rack; a name such as `r1_z2` is of a rack in a zone."""
        for name, count in nodes.items():
            rack, _, zone = name.partition("_")
            labels = {RACK: rack, ZONE: zone or "z1"}
            for number in range(count):
                self.world.node(f"{rack}-{number}", cpu="2", labels=labels)

    def group(
        self, name: str, least: int = 0, *, key: str = "", priority: int = 0, mode: str = ""
    ) -> None:
        """A PodGroup comes: a gang, or a basic one if no number is given."""
        spec: dict[str, object] = {
            "schedulingPolicy": {"gang": {"minCount": least}} if least else {"basic": {}}
        }
        if key:
            spec["schedulingConstraints"] = {"topology": [{"key": key}]}
        if priority:
            spec["priority"] = priority
        if mode:
            spec["disruptionMode"] = mode
        self.world.sandbox.create(
            {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "default"},
                "spec": spec,
            }
        )

    def pods(
        self, *names: str, group: str = "", cpu: str = "1", priority: int = 0, node: str = ""
    ) -> list[str]:
        """Pods come, of a group or single ones."""
        more: dict[str, object] = {"schedulingGroup": {"podGroupName": group}} if group else {}
        if node:
            more["nodeName"] = node
        if priority:
            more["priorityClassName"] = f"p{priority}"
            if self.world.sandbox.find(PRIORITY_CLASSES, f"p{priority}", "") is None:
                self.world.sandbox.create(
                    {
                        "apiVersion": "scheduling.k8s.io/v1",
                        "kind": "PriorityClass",
                        "metadata": {"name": f"p{priority}"},
                        "value": priority,
                    }
                )
        for name in names:
            self.world.pod(name, cpu=cpu, **more)
        return list(names)

    async def scheduler(self, *gates: str) -> None:
        """Stowage starts, and knows the cluster."""
        await self.world.start_daemon(feature_gates=gates)

    def end(self, *names: str) -> None:
        """Pods are deleted, and gone."""
        for name in names:
            self.world.sandbox.delete("pods", name, grace_seconds=0)

    # --- what is to come --------------------------------------------------------------------------

    async def bound(self, *names: str) -> None:
        """Pods are bound."""
        await self.world.bound(*names)

    async def rejected(self, *names: str) -> None:
        """Pods were tried, and found no place."""
        await self.world.rejected(*names)
        assert not any(map(self.world.node_of, names))

    async def so_many(self, names: list[str], count: int) -> list[str]:
        """Some of the pods are bound, and the others were tried in vain; gives these."""

        def is_so() -> bool:
            waiting = [name for name in names if not self.world.node_of(name)]
            told = [self.world.condition(name) or {} for name in waiting]
            is_told = all(each.get("reason") == "Unschedulable" for each in told)
            return len(waiting) == len(names) - count and is_told

        await self.world.until(is_so, f"{count} of {len(names)} to be bound")
        return [name for name in names if not self.world.node_of(name)]

    async def held(self, *names: str) -> None:
        """Pods are not tried before their group is there, and large enough."""

        def gated() -> set[str]:
            waiting = self.world.daemon.driver.engine.core.queue.dump()
            return {each["pod"] for each in waiting if each["queue"] == "gated"}

        wanted = {f"default/{name}" for name in names}
        await self.world.until(lambda: gated() >= wanted, f"{names} to be held")

    async def gone(self, *names: str) -> None:
        """Pods were evicted."""
        find = self.world.sandbox.find
        await self.world.until(
            lambda: all(find("pods", name) is None for name in names), f"{names} to be gone"
        )

    async def told(self, group: str, status: str, reason: str) -> None:
        """The group's condition says so."""

        def conditions() -> list[tuple[str, str]]:
            found = self.world.sandbox.get("podgroups.scheduling.k8s.io", group, "default")
            shown = found.get("status", {}).get("conditions", ())
            return [(each["status"], each["reason"]) for each in shown]

        await self.world.until(lambda: (status, reason) in conditions(), f"{group} to be {reason}")

    def domains(self, *names: str, key: str = RACK) -> set[str]:
        """The values of a label on the nodes of pods."""
        nodes = (self.world.node_of(name) for name in names)
        return {self.world.sandbox.get("nodes", it, "")["metadata"]["labels"][key] for it in nodes}


PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
THREE: Final = ("a", "b", "c")
FOUR: Final = (*THREE, "d")


class Story(NamedTuple):
    """One story."""

    told_by: str
    what: str
    play: Callable[[Stage], Awaitable[None]]


STORIES: Final[list[Story]] = []


def story(told_by: str) -> Callable[[Callable[[Stage], Awaitable[None]]], None]:
    """A story of upstream; its first line says what it is about."""

    def keep(tell: Callable[[Stage], Awaitable[None]]) -> None:
        STORIES.append(Story(told_by, (tell.__doc__ or "").partition("\n")[0], tell))

    return keep


# --- groups that come, wait and run ---------------------------------------------------------------


@story(INTEGRATION)
async def _(stage: Stage) -> None:
    """A gang that is all there, with room for it, is bound at once."""
    stage.racks(r1=2)
    await stage.scheduler(*GROUPS)
    stage.group("g", 3)
    stage.pods(*THREE, group="g")

    await stage.bound(*THREE)
    await stage.told("g", "True", "Scheduled")


@story(INTEGRATION)
async def _(stage: Stage) -> None:
    """A gang waits for the last of its pods."""
    stage.racks(r1=2)
    await stage.scheduler(*GROUPS)
    stage.group("g", 3)
    stage.pods("a", "b", group="g")
    await stage.held("a", "b")

    stage.pods("c", group="g")
    await stage.bound(*THREE)


@story(INTEGRATION)
async def _(stage: Stage) -> None:
    """A gang waits for its PodGroup first, and then for room."""
    stage.racks(r1=2)
    await stage.scheduler(*GROUPS)
    stage.pods("large", cpu="2")
    await stage.bound("large")
    stage.pods(*THREE, group="g")
    await stage.held(*THREE)
    stage.group("g", 3)
    await stage.rejected(*THREE)
    await stage.told("g", "False", "Unschedulable")

    stage.end("large")
    await stage.bound(*THREE)
    await stage.told("g", "True", "Scheduled")


@story(INTEGRATION)
async def _(stage: Stage) -> None:
    """As many as the gang needs are bound, and the last one when there is room for it, too."""
    stage.racks(r1=2)
    await stage.scheduler(*GROUPS)
    stage.pods("small")
    await stage.bound("small")
    stage.pods(*FOUR, group="g")
    stage.group("g", 3)
    [last] = await stage.so_many(list(FOUR), 3)

    stage.end("small")
    await stage.bound(last)


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_gangs_one_runs_whichever_comes_first(first: int) -> None:
    """TestPodGroupScheduling, two stories: no deadlock, in either order of arrival."""

    async def tell(world: World) -> None:
        stage = Stage(world)
        stage.racks(r1=2)
        stage.group("g", 3)
        stage.group("h", 3)
        pairs = [("g-a", "g"), ("h-a", "h"), ("g-b", "g"), ("h-b", "h"), ("g-c", "g"), ("h-c", "h")]
        for name, group in pairs if first == 0 else reversed(pairs):
            stage.pods(name, group=group)
        await stage.scheduler(*GROUPS)
        names = [name for name, _ in pairs]
        waiting = await stage.so_many(names, 3)
        assert len({name[0] for name in waiting}) == 1

    play(tell)


@story(INTEGRATION)
async def _(stage: Stage) -> None:
    """A basic group begins with its first pod, and goes on with the others."""
    stage.racks(r1=2)
    await stage.scheduler(*GROUPS)
    stage.group("g")
    stage.pods("a", group="g")
    await stage.bound("a")

    stage.pods("b", "c", group="g")
    await stage.bound("b", "c")


@story(INTEGRATION)
async def _(stage: Stage) -> None:
    """A basic group waits for its PodGroup; then those are bound that fit."""
    stage.racks(r1=2)
    await stage.scheduler(*GROUPS)
    stage.pods("large", cpu="2")
    await stage.bound("large")
    stage.pods(*THREE, group="g")
    await stage.held(*THREE)
    stage.group("g")
    [last] = await stage.so_many(list(THREE), 2)

    stage.end("large")
    await stage.bound(last)


# --- preemption -----------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [0, 3], ids=["basic", "gang"])
@pytest.mark.parametrize("gates", [GROUPS, WHOLE, IN_RACKS], ids=["by pod", "whole", "with racks"])
def test_a_group_preempts(least: int, gates: tuple[str, ...]) -> None:
    """TestPodGroupScheduling, four stories: one less important pod makes room for all."""

    async def tell(world: World) -> None:
        stage = Stage(world)
        world.node("n", cpu="4")
        await stage.scheduler(*gates)
        stage.pods("low", cpu="4", priority=1)
        await stage.bound("low")
        stage.group("g", least, priority=100)
        stage.pods(*FOUR, group="g", priority=100)

        await stage.bound(*FOUR)
        await stage.gone("low")
        await stage.told("g", "True", "Scheduled")

    play(tell, Settings(run_kubelet=True))


@story(INTEGRATION)
async def _(stage: Stage) -> None:
    """A gang that preempts as a whole has all of several pods leave, as it needs all of their room.

    KEP-5710 tells the same.
    """
    stage.racks(r1=2)
    await stage.scheduler(*WHOLE)
    low = stage.pods("la", "lb", "lc", "ld", priority=10)
    await stage.bound(*low)
    stage.group("g", 4, priority=100)
    stage.pods(*FOUR, group="g", priority=100)

    await stage.bound(*FOUR)
    await stage.gone(*low)


@story(INTEGRATION)
async def _(stage: Stage) -> None:
    """Of two kinds of less important pods the least important ones leave, and the others stay."""
    stage.racks(r1=2)
    await stage.scheduler(*WHOLE)
    low, least = stage.pods("la", "lb", priority=10), stage.pods("ka", "kb", priority=1)
    await stage.bound(*low, *least)
    stage.group("g", 2, priority=50)
    stage.pods("a", "b", group="g", priority=50)

    await stage.bound("a", "b")
    await stage.gone(*least)
    assert all(map(stage.world.node_of, low))


@story("TestWorkloadAwarePreemptionInvocation")
async def _(stage: Stage) -> None:
    """Victims are told that a pod group has preempted them."""
    stage.racks(r1=2)
    await stage.scheduler(*WHOLE)
    low = stage.pods("la", "lb", "lc", "ld", priority=10)
    await stage.bound(*low)
    stage.group("g", 3, priority=100, mode="PodGroup")
    stage.pods(*THREE, group="g", priority=100)
    await stage.bound(*THREE)

    def notes() -> list[str]:
        return [event["note"] for event in stage.world.events(reason="Preempted")]

    await stage.world.until(lambda: len(notes()) == 3, "three events")
    assert all(note.startswith("Preempted by podgroup") for note in notes())


@pytest.mark.parametrize("gates", [IN_RACKS, IN_RACKS_WHOLE], ids=["by pod", "whole"])
def test_a_gang_with_a_topology_does_not_preempt(gates: tuple[str, ...]) -> None:
    """TestPodGroupScheduling and TestTopologyAwareSchedulingWithGangPolicy, three stories."""

    async def tell(world: World) -> None:
        stage = Stage(world)
        stage.racks(r1=2)
        await stage.scheduler(*gates)
        low = stage.pods("la", "lb", "lc", "ld", priority=1)
        await stage.bound(*low)
        stage.group("g", 2, key=RACK, priority=100)
        stage.pods("a", "b", group="g", priority=100)

        await stage.rejected("a", "b")
        await world.settled()
        assert all(map(world.node_of, low))

    play(tell, Settings(run_kubelet=True))


@story("KEP-5710")
async def _(stage: Stage) -> None:
    """A running group that may only leave whole leaves with all of its pods, on all nodes."""
    stage.racks(r1=2)
    await stage.scheduler(*WHOLE)
    stage.group("low", 4, priority=1, mode="PodGroup")
    low = stage.pods("la", "lb", "lc", "ld", group="low", priority=1)
    await stage.bound(*low)
    stage.pods("high", priority=100)

    await stage.bound("high")
    await stage.gone(*low)


# --- in one rack ----------------------------------------------------------------------------------


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """Of two racks that are large enough one is in use: the gang runs in the other.

    KEP-5732 tells the same.
    """
    stage.racks(r1=2, r2=2, r3_z2=1)
    stage.pods("x", cpu="2", node="r2-0")
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 3, key=RACK)
    stage.pods(*THREE, group="g")

    await stage.bound(*THREE)
    assert stage.domains(*THREE) == {"r1"}


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """No rack can hold the gang, though all together could."""
    stage.racks(r1=1, r2=1, r3=1)
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 3, key=RACK)
    stage.pods(*THREE, group="g")

    await stage.rejected(*THREE)
    await stage.told("g", "False", "Unschedulable")


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """Running pods leave too little of the only rack."""
    stage.racks(r1=2)
    stage.pods("x", "y", node="r1-0")
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 3, key=RACK)
    stage.pods(*THREE, group="g")

    await stage.rejected(*THREE)


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """Of two racks that can hold the gang it fills the smaller one more."""
    stage.racks(r1=2, r2_z2=3, r3_z2=1)
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 3, key=RACK)
    stage.pods(*THREE, group="g")

    await stage.bound(*THREE)
    assert stage.domains(*THREE) == {"r1"}


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """What runs already counts as well: 5 of 6 CPUs are more than 3 of 4, and than 4 of 6."""
    stage.racks(r1=2, r2_z2=3, r3_z2=3, r4_z2=1)
    stage.pods("x", cpu="2", node="r2-0")
    stage.pods("y", node="r3-2")
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 3, key=RACK)
    stage.pods(*THREE, group="g")

    await stage.bound(*THREE)
    assert stage.domains(*THREE) == {"r2"}


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """Two gangs, each in a rack of its own: the first needs the one with more nodes."""
    stage.racks(r1=3, r2=2)
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 3, key=RACK)
    stage.pods(*THREE, group="g", cpu="2")
    await stage.bound(*THREE)
    stage.group("h", 3, key=RACK)
    later = stage.pods("ha", "hb", "hc", group="h")
    await stage.bound(*later)

    assert (stage.domains(*THREE), stage.domains(*later)) == ({"r1"}, {"r2"})


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """Two gangs share the only rack that is large enough."""
    stage.racks(r1=3, r2=1)
    await stage.scheduler(*IN_RACKS)
    for group in "gh":
        stage.group(group, 3, key=RACK)
        names = stage.pods(*(f"{group}{name}" for name in THREE), group=group)
        await stage.bound(*names)
        assert stage.domains(*names) == {"r1"}


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """One gang in a rack, and one in a zone of two racks."""
    stage.racks(r1_z1=2, r2_z1=1, r3_z2=3)
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 3, key=RACK)
    stage.pods(*THREE, group="g", cpu="2")
    await stage.bound(*THREE)
    stage.group("h", 3, key=ZONE)
    later = stage.pods("ha", "hb", "hc", group="h", cpu="2")
    await stage.bound(*later)

    assert stage.domains(*THREE) == {"r3"}
    assert stage.domains(*later, key=ZONE) == {"z1"}


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """The second gang finds no rack any more."""
    stage.racks(r1=2)
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 3, key=RACK)
    stage.pods(*THREE, group="g")
    await stage.bound(*THREE)
    stage.group("h", 3, key=RACK)

    await stage.rejected(*stage.pods("ha", "hb", "hc", group="h"))


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """More pods than the gang needs: as many are bound as the rack holds."""
    stage.racks(r1=1, r2=1)
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 2, key=RACK)
    names = stage.pods(*FOUR, group="g")

    waiting = await stage.so_many(names, 2)
    assert len(stage.domains(*(name for name in names if name not in waiting))) == 1


@story(GANG_IN_RACK)
async def _(stage: Stage) -> None:
    """Members that come later must go to the rack of the others, until that is full."""
    stage.racks(r1=3, r2=2, r3_z2=1)
    await stage.scheduler(*IN_RACKS)
    stage.group("g", 3, key=RACK)
    stage.pods(*THREE, group="g")
    await stage.bound(*THREE)
    stage.pods("d", group="g")
    await stage.bound("d")

    await stage.rejected(*stage.pods("e", group="g"))
    assert stage.domains(*FOUR) == {"r2"}


@pytest.mark.parametrize("gates", [IN_RACKS, BASIC_IN_RACKS], ids=["gangs on", "gangs off"])
class TestBasicGroupsInRacks:
    """TestTopologyAwareSchedulingWithBasicPolicy: with GangScheduling, and without it."""

    @pytest.mark.parametrize(
        ("racks", "running", "wanted"),
        [
            pytest.param({"r1": 2}, (), {"r1"}, id="the only rack"),
            pytest.param({"r1": 2, "r2": 3}, (), {"r1"}, id="the smaller of two"),
            pytest.param(
                {"r1": 3, "r2": 3, "r3": 4}, ("r1-0", "r2-1", "r2-2"), {"r2"}, id="the fuller"
            ),
        ],
    )
    def test_all_run_in_one_rack(
        self,
        gates: tuple[str, ...],
        racks: dict[str, int],
        running: tuple[str, ...],
        wanted: set[str],
    ) -> None:
        """Four stories: the rack that is fullest with all of them."""

        async def tell(world: World) -> None:
            stage = Stage(world)
            stage.racks(**racks)
            for number, node in enumerate(running):
                stage.pods(f"x{number}", node=node)
            stage.group("g", key=RACK)
            stage.pods(*THREE, group="g")
            await stage.scheduler(*gates)
            await stage.bound(*THREE)
            assert stage.domains(*THREE) == wanted

        play(tell)

    def test_those_that_find_no_room_in_the_rack_wait(self, gates: tuple[str, ...]) -> None:
        """Four stories: none goes to another rack; room in theirs has the next one bound."""

        async def tell(world: World) -> None:
            stage = Stage(world)
            stage.racks(r1=1, r2=2)
            stage.pods("x", cpu="2", node="r2-0")
            await stage.scheduler(*gates)
            stage.group("g", key=RACK)
            stage.pods("a", group="g")
            await stage.bound("a")
            [rack] = stage.domains("a")
            waiting = await stage.so_many(stage.pods("b", "c", "d", group="g"), 1)
            [other] = {"b", "c", "d"} - set(waiting)
            assert stage.domains("a", other) == {rack}
            stage.end(other)
            still = await stage.so_many(waiting, 1)
            [last] = set(waiting) - set(still)
            assert stage.domains("a", last) == {rack}

        play(tell)

    def test_those_that_fit_nowhere_do_not_keep_the_others(self, gates: tuple[str, ...]) -> None:
        """Two stories: some pods are too large for any node, or all of them."""

        async def tell(world: World) -> None:
            stage = Stage(world)
            stage.racks(r1=1, r2=1)
            await stage.scheduler(*gates)
            stage.group("g", key=RACK)
            stage.pods("too", "large", group="g", cpu="3")
            await stage.rejected("too", "large")
            stage.pods("a", "b", group="g")
            await stage.bound("a", "b")
            assert len(stage.domains("a", "b")) == 1

        play(tell)

    def test_two_groups_share_a_rack_or_take_one_each(self, gates: tuple[str, ...]) -> None:
        """Three stories: racks, then the zone of what is left."""

        async def tell(world: World) -> None:
            stage = Stage(world)
            stage.racks(r1_z1=1, r2_z2=2, r3_z2=2)
            await stage.scheduler(*gates)
            stage.group("g", key=RACK)
            stage.pods("a", "b", group="g")
            await stage.bound("a", "b")
            stage.group("h", key=ZONE)
            later = stage.pods("ha", "hb", "hc", group="h", cpu="2")
            await stage.bound(*later)
            assert stage.domains("a", "b") == {"r1"}
            assert stage.domains(*later, key=ZONE) == {"z2"}
            stage.group("i", key=RACK)
            await stage.bound(*stage.pods("ia", group="i"))

        play(tell)


@pytest.mark.parametrize("each", STORIES, ids=[f"{it.told_by}: {it.what}" for it in STORIES])
def test_a_story_of_upstream(each: Story) -> None:
    """It ends as upstream's does."""

    async def tell(world: World) -> None:
        await each.play(Stage(world))

    play(tell, Settings(run_kubelet=True))
