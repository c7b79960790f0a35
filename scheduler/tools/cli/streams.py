"""Standard streams that are full or closed: one message and a status, instead of a traceback."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import UnsupportedOperation
from typing import Final, TextIO, cast

import click

_UNUSABLE: Final = 2


@contextmanager
def checked_streams(program: str) -> Iterator[None]:
    """Exit with status 2 and a message if the output cannot be written.

    A pipe whose reader has gone away is left to click, which ends without a message.
    """
    _open_closed()
    try:
        yield
    except OSError as problem:
        if not _fails(sys.stdout):
            raise
        # Python flushes once more at its end, which must not fail.
        _discard(sys.stdout)
        try:
            click.echo(f"{program}: cannot write the output: {problem.strerror}", err=True)
        except OSError:
            _discard(sys.stderr)
        sys.exit(_UNUSABLE)


def _fails(stream: TextIO) -> bool:
    """Whether not even a line break can be written: the error may be about another file."""
    try:
        os.write(stream.fileno(), b"\n")
    except UnsupportedOperation:
        return False
    except OSError:
        return True
    return False


def _discard(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_closed() -> None:
    """Replace streams that the caller has closed, which Python has as None.

    Standard output gets a file that cannot be written: output that is lost must be an error.
    """
    if cast("TextIO | None", sys.stdout) is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if cast("TextIO | None", sys.stderr) is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
