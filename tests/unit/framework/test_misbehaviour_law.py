"""The law of the boundary: whatever plugins do, nothing but a `PluginError` leaves a Framework.

Plugins of every form that misbehave at random, at every extension point; every failure names the
plugin and is counted, and what is answered in spite of them is well-formed.
"""

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import (
    ClusterEvent,
    QueueingHint,
)
from scheduler.kernel.framework.results import Write
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.snapshot import PodAdded, Snapshot
from tests.support.builders import make_pod_info, make_queued_pod_info
from tests.support.fake_plugins import ColumnFilter, make_snapshot
from tests.support.rogues import NODES, rogue_framework

ROUNDS = 25


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


def decide(trial: Trial, snapshot: Snapshot, pods: Iterator[Any]) -> None:
    """One attempt, with everything around it that asks filters and scores."""
    framework, ask, pod = trial.framework, trial.ask, next(pods)
    guest = make_pod_info("guest", node_name="b")
    resident = next(iter(snapshot.info(0).pods.values()))
    nominated = NominatedPods()
    nominated.nominate(guest, "b")
    found = ask(framework.filtering.find_nodes_that_fit, pod, snapshot, nominated)
    filtered = ask(
        framework.filtering.run_filters, pod, snapshot, NODES, add=[guest], remove=[resident]
    )
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
        if answer is not None and answer[0] is not None:
            msgspec.json.encode(answer[0].writes)
    if found.verdicts is None:
        return
    ask(framework.filtering.every_verdict, found, pod, snapshot)
    best = ask(framework.scoring.best_nodes, found, pod, snapshot)
    if best is not None:
        rows = found.feasible_rows().tolist()
        assert best.feasible == len(rows)
        assert set(best.rows.tolist()) <= set(rows)
    table = ask(framework.scoring.score_table, found, pod, snapshot, found.feasible_rows())
    for _, _, column in table or ():
        assert ((column >= 0) & (column <= 100)).all()


def place(trial: Trial) -> None:
    """What comes after the decision."""
    framework, ask, state, pod = (
        trial.framework,
        trial.ask,
        CycleState(),
        make_pod_info("p").on_node("a"),
    )
    statuses = [ask(framework.run_reserve_plugins, state, pod)]
    permitted = ask(framework.run_permit_plugins, state, pod)
    if permitted is not None:
        statuses.append(permitted[0])
        assert all(0 <= seconds <= 900 for seconds in permitted[1].values())
    statuses += [
        ask(asyncio.run, framework.run_pre_bind_plugins(state, pod)),
        ask(asyncio.run, framework.run_bind_plugins(state, pod)),
    ]
    assert all(status is None or type(status) is Status for status in statuses)
    failures, writes = framework.run_unreserve_plugins(state, pod)
    trial.reported += failures
    assert all(type(write) is Write for write in writes)
    msgspec.json.encode(writes)
    trial.reported += framework.run_post_bind_plugins(state, pod)


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
    framework, rogues = rogue_framework(draw, swallowed, ColumnFilter("Fair", {"d": 1}))
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
    assert trial.ask(framework.run_reserve_plugins, CycleState(), resident) is not None
    assert (len(swallowed), len(trial.reported)) == errors
