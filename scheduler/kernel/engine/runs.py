"""Runs of equal pods: the results for one pod hold for the next one.

Many equal pods may wait while nothing but the placement of the last one has happened. Most of a
cycle would then only find again what is known. So the next pod goes to the best row of its class at
once. The snapshot takes over a run at its end. The node, and the part of chance in choosing it, are
the same as if each pod had been decided by itself.
"""

from typing import Final

import msgspec

from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.engine.algorithm import ScheduleResult
from scheduler.kernel.engine.core import Core
from scheduler.kernel.framework.runtime import Feasibility, Framework
from scheduler.kernel.snapshot import Change, PodAdded, PodRelabelled, PodUpdated

MAX_CHANGES: Final = 256
"""So many that the snapshot has not taken over end a run: it does so in about a millisecond."""

_COUNT_AS_BEFORE: Final = frozenset({PodUpdated, PodRelabelled})
"""Changes to the pods of a run when their bindings are confirmed.

No plugin that decides about these pods reads the labels of other pods. Otherwise the first pod
could not have been decided by its class alone.
"""


class _Run(msgspec.Struct):
    """What was found out about the pods of a run, and what it depends on.

    Attributes:
        framework: the profile that decided.
        kind: what the pods are like.
        found: what was found out about the first of them.
        uid: the last of them.
        row: where it went.
        changes: what the snapshot has not taken over; another list once it has.
        seen: how many of these were there before the last pod was placed.
        objects: how many changes plugins had been told of.
        nominations: how many there had been.
    """

    framework: Framework
    kind: PodKind
    found: Feasibility
    uid: str
    row: int
    changes: list[Change]
    seen: int
    objects: int
    nominations: int


class Runs:
    """The run under way, if there is one."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._run: _Run | None = None

    def begin(self, framework: Framework, pod: PodInfo, result: ScheduleResult) -> None:
        """A pod has a node, and is about to be assumed there: its look-alikes may follow."""
        self._run = None
        core, found = self._core, result.stands
        nominator = core.queue.nominator
        if found is None or core.extenders or len(nominator) or not framework.decides_alike(pod):
            return
        changes = core.cache.changes
        self._run = _Run(
            framework,
            pod.kind,
            found,
            pod.uid,
            result.row,
            changes,
            len(changes),
            core.states.changes,
            nominator.version,
        )

    def next(self, framework: Framework, pod: PodInfo) -> ScheduleResult | None:
        """Where a pod of the run goes; None where it is none, or must be decided by itself."""
        run, core = self._run, self._core
        if run is None:
            return None
        found = run.found
        if not (
            pod.kind is run.kind
            and run.framework is framework
            and self._is_undisturbed(run)
            and not pod.pod.volumes
            and not pod.pod.status.nominated_node_name
            and found.pod_class.run_ahead(run.row)
        ):
            self._run = None
            return None
        result = core.algorithm.schedule_alike(framework, found, core.snapshot)
        if result is None:
            self._run = None
            return None
        run.uid, run.row = pod.uid, result.row
        return result

    def _is_undisturbed(self, run: _Run) -> bool:
        """Whether the last pod was placed, some were confirmed, and nothing else has happened."""
        core, changes, count = self._core, run.changes, len(run.changes)
        if (
            core.cache.changes is not changes
            or count >= MAX_CHANGES
            or core.states.changes != run.objects
            or core.queue.nominator.version != run.nominations
        ):
            return False
        placed = 0
        for change in changes[run.seen :]:
            if type(change) is PodAdded and change.pod.pod.metadata.uid == run.uid:
                placed += 1
            elif type(change) not in _COUNT_AS_BEFORE:
                return False
        run.seen = count
        return placed == 1
