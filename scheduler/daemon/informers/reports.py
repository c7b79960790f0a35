"""The logs and metrics of an informer, and their rate limits."""

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
"""A problem that lasts is logged this often."""

MAX_REPORTED: Final = 1024
"""Malformed objects that are remembered, so that each is reported once."""

log = get_logger(__name__)


class Reports:
    """Logs and counts for one kind."""

    def __init__(self, kind: str, metrics: InformerMetrics, clock: Clock) -> None:
        self._kind = kind
        self._metrics = metrics
        self._clock = clock
        self._failing_since: float | None = None
        self._log_again = 0.0
        self._reported: dict[str, str] = {}
        """Versions of malformed objects that were reported, by key."""

    def restart(self, reason: str) -> None:
        """Count the end of a watch: `ended` in good order, `failed`, or `expired` (list again)."""
        self._metrics.watch_restarts[self._kind, reason].inc()

    def all_is_well(self) -> None:
        """Note a recovery: it is logged, and the next failure is logged at once."""
        if self._failing_since is not None:
            log.info(
                "Watching again",
                kind=self._kind,
                after_seconds=round(self._clock.monotonic() - self._failing_since, 1),
            )
            self._failing_since = None

    def failed(self, reason: str, pause: float) -> None:
        """Log a failure once, and again after it has lasted for long."""
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
        """Count and log an object that cannot be decoded, each version of it once."""
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
        """Forget an object that is gone."""
        self._reported.pop(key, None)
