"""Recordings as commands name them: files, or the directory that they were written into."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from scheduler.offline.reading import InputError
from scheduler.recording.files import Recording, recordings_in
from scheduler.recording.records import Header, Record


def recording_at(paths: Sequence[Path], moment: str | None) -> Recording:
    """The recording that is named.

    A directory holds one for each start of a daemon: of several the last that had begun by a time
    of day.

    Args:
        paths: its files, or a directory.
        moment: seconds since the start or a time of day, if anything.

    Raises:
        SchedulerError: there is none, there are several, or it cannot be read.
    """
    [first, *more] = paths
    if not first.is_dir():
        return Recording(paths)
    if more:
        raise InputError(f"{first}: name one directory, or files")
    found = recordings_in(first)
    at = None if moment is None else _time_of_day(moment)
    begun = [each for each in found if at is None or each.header.started <= at]
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


def _began(header: Header) -> str:
    return f"{datetime.fromtimestamp(header.started, UTC):%Y-%m-%dT%H:%M:%SZ}"


def until(recording: Recording, moment: str | None) -> Iterator[Record]:
    """What was recorded up to a moment, or all of it.

    Raises:
        InputError: it is no moment.
    """
    if moment is None:
        return iter(recording)
    header, at = recording.header, _time_of_day(moment)
    end = header.clock + (float(moment) if at is None else at - header.started)
    return takewhile(lambda record: record.time <= end, recording)


def _time_of_day(moment: str) -> float | None:
    """Seconds since 1970; None for seconds since the start.

    Raises:
        InputError: it cannot be read.
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
        raise InputError(f"--at {moment}: expected seconds or a time of day") from problem
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
