"""Saved results: one file per benchmark run."""

from pathlib import Path
from typing import Final

import msgspec

from bench.machine import Machine

FOLDER: Final = Path(__file__).parent / "results"


class ResultsError(ValueError):
    """The file is not a results file."""


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Common settings of saved records."""


class Throughput(Record, frozen=True, kw_only=True):
    """Throughput of one scheduler with the waiting pods of one workload.

    Attributes:
        nodes, running, pods: the size.
        round: which of the interleaved runs it was, from 0.
        bound: measured pods that were bound.
        refused: rejected bindings, by HTTP status.
        pods_per_second: pods with binding and event, from the first binding to the last binding or
            event; without events for walls that write none.
        pods_per_second_middle: of the 80 % in the middle.
        binds_per_second: bound, from the first bind to the last.
        first_bind_seconds: from the start of the program to its first bind.
        cpu_ms_per_pod: CPU time from the program's start until it is idle again.
        cpu_ms_per_pod_ready: the same, from readiness on.
        peak_memory_bytes: of all its processes.
        events: pods with an event with the reason Scheduled.
        server_cpu_ms_per_pod: CPU time of API server and etcd.
        loop_stall_ms: upper bound of the longest event loop stall; stowage only.
        loop_stall_work: the work that caused it.
        foreign_share: share of the machine that other processes used.
        violations: placements that violate a rule.
        note: error message.
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
    """Latency of one scheduler with pods created at a fixed rate.

    Attributes:
        half: whether the rate is half of this scheduler's throughput instead of a common one.
        offered_per_second: the rate. created, bound: pods without the warm-up. p50_ms, p99_ms,
            longest_ms: from the response to the creation to the response to the binding.
        cpu_ms_per_pod: CPU time of the scheduler.
        loop_stall_ms: upper bound of the longest event loop stall; stowage only.
        loop_stall_work: the work that caused it.
        foreign_share: share of the machine that other processes used.
        note: error message.
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
        decisions: number of timed decisions. median_us, p99_us: of Decide: snapshot update, choice
            of a node, assume, Reserve, Permit.
        rest_us: median of the pod's other events together: its arrival, what is written for its
            claims, PreBound, Bound, its confirmation.
        peak_memory_bytes: of the process, including the cluster's objects.
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
    """Cost of one pod with an expensive spec.

    Attributes:
        nodes: of the cluster.
        case: kind of spec.
        step_ms: duration of its step.
        others: later decisions about other pods, as a multiple of earlier ones; None if not
            measured.
        remark: rejection message.
    """

    nodes: int
    case: str
    step_ms: float
    others: float | None
    remark: str = ""


class Results(msgspec.Struct, rename="camel"):
    """All results of one run, and the machine."""

    machine: Machine
    throughput: list[Throughput] = []
    latency: list[Latency] = []
    decisions: list[Decision] = []
    bounds: list[Bound] = []

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load_results(path: Path) -> Results:
    """Read a file that ``save`` wrote.

    Raises:
        ResultsError: the file cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except (OSError, msgspec.DecodeError) as problem:
        raise ResultsError(f"{path}: {problem}") from problem


def default_path(machine: Machine, kind: str) -> Path:
    """Return a file name unique to the run."""
    moment = machine.started.replace(":", "").replace("-", "")[:13]
    return FOLDER / f"{kind}-{moment}-{machine.commit[:9]}.json"
