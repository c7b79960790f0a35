"""Logs failures of plugins with their tracebacks."""

import traceback
from collections import defaultdict
from typing import Final

from scheduler.api.written import cut
from scheduler.clock import Clock, Throttle
from scheduler.errors import encodable
from scheduler.kernel.framework.runtime import PluginError, WrongAnswerError
from scheduler.observability.logs import get_logger

LOG_AGAIN_SECONDS: Final = 60.0

TRACE_LINES: Final = 8
"""Stack frames at most of a logged traceback."""

log = get_logger(__name__)


class PluginFailureLog:
    """Logs the failures of each plugin at each extension point once a minute.

    A broken PreEnqueue plugin runs again for each gated pod at almost every event. A failed attempt
    has its own line in the log, without the traceback.
    """

    def __init__(self, clock: Clock) -> None:
        self._throttles = defaultdict[tuple[str, str], Throttle](
            lambda: Throttle(clock, LOG_AGAIN_SECONDS)
        )

    def note(self, problem: PluginError) -> None:
        """Log a failure, unless one of this plugin at this point was logged in the last minute."""
        others = self._throttles[problem.plugin, problem.point].take()
        if others is not None:
            log.error(
                "Plugin failed",
                pod=problem.pod,
                err=cut(str(problem)),
                others=others,
                **_trace(problem.__cause__),
            )


def _trace(raised: BaseException | None) -> dict[str, str]:
    """Return the last frames, those of the plugin; nothing for a wrong answer, which has none."""
    if raised is None or isinstance(raised, WrongAnswerError):
        return {}
    frames = traceback.format_tb(raised.__traceback__, -TRACE_LINES)
    return {"trace": encodable("".join(frames))}
