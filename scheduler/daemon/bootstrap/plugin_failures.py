"""The log of failures that fail no attempt: of PreEnqueue, QueueSort and queueing hints."""

from collections import defaultdict
from typing import Final

from scheduler.clock import Clock, Throttle
from scheduler.kernel.framework.runtime import PluginError
from scheduler.observability.logs import get_logger

LOG_AGAIN_SECONDS: Final = 60.0

log = get_logger(__name__)


class PluginFailureLog:
    """Logs each plugin at each extension point once a minute.

    Almost every event retries the pods that a broken PreEnqueue plugin gates.
    """

    def __init__(self, clock: Clock) -> None:
        self._throttles = defaultdict[tuple[str, str], Throttle](
            lambda: Throttle(clock, LOG_AGAIN_SECONDS)
        )

    def note(self, problem: PluginError) -> None:
        """Log a failure, unless its plugin was logged a moment ago."""
        others = self._throttles[problem.plugin, problem.point].take()
        if others is not None:
            log.error("Plugin failed", pod=problem.pod, err=str(problem), others=others)
