"""What recorders and readers hold of large objects, which tenants may create and delete."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.api.objects import ObjectMeta
from scheduler.api.pods import PodInfo
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.daemon.informers.kinds import PODS
from scheduler.daemon.recording.files import Recording
from scheduler.daemon.recording.flight import FlightRecorder
from scheduler.daemon.recording.records import MAX_SHAPE_BYTES, MAX_SHAPES, Reader, Writer
from scheduler.kernel.engine.events import ObjectGone, ObjectSet, PodRead, Tick
from tests.support.builders import make_pod_info
from tests.support.recordings import make_header

HEADER = make_header()
KEPT = 1 << 20


@contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """Gives what has been allocated since, and is held."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def pod(number: int, spec: dict[str, Any] | None = None, **metadata: Any) -> PodInfo:
    named = {"name": f"p{number}", "namespace": "ns", "uid": f"u{number}"}
    spec = {"containers": [{"name": "c"}], **(spec or {})}
    return PODS.decode(msgspec.json.encode({"metadata": named | metadata, "spec": spec}))


def with_values(number: int) -> PodInfo:
    """40 KB as it comes, 150 KB once it is decoded."""
    values = [f"{number}-{each:08}" for each in range(2000)]
    expression = {"key": "k", "operator": "In", "values": values}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod(number, {"affinity": affinity})


def with_labels(number: int) -> PodInfo:
    return pod(number, labels={f"{number}-{each:05}": f"{number}-{each}" for each in range(2000)})


def with_owners(number: int) -> PodInfo:
    owner = {"apiVersion": "v1", "kind": "X", "uid": "u"}
    return pod(number, ownerReferences=[owner | {"name": f"{number}-{n}"} for n in range(1000)])


def with_annotation(number: int) -> PodInfo:
    return pod(number, annotations={"stowage.dev/expected-end": f"{number}" * 100_000})


def with_volumes(number: int) -> PodInfo:
    volumes = [
        {"name": f"v{each}", "persistentVolumeClaim": {"claimName": f"{number}-{each}"}}
        for each in range(1000)
    ]
    return pod(number, {"volumes": volumes})


def with_claims(number: int) -> PodInfo:
    claims = [{"name": f"c{each}", "resourceClaimName": f"{number}-{each}"} for each in range(1000)]
    return pod(number, {"resourceClaims": claims})


PODS_OF_A_TENANT = [
    with_values, with_labels, with_owners, with_annotation, with_volumes, with_claims
]  # fmt: skip


@pytest.mark.parametrize("large", PODS_OF_A_TENANT)
def test_pods_that_are_large_are_dropped_early(large: Callable[[int], PodInfo]) -> None:
    """None is like another, and each is gone at once."""
    flight = FlightRecorder(HEADER, kept_bytes=KEPT)
    large(0)
    with measured() as held:
        for number in range(60):
            each = large(number)
            flight.note(ObjectSet("pods", each), 100.0, [])
            flight.note(PodRead(1, each), 100.0, [])
            flight.note(ObjectGone("pods", "ns", each.name, each.uid), 100.0, [])
            del each

        assert KEPT / 8 < held() < KEPT * 1.5


def test_other_objects_that_are_large_are_dropped_early() -> None:
    """Tenants write selectors of any length too."""
    flight = FlightRecorder(HEADER, kept_bytes=KEPT)
    with measured() as held:
        for number in range(60):
            spec = ServiceSpec({f"{number}-{each}": f"{each}-{number}" for each in range(500)})
            flight.note(ObjectSet("services", Service(ObjectMeta("s", "ns"), spec)), 100.0, [])
            flight.note(ObjectGone("services", "ns", "s", ""), 100.0, [])

        assert KEPT / 8 < held() < KEPT * 1.5


def test_an_object_that_is_nested_too_deeply_is_kept() -> None:
    """A plugin's kind may allow it; the stack may be higher here than where it was decoded."""
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    flight = FlightRecorder(HEADER)

    flight.note(ObjectSet("widgets", {"metadata": {"name": "w"}, "spec": nested}), 100.0, [])

    while nested:
        nested = nested.pop()


def test_what_pods_share_counts_once(tmp_path: Path) -> None:
    """Until the last of them is dropped, and again when another one comes; one is from before."""
    flight = FlightRecorder(HEADER, kept_seconds=10.0, kept_bytes=KEPT)
    shared = with_values(0)
    for second in range(100, 300):
        flight.note(ObjectSet("pods", shared), float(second), [])
        flight.note(Tick(), float(second), [])
    flight.note(Tick(), 400.0, [])
    for _ in range(40):
        flight.note(ObjectSet("pods", shared), 500.0, [])
    path = tmp_path / "flight.recording"
    path.write_bytes(flight.dump())

    times = [record.time for record in Recording([path]) if isinstance(record.event, ObjectSet)]

    assert times == [299.0] + [500.0] * 40


def test_specifications_are_forgotten_by_their_bytes() -> None:
    """By what writes them, and by what reads them: a few large ones fill the memory too."""
    writer, reader, lines = Writer(), Reader(), list[bytes]()
    with_values(0)
    with measured() as held:
        for number in range(200):
            line = bytearray()
            writer.write(line, ObjectSet("pods", with_values(number)), 0.0, ())
            lines.append(bytes(line))
        written = sum(map(len, lines))

        assert 0 < held() - written < MAX_SHAPE_BYTES * 1.5
    with measured() as held:
        names = []
        for record in reader.records(each for line in lines for each in line.splitlines()):
            assert isinstance(record.event, ObjectSet)
            names.append(record.event.object.name)

        assert held() < MAX_SHAPE_BYTES * 1.5
    assert names == [f"p{number}" for number in range(200)]


def test_a_reader_forgets_what_an_older_writer_had_forgotten() -> None:
    """It did not say so; its newest ones are what pods may still have."""
    writer, lines, reader = Writer(), bytearray(), Reader()
    for number in range(2 * MAX_SHAPES):
        each = make_pod_info("p", node_selector={"a": str(number)})
        writer.write(lines, ObjectSet("pods", each), 0.0, ())
    older = [line.replace(b",true]", b"]") for line in bytes(lines).splitlines()]
    half = len(older) // 2

    with measured() as held:
        assert len(list(reader.records(iter(older[:half])))) == MAX_SHAPES
        once = held()
        assert len(list(reader.records(iter(older[half:])))) == MAX_SHAPES

        assert held() < once * 1.2
