"""The two who answer cases: the oracle (kube-scheduler's framework) and `stowage explain`.

Both are programs that read a case per line and print an answer per line, kept running while there
are cases. A thread of its own writes the cases, so that a full pipe on one side never stops the
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
"""The built oracle; `make oracle` puts it there."""
WINDOW = 8
"""Cases sent ahead of the answers read; keeps the oracle's workers busy."""
_PLACE = extender.PLACE.encode()


class Answerer:
    """A running program that turns lines into lines.

    Args:
        command: its command line.
        extender: where the extenders of cases are; see `tests.parity.extender`.

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
        """Hand over one case; it is written while the caller goes on."""
        line = json.dumps(case, separators=(",", ":")).encode() + b"\n"
        self._unsent.put(line.replace(_PLACE, self.extender.encode()))

    def receive(self) -> Any:
        """Read the next answer."""
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
        # A program that has ended is reported by whoever waits for its answer.
        with suppress(BrokenPipeError), stdin:
            while (line := self._unsent.get()) is not None:
                stdin.write(line)
                stdin.flush()


@contextmanager
def running(command: list[str]) -> Iterator[Answerer]:
    """Run a program, with the extenders it may ask, for the time of a `with` block."""
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
    """Return the command line that answers cases with our own engine."""
    return [sys.executable, "-m", "scheduler", "explain", "--jsonl", "-o", "json", *flags]


def pipelined(answerer: Answerer, cases: Iterable[object]) -> Iterator[Any]:
    """Answer the cases in order, with a few of them under way at once."""
    under_way = 0
    for case in cases:
        answerer.send(case)
        under_way += 1
        if under_way == WINDOW:
            yield answerer.receive()
            under_way -= 1
    for _ in range(under_way):
        yield answerer.receive()
