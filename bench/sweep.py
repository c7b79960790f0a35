"""Measure the overhead of the process pool in a sweep.

    python -m bench.sweep                                     # 100,000 events, 200 configurations
    python -m bench.sweep --events 20000 --configurations 40  # small: two minutes

A generated recording has pods that are created, placed and deleted; a grid gives its
configurations. All runs are executed in this process, with all data loaded, and then on a pool.
Wall time shows the efficiency on a quiet machine: the time in one process, divided by the time on
the pool times its number of processes. CPU time shows the overhead of the pool, independent of
other load. Both tables must be identical.
"""

import argparse
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Final

import msgspec

from bench import objects
from bench.decisions.timing import HEADER
from bench.workload import chosen, load_workloads
from e2e.support.objects import Json
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.config.write import to_object
from scheduler.daemon.informers.kinds import KINDS
from scheduler.daemon.recording.directory import DirectoryRecorder
from scheduler.kernel.engine.events import Bound, Decide, Event, ObjectGone, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Bind, Instruction
from scheduler.tools.cli.progress import shown_progress
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.sweep.candidates import from_grid
from scheduler.tools.sweep.directory import SweepDirectory
from scheduler.tools.sweep.executors import Workers, carry_out_all, processes
from scheduler.tools.sweep.run import Task, TaskResult, carry_out, recordings_at

LEAST: Final = 0.9
"""Required efficiency with two processes."""
_NODES: Final = 500
_TURN: Final = 100
"""Pods created per second."""
_LIVES: Final = 20
"""Seconds that a pod runs."""
_EVENTS_OF_POD: Final = 5
_KINDS: Final = {kind.list_kind.removesuffix("List"): kind for kind in KINDS}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status says whether efficiency and tables are as required."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--configurations", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=_NODES)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        events = record(directory / "recording", options.nodes, options.events)
        tasks = tasks_of(directory, options.configurations)
        print(f"{events} events, {len(tasks)} configurations, {options.nodes} nodes", flush=True)
        carry_out(tasks[0])
        alone = _measured(directory / "alone", tasks, _here)
        pool = processes(min(options.jobs, len(tasks)))
        shared = _measured(directory / "pool", tasks, _on(pool))
    is_same = alone.table == shared.table
    efficiency = alone.wall / shared.wall / options.jobs
    for told, each in (("one process", alone), (f"pool of {options.jobs}", shared)):
        print(
            f"{told}: {each.wall:.1f} s, {each.cpu:.1f} s of processor time, "
            f"{each.cpu / len(tasks):.2f} s a run"
        )
    print(
        f"efficiency: {efficiency:.2f} by wall, {alone.cpu / shared.cpu:.2f} by processor time "
        f"(target: at least {LEAST}); tables {'equal' if is_same else 'DIFFER'}"
    )
    return 0 if is_same and efficiency >= LEAST else 1


def record(directory: Path, nodes: int, count: int) -> int:
    """Write a recording of at least this many events; return their number."""
    directory.mkdir()
    [workload] = chosen(load_workloads(), ("plain",))
    config = default_configuration(objects.SCHEDULER_NAME)
    engine = Profiles(config).engine(0)
    header = msgspec.structs.replace(HEADER, configuration=to_object(config), seed=0)
    log = DirectoryRecorder(directory, header, lambda why, _: print(why, file=sys.stderr))
    now, told = 0.0, 0

    def handle(event: Event) -> Sequence[Instruction]:
        nonlocal told
        told += 1
        instructions = engine.handle(event, now)
        log.note(event, now, instructions)
        return instructions

    bodies = objects.nodes_of(workload.nodes, nodes)
    for body in bodies:
        handle(_set(body))
    names = [body["metadata"]["name"] for body in bodies]
    factory = objects.PodFactory(workload.pods, names, "pod")
    # Pods arrive in batches of one second, so that several equal pods wait at once.
    coming = (_set(msgspec.json.decode(factory.waiting(each))) for each in range(count))
    running: deque[list[PodInfo]] = deque()
    while told < count:
        now += 1.0
        handle(Tick())
        if len(running) == _LIVES:
            for pod in running.popleft():
                handle(ObjectGone("pods", pod.namespace, pod.name, pod.uid))
        running.append(_placed(list(islice(coming, _TURN)), handle))
    log.close()
    return told


def _placed(
    coming: Sequence[ObjectSet], handle: Callable[[Event], Sequence[Instruction]]
) -> list[PodInfo]:
    """Create and schedule pods one after another; return the bound ones."""
    bound: list[PodInfo] = []
    for each in coming:
        handle(each)
        for bind in handle(Decide(1)):
            if isinstance(bind, Bind):
                handle(Bound(bind.attempt))
                bound.append(each.object.on_node(bind.node))
                handle(ObjectSet("pods", bound[-1]))
    return bound


def _set(body: Json) -> ObjectSet:
    """Build the event of an object, decoded from JSON as an informer decodes it."""
    kind, metadata = _KINDS[body["kind"]], body["metadata"]
    uid = f"{metadata.get('namespace', '')}/{metadata['name']}"
    stored = msgspec.json.encode({**body, "metadata": {**metadata, "uid": uid}})
    return ObjectSet(kind.name, kind.decode(stored))


def tasks_of(directory: Path, count: int) -> list[Task]:
    """Return the runs of a grid with this many configurations, over the directory's recording."""
    [recording] = recordings_at(directory / "recording")
    grid = directory / "grid.json"
    points = {"weights": {"NodeResourcesFit": list(range(1, 1 + count))}}
    grid.write_bytes(msgspec.json.encode(points))
    paths = tuple(map(str, recording.paths))
    sizes = tuple(recording.sizes.values())
    return [
        Task(candidate, paths, recording.header.recording, sizes)
        for candidate in from_grid(grid, [recording.header.configuration])
    ]


class Measured(msgspec.Struct, frozen=True):
    """Wall and CPU seconds of all runs, including child processes, and the resulting table."""

    wall: float
    cpu: float
    table: bytes


def _measured(
    directory: Path,
    tasks: Sequence[Task],
    carry_out_these: Callable[[Sequence[Task], Callable[[TaskResult], None]], None],
) -> Measured:
    """Run a sweep as `stowage sweep` does: save each result, and write the table at the end."""
    kept, results = SweepDirectory(directory), {}
    wall, cpu = perf_counter(), _cpu()
    with shown_progress(directory.name) as progress:

        def take(result: TaskResult) -> None:
            results[result.task] = kept.keep(result)
            progress(len(results) / len(tasks))

        carry_out_these(tasks, take)
    table = kept.write_table(tasks).read_bytes()
    return Measured(perf_counter() - wall, _cpu() - cpu, table)


def _here(tasks: Sequence[Task], take: Callable[[TaskResult], None]) -> None:
    for task in tasks:
        take(carry_out(task))


def _on(workers: Workers) -> Callable[[Sequence[Task], Callable[[TaskResult], None]], None]:
    return lambda tasks, take: carry_out_all(tasks, workers, take)


def _cpu() -> float:
    """Return the CPU seconds of this process and of its ended child processes."""
    return sum(
        used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    sys.exit(main())
