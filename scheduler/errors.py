"""The root of every error Stowage raises on purpose.

SchedulerError
├── config.ConfigError        the configuration, a flag or a file given by a person is wrong
└── …                         each room derives its own in the module that raises it
"""


class SchedulerError(Exception):
    """An error that Stowage explains in one message; `str()` of it can be shown to people."""


def encodable(text: str) -> str:
    """Return a text that every encoder accepts: lone surrogates are written out."""
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode()


def in_words(problem: BaseException) -> str:
    """Return the message of an exception, even if its class fails to produce one."""
    try:
        return encodable(str(problem))
    except Exception:  # noqa: BLE001 - foreign code to the last
        return "(it cannot say why)"
