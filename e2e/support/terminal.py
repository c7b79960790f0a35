"""Runs interactive programs on a pseudo-terminal; reads the screen and sends keys."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from e2e.support.waiting import PATIENCE_SECONDS

_CONTROL = re.compile(r"\x1b(?:\[[0-9;?<>=]*[A-Za-z]|\][^\x07]*\x07|[()=>][0-9A-Za-z]?)")


class Terminal:
    """A program on a pseudo-terminal of 80 columns and 24 lines.

    Args:
        command: program and arguments.
        directory: working directory.
        variables: environment variables.
    """

    def __init__(
        self, command: Sequence[str], directory: Path, variables: Mapping[str, str]
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            env={**variables, "TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            # Ctrl-C sends SIGINT only to a session with a controlling terminal.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 -- as above
        )
        os.close(slave)
        self._written = b""

    @property
    def text(self) -> str:
        """All output so far, without control sequences."""
        return _CONTROL.sub("", self._written.decode(errors="replace"))

    def wait_for(self, *signs: str, timeout_seconds: float = PATIENCE_SECONDS) -> str:
        """Read until the output contains every one of ``signs``; return the output."""
        deadline = time.monotonic() + timeout_seconds
        while not all(sign in self.text for sign in signs):
            is_open = self._read(0.1)
            if all(sign in self.text for sign in signs):
                break
            assert is_open, f"it ended before it showed {signs}:\n{self.text[-3000:]}"
            assert time.monotonic() < deadline, f"it did not show {signs}:\n{self.text[-3000:]}"
        return self.text

    def forget(self) -> None:
        """Discard the output so far."""
        self._written = b""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait(self, timeout_seconds: float = PATIENCE_SECONDS) -> int:
        """Read until the program ends; return its exit status."""
        deadline = time.monotonic() + timeout_seconds
        while self._read(0.1):
            assert time.monotonic() < deadline, f"it did not end:\n{self.text[-3000:]}"
        return self.process.wait(timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        os.close(self._master)

    def _read(self, seconds: float) -> bool:
        """Read available output; return whether more may follow."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return self.process.poll() is None
        try:
            found = os.read(self._master, 65536)
        except OSError:  # The program closed the terminal.
            return False
        self._written += found
        return bool(found)
