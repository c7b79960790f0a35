"""Writes outcomes of attempts as lines of JSON; the engine never waits for readers or disks."""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from scheduler.daemon.recording.block_writer import BlockWriter, append
from scheduler.daemon.recording.decisions import Rows
from scheduler.kernel.engine.events import Event, Tick
from scheduler.kernel.engine.instructions import Instruction
from scheduler.kernel.engine.outcome import AttemptOutcome

FILE_BYTES: Final = 64 << 20
"""A larger file is renamed, and a new one begun."""
KEPT_FILES: Final = 8
"""Number of files that are kept, the newest included."""
BLOCK_BYTES: Final = 1 << 16
WAITING_BLOCKS: Final = 16
"""Blocks at most that wait to be written; others are dropped, and their rows counted."""
CLOSE_SECONDS: Final = 2.0
"""Time limit for writing the remaining blocks at the end of the process."""

_STANDARD_OUTPUT: Final = 1

Write = Callable[[bytes], None]
"""Writes lines in a thread, without a time limit; raises OSError."""


class DecisionLog:
    """Takes outcomes; a separate thread writes them.

    Args:
        write: writes the lines.
        rows: formats the lines.
        on_lost: called with the number of rows each time rows are lost.
        on_end: called with the reason if writing ends early.
        waiting_blocks: see `WAITING_BLOCKS`.
    """

    def __init__(
        self,
        write: Write,
        rows: Rows,
        *,
        on_lost: Callable[[int], object],
        on_end: Callable[[str], object],
        waiting_blocks: int = WAITING_BLOCKS,
    ) -> None:
        self._rows = rows
        self._on_lost = on_lost
        self._on_end = on_end
        self._write = write
        self._lines = bytearray()
        self._count = 0
        self._put_rows = 0
        self._written_rows = 0
        """Rows in blocks that the thread has written; only the thread changes it."""
        self._has_ended = False
        self._writer = BlockWriter("decisions", self._write_block, waiting_blocks)

    def take(self, outcome: AttemptOutcome) -> None:
        """See `scheduler.kernel.engine.outcome.TakeOutcome`."""
        self._lines += self._rows.line(outcome)
        self._count += 1
        if len(self._lines) >= BLOCK_BYTES:
            self._flush()

    def note(self, event: Event, now: float, instructions: Sequence[Instruction]) -> None:
        """Flush the lines each second; see `scheduler.daemon.driver.driver.EventLog`."""
        del now, instructions
        if type(event) is Tick and self._count:
            self._flush()

    def close(self) -> None:
        """Write the remaining lines, and wait for them at most about two `CLOSE_SECONDS`."""
        self._flush()
        if self._count:
            self._put(CLOSE_SECONDS)
        if not self._writer.close(CLOSE_SECONDS):
            self._end(self._writer.problem or "the disk or the reader does not answer")

    def _flush(self) -> None:
        if self._writer.problem:
            self._end(self._writer.problem)
        # A block that is not full is kept for the next flush.
        elif self._count and not self._put() and len(self._lines) >= BLOCK_BYTES:
            self._lose()

    def _put(self, seconds: float = 0.0) -> bool:
        is_taken = self._writer.put((bytes(self._lines), self._count), seconds)
        if is_taken:
            self._put_rows += self._count
            self._lines, self._count = bytearray(), 0
        return is_taken

    def _write_block(self, block: tuple[bytes, int]) -> None:
        """Write lines, and count their rows. Runs in the thread."""
        lines, count = block
        self._write(lines)
        self._written_rows += count

    def _end(self, why: str) -> None:
        """Report the end once; the rows in blocks that are not written are lost as well."""
        if not self._has_ended:
            self._has_ended = True
            self._on_end(why)
            self._count += self._put_rows - self._written_rows
        self._lose()

    def _lose(self) -> None:
        if self._count:
            self._on_lost(self._count)
        self._lines, self._count = bytearray(), 0


class RotatedFile:
    """Appends to a file, and renames it once it is large: FILE.1 is the newest renamed file.

    Args:
        path: the path of the file; its present content stays. A line that was cut short is ended.
        file_bytes: see `FILE_BYTES`.
        kept_files: see `KEPT_FILES`.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(
        self, path: Path, *, file_bytes: int = FILE_BYTES, kept_files: int = KEPT_FILES
    ) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._kept_files = kept_files
        with path.open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    # A process that was killed has left half a line: the next one must be whole.
                    file.write(b"\n")
            self._size = file.tell()

    def __call__(self, lines: bytes) -> None:
        """See `Write`."""
        if self._size and self._size + len(lines) > self._file_bytes:
            self._rotate()
        self._size = append(self._path, lines)

    def _rotate(self) -> None:
        older = [self._path, *map(self._aside, range(1, self._kept_files))]
        for before, after in reversed(list(pairwise(older))):
            if before.exists():
                before.replace(after)

    def _aside(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def to_standard_output(lines: bytes) -> None:
    """See `Write`."""
    left = memoryview(lines)
    while left:
        left = left[os.write(_STANDARD_OUTPUT, left) :]
