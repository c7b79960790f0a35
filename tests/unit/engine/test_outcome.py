"""How attempts end, as data: every attempt has its row, and the row says what was decided."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from scheduler.api.objects import LabelSelector, TopologySpreadConstraint
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap import FrameworkBuilder, build_engine
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.model import FeasibleNode
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.events import BindFailed, Bound, Decide, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Bind
from scheduler.kernel.engine.outcome import AttemptOutcome
from scheduler.kernel.engine.scheduling_failure import OUTCOMES_END
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import Bits, FilterPlugin, Plugin, Reads
from scheduler.kernel.framework.results import Reason
from scheduler.kernel.framework.status import Code, Status, error, unschedulable
from scheduler.kernel.snapshot import Rows, Snapshot
from tests.support.builders import ZONE, make_node, make_pod_info
from tests.unit.engine.cluster import Cluster, encoded
from tests.unit.engine.driven import DrivenEngine, Room, engine_at
from tests.unit.engine.engine import EngineUnderTest, Everything

PROFILE = "stowage"
RESULTS = ("scheduled", "unschedulable", "error")


def of_a_history(seed: int, outcomes: list[AttemptOutcome] | None) -> Cluster:
    """A random history, with rows for its attempts or without."""
    config = default_configuration(PROFILE)
    builder = FrameworkBuilder(lambda: 0.0)
    engine = build_engine(
        config,
        builder,
        builder.build(config),
        seed=seed,
        take_outcome=None if outcomes is None else outcomes.append,
    )
    cluster = Cluster(engine, PROFILE, random.Random(seed))
    for _ in range(1500):
        cluster.step()
    cluster.settle()
    return cluster


@pytest.mark.parametrize("seed", range(3))
def test_every_attempt_that_is_counted_has_its_row(seed: int) -> None:
    """And nothing is decided otherwise because somebody takes them."""
    outcomes: list[AttemptOutcome] = []
    cluster = of_a_history(seed, outcomes)

    counted = cluster.engine.core.metrics.schedule_attempts
    rows = Counter(outcome.result for outcome in outcomes)

    assert {r: rows[r] for r in RESULTS} == {r: counted[r, PROFILE].value for r in RESULTS}
    assert min(rows["scheduled"], rows["unschedulable"], rows["error"], rows["gone"]) > 0
    assert encoded(cluster.instructions) == encoded(of_a_history(seed, None).instructions)
    assert all(o.attempt_seconds >= 0 and (o.waited_seconds or 0) >= 0 for o in outcomes)


def wishes(draw: random.Random) -> dict[str, Any]:
    """What a pod asks for: with spreading the cluster decides, without it the node alone."""
    spread = TopologySpreadConstraint(
        topology_key=ZONE,
        when_unsatisfiable="ScheduleAnyway",
        label_selector=LabelSelector(match_labels={"app": "a"}),
    )
    return {
        "labels": {"app": draw.choice("ab")},
        "requests": {"cpu": f"{draw.choice((0, 100, 900, 2500))}m"},
        "node_selector": {"disk": "ssd"} if draw.random() < 0.3 else {},
        "topology_spread_constraints": (spread,) if draw.random() < 0.5 else (),
    }


def test_score_and_runner_up_are_what_explain_says() -> None:
    """Of the state the decision was made on; a tie has two equal scores."""
    draw = random.Random(4)
    outcomes: list[AttemptOutcome] = []
    config = default_configuration(PROFILE)
    builder = FrameworkBuilder(lambda: 0.0)
    frameworks = builder.build(config)
    engine = build_engine(config, builder, frameworks, take_outcome=outcomes.append)
    for number in range(9):
        node = make_node(
            f"n{number}",
            zone=f"z{number % 3}",
            labels={"disk": draw.choice(("ssd", "hdd"))},
            allocatable={"cpu": draw.choice(("4", "8"))},
        )
        engine.handle(ObjectSet("nodes", node), 0.0)
    explainer = Explainer(engine, lambda _: frameworks[PROFILE])
    ties = alone = 0
    for number in range(60):
        now = float(number)
        pod = make_pod_info(f"p{number}", **wishes(draw))
        engine.handle(ObjectSet("pods", pod), now)
        engine.core.catch_up()
        nodes = explainer.explain(pod).nodes
        totals = {each.node: each.total for each in nodes if isinstance(each, FeasibleNode)}

        told = engine.handle(Decide(), now)
        bind = next((each for each in told if isinstance(each, Bind)), None)
        if bind is None:
            assert outcomes[-1].result == "unschedulable"
            assert not totals
            continue
        engine.handle(Bound(bind.attempt), now + 0.25)
        engine.handle(ObjectSet("pods", pod.on_node(bind.node)), now + 0.5)
        row = outcomes[-1]

        assert (row.pod, row.result, row.node) == (pod.key, "scheduled", bind.node)
        assert (row.nodes, row.feasible) == (9, len(totals))
        assert (row.clock, row.attempt_seconds) == (now + 0.25, 0.25)
        others = {name: total for name, total in totals.items() if name != row.node}
        if not others:
            alone += 1
            assert (row.runner_up, row.runner_up_score) == (None, None)
            continue
        assert row.score == totals[bind.node] == max(totals.values())
        assert row.runner_up is not None
        assert row.runner_up_score == others[row.runner_up] == max(others.values())
        ties += row.score == row.runner_up_score
    assert ties
    assert alone


def test_a_rejection_counts_its_reasons() -> None:
    """And an equal pod's row says that it was not looked at for itself."""
    driven = DrivenEngine(Room(0), nodes=("a", "b"))
    driven.add("p")
    driven.run()

    [row] = driven.outcomes

    assert (row.result, row.node, row.nodes, row.feasible) == ("unschedulable", None, 2, 0)
    assert sum(row.reasons.values()) == 2
    assert row.plugins == ("Room",)
    assert row.message.startswith("0/2 nodes are available: 2 ")
    assert row.attempt == 1


def test_a_refused_binding_is_an_error_and_its_next_attempt_another_row() -> None:
    """Each says on which node."""
    driven = DrivenEngine(Room(1))
    pod = driven.add("p")
    driven.handle(Decide())
    driven.handle(BindFailed(driven.attempt(pod).id, "refused"))
    driven.tick(2.0)
    driven.handle(Decide())
    driven.handle(Bound(driven.attempt(pod).id))

    assert [(o.attempt, o.result, o.node, o.message) for o in driven.outcomes] == [
        (1, "error", "n", "refused"),
        (2, "scheduled", "n", ""),
    ]


@pytest.mark.parametrize(
    "state", [AttemptState.HELD, AttemptState.PREBINDING, AttemptState.UNSURE, AttemptState.BOUND]
)
def test_a_pod_that_is_deleted_on_its_way_is_gone(state: AttemptState) -> None:
    """Once it was bound its row has been written."""
    driven, pod = engine_at(state)
    driven.gone(pod)

    [row] = driven.outcomes

    assert row.result == ("scheduled" if state is AttemptState.BOUND else "gone")
    assert row.node == "n"


LONELY = "\ud800"
"""Half of a pair of surrogates: no encoder takes it."""


class LonelyReasons(FilterPlugin):
    """Rejects in column form."""

    NAME = "Lonely"
    READS = Reads.NODE

    @override
    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Bits | None:
        return np.ones(len(snapshot.table.alive[rows]), np.uint64)

    @override
    def reasons(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> list[Reason]:
        return [Reason(f"no {LONELY}", Code.UNSCHEDULABLE)]


class Tells(Everything):
    """Says something about each pod, and holds it."""

    def __init__(self, handle: Handle) -> None:
        super().__init__("Tells", permit=Status(Code.WAIT))
        self._handle = handle

    @override
    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Any:
        self._handle.record_event(pod, "Warning", LONELY, LONELY)
        return None, Status()


@pytest.mark.parametrize(
    "plugin",
    [
        Everything(filter=unschedulable(f"no {LONELY}")),
        Everything(pre_filter=unschedulable(f"no {LONELY}")),
        Everything(reserve=error(f"no {LONELY}")),
        Everything(reserve=ValueError(f"no {LONELY}")),
        LonelyReasons(),
    ],
    ids=["filter", "pre-filter", "reserve", "raised", "columns"],
)
def test_texts_that_cannot_be_encoded_are_written_out(plugin: Plugin) -> None:
    """In outcomes, events, conditions and reports; and the pod waits as any other."""
    under_test = EngineUnderTest(plugin)
    under_test.add("p")

    under_test.run()

    assert under_test.places().keys() == {"default/p"}
    told = encoded((under_test.instructions, under_test.outcomes))
    assert b"\\\\ud800" in told


def test_what_plugins_say_of_held_pods_is_written_out() -> None:
    under_test = EngineUnderTest(lambda handle: Tells(handle))  # noqa: PLW0108 - see EngineUnderTest
    pod = under_test.add("p")
    under_test.run()

    under_test.engine.core.waiting.reject(pod.uid, "Tells", LONELY)
    under_test.handle(Tick())

    assert encoded(under_test.instructions).count(b"\\\\ud800") >= 3


def test_a_recorder_that_raises_loses_no_pod() -> None:
    """It hears no more, which is told once."""
    under_test = EngineUnderTest(Everything(filter=unschedulable("no")))

    def refuse(outcome: AttemptOutcome) -> None:
        raise OSError("full")

    under_test.engine.core.take_outcome = refuse
    under_test.add("p")
    under_test.add("q", labels={"a": "b"})

    under_test.run()

    assert under_test.places() == {"default/p": "unschedulable", "default/q": "unschedulable"}
    assert [report.message for report in under_test.reports] == [OUTCOMES_END]
