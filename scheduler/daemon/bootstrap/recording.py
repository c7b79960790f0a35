"""Opens the recorders of a daemon: flight recorder, `--record` and `--decisions`."""

import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from msgspec.structs import replace

from scheduler.clock import Clock
from scheduler.config.feature_gates import turned_on
from scheduler.config.options import RunOptions
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_object
from scheduler.daemon.recording.decision_log import DecisionLog, RotatedFile, to_standard_output
from scheduler.daemon.recording.decisions import PARQUET, Rows
from scheduler.daemon.recording.directory import DirectoryRecorder
from scheduler.daemon.recording.files import SUFFIX, part_name
from scheduler.daemon.recording.flight import FlightRecorder
from scheduler.daemon.recording.records import Header
from scheduler.errors import SchedulerError
from scheduler.kernel.extender.extenders import without_password
from scheduler.kernel.framework.interface import Plugin
from scheduler.observability.build_info import stowage_version
from scheduler.observability.logs import get_logger

log = get_logger(__name__)


class RecordError(SchedulerError):
    """The directory of `--record` or the file of `--decisions` cannot be written."""


class Recorders:
    """The flight recorder, and the recorders of `--record` and `--decisions`.

    Attributes:
        flight: the recorder of the last minutes.
        epoch: the time of day at 0 of the events' clock, for the engine as for its replay.
        logs: all recorders, for the driver.
        take_outcome: the receiver of the engine's outcomes; None without `--decisions`.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        clock: Clock,
        options: RunOptions,
        *,
        seed: int,
        out_of_tree: Mapping[str, type[Plugin]],
        on_lost: Callable[[int], object],
    ) -> None:
        """Open the recorders.

        `on_lost` receives the number of lost rows of `--decisions`.

        Raises:
            RecordError: the directory cannot be created, or the file cannot be written.
        """
        self._clock = clock
        named = config.plugin_names()
        header = Header(
            recording=f"stowage-{clock.wall():%Y%m%dT%H%M%S}-{_process_name()}",
            version=stowage_version(),
            configuration=to_object(without_secrets(config)),
            feature_gates=tuple(sorted(turned_on(options.feature_gates))),
            seed=seed,
            max_in_unschedulable_seconds=options.pod_max_in_unschedulable_pods_duration,
            plugins={name: version_of(out_of_tree[name]) for name in out_of_tree if name in named},
            started=clock.wall().timestamp(),
            clock=clock.monotonic(),
        )
        directory = options.record
        self._crash_directory = _crash_directory(directory)
        if directory:
            header = _begun(Path(directory), header)
        self.epoch = header.epoch
        self.flight = FlightRecorder(header)
        self._to_disk = None if not directory else _to_disk(Path(directory), header)
        self._decisions = _decision_log(options.decisions, header, on_lost)
        self.take_outcome = None if self._decisions is None else self._decisions.take
        wanted = (self.flight, self._to_disk, self._decisions)
        self.logs = tuple(each for each in wanted if each is not None)

    def crashed(self) -> None:
        """Write the recording of the last minutes, so that a user can replay the crash."""
        if self._crash_directory is None:
            return
        path = (
            self._crash_directory
            / f"crash-{self._clock.wall():%Y%m%dT%H%M%S}-{_process_name()}{SUFFIX}"
        )
        try:
            path.write_bytes(self.flight.dump())
        except (OSError, MemoryError) as problem:
            # The original error must be reported even if no memory is left.
            log.warning("The last minutes are not kept", err=repr(problem))
        else:
            log.error("The last minutes are kept; see stowage replay", path=str(path))

    def close(self) -> None:
        """Write the remaining records, and close the recorders."""
        if self._to_disk is not None:
            self._to_disk.close()
        if self._decisions is not None:
            self._decisions.close()


def _process_name() -> str:
    """Return a unique name among processes that share the volume: host name and process id."""
    host = "".join(each if each.isalnum() or each in "-." else "_" for each in socket.gethostname())
    return f"{host}-{os.getpid()}"


def _crash_directory(record: str) -> Path | None:
    """Return the directory for crash recordings; None without a writable one, as in most pods."""
    try:
        return Path(record or tempfile.gettempdir())
    except FileNotFoundError:
        log.info("Crash recordings are off: no directory is writable; --record DIR names one")
        return None


def _begun(directory: Path, header: Header) -> Header:
    """Create the first file of a recording; return the header with a name of its own."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return _named_anew(directory, header)
    except FileExistsError as problem:
        raise RecordError(f"--record {directory}: expected a directory, got a file") from problem
    except OSError as problem:
        raise RecordError(f"--record {directory}: {problem.strerror}") from problem


def _named_anew(directory: Path, header: Header) -> Header:
    """Before a step of the clock, a process of this number may have begun in the same second."""
    own, number = header, 1
    while True:
        try:
            directory.joinpath(part_name(own)).touch(exist_ok=False)
        except FileExistsError:
            number += 1
            own = replace(header, recording=f"{header.recording}-{number}")
        else:
            return own


def _to_disk(directory: Path, header: Header) -> DirectoryRecorder:
    def ended(why: str, written: int) -> None:
        log.error(
            "No more is recorded; a restart begins a new recording in the directory of --record",
            directory=str(directory),
            reason=why,
            bytes=written,
        )

    return DirectoryRecorder(directory, header, ended)


def _decision_log(
    file: str, header: Header, on_lost: Callable[[int], object]
) -> DecisionLog | None:
    if not file:
        return None
    if file.endswith(PARQUET):
        told = "expected a name for lines of JSON; `stowage replay` writes Parquet"
        raise RecordError(f"--decisions {file}: {told}")
    try:
        write = to_standard_output if file == "-" else RotatedFile(Path(file))
    except OSError as problem:
        # A pipe or a terminal has no end to append to, which is no error of the system.
        told = problem.strerror or "expected a file, or - for standard output"
        raise RecordError(f"--decisions {file}: {told}") from problem

    def ended(why: str) -> None:
        log.error("No more decisions are written", file=file, reason=why)

    return DecisionLog(write, Rows(header), on_lost=on_lost, on_end=ended)


def without_secrets(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Remove keys and passwords of extenders from a configuration that is recorded."""
    extenders = tuple(
        replace(extender, url_prefix=without_password(extender.url_prefix), tls_config=None)
        for extender in config.extenders
    )
    return replace(config, extenders=extenders)


def version_of(plugin: type[Plugin]) -> str:
    """Return the name and version of a plugin's distribution, as a recording has them."""
    package = plugin.__module__.partition(".")[0]
    try:
        [distribution, *_] = packages_distributions().get(package, [package])
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return package
