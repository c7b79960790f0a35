"""Holding rows of the snapshot against their pods costs no more when there is much to count."""

import msgspec
import pytest

from scheduler.api.objects import Node, Pod
from scheduler.api.pods import PodInfo, pod_info
from scheduler.config.load import default_configuration
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.engine_state import AUDITED_ROWS
from scheduler.kernel.engine.events import Decide, ObjectSet, Tick
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import ClusterObjects

NODES = 40
BUDGET = 50


def apart(number: int) -> PodInfo:
    """A pod with a selector of its own."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": f"app-{number}"}},
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    body = {
        "metadata": {"name": f"p{number}", "namespace": "default", "uid": f"p{number}"},
        "spec": {"schedulerName": "test", "affinity": {"podAntiAffinity": rule}},
    }
    return pod_info(msgspec.convert(body, Pod))


def engine_with(selectors: int) -> Engine:
    objects = ClusterObjects()
    for number in range(NODES):
        body = {
            "metadata": {
                "name": f"n{number}",
                "labels": {"kubernetes.io/hostname": f"n{number}"},
            },
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        }
        objects.nodes.append(msgspec.convert(body, Node))
    engine = Profiles(default_configuration("test")).load(objects).engine
    for number in range(selectors):
        engine.handle(ObjectSet("pods", apart(number)), engine.core.now)
        engine.handle(Decide(), engine.core.now)
    engine.core.next_audited = 0
    return engine


@pytest.mark.parametrize("selectors", [0, 6, 80], ids=["nothing", "something", "very much"])
def test_the_more_is_counted_the_fewer_rows_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, selectors: int
) -> None:
    """At least one, so that all have their turn."""
    monkeypatch.setattr("scheduler.kernel.engine.engine_state.AUDITED_COUNTS", BUDGET)
    engine = engine_with(selectors)
    counted = engine.core.snapshot.counted_classes
    assert counted >= selectors

    engine.handle(Tick(), engine.core.now + 1.0)

    rows = engine.core.next_audited
    assert 1 <= rows <= AUDITED_ROWS
    assert rows == 1 or rows * counted <= BUDGET
    assert (rows == AUDITED_ROWS) == (selectors == 0)


def test_ticks_within_a_second_look_at_no_more_rows() -> None:
    """Timers may bring several: an audit is due once a second."""
    engine = engine_with(80)
    second = float(int(engine.core.now)) + 1.0
    seen = []
    for time in (second, second + 0.25, second + 0.75, second + 1.0):
        engine.core.next_audited = -1
        engine.handle(Tick(), time)
        seen.append(engine.core.next_audited >= 0)

    assert seen == [True, False, False, True]
