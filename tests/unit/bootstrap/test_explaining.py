"""`/debug/explain`: an answer that takes many steps, while the engine goes on."""

import asyncio
import json
from datetime import UTC, datetime

from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap.explaining import LiveExplainer
from scheduler.daemon.serving.endpoints import DebugQuery
from scheduler.kernel.engine.events import ObjectSet
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
