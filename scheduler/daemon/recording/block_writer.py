"""Writes blocks in a thread: the event loop waits neither for a disk nor for a reader."""

from collections.abc import Callable
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from typing import Generic, TypeVar

Block = TypeVar("Block")


def append(path: Path, written: bytes) -> int:
    """Append bytes to a file as a whole or not at all; return its size.

    Raises:
        OSError: they cannot be written.
    """
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            left = memoryview(written)
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(before)
            raise
        return file.tell()


class BlockWriter(Generic[Block]):
    """Writes blocks in order until one cannot be written.

    Args:
        name: the name of the thread.
        write: writes a block in the thread, without a time limit; raises OSError.
        waiting: blocks that may wait at most.

    Attributes:
        problem: the reason why no more blocks are written, or empty.
    """

    def __init__(self, name: str, write: Callable[[Block], None], waiting: int) -> None:
        self.problem = ""
        self._write = write
        self._blocks: Queue[Block | None] = Queue(waiting)
        # A daemon thread: a disk that hangs must not keep the process from ending.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, block: Block | None, seconds: float = 0.0) -> bool:
        """Queue a block for writing; None ends the thread.

        Args:
            block: the block to write.
            seconds: time to wait for room.

        Returns:
            False if there is no room.
        """
        try:
            self._blocks.put(block, block=seconds > 0, timeout=seconds)
        except Full:
            return False
        return True

    @property
    def has_room(self) -> bool:
        """Whether one more block may wait; if not, the disk or the reader is slow."""
        return not self._blocks.full()

    def close(self, seconds: float) -> bool:
        """Wait about `seconds` until all blocks are written; return whether they are."""
        if self.put(None, seconds):
            self._thread.join(seconds)
        return not self._thread.is_alive() and not self.problem

    def settle(self) -> None:
        """Wait without a time limit until all blocks are written."""
        self._blocks.join()

    def _work(self) -> None:
        while (block := self._blocks.get()) is not None:
            # After a lost block, drop the others too: a recording must have no gap.
            if not self.problem:
                try:
                    self._write(block)
                except (OSError, MemoryError) as problem:
                    # Compression may find no memory; the caller must learn the reason.
                    told = problem.strerror if isinstance(problem, OSError) else "out of memory"
                    self.problem = told or str(problem)
            self._blocks.task_done()
        self._blocks.task_done()
