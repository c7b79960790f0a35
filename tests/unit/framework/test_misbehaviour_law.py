"""The law of the boundary: whatever plugins do, nothing but a `PluginError` leaves a Framework.

Plugins of every form that misbehave at random, at every extension point; every failure names the
plugin and is counted, and what is answered in spite of them is well-formed.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from scheduler.bootstrap.time_limit import plugin_time_limit
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import (
    NODE_ADD,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
)
from scheduler.framework.interface import (
    BindPlugin,
    EnqueueExtensions,
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    Reason,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
)
from scheduler.framework.runtime import Framework, PluginError, PluginSet
from scheduler.framework.runtime.adapters import row_indices
from scheduler.framework.runtime.nominated_pods import NominatedPods
from scheduler.framework.runtime.plugin_set import IMPLEMENTS, extension_points
from scheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unschedulable
from scheduler.snapshot import PodAdded, Snapshot
from tests.support.builders import make_pod_info, make_queued_pod_info
from tests.support.fake_plugins import ColumnFilter, make_calls, make_snapshot

ROUNDS = 25
NODES = ("a", "b", "c", "d")


class MuteError(Exception):
    """Cannot even say what is wrong."""

    @override
    def __str__(self) -> str:
        raise RuntimeError("mute")


class Prickly:
    """Breaks whatever touches it."""

    @override
    def __repr__(self) -> str:
        raise ValueError("no")

    @override
    def __eq__(self, other: object) -> bool:
        raise ValueError("no")

    @override
    def __hash__(self) -> int:
        raise ValueError("no")


async def never() -> Status:
    return SUCCESS


def nonsense(draw: Random) -> Any:
    """What no extension point wants; an Exception is to be raised."""
    return draw.choice(
        (
            lambda: ValueError("boom"),
            MuteError,
            lambda: RecursionError("deep"),
            lambda: None,
            lambda: "no room",
            lambda: 7,
            Prickly,
            never,
            lambda: (SUCCESS,),
            lambda: (None, None),
            lambda: (SUCCESS, "5"),
            lambda: (SUCCESS, float("nan")),
            lambda: (Status(Code.WAIT), -1.0),
            lambda: (PreFilterResult(["a"]), SUCCESS),  # type: ignore[arg-type]
            lambda: (PreFilterResult(frozenset({1})), SUCCESS),  # type: ignore[arg-type]
            lambda: (PostFilterResult(3), SUCCESS),  # type: ignore[arg-type]
            lambda: Status(5),  # type: ignore[arg-type]
            lambda: Status(Code.UNSCHEDULABLE, "no"),  # type: ignore[arg-type]
            lambda: Status(Code.UNSCHEDULABLE, (1,)),  # type: ignore[arg-type]
            lambda: Status(Code.WAIT),
            lambda: np.zeros(9, np.uint64),
            lambda: np.zeros(0),
            lambda: np.full(4, np.nan),
            lambda: np.full(4, 101.0),
            lambda: np.full(1, -1.0),
            lambda: np.full((2, 2), 1.0),
            lambda: np.array([None] * 4, object),
            lambda: np.full(4, 2**40, np.uint64),
            lambda: [Reason("x")],
            lambda: [Reason("x", 4)],  # type: ignore[arg-type]
            lambda: ["x"],
            lambda: [ClusterEventWithHint("x")],  # type: ignore[arg-type]
            dict,
        )
    )()


class Rogue(
    PreEnqueuePlugin,
    QueueSortPlugin,
    EnqueueExtensions,
    SignPlugin,
    PreFilterPlugin,
    PreFilterExtensions,
    PostFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Does what it should, or anything else.

    Attributes:
        rate: how often it misbehaves.
    """

    def __init__(self, name: str, draw: Random) -> None:
        self.NAME = name  # type: ignore[misc]
        self.draw = draw
        self.rate = 0.3
        self.state = Status()

    def answer(self, good: Callable[[], Any]) -> Any:
        if self.draw.random() >= self.rate:
            return good()
        found = nonsense(self.draw)
        if isinstance(found, Exception):
            raise found
        return found

    def say(self, *others: Status) -> Any:
        return self.answer(lambda: self.draw.choice((SUCCESS, SUCCESS, SUCCESS, *others)))

    def sort_key(self, queued: Any) -> Any:
        keys = (1, 2.5, 3, 4, "text", (1, 2), float("nan"))
        return self.answer(lambda: self.draw.choice(keys))

    def pre_enqueue(self, pod: Any) -> Any:
        return self.say(unschedulable("gate"), error("gate"))

    def events_to_register(self) -> Any:
        return self.answer(lambda: [ClusterEventWithHint(NODE_ADD, self.hint)])

    def hint(self, *_: Any) -> Any:
        return self.answer(lambda: self.draw.choice(list(QueueingHint)))

    def sign(self, pod: Any) -> Any:
        return self.answer(lambda: self.draw.choice((None, 1, "x")))

    def pre_filter(self, *_: Any) -> Any:
        result = self.draw.choice((None, None, PreFilterResult(frozenset(NODES[:3]))))
        status = self.draw.choice((SUCCESS, SUCCESS, SUCCESS, SKIP, unschedulable("pod")))
        return self.answer(lambda: (result, status))

    def add_pod(self, *_: Any) -> Any:
        return self.say(unschedulable("x"))

    def remove_pod(self, *_: Any) -> Any:
        return self.say(SKIP)

    def post_filter(self, *_: Any) -> Any:
        return self.answer(lambda: (PostFilterResult("a"), self.draw.choice((SUCCESS, SKIP))))

    def pre_score(self, *_: Any) -> Any:
        return self.say(SKIP, unschedulable("late"))

    def skips_score(self, *_: Any) -> Any:
        return self.answer(lambda: self.draw.choice((True, False)))

    def reserve(self, *_: Any) -> Any:
        return self.say(unschedulable("taken"))

    def unreserve(self, *_: Any) -> Any:
        return self.answer(lambda: None)

    def permit(self, *_: Any) -> Any:
        return self.answer(lambda: (self.draw.choice((SUCCESS, Status(Code.WAIT))), 5))

    def pre_bind_pre_flight(self, *_: Any) -> Any:
        return self.say(SKIP)

    async def pre_bind(self, *_: Any) -> Any:
        if self.draw.random() < self.rate / 5:
            await asyncio.Event().wait()
        if self.draw.random() < self.rate / 5:
            raise asyncio.CancelledError
        return self.say(error("disk"))

    async def bind(self, *_: Any) -> Any:
        return self.say(SKIP)

    def post_bind(self, *_: Any) -> Any:
        return self.answer(lambda: None)


class ColumnRogue(Rogue, FilterPlugin, ScorePlugin, NormalizeScorePlugin):
    def __init__(self, name: str, draw: Random, reads: Reads) -> None:
        super().__init__(name, draw)
        self.READS = reads  # type: ignore[misc]

    def filter(self, state: Any, pod: Any, snapshot: Any, rows: Any) -> Any:
        count = len(row_indices(rows))
        bits = [self.draw.choice((0, 0, 1)) for _ in range(count)]
        return self.answer(lambda: np.array(bits, np.uint64))

    def reasons(self, *_: Any) -> Any:
        return self.answer(lambda: [Reason("one")])

    def score(self, state: Any, pod: Any, snapshot: Any, rows: Any) -> Any:
        count = len(row_indices(rows))
        if self.draw.random() < self.rate / 2:
            return np.full(count, self.draw.choice((-1.0, 101.0, 0.5, math.nan)))
        return self.answer(lambda: np.full(count, 5.0))

    def normalize_score(self, state: Any, pod: Any, scores: Any) -> Any:
        return self.answer(lambda: scores)


class NodeRogue(Rogue, NodeFilterPlugin, NodeScorePlugin):
    def filter(self, *_: Any) -> Any:
        return self.say(unschedulable("node"))

    def score(self, *_: Any) -> Any:
        return self.answer(lambda: 5)


class Trial:
    """One profile, and what is known of its failures."""

    def __init__(self, framework: Framework, swallowed: list[PluginError]) -> None:
        self.framework = framework
        self.swallowed = swallowed
        self.reported: list[PluginError] = []

    def ask(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The answer; None when the plugin failed. Nothing else may be raised."""
        try:
            return method(*args, **options)
        except PluginError as problem:
            self.reported.append(problem)
            return None

    def check(self, *names: str) -> None:
        """Everybody who failed is named and counted."""
        counted = self.framework.calls.metrics.plugin_errors
        for problem in (*self.swallowed, *self.reported):
            assert problem.plugin in names
            assert f'running {problem.point} plugin "{problem.plugin}": ' in str(problem)
            assert counted[problem.plugin, problem.point].value > 0


def profile(draw: Random, swallowed: list[PluginError]) -> tuple[Framework, list[Rogue]]:
    rogues: list[Rogue] = [
        ColumnRogue("Rows", draw, draw.choice((Reads.NODE, Reads.PODS))),
        ColumnRogue("Cluster", draw, Reads.CLUSTER),
        NodeRogue("Nodes", draw),
    ]
    draw.shuffle(rogues)
    plugins = {rogue.NAME: rogue for rogue in rogues}
    plugins["Fair"] = ColumnFilter("Fair", {"d": 1})  # type: ignore[assignment]
    enabled = {
        point: [(n, 1) for n, p in plugins.items() if point in extension_points(type(p))]
        for point in IMPLEMENTS
    }
    enabled["queueSort"] = enabled["queueSort"][:1]

    def limit() -> AbstractAsyncContextManager[None]:
        return plugin_time_limit(0.001)

    calls = make_calls(time_limit=limit, on_failed=swallowed.append)
    return Framework(PluginSet(enabled, plugins.__getitem__), calls), rogues


def decide(trial: Trial, snapshot: Snapshot, pods: Iterator[Any]) -> None:
    """One attempt, with everything around it that asks filters and scores."""
    framework, ask, pod = trial.framework, trial.ask, next(pods)
    guest = make_pod_info("guest", node_name="b")
    resident = next(iter(snapshot.info(0).pods.values()))
    nominated = NominatedPods()
    nominated.nominate(guest, "b")
    found = ask(framework.find_nodes_that_fit, pod, snapshot, nominated)
    filtered = ask(framework.run_filters, pod, snapshot, NODES, add=[guest], remove=[resident])
    if filtered is not None:
        assert set(filtered) == set(NODES)
        assert all(type(status) is Status for status in filtered.values())
    if found is None:
        return
    diagnosis = ask(found.diagnosis, snapshot)
    if diagnosis is not None:
        assert isinstance(diagnosis.message(), str)
        for status in map(diagnosis.status_of, NODES):
            assert type(status) is Status
            assert status.reasons or status.is_success or status.plugin == "Nodes"
        answer = ask(framework.run_post_filter_plugins, found.state, pod, snapshot, diagnosis)
        assert answer is None or type(answer[1]) is Status
    if found.verdicts is None:
        return
    ask(framework.every_verdict, found, pod, snapshot)
    best = ask(framework.best_nodes, found, pod, snapshot)
    if best is not None:
        rows = found.feasible_rows().tolist()
        assert best.feasible == len(rows)
        assert set(best.rows.tolist()) <= set(rows)
    table = ask(framework.score_table, found, pod, snapshot, found.feasible_rows())
    for _, _, column in table or ():
        assert ((column >= 0) & (column <= 100)).all()


def place(trial: Trial) -> None:
    """What comes after the decision."""
    framework, ask, state, pod = trial.framework, trial.ask, CycleState(), make_pod_info("p")
    statuses = [ask(framework.run_reserve_plugins, state, pod, "a")]
    permitted = ask(framework.run_permit_plugins, state, pod, "a")
    if permitted is not None:
        statuses.append(permitted[0])
        assert all(0 <= seconds <= 900 for seconds in permitted[1].values())
    statuses += [
        ask(asyncio.run, framework.run_pre_bind_plugins(state, pod, "a")),
        ask(asyncio.run, framework.run_bind_plugins(state, pod, "a")),
    ]
    assert all(status is None or type(status) is Status for status in statuses)
    trial.reported += framework.run_unreserve_plugins(state, pod, "a")
    trial.reported += framework.run_post_bind_plugins(state, pod, "a")


def wait(trial: Trial, draw: Random) -> None:
    """What the queue asks; nothing of it may raise at all, but what is asked once at start."""
    framework = trial.framework
    keys = [framework.sort_key(make_queued_pod_info(str(i), float(i))) for i in range(12)]
    assert sorted(keys) == sorted(draw.sample(keys, len(keys)))
    status = framework.run_pre_enqueue_plugins(make_pod_info("p"), "Nodes")
    assert type(status) is Status
    assert status.is_success or status.plugin in framework.plugins.by_name
    for name, registered in (trial.ask(framework.events_to_register) or {}).items():
        for each in registered:
            assert isinstance(each.event, ClusterEvent)
            hint = framework.run_queueing_hint(name, each, "e", make_pod_info("p"), None, None)
            assert isinstance(hint, QueueingHint)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_nothing_but_a_plugin_error_leaves_a_framework(seed: int) -> None:
    """At any point, in any form, by itself or among others; and the well-behaved are unharmed."""
    draw = Random(seed)
    swallowed: list[PluginError] = []
    framework, rogues = profile(draw, swallowed)
    trial = Trial(framework, swallowed)
    snapshot = make_snapshot(*NODES)
    snapshot.update([PodAdded(resident := make_pod_info("r", node_name="a"))])
    snapshot.info(0).pods[resident.uid] = resident
    pods = (make_pod_info(f"p{i}", labels={"app": str(i % 3)}) for i in range(10**6))

    for _ in range(ROUNDS):
        framework.calls.begin_cycle(sampled=draw.random() < 0.5)
        wait(trial, draw)
        decide(trial, snapshot, pods)
        place(trial)
        trial.check("Rows", "Cluster", "Nodes")
    assert len(trial.reported) > ROUNDS
    assert len(swallowed) > ROUNDS

    for rogue in rogues:
        rogue.rate = 0.0
    errors = len(swallowed), len(trial.reported)
    status = framework.run_pre_enqueue_plugins(make_pod_info("p"))
    assert status.code is not Code.ERROR or status.reasons == ("gate",)
    assert trial.ask(framework.run_reserve_plugins, CycleState(), resident, "a") is not None
    assert (len(swallowed), len(trial.reported)) == errors
