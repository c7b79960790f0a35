"""Blocks that a thread writes: the event loop does not wait for a disk, or for a reader."""

from collections.abc import Callable
from queue import Full, Queue
from threading import Thread
from typing import Generic, TypeVar

Block = TypeVar("Block")


class BlockWriter(Generic[Block]):
    """Writes blocks in their order, until one cannot be written.

    Args:
        name: of the thread.
        write: writes a block, however long that takes; raises OSError. Called in the thread.
        waiting: blocks that may wait.

    Attributes:
        problem: why nothing more is written, or empty.
    """

    def __init__(self, name: str, write: Callable[[Block], None], waiting: int) -> None:
        self.problem = ""
        self._write = write
        self._blocks: Queue[Block | None] = Queue(waiting)
        # A disk that hangs must not keep the process from ending.
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
        """False while the queue is full: the thread is stuck or slow."""
        return not self._blocks.full()

    def close(self, seconds: float) -> bool:
        """Wait about so many seconds until everything is written; return whether it is."""
        if self.put(None, seconds):
            self._thread.join(seconds)
        return not self._thread.is_alive() and not self.problem

    def settle(self) -> None:
        """Wait, for as long as it takes, until nothing waits to be written."""
        self._blocks.join()

    def _work(self) -> None:
        while (block := self._blocks.get()) is not None:
            # After a block that is lost none is written: that would leave a gap.
            if not self.problem:
                try:
                    self._write(block)
                except (OSError, MemoryError) as problem:
                    # Compressing takes memory: a thread that died of it would tell no reason.
                    told = problem.strerror if isinstance(problem, OSError) else "out of memory"
                    self.problem = told or str(problem)
            self._blocks.task_done()
        self._blocks.task_done()
