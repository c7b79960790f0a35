"""Opens the recordings that commands name: files, a directory, or a daemon."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from math import ceil
from os.path import isdir
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from scheduler.daemon.recording.files import (
    LeftOut,
    Recording,
    named_recording,
    recordings_in,
)
from scheduler.daemon.recording.records import CutShortError, Header, Record, RecordingError
from scheduler.memory_file import memory_file
from scheduler.tools.cli.explain_text import print_note
from scheduler.tools.offline.reading import InputError
from scheduler.tools.offline.recorded import RecordedCluster, cluster_of


def recording_at(paths: Sequence[Path], moment: str | None) -> Recording:
    """Open the recording at some paths.

    A directory has one recording for each start of a daemon. If `moment` is a time of day, the last
    one that began before it is opened.

    `moment` is in seconds since the start, or a time of day.

    Raises:
        SchedulerError: there is no recording, there are several, or it cannot be read.
    """
    [first, *more] = paths
    if not isdir(first):  # noqa: PTH112 - `Path` raises for unreachable paths
        return named_recording(paths)
    if more:
        raise InputError(f"{first}: name one directory, or files")
    left_out: list[LeftOut] = []
    found = recordings_in(first, left_out.append)
    at = None if moment is None else _time_of_day(moment)
    begun = [each for each in found if at is None or each.header.started <= at]
    _check_damaged(left_out, begun[-1].header.started if begun else -1.0, at)
    if not begun:
        then = " that had begun by then" if found else ""
        raise InputError(f"{first}: expected a recording{then}, found none")
    if at is None and len(begun) > 1:
        names = "".join(f"\n  {_began(each.header)}  {each.paths[0]}" for each in begun)
        raise InputError(
            f"{first}: it holds {len(begun)} recordings; name the files of one, or a time of day "
            f"with --at:{names}"
        )
    return begun[-1]


def _check_damaged(left_out: Iterable[LeftOut], since: float, at: float | None) -> None:
    """Print which recordings of a directory cannot be read.

    Raises:
        RecordingError: one of them is the last that began between two times.
    """
    for each in left_out:
        if each.problem is not None:
            if at is not None and each.started is not None and since < each.started <= at:
                raise each.problem
            print_note(f"{each.problem}; it is left out.")


def _began(header: Header) -> str:
    return _time_text(header.started)


def _time_text(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def until(recording: Recording, moment: str | None) -> Generator[Record, None, None]:
    """Return the records up to a time; all of them for None.

    Prints a note if the recording ends before that time.

    Raises:
        InputError: the text is no time, or a time before the recording.
    """
    if moment is None:
        return iter(recording)
    return _until(recording, moment, seconds_at(recording, moment))


def _until(recording: Recording, moment: str, seconds: float) -> Generator[Record, None, None]:
    header = recording.header
    end, last = header.clock + seconds, header.clock
    for record in recording:
        if record.time > end:
            return
        last = record.time
        yield record
    then = _time_text(header.started + last - header.clock)
    print_note(f"--at {moment}: the recording ends before, at {then}; this is its last state.")


def until_cut(recording: Recording, records: Iterable[Record]) -> Iterator[Record]:
    """Return the records up to a block that was cut short when the process was killed.

    Prints a note with the time of the last record before it.

    Raises:
        RecordingError: a file is damaged in another way.
    """
    last = recording.header.clock
    try:
        for record in records:
            last = record.time
            yield record
    except CutShortError as problem:
        then = _time_text(day_of(recording.header, last).timestamp())
        print_note(f"{problem}, as if its process was killed; this is its last state, at {then}.")


def seconds_at(recording: Recording, moment: str) -> float:
    """Parse a time; return it in seconds since the start.

    Raises:
        SchedulerError: the text is no time, or a time before the recording; or the recording
            cannot be read.
    """
    header, at = recording.header, _time_of_day(moment)
    seconds = float(moment) if at is None else at - header.started
    begin = _first_known(recording)
    if not seconds >= begin:
        # Rounded up, so that `--at` takes the time of the message.
        then = _time_text(ceil(header.started + begin))
        raise InputError(f"--at {moment}: the recording begins at {then}")
    return seconds


def _first_known(recording: Recording) -> float:
    """Return the seconds from the start to the first moment whose cluster is recorded."""
    header = recording.header
    if header.is_complete:
        return 0.0
    with closing(iter(recording)) as records:
        return next((record.time - header.clock for record in records), 0.0)


def day_of(header: Header, time: float) -> datetime:
    """Return the time of day of a time of the recording's clock."""
    return datetime.fromtimestamp(header.started, UTC) + timedelta(seconds=time - header.clock)


def rfc3339(time: datetime) -> str:
    """Return a time of day as RFC 3339, in milliseconds."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _time_of_day(moment: str) -> float | None:
    """Parse a time of day, in seconds since 1970; return None for seconds since the start.

    Raises:
        InputError: the text cannot be parsed.
    """
    try:
        float(moment)
    except ValueError:
        pass
    else:
        return None
    try:
        at = datetime.fromisoformat(moment)
    except ValueError as problem:
        raise InputError(
            f"--at {moment}: expected seconds, or a time of day such as 2026-01-31T12:00:00Z"
        ) from problem
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


class RecordedSource(msgspec.Struct, frozen=True):
    """The options that name a daemon or a recording as the source of a cluster.

    Attributes:
        daemon: the URL of its secure port.
        certificate_authority: file with the authorities that must have issued its certificate.
        insecure_skip_tls_verify: whether any certificate is accepted.
        recordings: files, or a directory.
        moment: the moment in the recording.
    """

    daemon: str = ""
    certificate_authority: str | None = None
    insecure_skip_tls_verify: bool = False
    recordings: tuple[Path, ...] = ()
    moment: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether any of the options is given."""
        return self != RecordedSource()

    def read(self, kubeconfig: str, context: str) -> RecordedCluster:
        """Read the cluster in the state of the daemon.

        A request to a daemon carries the credentials of the kubeconfig.

        Raises:
            SchedulerError: the options do not go together, or nothing can be read.
        """
        with self.opened(kubeconfig, context) as recording:
            records = until_cut(recording, until(recording, self.moment))
            return cluster_of(recording.header, records)

    def check(self) -> None:
        """Check that each option comes with the option that it needs.

        Raises:
            InputError: `--at` without a recording, or an option for TLS without a daemon.
        """
        if self.moment is not None and not self.recordings:
            raise InputError("--at is about a recording: expected --recording FILE")
        has_tls = self.certificate_authority is not None or self.insecure_skip_tls_verify
        if has_tls and not self.daemon:
            raise InputError(
                "--certificate-authority and --insecure-skip-tls-verify are about a daemon: "
                "expected --daemon URL"
            )

    @contextmanager
    def opened(self, kubeconfig: str, context: str) -> Iterator[Recording]:
        """Open the recording, or the one that the daemon has kept, for reading.

        Raises:
            SchedulerError: as `read`.
        """
        self.check()
        if bool(self.daemon) == bool(self.recordings):
            raise InputError("expected one of --daemon URL and --recording FILE")
        if self.recordings:
            if kubeconfig or context:
                raise InputError(
                    "--recording reads no cluster: leave out --kubeconfig and --context"
                )
            yield recording_at(self.recordings, self.moment)
            return
        with memory_file(self._fetched(kubeconfig, context)) as path:
            try:
                recording = Recording([path])
            except RecordingError as problem:
                # A proxy may have answered in the daemon's place.
                told = str(problem).removeprefix(f"{path}: ")
                raise InputError(f"--daemon {self.daemon}: {told}") from problem
            yield recording

    def _fetched(self, kubeconfig: str, context: str) -> bytes:
        from scheduler.tools.cli.live import (  # noqa: PLC0415 - half a second that files need not wait for
            ClusterAddress,
            DaemonAddress,
            read_daemon,
        )

        url = urlsplit(self.daemon)
        if url.scheme not in ("https", "http") or not url.hostname or url.path not in ("", "/"):
            raise InputError(f"--daemon {self.daemon}: expected a URL: https://localhost:10259")
        address = DaemonAddress(
            self.daemon.rstrip("/"), self.certificate_authority, self.insecure_skip_tls_verify
        )
        return read_daemon(ClusterAddress(kubeconfig, context), address)
