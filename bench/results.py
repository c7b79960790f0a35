"""What was measured, as it is kept: one file per run of the benchmark."""

from pathlib import Path
from typing import Final

import msgspec

from bench.machine import Machine

FOLDER: Final = Path(__file__).parent / "results"


class ResultsError(ValueError):
    """A file is not one of ours."""


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Common settings of what is kept."""


class Throughput(Record, frozen=True, kw_only=True):
    """One scheduler binding all pods of one workload that waited for it.

    Attributes:
        nodes, running, pods: the size.
        round: which of the interleaved runs it was, from 0.
        bound: measured pods that got a node.
        refused: bindings the API server refused, by HTTP status.
        pods_per_second: bound and told of, from the first bind until the last bind or event is in;
            of walls that tell nobody, bound.
        pods_per_second_middle: of the 80 % in the middle.
        binds_per_second: bound, from the first bind to the last.
        first_bind_seconds: from the start of the program to its first bind.
        cpu_ms_per_pod: everything the program used from its start until it was idle again.
        cpu_ms_per_pod_ready: the same, from the moment it was ready.
        peak_memory_bytes: of all its processes.
        events: pods with an event with the reason Scheduled.
        server_cpu_ms_per_pod: what API server and etcd used per pod meanwhile.
        loop_stall_ms: the longest stall of the event loop was at most this; stowage only.
        loop_stall_work: what it was.
        foreign_share: of the machine, used by others meanwhile.
        violations: placements that break a rule.
        note: what went wrong.
    """

    workload: str
    size: str
    contestant: str
    nodes: int
    running: int
    pods: int
    bound: int
    refused: dict[int, int]
    pods_per_second: float
    pods_per_second_middle: float
    binds_per_second: float
    first_bind_seconds: float
    cpu_ms_per_pod: float
    cpu_ms_per_pod_ready: float
    peak_memory_bytes: int
    events: int
    server_cpu_ms_per_pod: float
    foreign_share: float
    loop_stall_ms: float | None = None
    loop_stall_work: str = ""
    round: int = 0
    violations: tuple[str, ...] = ()
    note: str = ""


class Latency(Record, frozen=True, kw_only=True):
    """One scheduler binding pods that are created at a fixed rate.

    Attributes:
        half: whether the rate is half of what this scheduler can do, and not the same for all.
        offered_per_second: the rate.
        created, bound: pods that counted.
        p50_ms, p99_ms, longest_ms: from the answer to the creation to the answer to the binding.
        cpu_ms_per_pod: what the scheduler used.
        loop_stall_ms: the longest stall of the event loop was at most this; stowage only.
        loop_stall_work: what it was.
        foreign_share: of the machine, used by others meanwhile.
        note: what went wrong.
    """

    workload: str
    size: str
    contestant: str
    half: bool = False
    offered_per_second: float
    created: int
    bound: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    cpu_ms_per_pod: float
    foreign_share: float
    loop_stall_ms: float | None = None
    loop_stall_work: str = ""
    note: str = ""


class Decision(Record, frozen=True, kw_only=True):
    """Decisions of one workload's pods, without any I/O.

    Attributes:
        nodes, pods: the cluster's size before the first decision.
        decisions: how many were timed.
        median_us, p99_us: of Decide: snapshot update, choice of a node, assume, Reserve, Permit.
        rest_us: median of the pod's other events together: its arrival, Bound, its confirmation.
        peak_memory_bytes: of the process that decided, the cluster in it.
    """

    workload: str
    nodes: int
    pods: int
    decisions: int
    median_us: float
    p99_us: float
    rest_us: float = 0.0
    peak_memory_bytes: int = 0
    note: str = ""


class Bound(Record, frozen=True, kw_only=True):
    """What one pod that asks for much costs.

    Attributes:
        nodes: of the cluster.
        case: what it asks for.
        step_ms: how long its step takes.
        others: what decisions about others take afterwards, as a multiple of before; None where
            that is not measured.
        remark: what became of it, where it is rejected.
    """

    nodes: int
    case: str
    step_ms: float
    others: float | None
    remark: str = ""


class Results(msgspec.Struct, rename="camel"):
    """Everything one run measured, and where."""

    machine: Machine
    throughput: list[Throughput] = []
    latency: list[Latency] = []
    decisions: list[Decision] = []
    bounds: list[Bound] = []

    def save(self, path: Path) -> None:
        """Writes them to ``path``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load_results(path: Path) -> Results:
    """Reads what ``save`` wrote.

    Raises:
        ResultsError: the file cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except (OSError, msgspec.DecodeError) as problem:
        raise ResultsError(f"{path}: {problem}") from problem


def default_path(machine: Machine, kind: str) -> Path:
    """Gives a file name that tells runs apart."""
    moment = machine.started.replace(":", "").replace("-", "")[:13]
    return FOLDER / f"{kind}-{moment}-{machine.commit[:9]}.json"
