"""Runs the two programs that answer cases: the oracle and `stowage explain`.

The oracle is kube-scheduler's framework. Both programs read one case per line and print one answer
per line. A separate thread writes the cases, so that a full pipe on one side never blocks the
other.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from tests.parity import extender

REPOSITORY = Path(__file__).resolve().parents[2]
ORACLE = Path(os.environ.get("STOWAGE_ORACLE", REPOSITORY / ".cache" / "oracle"))
"""Path of the oracle, which `make oracle` builds."""
WINDOW = 8
"""Number of cases sent before their answers are read, to keep the oracle's workers busy."""
_PLACE = extender.PLACE.encode()


class Answerer:
    """A running program that turns lines into lines.

    Args:
        command: its command line.
        extender: address of the extenders; see `tests.parity.extender`.

    Attributes:
        extender: see above.
    """

    def __init__(self, command: list[str], extender: str) -> None:
        self.extender = extender
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
        )
        self._unsent: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = Thread(target=self._write, daemon=True)
        self._writer.start()

    def send(self, case: object) -> None:
        """Sends one case without blocking."""
        line = json.dumps(case, separators=(",", ":")).encode() + b"\n"
        self._unsent.put(line.replace(_PLACE, self.extender.encode()))

    def receive(self) -> Any:
        """Reads the next answer."""
        stdout = self._process.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            message = f"{self._process.args!r} ended with status {self._process.wait()}"
            raise RuntimeError(message)
        return json.loads(line.replace(self.extender.encode(), _PLACE))

    def close(self) -> None:
        """End the program and wait for it."""
        self._unsent.put(None)
        self._writer.join(10)
        if self._process.stdout is not None:
            self._process.stdout.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        # The reader of the answer reports a program that has ended.
        with suppress(BrokenPipeError), stdin:
            while (line := self._unsent.get()) is not None:
                stdin.write(line)
                stdin.flush()


@contextmanager
def running(command: list[str]) -> Iterator[Answerer]:
    """Runs a program, and the extenders that it may call, in a `with` block."""
    with extender.serving() as address:
        answerer = Answerer(command, address)
        try:
            yield answerer
        finally:
            answerer.close()


def oracle_command(*flags: str, admit: bool = True) -> list[str]:
    """Return the oracle's command line; `admit` makes it play the API server first.

    Its flags for cases are those of `stowage explain`; see `families.FLAGS`.
    """
    if not ORACLE.exists():
        message = f"the oracle is not built: {ORACLE} is missing (make oracle)"
        raise SystemExit(message)
    return [str(ORACLE), *(["--admit"] if admit else []), *flags]


def stowage_command(*flags: str) -> list[str]:
    """Returns the command line that answers cases with Stowage's engine."""
    return [sys.executable, "-m", "scheduler", "explain", "--jsonl", "-o", "json", *flags]


def pipelined(answerer: Answerer, cases: Iterable[object]) -> Iterator[Any]:
    """Yields the answers in order, with several cases in flight."""
    under_way = 0
    for case in cases:
        answerer.send(case)
        under_way += 1
        if under_way == WINDOW:
            yield answerer.receive()
            under_way -= 1
    for _ in range(under_way):
        yield answerer.receive()
