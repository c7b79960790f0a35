"""Standard streams that are full or closed: one message and a status, instead of a traceback."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO, cast

import click

_UNUSABLE: Final = 2
_STDOUT: Final = 1
_NOT_WRITTEN: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN}
)
"""A full disk, a quota, a size limit, a terminal that is gone, a closed stream."""


@contextmanager
def checked_streams(program: str) -> Iterator[None]:
    """Exit with status 2 and a message if the output cannot be written.

    A pipe whose reader has gone away is left to click, which ends without a message.
    """
    _open_closed()
    try:
        yield
    except OSError as problem:
        # An error about a file that is opened names the file; a write names none.
        if problem.errno not in _NOT_WRITTEN or problem.filename is not None:
            raise
        # Python flushes once more at its end, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
        with suppress(OSError):
            click.echo(f"{program}: cannot write the output: {problem.strerror}", err=True)
        sys.exit(_UNUSABLE)


def _open_closed() -> None:
    """Replace streams that the caller has closed, which Python has as None.

    Standard output gets a file that cannot be written: output that is lost must be an error.
    """
    if cast("TextIO | None", sys.stdout) is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if cast("TextIO | None", sys.stderr) is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
