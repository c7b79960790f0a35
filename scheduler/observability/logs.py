"""Logs lines of a constant message and keys, as text or JSON, on standard error.

    log = get_logger(__name__)
    log.info("Started", version=version)
    if verbose(4):
        log.info("Pod popped", v=4, pod=key)

Levels are klog's: 0 always, 1 facts for operators, 2 results, 3 changes, 4 debugging, 5 and more
tracing. Callers check `verbose` first, so that a disabled level costs only a comparison.
A message never contains values; a value never contains a secret (`redact`).

Source: k8s.io/klog text format; k8s.io/component-base/logs JSON format.
"""

import json
import logging
import sys
import textwrap
from collections.abc import MutableMapping
from typing import Any, Final, Protocol, TextIO, cast

import structlog
from typing_extensions import override

from scheduler.clock import Clock, SystemClock
from scheduler.observability.redaction import redact
from scheduler.observability.visible import visible

TEXT: Final = "text"
JSON: Final = "json"


class Logger(Protocol):
    """The interface of a logger."""

    def info(self, event: str, **keys: Any) -> Any:
        """Log a normal event."""

    def warning(self, event: str, **keys: Any) -> Any:
        """Log a problem after which work continues."""

    def error(self, event: str, **keys: Any) -> Any:
        """Log a failure."""

    def exception(self, event: str, **keys: Any) -> Any:
        """Log an unexpected failure with the trace of the current exception."""


class Verbosity:
    """The verbosity of logs; one per process, as with klog."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 0

    def __call__(self, level: int) -> bool:
        """Return whether messages of this level are logged."""
        return level <= self.level


verbose: Final = Verbosity()
"""To be called before a message of a level above 0; `verbose.level` may change at any time."""


def get_logger(name: str) -> Logger:
    """Return a logger whose lines name the module `name`."""
    logger: Logger = structlog.get_logger(module=name.removeprefix("scheduler."))
    return logger


def configure(clock: Clock, level: int, form: str = TEXT, stream: TextIO | None = None) -> None:
    """Configure logging of the process, messages of libraries included.

    `level` is that of klog, `form` is `TEXT` or `JSON`; `stream` is standard error by default.
    """
    verbose.level = level
    configure_structlog(clock, form, stream)
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, _Bridge)]:
        root.removeHandler(handler)
    root.addHandler(_Bridge())
    root.setLevel(logging.WARNING)


def configure_structlog(
    clock: Clock | None = None, form: str = TEXT, stream: TextIO | None = None
) -> None:
    """Configure logging of this package only; called at import, for text on standard error."""
    target = stream or cast("TextIO", _StandardError())
    structlog.configure(
        processors=[
            _Stamp(clock or SystemClock()),
            structlog.processors.format_exc_info,
            redact,
            _render_json if form == JSON else _render_text,
        ],
        wrapper_class=structlog.BoundLogger,
        logger_factory=structlog.WriteLoggerFactory(file=target),
        cache_logger_on_first_use=False,
    )


class _StandardError:
    """Writes to the present `sys.stderr`, not to that at import."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


class _Stamp:
    """Adds time and severity."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(
        self, _logger: object, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        event["_time"] = self._clock.wall()
        event["_severity"] = "error" if method in ("error", "exception", "critical") else method
        return event


class _Bridge(logging.Handler):
    """Logs messages of libraries (aiohttp, asyncio, kubernetes) in the same form."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        logger = get_logger(record.name)
        keys: dict[str, Any] = {"text": record.getMessage()}
        if record.exc_info:
            keys["exc_info"] = record.exc_info
        write = logger.error if record.levelno >= logging.ERROR else logger.warning
        write("Message of a library", **keys)


def _render_json(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    """Render a JSON object per line: ts (seconds since 1970), v or severity, msg, keys."""
    head = {
        "ts": event.pop("_time").timestamp(),
        "level": event.pop("_severity"),
        "v": event.pop("v", 0),
        "logger": event.pop("module", ""),
        "msg": event.pop("event"),
    }
    return json.dumps({**head, **event}, default=str)


def _render_text(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    """Render a line as klog does: severity and time, module, message and keys."""
    time = event.pop("_time")
    severity = event.pop("_severity")[0].upper()
    event.pop("v", None)
    module = event.pop("module", "")
    message = event.pop("event")
    trace = event.pop("exception", None)
    keys = "".join(f" {key}={_shown(value)}" for key, value in event.items())
    line = f'{severity}{time:%m%d %H:%M:%S.%f} {module}] "{message}"{keys}'
    if trace:
        # Indented: a line of an exception's message must not look like a log line.
        line += "\n" + textwrap.indent(trace, "  ")
    return visible(line)


def _shown(value: object) -> str:
    """Format a value as klog does: strings quoted, numbers bare, other values as JSON."""
    return json.dumps(value, default=str, ensure_ascii=False)


configure_structlog()
