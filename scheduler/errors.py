"""The root of every error Stowage raises on purpose.

SchedulerError
├── config.ConfigError        the configuration, a flag or a file given by a person is wrong
├── RequestError              a request to the API server did not succeed
└── …                         each room derives its own in the module that raises it
"""

import asyncio
from typing import Final

FOREIGN_ERRORS: Final = (Exception, SystemExit, asyncio.CancelledError)
"""The exceptions of a plugin that fail its call, and do not end the process.

A library may call `sys.exit`; the result of a cancelled task raises CancelledError. Only for calls
that are not awaited: around an `await`, CancelledError is the way to end a task.
"""


class SchedulerError(Exception):
    """An error that Stowage explains in one message; `str()` of it can be shown to people."""


class RequestError(SchedulerError):
    """A request to the API server that did not succeed.

    Attributes:
        status: the HTTP status of the answer, 0 without one.
        is_certain: whether it is certain that nothing was carried out. If not, the request or an
            earlier try may have been, or may still be: read the object before giving away what the
            request takes. False without an answer, and for 408, 409 and 5xx.
    """

    status: int = 0
    is_certain: bool = True


def encodable(text: str) -> str:
    """Return a text that every encoder accepts: lone surrogates are written out."""
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode()


def os_reason(problem: OSError) -> str:
    """Return the reason of an error of the operating system, without its number and path."""
    return (problem.strerror or str(problem)).lower()


def in_words(problem: BaseException) -> str:
    """Return the message of an exception, even if its class fails to produce one."""
    try:
        return encodable(str(problem))
    except Exception:  # noqa: BLE001 - foreign code to the last
        return "(it cannot say why)"
