"""`/debug/explain`: an answer that takes many steps, while the engine goes on."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap.explaining import LiveExplainer, times_of
from scheduler.daemon.serving.endpoints import DebugQuery
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.why import Depth
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import ObjectGone, ObjectSet, Tick
from scheduler.testing.validation import validate_engine
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import ClusterObjects
from tests.support.builders import make_node, make_pod_info
from tests.support.clock import FakeClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
END = "2026-01-01T00:20:00Z"


def test_a_daemon_estimates_when_a_pod_fits_if_it_is_asked_to() -> None:
    """Events come between two steps; the answer is about the cluster as it was."""
    objects = ClusterObjects()
    objects.nodes = [make_node("n")]
    running = make_pod_info("running", node_name="n", requests={"cpu": "4"}, expected_end=END)
    waiting = make_pod_info("waiting", requests={"cpu": "2"})
    objects.pods = [running, waiting]
    engine = Profiles(default_configuration("stowage")).load(objects).engine
    clock = FakeClock()
    explainer = LiveExplainer(engine, {waiting.key: waiting}, lambda: True, clock)
    between = 0

    async def events() -> None:
        nonlocal between
        while True:
            between += 1
            engine.handle(ObjectSet("nodes", make_node(f"n{between}", unschedulable=True)), 1.0)
            await asyncio.sleep(0)

    async def both() -> list[bytes | None]:
        others = asyncio.create_task(events())
        answers = [
            await explainer.explain(DebugQuery(waiting.key, estimate=wanted))
            for wanted in (False, True)
        ]
        others.cancel()
        return answers

    without, with_it = (json.loads(answer or b"")["pods"][0] for answer in asyncio.run(both()))

    assert "estimate" not in without
    assert with_it["estimate"]["time"] == END
    assert [each["pod"] for each in with_it["estimate"]["ends"]] == ["default/running"]
    assert between > 3


def _cluster() -> tuple[Engine, PodInfo]:
    """A pod that fits nowhere, for several reasons."""
    objects = ClusterObjects()
    objects.nodes = [
        make_node(f"n{number}", labels={"disk": "ssd"}, allocatable={"cpu": "4"})
        for number in range(3)
    ]
    objects.nodes.append(make_node("closed", unschedulable=True, labels={"disk": "ssd"}))
    objects.pods = [
        make_pod_info(f"running{number}", node_name=f"n{number}", requests={"cpu": "3"})
        for number in range(3)
    ]
    waiting = make_pod_info("waiting", requests={"cpu": "2"}, node_selector={"disk": "sdd"})
    objects.pods.append(waiting)
    return Profiles(default_configuration("stowage")).load(objects).engine, waiting


def _asked(between: Callable[[Engine, int], None]) -> tuple[dict[str, Any], int]:
    """The answer with changes, and how many steps it took; something happens between them."""
    engine, waiting = _cluster()
    explainer = LiveExplainer(engine, {waiting.key: waiting}, lambda: True, FakeClock())
    answering = explainer.explain(DebugQuery(waiting.key, changes=True))
    steps = 0
    while True:
        try:
            answering.send(None)
        except StopIteration as end:
            validate_engine(engine)
            return json.loads(end.value)["pods"][0], steps
        steps += 1
        between(engine, steps)


def test_changes_take_many_steps_and_are_those_of_one() -> None:
    """As the command finds them in one go."""
    engine, waiting = _cluster()
    framework = next(iter(engine.core.frameworks.values()))
    whole = Explainer(engine, lambda _: framework).explain(waiting, Depth.CHANGES)

    told, steps = _asked(lambda engine, step: None)

    assert steps > 8
    assert told["changes"] == json.loads(msgspec.json.encode(whole.changes))
    assert told["guesses"] == json.loads(msgspec.json.encode(whole.guesses))
    assert {"several", "addNodes"} & {change["kind"] for change in told["changes"]}


def test_changes_are_about_the_cluster_as_it_was() -> None:
    """Meanwhile all nodes are replaced, one after the other, and pods come and go."""

    def between(engine: Engine, step: int) -> None:
        if 2 <= step < 5:
            name = f"n{step - 2}"
            engine.handle(ObjectGone("nodes", "", name, f"uid-{name}"), 1.0)
            engine.handle(ObjectSet("nodes", make_node(f"new{step}")), 1.0)
            engine.handle(ObjectSet("pods", make_pod_info(f"p{step}", node_name="closed")), 1.0)
        engine.handle(Tick(), 1.0 + step)

    calm, _ = _asked(lambda engine, step: None)
    told, _ = _asked(between)

    assert told["changes"] == calm["changes"]
    assert told["guesses"] == calm["guesses"]


def test_a_verdict_is_about_the_latest_cluster() -> None:
    """Also on a standby, which makes no decisions that read the changes."""
    engine, waiting = _cluster()
    engine.handle(ObjectSet("nodes", make_node("new", labels={"disk": "sdd"})), 1.0)
    explainer = LiveExplainer(engine, {waiting.key: waiting}, lambda: False, FakeClock())
    told = json.loads(asyncio.run(explainer.explain(DebugQuery(waiting.key, changes=True))) or b"")

    assert told["pods"][0]["counts"]["feasible"] == 1
    assert "changes" not in told["pods"][0]


def test_a_node_that_does_not_exist_is_told() -> None:
    """Beside the nodes that do."""
    engine, waiting = _cluster()
    explainer = LiveExplainer(engine, {waiting.key: waiting}, lambda: True, FakeClock())
    told = json.loads(
        asyncio.run(explainer.explain(DebugQuery(waiting.key, nodes=["n1", "n-1"]))) or b""
    )

    assert [node["node"] for node in told["pods"][0]["nodes"]] == ["n1"]
    assert told["warnings"] == ["there is no node n-1"]


def test_a_pod_that_fits_meanwhile_needs_no_changes() -> None:
    """A node came after the verdict and before the search."""

    def between(engine: Engine, step: int) -> None:
        if step == 1:
            engine.handle(ObjectSet("nodes", make_node("new", labels={"disk": "sdd"})), 1.0)

    told, _ = _asked(between)

    assert told["message"].startswith("0/4 nodes are available")
    assert (told["changes"], told["guesses"]) == ([], [])


def test_a_moment_has_one_time_of_day_until_the_clock_is_set() -> None:
    """Two clocks are read one after the other: the difference is never twice the same."""
    clock = FakeClock(now=100.0)
    when = times_of(clock)
    told = when(60.0)

    clock.start += timedelta(milliseconds=2)
    clock.advance(3600.0)

    assert told == "2026-01-01T00:01:00.000Z"
    assert when(60.0) == told

    clock.start += timedelta(hours=1)
    assert when(60.0) == "2026-01-01T01:01:00.002Z"
