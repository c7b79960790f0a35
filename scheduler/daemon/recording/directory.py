"""Records all events of an engine from its start, in files that rotate."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from msgspec.structs import replace

from scheduler.daemon.recording.block_writer import BlockWriter, append
from scheduler.daemon.recording.files import MAGIC, MAX_LINES, block, part_name
from scheduler.daemon.recording.records import Header, Writer
from scheduler.kernel.engine.events import Event, Tick
from scheduler.kernel.engine.instructions import Instruction

FILE_BYTES: Final = 64 << 20
"""A larger file is followed by another one."""
TOTAL_BYTES: Final = 4 << 30
"""Recording ends at this size: without its beginning a recording cannot be replayed."""
BLOCK_BYTES: Final = 1 << 18
FLUSH_SECONDS: Final = 1.0
WAITING_BLOCKS: Final = 64
"""Blocks at most that wait for the disk: the first list of a large cluster makes many at once."""
WAIT_SECONDS: Final = 0.1
"""Time that the event loop waits for room for one more block before recording ends."""
CLOSE_SECONDS: Final = 5.0
"""Time limit for writing the remaining blocks at the end of the process."""

_Written: TypeAlias = tuple[Path, bytes, bytes | bytearray]
"""The file, the bytes before the block, and the lines of the block."""


class DirectoryRecorder:
    """Writes a recording into a directory; a thread compresses and writes.

    Args:
        directory: an existing directory.
        header: the header of the first part.
        on_end: called with the reason and the bytes written if recording ends early.
        file_bytes: see `FILE_BYTES`.
        total_bytes: see `TOTAL_BYTES`.
    """

    def __init__(
        self,
        directory: Path,
        header: Header,
        on_end: Callable[[str, int], None],
        *,
        file_bytes: int = FILE_BYTES,
        total_bytes: int = TOTAL_BYTES,
    ) -> None:
        self._directory = directory
        self._header = header
        self._on_end = on_end
        self._file_bytes = file_bytes
        self._total_bytes = total_bytes
        self._files = _Files()
        self._blocks = BlockWriter("recording", self._files.write, WAITING_BLOCKS)
        self._lines = bytearray()
        self._flushed_at = header.clock
        self._is_open = True
        self._begin_file(header)

    def note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
        """See `scheduler.daemon.driver.driver.EventLog`."""
        if not self._is_open:
            return
        before = len(self._lines)
        try:
            self._writer.write(self._lines, event, now, instructions)
        except BaseException:
            # Such as a lack of memory: what is recorded so far must remain readable.
            del self._lines[before:]
            raise
        is_due = type(event) is Tick and now - self._flushed_at >= FLUSH_SECONDS
        if is_due or len(self._lines) >= BLOCK_BYTES:
            self._flushed_at = now
            self._flush()

    def close(self) -> None:
        """Write the remaining lines, and wait for the disk at most about two `CLOSE_SECONDS`."""
        if self._is_open:
            self._flush()
        # Write the blocks of a recording that has ended too, unless the disk hangs.
        waits = self._is_open or self._blocks.has_room
        is_written = self._blocks.close(CLOSE_SECONDS if waits else 0.0)
        if self._is_open and not is_written:
            self._end(self._blocks.problem or "the disk does not answer")
        self._is_open = False

    def _begin_file(self, header: Header) -> None:
        self._header = header
        self._path = self._directory / part_name(header)
        self._writer = Writer()
        self._put(MAGIC, Writer.header(header))

    def _flush(self) -> None:
        lines, self._lines = self._lines, bytearray()
        if self._files.total >= self._total_bytes:
            self._end(f"a recording may have {self._total_bytes} bytes")
        elif len(lines) > MAX_LINES:
            self._end(f"an event is longer than {MAX_LINES} bytes")
        elif lines:
            self._put(b"", lines)
        if self._is_open and self._files.size_of(self._path) >= self._file_bytes:
            self._begin_file(replace(self._header, part=self._header.part + 1))

    def _put(self, start: bytes, lines: bytes | bytearray) -> None:
        written: _Written = (self._path, start, lines)
        if self._blocks.problem:
            self._end(self._blocks.problem)
        elif not self._blocks.put(written, WAIT_SECONDS):
            # A recording with a gap cannot be replayed, and a longer wait would stall the loop.
            self._end(f"the disk is too slow: {WAITING_BLOCKS} blocks wait")

    def _end(self, why: str) -> None:
        self._is_open = False
        self._lines.clear()
        self._on_end(why, self._files.total)


class _Files:
    """The files that the thread has written.

    Attributes:
        total: bytes in all files.
    """

    def __init__(self) -> None:
        self.total = 0
        self._last = Path(), 0
        """The file that was written last, and its size."""

    def size_of(self, path: Path) -> int:
        """Return the bytes in a file if it was written last, else 0."""
        last, size = self._last
        return size if last == path else 0

    def write(self, waiting: _Written) -> None:
        """Append a block to its file. Runs in the thread."""
        path, start, lines = waiting
        written = start + block(lines)
        # A partial block would make the file unreadable.
        append(path, written)
        self._last = path, self.size_of(path) + len(written)
        self.total += len(written)
