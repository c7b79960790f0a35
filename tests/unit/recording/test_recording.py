"""Lines, blocks, files, and what is kept in memory."""

import os
import re
import resource
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path, PosixPath
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.api.devices import FinalizedMeta, ResourceClaim
from scheduler.api.objects import (
    AnnotatedMeta,
    ContainerStatus,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Taint,
)
from scheduler.api.pods import PodInfo, pod_info
from scheduler.api.storage import (
    MIGRATED_PLUGINS,
    ClaimReference,
    CSINode,
    CSISource,
    MigratableSources,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.api.volume_sources import PersistentVolumeClaimVolumeSource, Volume
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.api.written import ObjectReference
from scheduler.daemon.informers.kinds import KINDS, POD_GROUPS, PODS, Kind
from scheduler.daemon.recording.directory import DirectoryRecorder
from scheduler.daemon.recording.files import (
    MAGIC,
    MAX_LINES,
    LeftOut,
    Recording,
    block,
    part_name,
    recordings_in,
    whole_file,
)
from scheduler.daemon.recording.flight import FlightRecorder
from scheduler.daemon.recording.records import (
    MAX_SHAPES,
    CutShortError,
    Reader,
    Record,
    RecordingError,
    Writer,
    encode_answer,
)
from scheduler.daemon.recording.replay import Replayed, replay
from scheduler.kernel.devices.extended_resources import ANNOTATION, is_of_extended_resources
from scheduler.kernel.engine.events import (
    Activate,
    Allowed,
    Answered,
    BindFailed,
    Bound,
    Configure,
    Decide,
    Event,
    ObjectGone,
    ObjectRead,
    ObjectSet,
    PluginEvent,
    PodRead,
    PreBound,
    ReadFailed,
    Rejected,
    SetBack,
    SlowDecision,
    Tick,
)
from scheduler.kernel.engine.instructions import (
    Ask,
    Bind,
    Configured,
    Instruction,
    LogError,
    RecordEvent,
    SetTimer,
)
from scheduler.kernel.extender import Filtered, MetaVictims, NoAnswer, Preempted, Prioritized, Verb
from tests.support.builders import make_node, make_pod, make_pod_info
from tests.support.recordings import make_header
from tests.support.ugly import WHOLE

HEADER = make_header(configuration={"a": 1})
TELL = RecordEvent(
    ObjectReference("Pod", "p", "ns", "u"), "Scheduled", "Binding", "note", "stowage"
)


def there_and_back(*events: Event) -> list[Event]:
    writer, lines = Writer(), bytearray()
    for number, event in enumerate(events):
        writer.write(lines, event, number + 0.1, ())
    return [record.event for record in Reader().records(iter(bytes(lines).splitlines()))]


def full_pod() -> PodInfo:
    volume = Volume("data", PersistentVolumeClaimVolumeSource("claim"))
    resized = ContainerStatus("main", allocated_resources={"cpu": "2"})
    pod = make_pod("p", node_name="n", volumes=(volume,), requests={"cpu": "1"}, gates=("g",))
    return pod_info(replace(pod, status=replace(pod.status, container_statuses=(resized,))))


EVENTS: list[Event] = [
    ObjectSet(
        "pods",
        make_pod_info("p", labels={"a": "b"}, nominated_node_name="n", expected_duration="1h"),
    ),
    ObjectSet("pods", full_pod()),
    ObjectSet("nodes", make_node("n", zone="z", taints=(Taint("k", "v", "NoSchedule"),))),
    ObjectSet("widgets", {"metadata": {"name": "w"}, "spec": {"size": [1, None, "x"]}}),
    ObjectSet(
        "persistentvolumeclaims",
        PersistentVolumeClaim(ObjectMeta("c", "ns", "u"), "fast", request=Decimal("1.5")),
    ),
    ObjectSet(
        "persistentvolumes",
        PersistentVolume(
            ObjectMeta("v"),
            claim=ClaimReference("c", "ns"),
            affinity=NodeSelector((NodeSelectorTerm(),)),
            capacity=Decimal(5),
            csi=CSISource("d", "h"),
            in_tree=MigratableSources(),
        ),
    ),
    ObjectSet(
        "csinodes", CSINode(AnnotatedMeta("n", annotations={MIGRATED_PLUGINS: "kubernetes.io/x"}))
    ),
    ObjectSet("services", Service(ObjectMeta("s", "ns"), ServiceSpec({"a": "b"}))),
    ObjectGone("pods", "ns", "p", "u"),
    PodRead(3, make_pod_info("p", node_name="n")),
    PodRead(3, make_pod_info("p", node_name="n", start_time="2026-01-01T00:00:01Z")),
    PodRead(3, None),
    ObjectRead(
        "persistentvolumes", PersistentVolume(ObjectMeta("v"), claim=ClaimReference("c", "ns"))
    ),
    Decide(),
    Decide(64),
    Tick(),
    Bound(1),
    BindFailed(1, "why", is_certain=False),
    Answered(1, Filtered(("n",), {"m": "full"}, {"o": "old"})),
    Answered(2, Prioritized((("n", 7), ("m", -1)))),
    Answered(3, Preempted({"n": MetaVictims(("u",), 1)})),
    Answered(4, NoAnswer("why", is_late=True, is_certain=False)),
    PreBound(1, "why"),
    ReadFailed(1),
    Allowed("u", "P"),
    Rejected("u", "P", "m"),
    Activate(("u", "v")),
    PluginEvent(TELL),
    SetBack("why"),
    SlowDecision("u", 1.5),
    Configure({"profiles": [{"schedulerName": "a"}]}),
]


@pytest.mark.parametrize("event", EVENTS, ids=range(len(EVENTS)))
def test_an_event_is_read_as_it_was_written(event: Event) -> None:
    """Equal to the last field; pods share what they shared."""
    assert there_and_back(event) == [event]


def test_a_step_that_was_recorded_without_a_limit_is_about_one_pod() -> None:
    """As it was before there were batches."""
    lines = bytearray()
    Writer().write(lines, Decide(64), 0.1, ())
    [line] = bytes(lines).splitlines()
    older = line.replace(b',"limit":64', b"")

    [record] = Reader().records(iter([older]))

    assert older != line
    assert record.event == Decide(1)


SOURCES = {
    "persistentVolumeClaim": {"claimName": "c", "readOnly": True},
    "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {}}}},
    "gcePersistentDisk": {"pdName": "d", "readOnly": True},
    "awsElasticBlockStore": {"volumeID": "v"},
    "iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0},
    "rbd": {"monitors": ["m"], "pool": "p", "image": "i"},
    "cinder": {"volumeID": "v"},
    "portworxVolume": {"volumeID": "v"},
    "azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Managed"},
    "azureFile": {"secretName": "s", "shareName": "f"},
    "vsphereVolume": {"volumePath": "p"},
    "csi": {"driver": "d", "volumeAttributes": {"a": "b"}},
    "image": {"reference": "r"},
    "emptyDir": {},
}
"""As an API server has them; those that no scheduling reads among them."""


@pytest.mark.parametrize("sources", [*((name,) for name in SOURCES), tuple(SOURCES)], ids=",".join)
def test_a_pods_volumes_are_read_as_they_were_written(sources: tuple[str, ...]) -> None:
    """Whatever of them pods of one workload do not share."""
    volumes = [{"name": f"v{number}", name: SOURCES[name]} for number, name in enumerate(sources)]
    wire = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [{"name": "c"}], "volumes": volumes},
    }
    pod = PODS.decode(msgspec.json.encode(wire))

    [event] = there_and_back(ObjectSet("pods", pod))

    assert event == ObjectSet("pods", pod)
    assert len(pod.pod.volumes) == len(set(sources) - {"image", "emptyDir"})


def claiming(pod: str, claim: str) -> PodInfo:
    wire = {
        "metadata": {"name": pod, "namespace": "ns", "uid": pod},
        "spec": {
            "containers": [{"name": "c"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
        },
    }
    return PODS.decode(msgspec.json.encode(wire))


def test_pods_of_one_kind_have_claims_of_their_own() -> None:
    """The specification, which they share, names none."""
    pods = [claiming("p", "one"), claiming("q", "two")]

    read = there_and_back(*(ObjectSet("pods", pod) for pod in pods))

    assert read == [ObjectSet("pods", pod) for pod in pods]
    assert pods[0].kind is pods[1].kind


def test_claims_that_a_recording_has_in_the_specification_are_those_of_its_pods() -> None:
    """As versions wrote it for which pods with different claims were of different kinds."""
    writer, written = Writer(), bytearray()
    pods = [claiming("p", "one"), claiming("q", "one")]
    for pod in pods:
        writer.write(written, ObjectSet("pods", pod), 0.1, ())
    spec, *lines = map(msgspec.json.decode, bytes(written).splitlines())
    spec[2]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "one"}]
    older = [spec, *(line[:-1] for line in lines)]
    assert [line[-1] for line in lines] == [spec[2]["resourceClaims"]] * 2

    records = list(Reader().records(iter(map(msgspec.json.encode, older))))

    assert [record.event for record in records] == [ObjectSet("pods", pod) for pod in pods]


META = {"name": "o", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}}
SELECTOR = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}],
}
AFFINITY = {
    "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]}
}
AS_THEY_COME: dict[str, dict[str, Any]] = {
    "pods": {
        "spec": {"containers": [{"name": "c"}], "nodeName": "n"},
        "status": {"phase": "Running"},
    },
    "nodes": {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    "namespaces": {},
    "services": {"spec": {"selector": {"a": "b"}}},
    "replicationcontrollers": {"spec": {"selector": {"a": "b"}}},
    "replicasets": {"spec": {"selector": SELECTOR}},
    "statefulsets": {"spec": {"selector": SELECTOR}},
    "persistentvolumeclaims": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1500m"}},
            "selector": SELECTOR,
            "storageClassName": "fast",
            "volumeMode": "Block",
        },
        "status": {"phase": "Lost"},
    },
    "persistentvolumes": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
            "claimRef": {"name": "c", "namespace": "ns", "uid": "u"},
            "csi": {"driver": "d", "volumeHandle": "h"},
            "nodeAffinity": AFFINITY,
            "gcePersistentDisk": {"pdName": "d"},
        },
        "status": {"phase": "Available"},
    },
    "storageclasses": {
        "provisioner": "p",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}],
    },
    "csinodes": {"spec": {"drivers": [{"name": "d", "nodeID": "i", "allocatable": {"count": 3}}]}},
    "csidrivers": {"spec": {"storageCapacity": True}},
    "csistoragecapacities": {
        "storageClassName": "fast",
        "nodeTopology": SELECTOR,
        "capacity": "10Gi",
        "maximumVolumeSize": "1Gi",
    },
    "volumeattachments": {
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    "poddisruptionbudgets": {
        "spec": {"selector": SELECTOR, "minAvailable": 1},
        "status": {"disruptionsAllowed": 2, "disruptedPods": {"p": "2026-01-31T00:00:00Z"}},
    },
    "podgroups": {
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 4}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "priority": 5,
        },
        "status": {"conditions": [{"type": "PodGroupScheduled", "status": "True"}]},
    },
    "resourceclaims": WHOLE["resourceclaims"],
    "deviceclasses": WHOLE["deviceclasses"],
    "resourceslices": WHOLE["resourceslices"],
}


@pytest.mark.parametrize("kind", [*KINDS, POD_GROUPS], ids=lambda kind: kind.name)
def test_what_the_api_server_sends_is_read_as_it_was_written(kind: Kind[Any]) -> None:
    """Every kind that is watched, with every field that is read."""
    found = kind.decode(msgspec.json.encode({"metadata": META, **AS_THEY_COME[kind.name]}))

    assert there_and_back(ObjectSet(kind.name, found)) == [ObjectSet(kind.name, found)]


def test_pods_of_one_specification_share_it_in_the_file_too() -> None:
    """It is written once, however many there are; also when there are too many to remember."""
    pods = [make_pod_info(f"p{number}", node_selector={"a": "b"}) for number in range(3)]
    writer, lines = Writer(), bytearray()
    for pod in pods:
        writer.write(lines, ObjectSet("pods", pod), 0.0, ())
    many: list[Event] = [
        ObjectSet("pods", make_pod_info("p", node_selector={"a": f"b{number % (MAX_SHAPES + 2)}"}))
        for number in range(MAX_SHAPES + 5)
    ]

    assert lines.count(b"nodeSelector") == 1
    assert there_and_back(*many) == many


def test_only_what_scheduling_reads_is_written() -> None:
    """No data of Secrets, no annotations; but another annotation is another node."""
    node = make_node("n")
    first, second = (
        replace(node, metadata=replace(node.metadata, annotations={"k": value}))
        for value in ("hidden1", "hidden2")
    )
    meta = {"name": "s", "annotations": {"k": "hidden"}, "managedFields": ["hidden"]}
    claim_meta = {"k": "hidden", ANNOTATION: "true"}
    claim = ResourceClaim(FinalizedMeta("c", "ns", annotations=claim_meta))
    csi_meta = {"k": "hidden", MIGRATED_PLUGINS: "kubernetes.io/x"}
    events: list[Event] = [
        ObjectSet("nodes", first),
        ObjectSet("nodes", second),
        ObjectSet("resourceclaims", claim),
        ObjectRead("resourceclaims", claim),
        ObjectSet("csinodes", CSINode(AnnotatedMeta("n", annotations=csi_meta))),
        ObjectSet("secrets", {"metadata": meta, "data": {"k": "hidden"}}),
        ObjectSet("widgets", {"metadata": meta, "spec": 1}),
    ]
    lines = bytearray()
    for event in events:
        Writer().write(lines, event, 0.0, ())

    one, two, claimed, claim_read, csi, secret, widget = there_and_back(*events)

    assert b"hidden" not in lines
    assert isinstance(one, ObjectSet)
    assert isinstance(two, ObjectSet)
    assert one.object.metadata.annotations != two.object.metadata.annotations
    assert isinstance(claimed, ObjectSet)
    assert is_of_extended_resources(claimed.object)
    assert isinstance(claim_read, ObjectRead)
    assert claim_read.object == claimed.object
    assert isinstance(csi, ObjectSet)
    assert csi.object.migration == "kubernetes.io/x"
    assert secret == ObjectSet("secrets", {"metadata": {"name": "s"}})
    assert widget == ObjectSet("widgets", {"metadata": {"name": "s"}, "spec": 1})


def test_answers_carry_no_traces() -> None:
    """They name files of one machine."""
    asked = Ask(1, 2, 0, Verb.FILTER, 3)
    answers: list[Instruction] = [
        Bind(1, "ns", "p", "u", "n"),
        asked,
        LogError("m", "p", "why", "/a.py"),
    ]

    assert msgspec.json.decode(encode_answer(answers), type=list[Instruction]) == [
        Bind(1, "ns", "p", "u", "n"),
        asked,
        LogError("m", "p", "why"),
    ]


# --- files ----------------------------------------------------------------------------------------


def record(directory: Path, count: int, **bounds: int) -> list[tuple[str, int]]:
    """Write so many events, a second apart; gives why it ended."""
    ended: list[tuple[str, int]] = []
    recorder = DirectoryRecorder(
        directory, HEADER, lambda why, written: ended.append((why, written)), **bounds
    )
    for number in range(count):
        time = 100.0 + number
        recorder.note(ObjectSet("pods", make_pod_info(f"p{number}")), time, [SetTimer(time)])
        recorder.note(Tick(), time, [])
        recorder._blocks.settle()
    recorder.close()
    return ended


def test_files_rotate_and_are_one_recording(tmp_path: Path) -> None:
    """In whatever order they are named."""
    ended = record(tmp_path, 50, file_bytes=1000)
    paths = sorted(tmp_path.iterdir(), reverse=True)

    records = list(Recording(paths))

    assert len(paths) > 3
    assert ended == []
    assert [r.event.object.name for r in records if isinstance(r.event, ObjectSet)] == [
        f"p{number}" for number in range(50)
    ]
    assert records[0].answer == b'[{"type":"SetTimer","time":100.0}]'


def test_lines_go_to_the_disk_each_second(tmp_path: Path) -> None:
    """Not at every tick: a block costs more than its lines."""
    flushed: list[float] = []

    class Watched(DirectoryRecorder):
        def _flush(self) -> None:
            flushed.append(time)
            super()._flush()

    recorder = Watched(tmp_path, HEADER, lambda *_: None)
    for quarter in range(1, 10):
        time = HEADER.clock + quarter / 4
        recorder.note(Tick(), time, [])
    in_time = list(flushed)
    recorder.close()

    assert [at - HEADER.clock for at in in_time] == [1.0, 2.0]


@pytest.mark.parametrize("size", [0, len(MAGIC), len(MAGIC) + 9])
def test_a_part_that_was_begun_later_is_not_read(tmp_path: Path, size: int) -> None:
    """Of a recording that grows only what was there counts."""
    record(tmp_path, 50, file_bytes=1000)
    first, second, *_ = sorted(tmp_path.iterdir())
    recording = Recording([second, first], [size, first.stat().st_size])
    read: list[Record] = []

    with pytest.raises(CutShortError):
        read.extend(recording)

    assert read == list(Recording([first]))


def test_a_recording_is_bounded(tmp_path: Path) -> None:
    """It ends, and says so; what there is can be read."""
    [(why, written)] = record(tmp_path, 500, total_bytes=5000)

    assert why
    assert written == sum(path.stat().st_size for path in tmp_path.iterdir()) < 10_000
    assert 0 < len(list(Recording(list(tmp_path.iterdir())))) < 1000


def test_a_disk_that_takes_no_more_ends_the_recording_only(tmp_path: Path) -> None:
    """The engine goes on."""
    directory = tmp_path / "gone"

    ended = record(directory, 20)

    assert [why for why, _ in ended] == ["No such file or directory"]


def test_a_disk_that_has_room_again_gets_nothing_after_a_gap(tmp_path: Path) -> None:
    """What waited to be written when a block was lost is not: it could not be replayed."""
    has_more = threading.Event()

    class FullOnce(PosixPath):
        opened: ClassVar[list[str]] = []

        def open(self, *arguments: Any, **named: Any) -> Any:
            self.opened.append(self.name)
            if len(self.opened) == 2:
                assert has_more.wait(60)
                raise OSError(28, "No space left on device")
            return super().open(*arguments, **named)

    ended: list[str] = []
    recorder = DirectoryRecorder(FullOnce(tmp_path), HEADER, lambda why, _: ended.append(why))
    for second in (1, 2, 3):
        recorder.note(Tick(), HEADER.clock + second, [])
    has_more.set()
    recorder.close()

    assert ended == ["No space left on device"]
    assert list(Recording(list(tmp_path.iterdir()))) == []


def test_a_disk_that_hangs_ends_the_recording_and_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so at once, and what the disk had taken can be replayed once it goes on."""
    monkeypatch.setattr("scheduler.daemon.recording.directory.WAIT_SECONDS", 0.01)
    goes_on = threading.Event()

    class Hanging(PosixPath):
        opened: ClassVar[list[str]] = []

        def open(self, *arguments: Any, **named: Any) -> Any:
            self.opened.append(self.name)
            if len(self.opened) == 3 and not goes_on.wait(60):
                raise OSError(5, "waited for")
            return super().open(*arguments, **named)

    ended: list[str] = []
    recorder = DirectoryRecorder(Hanging(tmp_path), HEADER, lambda why, _: ended.append(why))
    for second in range(1, 200):
        recorder.note(Tick(), HEADER.clock + second, [])
    recorder.close()

    assert ended == ["the disk is too slow: 64 blocks wait"]
    goes_on.set()
    recorder._blocks.settle()
    times = [record.time - HEADER.clock for record in Recording(list(tmp_path.iterdir()))]
    assert times == list(range(1, len(times) + 1))
    assert 64 <= len(times) < 70


def test_a_disk_that_hangs_at_the_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends, and says that not everything is written."""
    monkeypatch.setattr("scheduler.daemon.recording.directory.CLOSE_SECONDS", 0.01)
    goes_on = threading.Event()

    class Hanging(PosixPath):
        def open(self, *arguments: Any, **named: Any) -> Any:
            if not goes_on.wait(60):
                raise OSError(5, "waited for")
            return super().open(*arguments, **named)

    ended: list[str] = []
    recorder = DirectoryRecorder(Hanging(tmp_path), HEADER, lambda why, _: ended.append(why))
    recorder.close()

    assert ended == ["the disk does not answer"]
    goes_on.set()
    recorder._blocks.settle()


def test_an_event_that_cannot_be_encoded_spoils_no_other(tmp_path: Path) -> None:
    """The driver records no more then; what was recorded before is readable."""
    recorder = DirectoryRecorder(tmp_path, HEADER, lambda *_: None)
    recorder.note(Bound(1), 100.0, [])
    with pytest.raises(UnicodeEncodeError):
        recorder.note(BindFailed(2, "\ud800"), 101.0, [])
    recorder.close()

    [recording] = recordings_in(tmp_path)
    assert [record.event for record in recording] == [Bound(1)]


def test_an_event_that_no_reader_would_take_ends_the_recording(tmp_path: Path) -> None:
    """What follows it could not be read either."""
    ended: list[str] = []
    recorder = DirectoryRecorder(tmp_path, HEADER, lambda why, _: ended.append(why))
    recorder.note(Tick(), HEADER.clock + 1, [])
    huge = LogError("m", "p", "x" * MAX_LINES)
    recorder.note(Tick(), HEADER.clock + 2, [huge])
    recorder.close()

    assert ended == [f"an event is longer than {MAX_LINES} bytes"]
    assert len(list(Recording(list(tmp_path.iterdir())))) == 1


def test_a_dump_of_any_length_is_blocks_that_a_reader_takes(tmp_path: Path) -> None:
    """Of the last minutes there may be more than a block holds."""
    lines, writer = bytearray(), Writer()
    huge = LogError("m", "p", "x" * (MAX_LINES // 3))
    for second in range(8):
        writer.write(lines, Tick(), float(second), [huge] if second % 2 else [])
    path = tmp_path / "x.recording"
    path.write_bytes(whole_file(HEADER, lines))

    assert len(lines) > MAX_LINES
    assert [record.time for record in Recording([path])] == [float(n) for n in range(8)]


def test_a_disk_that_is_full_is_left_with_whole_blocks(tmp_path: Path) -> None:
    """What was written before can be read to its end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        [(why, written)] = record(tmp_path, 500)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    [path] = tmp_path.iterdir()

    records = list(Recording([path]))

    assert why == "File too large"
    assert 2000 < written == path.stat().st_size <= 3000
    assert 0 < len(records) < 1000


def test_a_directory_may_hold_several_recordings(tmp_path: Path) -> None:
    """Those that began first come first.

    What a crash left is one by itself, except beside the whole one; nothing is none.
    """
    for recording, part, started in (("b", 1, 2e9), ("a", 1, 1e9), ("a", 2, 1e9)):
        header = replace(HEADER, recording=recording, part=part, started=started)
        (tmp_path / part_name(header)).write_bytes(whole_file(header, bytearray()))
    for recording in ("a", "d"):
        crashed = replace(HEADER, recording=recording, started=1e9 + 1, is_complete=False)
        file = tmp_path / f"crash-{recording}.recording"
        file.write_bytes(whole_file(crashed, bytearray()))
    (tmp_path / "c-0001.recording").touch()
    (tmp_path / "notes.txt").touch()

    left_out: list[LeftOut] = []

    found = recordings_in(tmp_path, left_out.append)

    assert left_out == [LeftOut(tmp_path / "crash-a.recording")]
    assert [[path.name for path in each.paths] for each in found] == [
        ["a-0001.recording", "a-0002.recording"],
        ["crash-d.recording"],
        ["b-0001.recording"],
    ]


def _of_format_2(data: bytes) -> bytes:
    header = Writer.header(replace(HEADER, recording="a", format=2))
    return data[: len(MAGIC)] + block(header)


def _of_a_later_format(data: bytes) -> bytes:
    """Its header has other fields."""
    return data[: len(MAGIC)] + block(b'{"format":9,"version":"7.0","recording":["a"]}\n')


def _flip_first(data: bytes) -> bytes:
    at = len(MAGIC) + 20
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("part", "damage", "told"),
    [
        (1, _of_format_2, "a-0001.recording: expected format 4, found 2"),
        (1, _of_a_later_format, "expected format 4, found 9; replay it with Stowage 7.0"),
        (1, _flip_first, "a-0001.recording: it is damaged before byte"),
        (2, _flip_first, "a-0002.recording: it is damaged before byte"),
        (2, lambda _: b"not ours at all", "a-0002.recording: it is no recording"),
        (1, None, "a-0002.recording: expected part 1, found part 2"),
    ],
)
def test_a_recording_that_cannot_be_read_hides_no_other(
    tmp_path: Path, part: int, damage: Callable[[bytes], bytes] | None, told: str
) -> None:
    """It is left out as a whole, with the reason; the last minutes of its process are read."""
    for recording in ("a", "b"):
        for number in (1, 2):
            header = replace(HEADER, recording=recording, part=number)
            (tmp_path / part_name(header)).write_bytes(whole_file(header, bytearray()))
    crash = replace(HEADER, recording="a", started=2e9, is_complete=False)
    (tmp_path / "crash-a.recording").write_bytes(whole_file(crash, bytearray()))
    path = tmp_path / f"a-000{part}.recording"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    left_out: list[LeftOut] = []

    found = recordings_in(tmp_path, left_out.append)

    assert [[path.name for path in each.paths] for each in found] == [
        ["b-0001.recording", "b-0002.recording"],
        ["crash-a.recording"],
    ]
    assert [told in str(each.problem) for each in left_out] == [True]
    for file in (*tmp_path.glob("b-*"), *tmp_path.glob("crash-*")):
        file.unlink()
    with pytest.raises(RecordingError, match=told):
        recordings_in(tmp_path)


def test_a_link_to_nothing_hides_no_other(tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / part_name(HEADER)).write_bytes(whole_file(HEADER, bytearray()))
    link = tmp_path / "link.recording"
    link.symlink_to(tmp_path / "nothing")
    left_out: list[LeftOut] = []

    [found] = recordings_in(tmp_path, left_out.append)

    assert found.paths == [tmp_path / part_name(HEADER)]
    assert [str(each.problem) for each in left_out] == [f"{link}: No such file or directory"]


def test_a_directory_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for an empty one."""

    def refuse(_path: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refuse)

    with pytest.raises(RecordingError, match="^" + re.escape(f"{tmp_path}: Permission denied")):
        recordings_in(tmp_path)


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(1, id="in the first line"),
        pytest.param(len(MAGIC), id="before the header"),
        pytest.param(len(MAGIC) + 1, id="in the length of the header"),
        pytest.param(len(MAGIC) + 9, id="in the header"),
    ],
)
def test_a_part_that_was_cut_short_at_its_start_hides_no_other(tmp_path: Path, size: int) -> None:
    """It is the end of its recording; without other parts it is no recording."""
    for recording, started in (("a", 1e9), ("b", 2e9)):
        for part in (1, 2):
            header = replace(HEADER, recording=recording, part=part, started=started)
            (tmp_path / part_name(header)).write_bytes(whole_file(header, bytearray(b"x\n")))
    for name in ("a-0003", "c-0001"):
        whole = (tmp_path / "a-0001.recording").read_bytes()
        (tmp_path / f"{name}.recording").write_bytes(whole[:size])

    first, second = recordings_in(tmp_path)

    assert [path.name for path in first.paths] == [f"a-000{n}.recording" for n in (1, 2, 3)]
    assert [path.name for path in second.paths] == [f"b-000{n}.recording" for n in (1, 2)]


@pytest.mark.parametrize("size", [0, 1, len(MAGIC) + 9])
def test_what_precedes_a_part_that_was_cut_short_at_its_start_is_read(
    tmp_path: Path, size: int
) -> None:
    """As what precedes a block that was cut short."""
    record(tmp_path, 3)
    [path] = tmp_path.iterdir()
    cut = tmp_path / part_name(replace(HEADER, part=2))
    cut.write_bytes(path.read_bytes()[:size])
    read: list[Record] = []

    with pytest.raises(CutShortError, match=f"{cut.name}: .*middle of a block"):
        read.extend(Recording([cut, path]))
    with pytest.raises(RecordingError, match=f"{cut.name}: .*middle of a block"):
        Recording([cut])

    assert read == list(Recording([path]))


def _lengthen(data: bytes) -> bytes:
    """Make the first block longer than any."""
    start = len(MAGIC)
    return data[:start] + b"\xff" * 4 + data[start + 4 :]


def _flip(data: bytes) -> bytes:
    middle = len(data) * 3 // 4
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda data: data[:-1], "ends in the middle of a block", id="cut"),
        pytest.param(lambda data: data + bytes(4096), "ends in the middle", id="zeros at the end"),
        pytest.param(lambda data: bytes(len(data)), "ends in the middle", id="zeros"),
        pytest.param(lambda data: data[:-1000], "ends in the middle", id="cut short"),
        pytest.param(_flip, "damaged", id="a bit"),
        pytest.param(_lengthen, "damaged before byte", id="a length"),
        pytest.param(lambda _: b"hello", "no recording", id="something else"),
        pytest.param(lambda _: b"", "middle of a block", id="empty"),
    ],
)
def test_a_damaged_file_is_one_clear_message(tmp_path: Path, damage: Any, message: str) -> None:
    """It names the file."""
    lines, writer = bytearray(), Writer()
    for number in range(200):
        writer.write(lines, ObjectSet("pods", make_pod_info(f"p{number * 7919}")), 1.0, ())
    path = tmp_path / "x.recording"
    path.write_bytes(damage(whole_file(HEADER, lines)))

    with pytest.raises(RecordingError, match=f"x.recording: .*{message}"):
        list(Recording([path]))


def test_a_recording_may_end_or_turn_to_zeros_at_any_byte(tmp_path: Path) -> None:
    """As after a kill, and after a power loss: what is whole before is read."""
    record(tmp_path, 2)
    [path] = tmp_path.iterdir()
    data, records = path.read_bytes(), list(Recording([path]))
    begin = len(MAGIC) + len(block(Writer.header(HEADER)))

    for size in range(len(data)):
        for rest in (b"", bytes(len(data) - size)):
            path.write_bytes(data[:size] + rest)
            read: list[Record] = []
            told, kind = "", RecordingError
            try:
                read.extend(Recording([path]))
            except RecordingError as problem:
                told, kind = str(problem), type(problem)
            assert told in ("", f"{path}: it is damaged: it ends in the middle of a block")
            assert kind is CutShortError or size < begin or not told
            assert read == records[: len(read)]


def test_zeros_before_other_bytes_are_a_damage(tmp_path: Path) -> None:
    """What follows them was recorded later: the state before them is not the last one."""
    record(tmp_path, 3)
    [path] = tmp_path.iterdir()
    data = path.read_bytes()
    start = len(MAGIC) + len(block(Writer.header(HEADER)))
    for size in (8, 20):
        path.write_bytes(data[:start] + bytes(size) + data[start + size :])

        with pytest.raises(RecordingError, match="it is damaged before byte") as damage:
            list(Recording([path]))
        assert not isinstance(damage.value, CutShortError)


def test_what_was_answered_alike_before_a_damage_is_counted() -> None:
    """Nothing, where the first event cannot be read."""
    nobody: Any = None

    def damaged() -> Iterator[Record]:
        raise RecordingError("damaged")
        yield

    assert replay([], nobody) == Replayed(0)
    with pytest.raises(RecordingError, match=r"^damaged; 0 events before: identical$"):
        replay(damaged(), nobody)


def test_parts_must_belong_together(tmp_path: Path) -> None:
    """None may be missing, and none be another's."""
    paths = []
    for recording, part in (("r", 1), ("r", 3), ("other", 2)):
        header = replace(HEADER, recording=recording, part=part)
        paths.append(tmp_path / f"{recording}{part}")
        paths[-1].write_bytes(whole_file(header, bytearray()))

    with pytest.raises(RecordingError, match="expected part 2, found part 3"):
        Recording(paths[:2])
    with pytest.raises(RecordingError, match="another recording"):
        Recording([paths[0], paths[2]])
    with pytest.raises(RecordingError, match="expected part 1"):
        Recording(paths[1:2])


# --- in memory ------------------------------------------------------------------------------------


def kept(flight: FlightRecorder, tmp_path: Path) -> tuple[bool, list[Event]]:
    path = tmp_path / "flight.recording"
    path.write_bytes(flight.copy().dump())
    recording = Recording([path])
    return recording.header.is_complete, [record.event for record in recording]


def test_what_is_older_remains_as_objects(tmp_path: Path) -> None:
    """As they were when the oldest event that is kept came."""
    flight = FlightRecorder(HEADER, kept_seconds=10.0)
    old, new = (make_pod_info("p", labels={"v": version}) for version in ("1", "2"))
    gone = make_pod_info("gone")
    flight.note(ObjectSet("pods", old), 100.0, [])
    flight.note(ObjectSet("pods", gone), 101.0, [])
    flight.note(ObjectGone("pods", gone.namespace, gone.name, gone.uid), 102.0, [])
    assert kept(flight, tmp_path)[0]
    flight.note(ObjectSet("pods", new), 111.0, [])
    flight.note(Tick(), 113.0, [])

    is_complete, events = kept(flight, tmp_path)

    assert not is_complete
    assert events == [ObjectSet("pods", old), ObjectSet("pods", new), Tick()]


def test_the_configuration_that_was_in_force_remains(tmp_path: Path) -> None:
    """Of those that were taken over and forgotten, the newest; none that was refused."""
    flight = FlightRecorder(HEADER, kept_seconds=10.0)
    flight.note(Configure({"number": 1}), 100.0, [Configured()])
    flight.note(Configure({"number": 2}), 101.0, [Configured("broken")])
    flight.note(Tick(), 112.0, [])

    assert kept(flight, tmp_path) == (False, [Tick()])
    path = tmp_path / "flight.recording"
    assert Recording([path]).header.configuration == {"number": 1}


def test_memory_is_bounded_in_bytes(tmp_path: Path) -> None:
    """Whatever happens within the time that is kept."""
    flight = FlightRecorder(HEADER, kept_bytes=100_000)
    for number in range(10_000):
        flight.note(Bound(number), 100.0, [TELL])
    flight.note(Bound(1), 100.0, [TELL] * 1000)

    assert kept(flight, tmp_path) == (False, [])
