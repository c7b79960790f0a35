"""What the daemon holds for long is not for the garbage collector to walk through."""

import gc

import msgspec

from scheduler.api.objects import Node, Pod
from scheduler.api.pods import pod_info
from scheduler.config.load import default_configuration
from scheduler.daemon.recording.flight import FlightRecorder
from scheduler.daemon.recording.records import Header
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Bound, Decide, Event, ObjectSet
from scheduler.kernel.engine.instructions import Bind, Instruction
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import ClusterObjects

HEADER = Header(
    recording="test",
    version="",
    configuration={},
    seed=0,
    max_in_unschedulable_seconds=300.0,
    started=1e9,
    clock=0.0,
)
NODES = 50


def test_pods_that_went_by_leave_nothing_to_collect() -> None:
    """Neither the engine nor what is kept of the last minutes: each walk would stop the loop."""
    objects = ClusterObjects()
    status = {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}}
    for number in range(NODES):
        body = {"metadata": {"name": f"n{number}"}, "status": status}
        objects.nodes.append(msgspec.convert(body, Node))
    engine = Profiles(default_configuration("test")).load(objects).engine
    kept = FlightRecorder(HEADER)
    left = []
    for thousands in range(2):
        for number in range(1000):
            _let_by(engine, kept, f"p{1000 * thousands + number}")
        gc.collect()
        gc.collect()
        left.append(len(gc.get_objects()))

    assert left[1] - left[0] < 500


def _let_by(engine: Engine, kept: FlightRecorder, name: str) -> None:
    def told(event: Event) -> tuple[Instruction, ...]:
        instructions = engine.handle(event, 0.0)
        kept.note(event, 0.0, instructions)
        return tuple(instructions)

    metadata = {"name": name, "namespace": "default", "uid": name}
    body = {"metadata": metadata, "spec": {"schedulerName": "test"}}
    pod = pod_info(msgspec.convert(body, Pod))
    told(ObjectSet("pods", pod))
    bind = next(each for each in told(Decide()) if isinstance(each, Bind))
    told(Bound(bind.attempt))
    told(ObjectSet("pods", pod.on_node(bind.node)))
