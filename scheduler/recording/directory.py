"""Everything that an engine is told from its start, in files that rotate."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from scheduler.engine.events import Event, Tick
from scheduler.engine.instructions import Instruction
from scheduler.recording.files import MAGIC, block, part_name
from scheduler.recording.records import Header, Writer

FILE_BYTES: Final = 64 << 20
"""A file that is larger is followed by another."""
TOTAL_BYTES: Final = 4 << 30
"""Then recording ends: without its beginning a recording cannot be replayed."""
BLOCK_BYTES: Final = 1 << 18
FLUSH_SECONDS: Final = 1.0
_PENDING: Final = 8
"""Blocks that may wait for the disk; then the engine does."""


class DirectoryRecorder:
    """Writes a recording into a directory; compressing and writing are a thread's.

    Args:
        directory: must exist.
        header: of the first part.
        on_end: told why no more is recorded, and how much was.
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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recording")
        self._pending: list[Future[int]] = []
        self._problem = ""
        """What the thread could not write; nothing is written after it: that would leave a gap."""
        self._lines = bytearray()
        self._flushed_at = header.clock
        self._written = 0
        self._written_before = 0
        self._is_open = True
        self._begin_file(header)

    def note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
        """See `scheduler.driver.driver.EventLog`."""
        if not self._is_open:
            return
        self._writer.write(self._lines, event, now, instructions)
        is_due = type(event) is Tick and now - self._flushed_at >= FLUSH_SECONDS
        if is_due or len(self._lines) >= BLOCK_BYTES:
            self._flushed_at = now
            self._flush()

    def close(self) -> None:
        """Write what is left, and wait for the disk."""
        if self._is_open:
            self._flush()
            self._collect(0)
            self._is_open = False
        self._thread.shutdown()

    def _begin_file(self, header: Header) -> None:
        self._header = header
        self._path = self._directory / part_name(header)
        self._writer = Writer()
        self._written_before = self._written
        self._submit(MAGIC, Writer.header(header))

    def _flush(self) -> None:
        lines, self._lines = self._lines, bytearray()
        if lines:
            self._submit(b"", lines)
        self._collect(_PENDING)
        if self._is_open and self._written >= self._total_bytes:
            self._end("the directory holds as much as it may")
        elif self._is_open and self._written - self._written_before >= self._file_bytes:
            self._collect(0)
            self._begin_file(replace(self._header, part=self._header.part + 1))

    def _submit(self, start: bytes, lines: bytes | bytearray) -> None:
        self._pending.append(self._thread.submit(self._write, self._path, start, lines))

    def _collect(self, allowed: int) -> None:
        """Take up what the thread has written; wait until no more than so many blocks are left."""
        while self._pending and (self._pending[0].done() or len(self._pending) > allowed):
            self._written += self._pending.pop(0).result()
        if self._problem and self._is_open:
            self._end(self._problem)

    def _end(self, why: str) -> None:
        self._is_open = False
        self._lines.clear()
        self._collect(0)
        self._on_end(why, self._written)

    def _write(self, path: Path, start: bytes, lines: bytes | bytearray) -> int:
        """In the thread."""
        if self._problem:
            return 0
        try:
            return _append(path, start, lines)
        except OSError as problem:
            self._problem = problem.strerror or str(problem)
            return 0


def _append(path: Path, start: bytes, lines: bytes | bytearray) -> int:
    """Write a block as a whole: on a disk that is full, half a block would spoil the file."""
    written = start + block(lines)
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            left = memoryview(written)
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(before)
            raise
    return len(written)
