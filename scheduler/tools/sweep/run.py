"""One run of a sweep: replays a recording with a configuration and a what-if.

A run takes and returns plain values, so any process on any machine can execute it.
Equal tasks return equal rows.
"""

import hashlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from os.path import isdir
from pathlib import Path

import msgspec

from scheduler.api.resources import CPU, MEMORY
from scheduler.daemon.recording.comparison import ReplayPlacements, place_anew
from scheduler.daemon.recording.files import (
    LeftOut,
    Recording,
    named_recording,
    recordings_in,
)
from scheduler.daemon.recording.records import Header
from scheduler.daemon.recording.summary import PodSummary, wait_times
from scheduler.errors import SchedulerError
from scheduler.kernel.engine import Engine
from scheduler.observability.build_info import stowage_version
from scheduler.observability.visible import visible
from scheduler.tools.offline.asking import NOT_ASKED
from scheduler.tools.offline.capacity import fragmentation
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.configured import plugin_called, profiles_from_text
from scheduler.tools.offline.reading import InputError
from scheduler.tools.offline.recorded import (
    for_recorded_pods,
    recorded_engine,
    recorded_profiles,
    with_plugins,
)
from scheduler.tools.sweep.candidates import RECORDED, CandidateConfig
from scheduler.tools.sweep.what_if import AS_IT_WAS, NodeChanges

ALL_PODS = ""
"""The workload of the row about all pods of a run."""


class Task(msgspec.Struct, frozen=True):
    """The input of one run.

    Attributes:
        candidate: the configuration.
        paths: the files of the recording; paths, or URLs that fsspec reads.
        recording: the name of the recording.
        sizes: bytes of each file to read: a recording may still grow.
        plugins: additional plugins, each `MODULE:CLASS[=WEIGHT]`.
        plugins_source: a digest of their modules' source: another one may decide otherwise.
        what_if: the change to the recorded cluster.
    """

    candidate: CandidateConfig
    paths: tuple[str, ...]
    recording: str
    sizes: tuple[int, ...] = ()
    plugins: tuple[str, ...] = ()
    what_if: NodeChanges = AS_IT_WAS
    plugins_source: str = ""

    @property
    def digest(self) -> str:
        """A digest, equal for equal tasks; the name of the result's file.

        The digest depends on the name of the candidate, not on the paths of the files.
        """
        recording = self.recording, self.sizes
        plugins = self.plugins, self.plugins_source
        about = (stowage_version(), self.candidate, recording, plugins, self.what_if)
        return hashlib.blake2b(msgspec.json.encode(about), digest_size=12).hexdigest()


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """The result of one run for the pods of one workload, or for all pods.

    Attributes:
        config: the name of the candidate.
        recording: the name of the recording.
        what_if: the simulated change, or empty.
        workload: `namespace/Kind/name` of the controller, or empty for all pods.
        pods: number of pods to place.
        placed: number of placed pods.
        moves: number of pods on another node than the recorded one.
        victims: number of pods that were evicted for others.
        wait_mean, wait_p50, wait_p99, wait_longest: seconds until placed; None without any.
        nodes: of all pods: nodes with a pod, on average over time.
        cpu, memory: of all pods: the share of all nodes that pods request, on average over time.
        free_cpu_unusable, free_memory_unusable: of all pods: the share of free amounts at the end
            that are on nodes where no kind of pod fits.
    """

    config: str
    recording: str
    what_if: str
    workload: str
    pods: int
    placed: int
    moves: int
    victims: int
    wait_mean: float | None = None
    wait_p50: float | None = None
    wait_p99: float | None = None
    wait_longest: float | None = None
    nodes: float | None = None
    cpu: float | None = None
    memory: float | None = None
    free_cpu_unusable: float | None = None
    free_memory_unusable: float | None = None


class TaskResult(msgspec.Struct, frozen=True):
    """The result of a task.

    Attributes:
        task: the digest of the task.
        rows: the rows, that about all pods first; none if the task failed.
        problem: the reason why the task failed, or empty.
        reconfigured: how often the recorded engine took over another configuration.
        has_decisions: whether the recorded engine decided; if not, there are no rows.
        notices: sentences about settings of the configuration that have no effect in a replay.
    """

    task: str
    rows: tuple[Row, ...] = ()
    problem: str = ""
    reconfigured: int = 0
    has_decisions: bool = True
    notices: tuple[str, ...] = ()


def recordings_at(
    path: Path, left_out: Callable[[LeftOut], object] = lambda _: None
) -> list[Recording]:
    """Open all recordings of a directory, or the one of a single file.

    `left_out` is as for `recordings_in`.

    Raises:
        SchedulerError: there is no recording, or one cannot be read.
    """
    if not isdir(path):  # noqa: PTH112 - `Path` raises for unreachable paths
        return [named_recording([path])]
    found = recordings_in(path, left_out)
    if not found:
        raise InputError(f"{path}: expected a recording, found none")
    return found


def source_digest(plugins: Iterable[str]) -> str:
    """Return a digest of the source of the modules of plugins, each `MODULE:CLASS[=WEIGHT]`.

    Raises:
        InputError: there is no such plugin.
    """
    digest = hashlib.blake2b(digest_size=12)
    for plugin in plugins:
        _, (found, _) = plugin_called(plugin)
        # A class of an extension module has no source.
        with suppress(OSError, TypeError):
            digest.update(Path(inspect.getfile(found)).read_bytes())
    return digest.hexdigest()


def carry_out(task: Task) -> TaskResult:
    """Replay a task's recording; the result of a failed task has the reason."""
    try:
        recording = Recording([_local(path) for path in task.paths], task.sizes)
        header = recording.header
        profiles, notices = _profiles(task, header)
        engine = recorded_engine(profiles, header, with_extenders=False)
        records = task.what_if.applied(recording)
        found = place_anew(records, engine, as_configured=task.candidate == RECORDED)
        if not found.has_decisions:
            return TaskResult(task.digest, has_decisions=False)
        rows = tuple(_rows(task, found, engine))
        return TaskResult(task.digest, rows, reconfigured=found.reconfigured, notices=notices)
    except SchedulerError as problem:
        return _failed(task, str(problem))
    except Exception as problem:  # noqa: BLE001 - of a plugin, or a defect: other runs go on
        return _failed(task, f"{type(problem).__name__}: {problem}")


def _failed(task: Task, problem: str) -> TaskResult:
    # A path, or what a plugin says, may be no text that JSON can have.
    return TaskResult(task.digest, problem=visible(problem))


def _local(path: str) -> Path:
    """Return the local path of a file, which is fetched if the path is a URL.

    Raises:
        InputError: the file cannot be fetched.
    """
    if "://" not in path:
        return Path(path)
    try:
        from scheduler.tools.sweep.fetching import fetched  # noqa: PLC0415 - of the extra `dask`
    except ImportError as problem:
        told = f"{path}: URLs need an extra: pip install 'stowage-scheduler[dask]'"
        raise InputError(told) from problem
    return fetched(path)


def _profiles(task: Task, header: Header) -> tuple[Profiles, tuple[str, ...]]:
    """Build the profiles of a task; return them with notices about settings without effect."""
    notices: tuple[str, ...] = ()
    if task.candidate == RECORDED:
        profiles = recorded_profiles(header)
    else:
        settings = tuple(f"{name}=true" for name in header.feature_gates)
        source = f"configuration {task.candidate.name}"
        profiles, notices = profiles_from_text(task.candidate.text, source, feature_gates=settings)
    if task.plugins:
        added = dict(map(plugin_called, task.plugins))
        profiles = with_plugins(profiles, added, header.feature_gates)
    if profiles.config.extenders:
        notices = (*notices, NOT_ASKED)
    return for_recorded_pods(profiles, header), notices


def _rows(task: Task, found: ReplayPlacements, engine: Engine) -> Iterable[Row]:
    by_workload: dict[str, list[str]] = defaultdict(list)
    for uid, pod in found.pods.items():
        by_workload[pod.workload].append(uid)
    core = engine.core
    snapshot = core.snapshot
    framework = next(iter(core.frameworks.values()))
    pods = list(core.cache.pods.values()) + core.queue.pending_pods()
    unusable = fragmentation(framework, pods, snapshot) if snapshot.table.count else {}
    use = found.meter.use
    every = _row(task, found, ALL_PODS, list(found.pods))
    yield msgspec.structs.replace(
        every,
        victims=len(found.victims),
        nodes=found.meter.nodes.mean,
        cpu=use[CPU].mean if CPU in use else None,
        memory=use[MEMORY].mean if MEMORY in use else None,
        free_cpu_unusable=unusable.get(CPU),
        free_memory_unusable=unusable.get(MEMORY),
    )
    for workload, uids in sorted(by_workload.items()):
        yield _row(task, found, workload, uids)


def _row(task: Task, found: ReplayPlacements, workload: str, uids: Sequence[str]) -> Row:
    pods: list[PodSummary] = [found.pods[uid] for uid in uids]
    waited = sorted(seconds for pod in pods if (seconds := pod.waited) is not None)
    times = wait_times(waited)
    recorded = found.recorded
    moves = sum(
        bool(pod.node) and pod.node != recorded.get(uid, pod.node)
        for uid, pod in zip(uids, pods, strict=True)
    )
    return Row(
        task.candidate.name,
        task.recording,
        task.what_if.name,
        workload,
        len(pods),
        len(waited),
        moves,
        sum(uid in found.victims for uid in uids),
        *((times.mean, times.median, times.p99, times.longest) if times else ()),
    )
