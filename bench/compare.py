"""``python -m bench.compare OLD NEW``: compares two commits of stowage.

Each commit runs from its own checkout below ``.cache/compare``, with the dependencies of its own
lock file. OLD runs unchanged. NEW runs with an unbounded outbox through its own ``bench.daemon``,
since OLD may have none; ``--bounded`` keeps the bound. Runs are interleaved in changing order.
Ratios are NEW to OLD, one for each pair.
"""

import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Final

import click

from bench.contestants import Contestant, stowage
from bench.machine import Machine
from bench.results import Results, Throughput, default_path
from bench.rounds import orders
from bench.states import prepared_state
from bench.throughput import Patience, measure_throughput
from bench.workload import Workload, chosen, load_workloads
from e2e.support.go_programs import CACHE, CHECKOUT, CONTROL_PLANE, build

_WORKLOADS: Final = ("plain", "spread-hard-zone")
_FIGURES: Final[dict[str, Callable[[Throughput], float]]] = {
    "binds per second": lambda run: run.binds_per_second,
    "pods per second, events in": lambda run: run.pods_per_second,
    "CPU per pod once ready, ms": lambda run: run.cpu_ms_per_pod_ready,
    "CPU per pod with start, ms": lambda run: run.cpu_ms_per_pod,
}


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--workload", "names", multiple=True, default=_WORKLOADS, show_default=True)
@click.option("--size", "size_name", default="5000", show_default=True)
@click.option("--pods", type=int, help="Maximum number of measured pods.")
@click.option("--pairs", default=5, show_default=True, help="Runs of each commit.")
@click.option("--bounded", is_flag=True, help="Run NEW with its bounded outbox.")
@click.option(
    "--outbox",
    "outboxes",
    multiple=True,
    metavar="CONCURRENCY:OWED",
    help="Run NEW with this outbox; may be repeated, each is a contestant.",
)
@click.option(
    "--distance",
    default=0.0,
    metavar="MS",
    help="Round-trip latency to the API server, for both commits.",
)
def main(
    *,
    old: str,
    new: str,
    names: tuple[str, ...],
    size_name: str,
    pods: int | None,
    pairs: int,
    bounded: bool,
    outboxes: tuple[str, ...],
    distance: float,
) -> None:
    """Compare the commits OLD and NEW."""
    build(CONTROL_PLANE)
    contestants = [_contestant("old", old, None, distance)]
    if outboxes:
        contestants += [
            _contestant(f"new {each}", new, each.split(":"), distance) for each in outboxes
        ]
    else:
        outbox = None if bounded else ("32", "0")
        contestants.append(_contestant("new", new, outbox, distance))
    results = Results(Machine.here())
    path = default_path(results.machine, "compare")
    for workload in chosen(load_workloads(), names):
        _measure(results, workload.at_most(pods), size_name, contestants, pairs)
        results.save(path)
    _report(results)
    print(f"kept in {path}")


def _measure(
    results: Results, workload: Workload, size: str, contestants: list[Contestant], pairs: int
) -> None:
    with prepared_state(workload, workload.sizes[size], with_quiet=False) as prepared:
        for number, order in enumerate(orders(contestants, pairs)):
            for contestant in order:
                run = measure_throughput(prepared, size, contestant, Patience(), number=number)
                results.throughput.append(run)
                print(
                    f"{workload.name} {number}: {contestant.name}: {run.binds_per_second:.0f} "
                    f"binds/s, {run.pods_per_second:.0f} pods/s, {run.cpu_ms_per_pod_ready:.3f} "
                    f"ms/pod, others {100 * run.foreign_share:.0f} % {run.note}",
                    file=sys.stderr,
                    flush=True,
                )


def _report(results: Results) -> None:
    for name in dict.fromkeys(run.workload for run in results.throughput):
        runs = [run for run in results.throughput if run.workload == name]
        old = [run for run in runs if run.contestant == "old"]
        for contestant in dict.fromkeys(run.contestant for run in runs if run not in old):
            new = [run for run in runs if run.contestant == contestant]
            for title, figure in _FIGURES.items():
                print(f"{name}, {title}: {_ratios(contestant, old, new, figure)}")


def _ratios(
    contestant: str,
    old: Sequence[Throughput],
    new: Sequence[Throughput],
    figure: Callable[[Throughput], float],
) -> str:
    before, after = ([figure(run) for run in runs] for runs in (old, new))
    ratios = [now / then for then, now in zip(before, after, strict=True) if then]
    if not ratios:
        return "nothing to compare with"
    return (
        f"old {median(before):.4g}, {contestant} {median(after):.4g}, ratio of medians "
        f"{median(after) / median(before):.3f}, of pairs {median(ratios):.3f} "
        f"({min(ratios):.3f}..{max(ratios):.3f})"
    )


def _contestant(
    name: str, commit: str, outbox: Sequence[str] | None, distance_ms: float
) -> Contestant:
    checkout = _checkout(commit)
    python = str(checkout / ".venv" / "bin" / "python")
    module = ["scheduler", "run"] if outbox is None else ["bench.daemon", *outbox]
    return Contestant(name, stowage([python, "-m", *module], checkout, distance_ms))


def _checkout(commit: str) -> Path:
    """Return the folder of a commit's checkout and virtual environment; create it if needed."""
    whole = _output("git", "rev-parse", f"{commit}^{{commit}}").decode().strip()
    folder = CACHE / "compare" / whole
    done = folder / ".venv" / "done"
    if not done.exists():
        with tarfile.open(fileobj=BytesIO(_output("git", "archive", whole))) as files:
            files.extractall(folder, filter="data")
        python = folder / ".venv" / "bin" / "python"
        _output(sys.executable, "-m", "venv", str(folder / ".venv"))
        install = [str(python), "-m", "pip", "install", "--quiet", "--require-hashes"]
        _output(*install, "-r", str(folder / "requirements.lock"))
        _output(str(python), "-m", "compileall", "-q", str(folder / "scheduler"))
        done.touch()
    return folder


def _output(*command: str) -> bytes:
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, check=True).stdout


if __name__ == "__main__":
    main()
