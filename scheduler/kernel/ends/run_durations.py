"""The run times of the ended pods of each controller, learned by watching.

Only pods that end by themselves count. A pod that is deleted or evicted, or that a rollout
replaces, predicts nothing about the next one. Whether a run failed does not matter: it gave its
room back all the same.
"""

import re
from collections import deque
from math import ceil
from typing import Final, TypeAlias

from scheduler.api.pods import PodInfo
from scheduler.kernel.ends.times import seconds_of

Controller: TypeAlias = tuple[str, str, str]
"""Namespace, kind and name. All Jobs of a CronJob are one."""

MAX_CONTROLLERS: Final = 4096
"""The most controllers that are kept; the one whose last run is longest ago goes first."""
RUNS_KEPT: Final = 32
"""The last runs of each controller count."""
LEAST_RUNS: Final = 3
"""The fewest runs from which an end is estimated."""
QUANTILE: Final = 0.9
"""The share of runs that were over by the estimated end."""

_LASTING: Final = frozenset(
    {"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Node"}
)
"""Controllers whose pods run until they are replaced."""
_OF_CRON_JOB: Final = re.compile(r"(.+)-\d{8,}")
"""A CronJob calls its Jobs by its own name and the minute for which they are made."""


class RunDurations:
    """The last runs of each controller, in seconds."""

    def __init__(self) -> None:
        self._runs: dict[Controller, deque[float]] = {}
        """The runs by controller; the controller of the latest end is the last."""

    def __len__(self) -> int:
        """Number of controllers that are kept."""
        return len(self._runs)

    def copy(self) -> "RunDurations":
        """Make an independent copy."""
        copy = RunDurations()
        copy._runs = {key: runs.copy() for key, runs in self._runs.items()}
        return copy

    def note_end(self, pod: PodInfo, now: float) -> None:
        """Note the end of a pod; `pod` is its last known version, `now` in seconds since 1970."""
        start = seconds_of(pod.pod.start_time)
        if start is None or start > now or pod.is_terminating or not pod.node_name:
            return
        controller = _controller(pod)
        if controller is None:
            return
        runs = self._runs.pop(controller, None)
        if runs is None:
            runs = deque(maxlen=RUNS_KEPT)
            if len(self._runs) >= MAX_CONTROLLERS:
                del self._runs[next(iter(self._runs))]
        runs.append(now - start)
        self._runs[controller] = runs

    def of(self, pod: PodInfo) -> tuple[float, int] | None:
        """The seconds within which most runs like this one ended, and the number of runs."""
        if not self._runs:
            return None
        controller = _controller(pod)
        runs = None if controller is None else self._runs.get(controller)
        if runs is None or len(runs) < LEAST_RUNS:
            return None
        return sorted(runs)[ceil(QUANTILE * len(runs)) - 1], len(runs)


def _controller(pod: PodInfo) -> Controller | None:
    owner = pod.controller
    if owner is None or owner.kind in _LASTING:
        return None
    of_cron_job = _OF_CRON_JOB.fullmatch(owner.name) if owner.kind == "Job" else None
    name = owner.name if of_cron_job is None else of_cron_job[1]
    return pod.namespace, owner.kind, name
