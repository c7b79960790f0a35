"""One pod's way through an attempt, and back when something fails."""

import pytest
from typing_extensions import override

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Pod
from scheduler.api.pods import PodInfo
from scheduler.kernel.cache import PodState
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import NodeFilterPlugin, PostFilterPlugin
from scheduler.kernel.framework.results import Diagnosis, PostFilterResult
from scheduler.kernel.framework.status import Status, error, unschedulable
from scheduler.kernel.snapshot import Snapshot
from tests.support.builders import make_pod_info
from tests.support.fake_plugins import NodeFilter, PodLimit
from tests.unit.engine.engine import EngineUnderTest, Everything

WAY = ["pre_filter", "filter", "reserve", "permit", "pre_bind", "bind", "post_bind"]


def test_the_way_of_a_pod() -> None:
    """Every extension point once, in upstream's order; then the pod is bound and told so."""
    plugin = Everything()
    under_test = EngineUnderTest(plugin)
    pod = under_test.add()

    under_test.run()

    assert plugin.diary == [f"P.{point}" for point in WAY]
    assert under_test.told == [("scheduled", "p", "Successfully assigned default/p to n")]
    assert under_test.places() == {}
    assert under_test.engine.core.cache.state_of(pod.uid) is PodState.ASSUMED
    assert under_test.engine.core.queue.counts().in_flight == 0


@pytest.mark.parametrize("point", WAY[:-1])
@pytest.mark.parametrize(
    ("answer", "words"),
    [(error("out of order"), "out of order"), (RuntimeError("broken"), "broken")],
    ids=["status", "exception"],
)
def test_an_error_at_any_point(point: str, answer: Status | Exception, words: str) -> None:
    """What was taken is given back, the pod waits in back-off, people are told the reason."""
    plugin = Everything(**{point: answer})
    under_test = EngineUnderTest(plugin)
    under_test.add()

    under_test.run()

    reached = [f"P.{p}" for p in WAY[: WAY.index(point) + 1]]
    has_node = WAY.index(point) >= WAY.index("reserve")
    assert plugin.diary == reached + ["P.unreserve"] * has_node
    assert len(under_test.engine.core.cache.pods) == 0
    assert under_test.places() == {"default/p": "backoff"}
    event, failed = under_test.told
    assert event[:2] == ("event", "p")
    assert words in event[2]
    # What was told of its node before PreBind is taken back.
    cleared = "" if point in {"pre_bind", "bind"} else None
    assert failed == ("failed", "p", "SchedulerError", event[2], cleared)
    assert under_test.engine.core.queue.counts().in_flight == 0


def test_an_error_at_the_last_point() -> None:
    """PostBind is too late to undo anything: the pod is bound, keeps its room, and is told so."""
    plugin = Everything(**{WAY[-1]: RuntimeError("broken")})
    under_test = EngineUnderTest(plugin)
    pod = under_test.add()

    under_test.run()

    assert plugin.diary == [f"P.{p}" for p in WAY]
    assert under_test.places() == {}
    assert under_test.engine.core.cache.state_of(pod.uid) is PodState.ASSUMED
    assert under_test.told == [("scheduled", "p", "Successfully assigned default/p to n")]


@pytest.mark.parametrize("point", ["pre_filter", "filter", "reserve", "permit"])
def test_a_rejection_at_any_point(point: str) -> None:
    """The pod waits for what could change the plugin's mind."""
    under_test = EngineUnderTest(Everything(**{point: unschedulable("not here")}))
    under_test.add()

    under_test.run()

    assert len(under_test.engine.core.cache.pods) == 0
    assert under_test.places() == {"default/p": "unschedulable"}
    event, failed = under_test.told
    assert "not here" in event[2]
    assert failed[2] == "Unschedulable"
    [entry] = under_test.engine.core.queue.dump()
    assert entry["unschedulablePlugins"] == ["P"]


@pytest.mark.parametrize("point", ["pre_bind", "bind"])
def test_a_rejection_after_permit_is_an_error(point: str) -> None:
    """Nothing in the cluster could wake the pod: it is tried again after back-off."""
    under_test = EngineUnderTest(Everything(**{point: unschedulable("not here")}))
    under_test.add()

    under_test.run()

    assert under_test.places() == {"default/p": "backoff"}
    assert under_test.told[1][2] == "SchedulerError"


def test_everything_is_given_back_in_reverse() -> None:
    """Also by plugins that had no turn, and although one of them fails at it."""
    diary: list[str] = []
    under_test = EngineUnderTest(
        Everything("A", diary),
        Everything("B", diary, reserve=error("no"), unreserve=RuntimeError("broken")),
        Everything("C", diary),
    )
    under_test.add()

    under_test.run()

    turns = [entry for entry in diary if "reserve" in entry]
    assert turns == ["A.reserve", "B.reserve", "C.unreserve", "B.unreserve", "A.unreserve"]
    assert len(under_test.engine.core.cache.pods) == 0


def test_the_most_recent_failures_freed_place_is_seen_at_once() -> None:
    """A pod whose binding fails leaves its place to the next in the same run."""
    limit = PodLimit(1)
    under_test = EngineUnderTest(limit, Everything(permit=unschedulable("no")))
    under_test.add("a")
    under_test.add("b")

    under_test.run()

    messages = {entry[1]: entry[2] for entry in under_test.told if entry[0] == "event"}
    assert messages["a"] == messages["b"] == "0/1 nodes are available: 1 no."


def test_pods_that_need_no_node_any_more_are_skipped() -> None:
    """One that is being deleted is told so."""
    plugin = Everything()
    under_test = EngineUnderTest(plugin)
    under_test.add("ending", deletion_timestamp="2026-01-01T00:00:00Z")

    under_test.run()

    assert plugin.diary == []
    assert under_test.told == [("event", "ending", "skip schedule deleting pod: default/ending")]
    assert under_test.places() == {}


def test_a_pod_deleted_during_its_attempt_does_not_come_back() -> None:
    """And nobody is told about its failure."""

    def delete(node: NodeInfo) -> Status:
        under_test.engine.core.queue.delete(pod)
        return unschedulable("no")

    under_test = EngineUnderTest(NodeFilter("F", delete), Everything())
    pod = under_test.add()

    under_test.run()

    assert under_test.places() == {}
    assert under_test.told == []


def test_a_pod_updated_during_its_attempt_comes_back_as_it_is() -> None:
    """The condition is compared with the newer version's."""
    newer = make_pod_info("p", scheduler_name="test", labels={"a": "1"}, resource_version="2")

    def update(node: NodeInfo) -> Status:
        if under_test.engine.core.queue.get(pod.uid) is not newer:
            under_test.engine.core.queue.update(pod, newer)
        return unschedulable("no")

    under_test = EngineUnderTest(NodeFilter("F", update), Everything())
    pod = under_test.add()

    under_test.run()

    assert under_test.engine.core.queue.get(pod.uid) is newer


def test_a_cluster_without_nodes() -> None:
    """No plugin is asked."""
    plugin = Everything()
    under_test = EngineUnderTest(plugin, nodes=())
    under_test.add()

    under_test.run()

    assert plugin.diary == []
    message = "no nodes available to schedule pods"
    assert under_test.told == [
        ("event", "p", message),
        ("failed", "p", "Unschedulable", message, None),
    ]


class Nominates(PostFilterPlugin, NodeFilterPlugin):
    """Rejects all nodes and nominates one, or keeps what there is."""

    NAME = "Nominates"

    def __init__(self, result: PostFilterResult | None) -> None:
        self._result = result

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return unschedulable("full")

    @override
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        assert diagnosis.status_of("n").reasons == ("full",)
        return self._result, Status() if self._result else unschedulable("nobody to evict")


@pytest.mark.parametrize(
    ("result", "written", "nominated"),
    [(PostFilterResult("m"), "m", []), (PostFilterResult(""), "", []), (None, None, ["p"])],
    ids=["nominates", "withdraws", "keeps"],
)
def test_what_post_filter_decides(
    result: PostFilterResult | None, written: str | None, nominated: list[str]
) -> None:
    """The nomination is in memory at once and in the patch."""
    under_test = EngineUnderTest(Nominates(result), Everything())
    under_test.add(nominated_node_name="n")

    under_test.run()

    assert under_test.told[-1][-1] == written
    nominator = under_test.engine.core.queue.nominator
    assert [pod.name for pod in nominator.nominated_pods_for_node("n")] == nominated


@pytest.mark.parametrize(("priority", "fits"), [(5, False), (10, False), (11, True)])
def test_places_kept_for_nominated_pods(priority: int, fits: bool) -> None:
    """Only a more important pod may take them."""
    under_test = EngineUnderTest(PodLimit(1), Everything())
    nominator = under_test.engine.core.queue.nominator
    nominator.nominate(make_pod_info("vip", priority=10), "n")
    under_test.add(priority=priority)

    under_test.run()

    assert (under_test.told[0][0] == "scheduled") is fits
