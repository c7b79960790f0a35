"""Standard streams that are full, closed or left: a status, instead of a traceback."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper, UnsupportedOperation
from typing import Final, TextIO, cast

from typing_extensions import Buffer, override

from scheduler.tools.cli.echo import echo

_UNUSABLE: Final = 2
_LEFT: Final = 128 + signal.SIGPIPE
"""The status that a shell has for a program that a pipe without a reader ended."""


@contextmanager
def checked_streams(program: str) -> Iterator[None]:
    """Exit with status 2 and a message if the output cannot be written.

    If the reader of a pipe has left, as `head` does, exit like other programs: without a message.
    """
    _open_closed()
    output = _watched_output()
    try:
        yield
    except (OSError, SystemExit):
        # The error may be about another file, and click exits with 1 if a reader has left.
        if output is None or output.failure is None:
            raise
        _discard(sys.stdout)
        if isinstance(output.failure, BrokenPipeError):
            sys.exit(_LEFT)
        try:
            reason = output.failure.strerror
            echo(f"{program}: cannot write the output: {reason}", err=True)
        except OSError:
            _discard(sys.stderr)
        sys.exit(_UNUSABLE)


class _Output(BufferedWriter):
    """Bytes on their way to standard output, and the last error of writing them."""

    failure: OSError | None = None

    @override
    def write(self, buffer: Buffer, /) -> int:
        try:
            return super().write(buffer)
        except OSError as problem:
            self.failure = problem
            raise

    @override
    def flush(self) -> None:
        try:
            super().flush()
        except OSError as problem:
            self.failure = problem
            raise


def _watched_output() -> _Output | None:
    """Write standard output through an `_Output`, unless it is no file, as in tests."""
    replaced = cast("TextIOWrapper", sys.stdout)
    try:
        number = os.dup(replaced.fileno())
    except UnsupportedOperation:
        return None
    output = _Output(FileIO(number, "w"))
    sys.stdout = TextIOWrapper(
        output,
        encoding=replaced.encoding,
        errors=replaced.errors,
        line_buffering=replaced.line_buffering,
        write_through=replaced.write_through,
    )
    return output


def _discard(stream: TextIO) -> None:
    """Let Python flush the stream once more at its end, which must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_closed() -> None:
    """Replace streams that the caller has closed, which Python has as None.

    Input and output get files that cannot be read or written: what is lost must be an error.
    """
    if cast("TextIO | None", sys.stdin) is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")
    if cast("TextIO | None", sys.stdout) is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if cast("TextIO | None", sys.stderr) is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
