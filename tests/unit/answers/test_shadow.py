"""Bindings of another scheduler, judged without a cluster: what is said of them, and why."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.api.objects import LabelSelector, PodCondition, TopologySpreadConstraint
from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.orders import AROUND_SECONDS
from scheduler.kernel.answers.shadow import MAX_OPEN, Shadow
from scheduler.kernel.answers.shadow_model import Disagreement
from scheduler.kernel.engine.events import Bound, Decide, Event, ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import Bind, Instruction
from scheduler.observability.instruments import Instruments
from scheduler.observability.shadow_metrics import ShadowMetrics
from scheduler.tools.offline.cluster import Profiles
from tests.support.builders import make_node, make_pod_info

THEIRS = "default-scheduler"
LATER = AROUND_SECONDS + 0.5


class Watched:
    """A cluster that another scheduler runs.

    Attributes:
        shadow: judges it.
        metrics: what it counts.
    """

    def __init__(self, *nodes: tuple[str, str], begins: bool = True, examples: int = 10) -> None:
        """Begin with nodes, given by name and cores."""
        profiles = Profiles(None)
        profiles.frameworks = {THEIRS: profiles.frameworks[THEIRS]}
        self._engine = profiles.engine(0)
        self.metrics = ShadowMetrics(Instruments())
        self.shadow = Shadow(self._engine, self.metrics, lambda t: f"t{t:g}", examples=examples)
        self.now = 0.0
        self._pods: dict[str, dict[str, Any]] = {}
        for name, cores in nodes:
            self.node(name, cores)
        if begins:
            self.shadow.begin(0.0)

    def tell(self, event: Event) -> None:
        self.shadow.note(event, self.now)
        self._engine.handle(event, self.now)

    def node(self, name: str, cores: str = "4", **fields: Any) -> None:
        self.tell(ObjectSet("nodes", make_node(name, allocatable={"cpu": cores}, **fields)))

    def pod(self, name: str, cores: str = "1", **fields: Any) -> None:
        """A pod comes; with a `node_name` it has that already."""
        fields = {"scheduler_name": THEIRS, "requests": {"cpu": cores}, **fields}
        self._pods[name] = fields
        self.tell(ObjectSet("pods", self._made(name)))

    def promise(self, name: str, node: str, **fields: Any) -> None:
        """It says where the pod will be, before it is bound."""
        fields = {"nominated_node_name": node, "resource_version": "2", **fields}
        self.tell(ObjectSet("pods", self._made(name, **fields)))

    def bind(self, name: str, node: str) -> None:
        """The other scheduler has bound a pod."""
        self.tell(ObjectSet("pods", self._made(name, node_name=node, resource_version="2")))

    def deleting(self, name: str) -> None:
        """A pod is to go, and is still there."""
        self.tell(ObjectSet("pods", self._made(name, deletion_timestamp="2026-01-01T00:00:00Z")))

    def gone(self, name: str) -> None:
        pod = self._made(name)
        self.tell(ObjectGone("pods", pod.namespace, pod.name, pod.uid))

    def after(self, seconds: float) -> None:
        self.now += seconds
        while self.shadow.look_again(self.now):
            pass

    @property
    def results(self) -> dict[str, int]:
        """What was thought of bindings that all is known about."""
        self.after(LATER)
        while self.shadow.summary(self.now).open:
            self.after(0.25)
        summary = self.shadow.summary(self.now)
        assert summary.bindings == sum(summary.results.values())
        return {name: count for name, count in summary.results.items() if count}

    @property
    def unjudged(self) -> dict[str, int]:
        counted = self.shadow.summary(self.now).unjudged
        return {name: count for name, count in counted.items() if count}

    @property
    def examples(self) -> tuple[Disagreement, ...]:
        return self.shadow.summary(self.now).examples

    def _made(self, name: str, **fields: Any) -> PodInfo:
        return make_pod_info(name, **{**self._pods[name], **fields})


# --- what is said ---------------------------------------------------------------------------------


def test_a_node_that_is_as_good_as_any_is_agreed() -> None:
    """A tie may fall either way; the pod counts from then on."""
    watched = Watched(("a", "4"), ("b", "4"))
    for name, node in (("p", "b"), ("q", "a"), ("r", "b")):
        watched.pod(name)
        watched.bind(name, node)

    assert watched.results == {"agreed": 3}
    assert watched.metrics.rank[THEIRS].counts[0] == 3


def test_a_scheduler_without_pods_is_told() -> None:
    """Its name may be misspelt: pods with a node show the names that are in use."""
    watched = Watched(("a", "4"))
    for name, scheduler in (("p", "one"), ("q", "two"), ("r", "two")):
        watched.pod(name, scheduler_name=scheduler, node_name="a")

    assert (watched.shadow.unnamed(), watched.shadow.named()) == ([THEIRS], ["two", "one"])

    watched.pod("pending")

    assert watched.shadow.unnamed() == []


def test_the_only_node_that_fits_is_no_proof_of_taste() -> None:
    """It is told apart from a choice."""
    watched = Watched(("small", "1"), ("large", "8"))
    watched.pod("p", "5")
    watched.bind("p", "large")

    assert watched.results == {"only": 1}


def test_a_node_that_is_not_among_the_best_is_told_with_what_it_lacks() -> None:
    """By plugin, against the best one."""
    watched = Watched(("a", "4"), ("b", "16"))
    watched.pod("p", "2")
    watched.bind("p", "a")

    assert watched.results == {"lower": 1}
    [example] = watched.examples
    assert (example.result, example.pod, example.time) == ("lower", "default/p", "t0")
    assert (example.placed.node, example.placed.rank, example.fitting) == ("a", 2, 2)
    assert example.placed.ahead < 0
    assert example.placed.next is not None
    assert example.placed.next.node == "b"
    assert sum(example.placed.scores.values()) == example.placed.ahead
    assert example.placed.scores["NodeResourcesFit"] < 0
    assert example.rejection is None


def test_a_node_that_does_not_fit_is_told_with_who_rejects_it() -> None:
    """And where it would have fitted."""
    watched = Watched(("a", "4"), ("b", "16"), ("c", "16"))
    watched.pod("p", "5")
    watched.bind("p", "a")

    assert watched.results == {"unfit": 1}
    [example] = watched.examples
    assert not example.placed.fits
    assert example.rejection is not None
    assert (example.rejection.plugin, example.rejection.reasons) == (
        "NodeResourcesFit",
        ("Insufficient cpu",),
    )
    assert example.fitting == 2


def test_a_nominated_pod_goes_where_it_is_nominated_whatever_the_scores() -> None:
    """Elsewhere it is wrong if that node fits, and judged like any other if it does not."""
    watched = Watched(("a", "4"), ("b", "16"))
    watched.pod("p", "2", nominated_node_name="a")
    watched.bind("p", "a")
    watched.pod("q", "2", nominated_node_name="a")
    watched.bind("q", "b")
    watched.pod("r", "3", nominated_node_name="a")
    watched.bind("r", "b")

    assert watched.results == {"agreed": 1, "lower": 1, "only": 1}
    [example] = watched.examples
    assert (example.pod, example.nominated_node) == ("default/q", "a")


# --- what is not judged ---------------------------------------------------------------------------


def test_pods_that_had_a_node_are_counted_and_not_judged() -> None:
    """Before the watch began, or when they were first seen; others' pods are none of ours."""
    watched = Watched(("a", "4"), begins=False)
    watched.pod("old", node_name="a")
    watched.pod("waits")
    watched.shadow.begin(0.0)
    watched.pod("by-hand", node_name="a")
    watched.pod("elsewhere", scheduler_name="somebody-else")
    watched.bind("elsewhere", "a")
    watched.bind("waits", "a")

    assert watched.unjudged == {"before": 1, "unseen": 1}
    assert watched.results == {"only": 1}


def test_a_pod_that_changes_on_its_node_is_no_second_binding() -> None:
    """Nor is a successor of its name the same pod."""
    watched = Watched(("a", "4"), ("b", "4"))
    watched.pod("p")
    watched.bind("p", "a")
    watched.bind("p", "a")
    watched.gone("p")
    watched.pod("p", uid="another")
    watched.bind("p", "b")

    assert watched.results == {"agreed": 2}


# --- what happens at the same moment --------------------------------------------------------------


def test_bindings_may_come_in_another_order_than_they_were_decided() -> None:
    """Pod q went to b because p was on a already; its binding was the quicker one."""
    watched = Watched(("a", "8"), ("b", "7"))
    watched.pod("p", "3")
    watched.pod("q", "1")
    watched.bind("q", "b")
    watched.after(0.1)
    watched.bind("p", "a")

    assert watched.results == {"agreed": 1, "raced": 1}
    assert watched.examples == ()


def test_a_pod_that_went_just_afterwards_may_have_gone_before() -> None:
    """The room it left was taken by the other scheduler first."""
    watched = Watched(("a", "4"), ("b", "4"))
    watched.pod("full", "3", node_name="a")
    watched.pod("p", "3", node_selector={"kubernetes.io/hostname": "a"})
    watched.bind("p", "a")
    watched.after(0.2)
    watched.gone("full")

    assert watched.results == {"raced": 1}


def test_a_node_may_be_known_a_little_late() -> None:
    """Nodes have a watch of their own."""
    watched = Watched(("a", "4"))
    watched.pod("p")
    watched.bind("p", "new")
    watched.after(0.3)
    watched.node("new", "64")

    assert watched.results == {"raced": 1}


def test_a_node_that_never_comes_does_not_fit() -> None:
    """There is nothing to say about it."""
    watched = Watched(("a", "4"))
    watched.pod("p")
    watched.bind("p", "ghost")

    assert watched.results == {"unfit": 1}
    [example] = watched.examples
    assert example.rejection is None
    assert (example.placed.node, example.placed.fits, example.fitting) == ("ghost", False, 1)


def test_what_happens_later_excuses_nothing() -> None:
    """The same as above, far enough apart."""
    watched = Watched(("a", "4"), ("b", "4"))
    watched.pod("full", "3", node_name="a")
    watched.after(LATER)
    watched.pod("p", "3", node_selector={"kubernetes.io/hostname": "a"})
    watched.bind("p", "a")
    watched.after(LATER)
    watched.gone("full")

    assert watched.results == {"unfit": 1}


def test_neighbours_do_not_hide_a_wrong_node() -> None:
    """However many pods come and go at that moment: the node lacks a label."""
    watched = Watched(("a", "64"), ("b", "64"))
    for number in range(20):
        watched.pod(f"n{number}")
        watched.bind(f"n{number}", "ab"[number % 2])
    watched.pod("p", node_selector={"kubernetes.io/hostname": "a"})
    watched.bind("p", "b")
    for number in range(20, 40):
        watched.pod(f"n{number}")
        watched.bind(f"n{number}", "ab"[number % 2])
    watched.gone("n3")

    assert watched.results["unfit"] == 1
    assert [example.pod for example in watched.examples] == ["default/p"]


def test_a_pod_counts_from_when_it_says_where_it_will_be() -> None:
    """Its volumes take long; meanwhile others are placed beside it."""
    watched = Watched(("a", "8"), ("b", "7"))
    watched.pod("p", "3")
    watched.pod("q", "1")
    watched.promise("p", "a")
    watched.after(0.1)
    watched.bind("q", "b")
    watched.after(3 * AROUND_SECONDS)
    watched.bind("p", "a")

    assert watched.results == {"agreed": 1, "raced": 1}


def test_a_promise_that_is_broken_counts_no_more() -> None:
    """The pod is taken back, and placed elsewhere."""
    watched = Watched(("a", "8"), ("b", "7"), ("c", "1"))
    watched.pod("p", "3")
    watched.promise("p", "a")
    watched.after(LATER)
    watched.promise("p", "")
    watched.after(2 * LATER)
    watched.pod("q", "1")
    watched.bind("q", "b")

    assert watched.results == {"lower": 1}


def test_who_waits_for_victims_has_no_place_yet() -> None:
    """A nomination that comes with a refusal is no promise: its room is kept, nothing more."""
    told = PodCondition("PodScheduled", "False", "Unschedulable", "0/2 nodes are available")
    watched = Watched(("a", "8"), ("b", "7"))
    watched.pod("p", "3")
    watched.promise("p", "a", conditions=(told,))
    watched.pod("q", "1")
    watched.bind("q", "b")

    assert watched.results == {"lower": 1}


def test_a_pod_that_is_being_deleted_is_counted_as_it_was_before() -> None:
    """Spreading counts it until then; it was there when the other scheduler decided."""
    apart = TopologySpreadConstraint(
        max_skew=1,
        topology_key="kubernetes.io/hostname",
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )
    web = {"app": "web"}
    watched = Watched(("a", "64"), ("b", "32"), ("c", "4"))
    watched.pod("old", "1", labels=web, node_name="a")
    watched.pod("p", "1", labels=web)
    watched.pod("q", "1", labels=web, topology_spread_constraints=(apart,))
    watched.after(LATER)
    watched.bind("q", "c")
    watched.after(0.1)
    watched.bind("p", "b")
    watched.deleting("old")
    watched.after(0.1)
    watched.gone("old")

    assert watched.results == {"agreed": 1, "raced": 1}


def test_who_came_later_excuses_nothing() -> None:
    """A pod that did not exist cannot have been decided before, however near their bindings."""
    watched = Watched(("a", "8"), ("b", "7"))
    watched.pod("q", "1")
    watched.bind("q", "b")
    watched.after(0.1)
    watched.pod("p", "3")
    watched.bind("p", "a")

    assert watched.results == {"agreed": 1, "lower": 1}


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_order_in_which_bindings_arrive(seed: int) -> None:
    """A scheduler decides as we do, each binding takes its time: there is nothing to object to."""
    draw = random.Random(seed)
    nodes = [(f"n{number}", draw.choice(("4", "8", "16"))) for number in range(12)]
    theirs, watched = Elsewhere(nodes, seed), Watched(*nodes)
    arriving: list[tuple[float, str, str]] = []
    for number in range(80):
        name, cores = f"p{number:02}", f"{draw.choice((100, 250, 900))}m"
        watched.pod(name, cores)
        theirs_choice = theirs.place(name, cores)
        arriving.append((number * 0.01 + draw.random() * 0.4, name, theirs_choice))
    for when, name, node in sorted(arriving):
        watched.after(when - watched.now)
        watched.bind(name, node)

    results = watched.results

    assert results.keys() <= {"agreed", "raced"}, watched.examples
    assert results["raced"] > 5


class Elsewhere:
    """Another scheduler: places one pod after the other, and counts each at once."""

    def __init__(self, nodes: list[tuple[str, str]], seed: int) -> None:
        self._engine = Profiles(None).engine(seed)
        for name, cores in nodes:
            self._tell(ObjectSet("nodes", make_node(name, allocatable={"cpu": cores})))

    def place(self, name: str, cores: str) -> str:
        pod = make_pod_info(name, scheduler_name=THEIRS, requests={"cpu": cores})
        self._tell(ObjectSet("pods", pod))
        [bind] = [told for told in self._tell(Decide()) if isinstance(told, Bind)]
        self._tell(Bound(bind.attempt))
        return bind.node

    def _tell(self, event: Event) -> Sequence[Instruction]:
        return self._engine.handle(event, 0.0)


# --- what is kept ---------------------------------------------------------------------------------


def test_so_many_examples_of_each_kind_are_kept_until_they_are_told() -> None:
    """Then there is room for others; counts go on."""
    watched = Watched(("a", "4"), ("b", "64"), examples=1)
    for name in ("p", "q"):
        watched.pod(name, "1")
        watched.bind(name, "a")
    assert watched.results == {"lower": 2}
    assert [example.pod for example in watched.examples] == ["default/p"]

    watched.shadow.forget_examples()
    watched.pod("r", "1")
    watched.bind("r", "a")

    assert watched.results == {"lower": 3}
    assert [example.pod for example in watched.examples] == ["default/r"]


def test_what_waits_for_its_second_look_is_bounded() -> None:
    """The oldest goes without rather than being kept."""
    watched = Watched(("a", "1000"), ("b", "1000"))
    for number in range(MAX_OPEN + 3):
        watched.pod(f"p{number}", "1m", node_selector={"kubernetes.io/hostname": "b"})
        watched.bind(f"p{number}", "a")

    summary = watched.shadow.summary(0.0)

    assert summary.open == MAX_OPEN
    assert sum(summary.results.values()) == 3


def test_at_the_end_every_binding_has_its_second_look() -> None:
    """Also those with changes around them that may be unknown: none will come."""
    watched = Watched(("a", "1000"), ("b", "1000"))
    for name in ("p", "q"):
        watched.pod(name, "1m", node_selector={"kubernetes.io/hostname": "b"})
        watched.bind(name, "a")

    while watched.shadow.look_at_last():
        pass

    summary = watched.shadow.summary(0.0)
    assert summary.open == 0
    assert summary.results["unfit"] == 2


def test_a_caller_may_end_before_the_last_look() -> None:
    """A binding without its second look stays open in the summary."""
    watched = Watched(("a", "1000"), ("b", "1000"))
    for name in ("p", "q"):
        watched.pod(name, "1m", node_selector={"kubernetes.io/hostname": "b"})
        watched.bind(name, "a")

    assert watched.shadow.look_at_last()

    assert watched.shadow.summary(0.0).open == 2
