"""Logs and counts the failures of an informer, and limits the rate of its log lines."""

from collections.abc import Collection
from typing import Final

from scheduler.clock import Clock
from scheduler.daemon.client.errors import cut
from scheduler.daemon.informers.metadata_peek import MetadataPeek
from scheduler.daemon.informers.store import key_of
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.logs import get_logger, verbose

UNKNOWN: Final = "unknown"
LOG_AGAIN_SECONDS: Final = 60.0
"""Interval between logs of a problem that lasts."""

MAX_REPORTED: Final = 1024
"""Malformed objects that are remembered, so that each is reported once."""

log = get_logger(__name__)


class Outage:
    """Logs once for all kinds that the API server does not answer, and that it answers again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._without_answer: set[str] = set()
        """Kinds without an answer yet: some request again long after the server answers."""
        self._since: float | None = None
        self._log_again = 0.0

    def note(self, kind: str, reason: str, pause: float) -> None:
        """Log a request without an answer: once per outage, and again while the outage lasts."""
        now = self._clock.monotonic()
        is_news = self._since is None and kind not in self._without_answer
        self._without_answer.add(kind)
        if not is_news and now < self._log_again and not verbose(3):
            return
        self._log_again = now + LOG_AGAIN_SECONDS
        self._since = now if self._since is None else self._since
        log.warning(
            "API server does not answer; trying again",
            reason=reason,
            retry_in_seconds=round(pause, 1),
        )

    def end(self, kind: str) -> None:
        """Note an answer about a kind; the first answer ends the outage and is logged."""
        if kind not in self._without_answer:
            return
        self._without_answer.discard(kind)
        if self._since is not None:
            after = round(self._clock.monotonic() - self._since, 1)
            log.info("API server answers again", after_seconds=after)
            self._since = None


class Reports:
    """Logs and counts the failures of one kind's informer."""

    def __init__(
        self, kind: str, metrics: InformerMetrics, clock: Clock, outage: Outage | None = None
    ) -> None:
        """Report about one kind; `outage` is shared with the other kinds of the same server."""
        self._kind = kind
        self._outage = outage or Outage(clock)
        self._metrics = metrics
        self._clock = clock
        self._failing_since: float | None = None
        self._log_again = 0.0
        self._reported: dict[str, str] = {}
        """Versions of malformed objects that were reported, by key."""

    def restart(self, reason: str) -> None:
        """Count the end of a watch by reason: `ended` by the server, `failed`, or `expired`."""
        self._metrics.watch_restarts[self._kind, reason].inc()

    def all_is_well(self) -> None:
        """Note that the watch works; log the recovery, and the next failure at once."""
        self._outage.end(self._kind)
        if self._failing_since is not None:
            log.info(
                "Watching again",
                kind=self._kind,
                after_seconds=round(self._clock.monotonic() - self._failing_since, 1),
            )
            self._failing_since = None

    def failed(self, reason: str, pause: float, *, is_answer: bool = True) -> None:
        """Log a failure once, and again every `LOG_AGAIN_SECONDS` while it lasts.

        With `is_answer` the API server refused the request; otherwise all kinds have an outage.
        """
        if not is_answer:
            self._outage.note(self._kind, reason, pause)
            return
        self._outage.end(self._kind)
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        elif now < self._log_again and not verbose(3):
            return
        self._log_again = now + LOG_AGAIN_SECONDS
        log.warning(
            "Cannot list or watch; trying again",
            kind=self._kind,
            reason=reason,
            retry_in_seconds=round(pause, 1),
        )

    def malformed(self, seen: MetadataPeek, problem: Exception) -> None:
        """Count and log an object that cannot be decoded, once per resource version."""
        key = key_of(seen)
        if key and self._reported.get(key) == seen.resource_version:
            return
        if key and (key in self._reported or len(self._reported) < MAX_REPORTED):
            self._reported[key] = seen.resource_version
        self._metrics.malformed_objects[self._kind].inc()
        log.warning(
            "Object cannot be read; leaving it out",
            kind=self._kind,
            object=key or UNKNOWN,
            reason=cut(str(problem)),
        )

    @property
    def malformed_keys(self) -> Collection[str]:
        """Keys of the malformed objects that are remembered."""
        return self._reported.keys()

    def forget(self, key: str) -> None:
        """Forget a malformed object that was deleted."""
        self._reported.pop(key, None)
