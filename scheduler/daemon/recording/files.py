"""Encodes lines in compressed, checked blocks, and reads the files of a recording in order.

A file is a line that identifies it, and blocks: length and checksum (four bytes each, little
endian) of the zlib-compressed lines that follow.
"""

import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from os.path import isfile
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final

import msgspec
from msgspec.structs import replace

from scheduler.daemon.recording.records import (
    CutShortError,
    Header,
    Reader,
    Record,
    RecordingError,
    Writer,
    read_header,
)

MAGIC: Final = b"stowage recording\n"
SUFFIX: Final = ".recording"
_LEVEL: Final = 1
_FRAME: Final = Struct("<II")
MAX_LINES: Final = 1 << 24
"""Bytes at most of a decompressed block: a malicious one could exhaust the memory."""
_MAX_BLOCK: Final = 2 * MAX_LINES
_BLOCK_BYTES: Final = 1 << 20
_UNWRITTEN: Final = b"\0"
"""After a power loss, a file may end with zeros in place of blocks, or of the end of a block."""
_CUT_SHORT: Final = "it is damaged: it ends in the middle of a block"


def block(lines: bytes | bytearray) -> bytes:
    """Encode lines as a block: length, checksum, and the compressed lines."""
    packed = zlib.compress(lines, _LEVEL)
    return _FRAME.pack(len(packed), zlib.crc32(packed)) + packed


def whole_file(header: Header, lines: bytearray) -> bytes:
    """Encode a recording as one file."""
    return b"".join((MAGIC, block(Writer.header(header)), *_blocks(lines)))


def _blocks(lines: bytearray) -> Iterator[bytes]:
    """Split lines into blocks; each ends with the first line that makes it large enough."""
    start = 0
    while start < len(lines):
        end = lines.find(b"\n", start + _BLOCK_BYTES) + 1 or len(lines)
        yield block(lines[start:end])
        start = end


class Recording:
    """All parts of a recording.

    Attributes:
        paths: the files in their order.
        sizes: by file, the bytes to read. A recording may still grow.
        header: the header of the first part.
        share: the fraction of bytes that the last iteration has read, 0 to 1.
    """

    def __init__(self, paths: Sequence[Path], sizes: Sequence[int] = ()) -> None:
        """Read the headers of the parts, at least one, and put the parts in order.

        A part whose process was killed before its header was written is the last one.

        Args:
            paths: the files.
            sizes: the bytes of each file to read; by default the present ones.

        Raises:
            RecordingError: a file is no recording, a part is missing, or parts are of different
                recordings.
        """
        headers = {path: header for path in paths if (header := _header(path)) is not None}
        cut_short = [path for path in paths if path not in headers]
        if not headers:
            raise RecordingError(f"{cut_short[0]}: {_CUT_SHORT}")
        whole = sorted(headers, key=lambda path: headers[path].part)
        self.paths = whole + cut_short
        self.header = headers[whole[0]]
        self.share = 0.0
        known = dict(zip(paths, sizes, strict=False))
        self.sizes = {path: known.get(path, path.stat().st_size) for path in self.paths}
        for number, path in enumerate(whole, start=1):
            found = headers[path]
            if found.recording != self.header.recording:
                raise RecordingError(f"{path}: it is part of another recording")
            if found.part != number:
                raise RecordingError(f"{path}: expected part {number}, found part {found.part}")

    def __iter__(self) -> Generator[Record, None, None]:
        """Yield the records in order.

        Raises:
            CutShortError: the last file ends in the middle of a block.
            RecordingError: a file is damaged in another way.
        """
        done, whole = 0, sum(self.sizes.values())
        for path in self.paths:
            try:
                with path.open("rb") as file:
                    lines = _lines(file, self.sizes[path])
                    _header_line(lines)
                    for record in Reader().records(lines):
                        self.share = (done + file.tell()) / whole
                        yield record
                done += self.sizes[path]
            except (RecordingError, OSError) as problem:
                told = _in(path, problem)
                if isinstance(problem, CutShortError) and path == self.paths[-1]:
                    told = CutShortError(*told.args)
                raise told from problem


def named_recording(paths: Sequence[Path]) -> Recording:
    """Return the recording of which a user named all files.

    Raises:
        RecordingError: as `Recording`; or the next part is beside the files, and not among them.
    """
    recording = Recording(paths)
    last = recording.paths[-1]
    header = _header(last)
    if header is None or last.name != part_name(header):
        return recording
    beside = last.with_name(part_name(replace(header, part=header.part + 1)))
    if beside.exists() and not _is_empty(beside):
        raise RecordingError(
            f"{beside}: this part of the recording is missing; "
            "expected all files of a recording, or their directory"
        )
    return recording


def is_recording(path: Path) -> bool:
    """Whether a file begins like a recording, damaged or not."""
    if not isfile(path):  # noqa: PTH113 - `Path` raises for unreachable paths
        # To open a pipe or a terminal would wait for its writer.
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def part_name(header: Header) -> str:
    """Return the file name of a part."""
    return f"{header.recording}-{header.part:04}{SUFFIX}"


class LeftOut(msgspec.Struct, frozen=True):
    """A recording of a directory that is not among those that are returned.

    Attributes:
        path: its first file.
        problem: why it cannot be read; None for the last minutes of a process, such as those of a
            crash, whose recording from the start is in the directory too.
        started: the time of day at which it began, in seconds since 1970, if that can be read.
    """

    path: Path
    problem: RecordingError | None = None
    started: float | None = None


def recordings_in(
    directory: Path, left_out: Callable[[LeftOut], object] = lambda _: None
) -> list[Recording]:
    """Return the recordings in a directory, in the order in which they began.

    A file that its process left empty, or without a header and other parts, is ignored.
    `left_out` receives the recordings that cannot be read, and those that are there twice.

    Raises:
        RecordingError: the directory is unreadable, or all its recordings are.
    """
    try:
        paths = [path for path in directory.iterdir() if path.name.endswith(SUFFIX)]
    except OSError as problem:
        raise _in(directory, problem) from problem
    paths = [path for path in paths if not _is_empty(path)]
    readable: dict[str, Recording] = {}
    problems: list[RecordingError] = []
    for name, (found, started) in _by_recording(sorted(paths)).items():
        try:
            readable[name] = Recording(found)
        except RecordingError as problem:
            problems.append(problem)
            left_out(LeftOut(found[0], problem, started))
    if problems and not readable:
        raise problems[0]
    kept = []
    for name, recording in readable.items():
        if name != recording.header.recording and recording.header.recording in readable:
            left_out(LeftOut(recording.paths[0]))
        else:
            kept.append(recording)
    return sorted(kept, key=lambda recording: recording.header.started)


def _is_empty(path: Path) -> bool:
    try:
        return not path.stat().st_size
    except OSError:
        # Its header cannot be read either, which names the file.
        return False


def _by_recording(paths: Iterable[Path]) -> dict[str, tuple[list[Path], float | None]]:
    """Return the files of each recording, and the time at which it began, if any file has it."""
    found: dict[str, tuple[list[Path], float | None]] = {}
    headless: list[Path] = []
    damaged: list[Path] = []
    for path in paths:
        try:
            header = _header(path)
        except RecordingError:
            damaged.append(path)
            continue
        if header is None:
            headless.append(path)
            continue
        name = header.recording if path.name == part_name(header) else path.name
        found.setdefault(name, ([], header.started))[0].append(path)
    for path in (*headless, *damaged):
        name = path.stem.rpartition("-")[0]
        if name in found:
            found[name][0].append(path)
        elif path in damaged:
            found[path.name] = [path], None
    return found


def _header(path: Path) -> Header | None:
    """Read the header of a file; None if the file ends before it."""
    try:
        with path.open("rb") as file:
            return read_header(_header_line(_lines(file)))
    except CutShortError:
        return None
    except (RecordingError, OSError) as problem:
        raise _in(path, problem) from problem


def _header_line(lines: Iterator[bytes]) -> bytes:
    line = next(lines, None)
    if line is None:
        raise CutShortError(_CUT_SHORT)
    return line


def _in(path: Path, problem: RecordingError | OSError) -> RecordingError:
    told = (problem.strerror or str(problem)) if isinstance(problem, OSError) else str(problem)
    return RecordingError(f"{path}: {told}")


def _check_start(file: BinaryIO) -> None:
    start = file.read(len(MAGIC))
    if start != MAGIC:
        if MAGIC.startswith(start.rstrip(_UNWRITTEN)):
            raise CutShortError(_CUT_SHORT)
        raise RecordingError("it is no recording of Stowage")


def _lines(file: BinaryIO, end: int = sys.maxsize) -> Iterator[bytes]:
    """Yield the lines of a file up to an offset."""
    _check_start(file)
    while frame := _read(file, _FRAME.size, end):
        if len(frame) < _FRAME.size:
            raise CutShortError(_CUT_SHORT)
        size, checksum = _FRAME.unpack(frame)
        if not 0 < size <= _MAX_BLOCK:
            raise _damage(file, frame, end)
        packed = _read(file, size, end)
        if len(packed) < size:
            raise CutShortError(_CUT_SHORT)
        if zlib.crc32(packed) != checksum:
            raise _damage(file, packed, end)
        yield from _unpacked(packed).splitlines()


def _damage(file: BinaryIO, read: bytes, end: int) -> RecordingError:
    """Return the problem of a wrong block: it was not written to its end, or it is damaged.

    After a power loss, a block may end with zeros, and only zeros follow.
    """
    damaged = RecordingError(f"it is damaged before byte {file.tell()}")
    piece = read[-1:]
    while piece:
        if piece.strip(_UNWRITTEN):
            return damaged
        piece = _read(file, _BLOCK_BYTES, end)
    return CutShortError(_CUT_SHORT)


def _read(file: BinaryIO, size: int, end: int) -> bytes:
    return file.read(max(0, min(size, end - file.tell())))


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        lines = unpacking.decompress(packed, MAX_LINES)
    except zlib.error as problem:
        raise RecordingError("it is damaged: a block cannot be unpacked") from problem
    if unpacking.unconsumed_tail:
        raise RecordingError(f"it is damaged: a block is longer than {MAX_LINES} bytes")
    if not unpacking.eof:
        raise RecordingError("it is damaged: a block is not whole")
    return lines
