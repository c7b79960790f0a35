"""The choice of a placement for a pod group: the part of the cluster that takes its members.

Columns give the most members that each placement can take. Where nothing but the class of the
members decides, the number is exact: the best placement is known before any member is placed. Else
the placements that may be large enough are tried one after the other, on a copy of the cluster.
That takes as many steps as it needs.

After a change of the cluster, a row may stand for another node. So a placement has a name, by which
it is generated again.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go (podGroupSchedulingPlacementAlgorithm,
findBestPlacement) v1.36.
Differs: upstream tries every placement in every case. Where none can hold the group it reports any
of them; here it is the one that holds most. An attempt tries at most `MAX_TRIED` members, the most
promising placements first. If none of these holds the group, the next attempt tries others.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.api.limits import exceeded_limit
from scheduler.api.pod_shape import PodShape
from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.engine.group_members import LOOKED, GroupStep, cost_of_look
from scheduler.kernel.engine.group_trial import GroupTrial, GroupTrialResult
from scheduler.kernel.framework.placements import FeasiblePlacements, Placements
from scheduler.kernel.framework.runtime import Feasibility, Framework, PluginError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.framework.types import Failure
from scheduler.kernel.groups import GroupMembers
from scheduler.kernel.snapshot import Indices, Snapshot

MAX_TRIED: Final = 2048
"""After this many tried members the search ends, or continues in the next attempt: 0.3 to 0.8 s."""
GONE: Final = "the placement {} is gone"


class PlacementChoice(msgspec.Struct, frozen=True):
    """The placement of a group, and the rows of its members.

    Attributes:
        count: the number of placements; 0 where the profile makes none.
        name: the name of the placement that was chosen.
        rows: its nodes; None for all.
        hosts: the only row to try for each member; None for all rows of the placement.
        failure: the reason why the group cannot be placed.
        holds: whether the group was found to fit there.
        is_renewed: whether the cluster has changed since.
        is_partial: whether the group may fit in a placement that the next attempt tries.
    """

    count: int = 0
    name: str = ""
    rows: Indices | None = None
    hosts: Sequence[Indices | None] = ()
    failure: Failure | None = None
    holds: bool = False
    is_renewed: bool = False
    is_partial: bool = False

    def within(self, member: int) -> Indices | None:
        """The rows to which the choice for a member is limited; None for all."""
        host = self.hosts[member] if self.hosts else None
        return self.rows if host is None else host

    def verdict(self, why: str) -> str:
        """The message of the group's condition if its members fail in this placement."""
        if not self.count:
            return why
        return f"0/{self.count} placements are available, first placement status: {why}"


class _View(msgspec.Struct, frozen=True):
    """The cluster, or a copy of it, with the profile whose plugins judge it."""

    framework: Framework
    snapshot: Snapshot
    nominated: NominatedPods

    def look(self, pod: PodInfo) -> Feasibility:
        """Find the nodes that can take a member."""
        return self.framework.filtering.find_nodes_that_fit(pod, self.snapshot, self.nominated)

    def fit(
        self, found: Feasibility, equal: Sequence[PodInfo], placements: Placements
    ) -> tuple[Indices, bool]:
        """The most members of a class that each placement can take; whether that is exact."""
        count = len(equal)
        if found.verdicts is None or found.looks_at_few or not self.framework.plugins.judges_alike:
            # The columns of the class are not filled, or a filter may see what they do not show.
            return np.full(len(placements.numbers), count), False
        takes_one = found.pod_class.first[: self.snapshot.table.size] == FEASIBLE
        room = takes_one.astype(np.float64)[np.newaxis]
        fit = placements.sums(room)[0]
        # Where there is a row for each member, more room on any of them makes no difference.
        is_open, is_exact = fit < count, True
        if is_open.any():
            rows = placements.among(np.flatnonzero(takes_one), is_open)
            found_room = _room_for(found.pod_class, equal[0].shape, self.snapshot, rows, count)
            is_exact = found_room is not None
            room[0, rows] = count if found_room is None else found_room
            fit = placements.sums(room)[0]
        return np.minimum(fit, count).astype(np.intp), is_exact


class PodGroupPlacements:
    """Chooses placements.

    Attributes:
        step: the current step, which counts the work.
    """

    def __init__(self, core: EngineState, step: GroupStep) -> None:
        self._core = core
        self.step = step

    def choose(
        self, attempts: Sequence[Attempt], known: GroupMembers | None
    ) -> Steps[PlacementChoice]:
        """Choose the placement for members that wait, in the order in which they are placed."""
        if known is None or not attempts[0].framework.tries_placements:
            return PlacementChoice()
        least = _least(known)
        if self.step.is_over:
            yield
        try:
            return (yield from self._chosen(attempts, least))
        except Exception as problem:  # noqa: BLE001 - one group must never stop the others
            return PlacementChoice(failure=self._core.failure(attempts[0].pod.key, problem))

    def renewed(self, choice: PlacementChoice, attempts: Sequence[Attempt]) -> PlacementChoice:
        """Generate the chosen placement again after the cluster has changed.

        Members that are already placed limit the others to the same placement.
        """
        if choice.rows is None:
            return replace(choice, is_renewed=True)
        try:
            return self._made_again(choice, attempts)
        except Exception as problem:  # noqa: BLE001 - one group must never stop the others
            return replace(choice, failure=self._core.failure(attempts[0].pod.key, problem))

    def awaited_plugins(self, attempts: Sequence[Attempt]) -> frozenset[str]:
        """The plugins whose events may help in placements other than the reported one."""
        core, framework = self._core, attempts[0].framework
        view = _View(framework, core.snapshot, core.queue.nominator)
        found: Feasibility | None = None
        with suppress(PluginError):
            found = next(map(view.look, _judged(each.pod for each in attempts)), None)
        if found is None:
            return frozenset()
        filters = () if found.attempt is None else found.attempt.filters
        names = {each.name for each in filters} | found.restricting | {found.pre_filter.plugin}
        return frozenset(names | _makers(framework)) - {""}

    def _chosen(self, attempts: Sequence[Attempt], least: int) -> Steps[PlacementChoice]:
        core, framework = self._core, attempts[0].framework
        pods = [attempt.pod for attempt in attempts]
        judged = _judged(pods)
        if not judged:
            return PlacementChoice()
        core.catch_up()
        framework.calls.begin_cycle(sampled=False)
        placements, status = framework.run_placement_generate_plugins(pods, core.snapshot)
        if not status.is_success:
            return PlacementChoice(failure=_refused(status))
        if placements.of_row is None:
            return PlacementChoice(len(placements.numbers))
        if len(placements.numbers) == 1:
            return _at(placements, 0)
        view = _View(framework, core.snapshot, core.queue.nominator)
        # Extenders may reject nodes, which columns do not show.
        advised = {each.pod.uid: advice for each in attempts if (advice := each.advice) is not None}
        fit = None if advised else self._exact(view, judged, placements)
        if fit is not None:
            return self._best(view, judged, placements, fit, least)
        trial, version = GroupTrial(core, attempts, self.step, advised), core.cluster_version
        turn = max(each.queued.attempts for each in attempts) - 1
        choice = yield from trial.tried(self._tried(trial, pods, placements, least, turn))
        is_as_it_was = core.cluster_version == version
        return choice if is_as_it_was else self.renewed(choice, attempts)

    def _made_again(self, choice: PlacementChoice, attempts: Sequence[Attempt]) -> PlacementChoice:
        core, framework = self._core, attempts[0].framework
        pods = [attempt.pod for attempt in attempts]
        core.catch_up()
        placements, status = framework.run_placement_generate_plugins(pods, core.snapshot)
        numbers = placements.numbers.tolist()
        number = next((each for each in numbers if placements.name(each) == choice.name), None)
        failure = None if status.is_success else _refused(status)
        if failure is None and number is None:
            gone = GONE.format(choice.name)
            failure = Failure(gone, is_rejection=True, unschedulable_plugins=_makers(framework))
        if failure is not None or number is None:
            return replace(choice, failure=failure, is_renewed=True)
        return replace(choice, rows=placements.rows(number), hosts=(), is_renewed=True)

    # --- how many members fit -------------------------------------------------------------------

    def _exact(
        self, view: _View, pods: Sequence[PodInfo], placements: Placements
    ) -> Indices | None:
        """The number of members that each placement can take, if columns determine it."""
        found: Feasibility | None = None
        for equal in _by_kind(pods):
            # Nominated pods take room that columns do not show.
            if view.nominated.before(equal[0], view.snapshot) is not None:
                return None
            before, found = found, view.look(equal[0])
            is_same = before is None or before.pod_class is found.pod_class
            is_alone = found.is_row_local and all(map(view.framework.decides_alike, equal))
            if not (is_same and is_alone):
                return None
        if found is None:
            return None
        fit, is_exact = view.fit(found, pods, placements)
        return fit if is_exact else None

    def _at_most(
        self, view: _View, pods: Sequence[PodInfo], placements: Placements
    ) -> Steps[tuple[list[PodInfo], Indices]]:
        """One member of each class, and the most members of it that each placement can take.

        The shape of the second is (classes, placements).
        """
        of_class: dict[int, tuple[Feasibility, list[PodInfo]]] = {}
        for equal in _by_kind(pods):
            found = view.look(equal[0])
            is_new = id(found.pod_class) not in of_class
            self.step.spend(cost_of_look(equal[0]) if is_new else 1)
            of_class.setdefault(id(found.pod_class), (found, []))[1].extend(equal)
            yield
        fit = []
        for found, equal in of_class.values():
            self.step.spend(LOOKED)
            fit.append(view.fit(found, equal, placements)[0])
            yield
        return [equal[0] for _, equal in of_class.values()], np.array(fit)

    # --- which placement ------------------------------------------------------------------------

    def _best(
        self, view: _View, pods: Sequence[PodInfo], placements: Placements, fit: Indices, least: int
    ) -> PlacementChoice:
        """Choose the best of the placements that hold a group of one class."""
        enough = np.flatnonzero(fit >= least)
        if not len(enough):
            return _at(placements, int(fit.argmax()))
        candidates = FeasiblePlacements(placements.only(enough), pods[:1], fit[np.newaxis, enough])
        at = int(enough[self._pick(view, pods, candidates)])
        return _at(placements, at, holds=True)

    def _pick(self, view: _View, pods: Sequence[PodInfo], candidates: FeasiblePlacements) -> int:
        """Pick one of the candidates with the highest score, as a position."""
        scores = view.framework.run_placement_score_plugins(pods, candidates, view.snapshot)
        return self._core.algorithm.pick_placement(np.flatnonzero(scores == scores.max()))

    def _tried(
        self,
        trial: GroupTrial,
        pods: Sequence[PodInfo],
        placements: Placements,
        least: int,
        turn: int,
    ) -> Steps[PlacementChoice]:
        """Try placements on a copy, and choose the best of those that hold the group.

        Very many take several turns, one for each attempt of the group.
        """
        view = _View(trial.framework, trial.world, trial.nominated)
        kinds, fit = yield from self._at_most(view, _judged(pods), placements)
        most_there = fit.sum(axis=0)
        enough = np.flatnonzero(most_there >= least)
        if not len(enough):
            return _at(placements, int(most_there.argmax()))
        candidates = FeasiblePlacements(placements.only(enough), kinds, fit[:, enough])
        promise = view.framework.run_placement_score_plugins(pods, candidates, view.snapshot)
        whole: list[tuple[int, GroupTrialResult]] = []
        most = _at(placements, int(most_there.argmax())), -1
        of_turn = max(1, MAX_TRIED // len(pods))
        turns = -(-len(enough) // of_turn)
        begin = turn % turns * of_turn
        in_order = enough[np.argsort(-promise, kind="stable")].tolist()
        for at in in_order[begin : begin + of_turn]:
            rows = placements.rows(placements.numbers.item(at))
            tried = yield from trial.place(rows, all_of_them=True)
            if tried.status.code is Code.ERROR:
                # The error will recur when members are placed there, and is reported then.
                return _at(placements, at)
            if tried.status.is_success:
                whole.append((at, tried))
            if tried.placed > most[1]:
                most = _at(placements, at, tried.hosts), tried.placed
        if whole:
            return self._best_of(whole, view, pods, placements)
        return replace(most[0], is_partial=begin + of_turn < len(enough))

    def _best_of(
        self,
        whole: Sequence[tuple[int, GroupTrialResult]],
        view: _View,
        pods: Sequence[PodInfo],
        placements: Placements,
    ) -> PlacementChoice:
        """Choose the best of the placements in which a trial has placed the group."""
        chosen = 0
        if len(whole) > 1:
            # Each pod has a row of its own here: only some of several equal pods may fit.
            placed = np.array([[host is not None for host in each.hosts] for _, each in whole]).T
            there = placements.only(np.array([at for at, _ in whole]))
            candidates = FeasiblePlacements(there, pods, placed.astype(np.intp))
            chosen = self._pick(view, pods, candidates)
        at, tried = whole[chosen]
        return _at(placements, at, tried.hosts, holds=True)


def _judged(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """The members that do not exceed a limit; others fit on no node, and no filter judges them."""
    return [pod for pod in pods if not exceeded_limit(pod)]


def _by_kind(pods: Sequence[PodInfo]) -> Iterable[list[PodInfo]]:
    """The members as lists of equal members."""
    of_kind: dict[int, list[PodInfo]] = {}
    for pod in pods:
        of_kind.setdefault(id(pod.kind), []).append(pod)
    return of_kind.values()


def _at(
    placements: Placements,
    at: int,
    hosts: Sequence[Indices | None] = (),
    *,
    holds: bool = False,
) -> PlacementChoice:
    number, count = placements.numbers.item(at), len(placements.numbers)
    name, rows = placements.name(number), placements.rows(number)
    return PlacementChoice(count, name, rows, hosts, holds=holds)


def _makers(framework: Framework) -> frozenset[str]:
    return frozenset(each.name for each in framework.plugins.placement_generate)


def _least(known: GroupMembers) -> int:
    """Number of waiting members that must find a place for the group to go on."""
    least = None if known.group is None else known.group.min_count
    return max(1, (least or 0) - known.scheduled)


def _refused(status: Status) -> Failure:
    if not status.is_rejection:
        return Failure(status.message)
    plugins = frozenset({status.plugin} - {""})
    return Failure(status.message, is_rejection=True, unschedulable_plugins=plugins)


def _room_for(
    pod_class: PodClass, shape: PodShape, snapshot: Snapshot, rows: Indices, most: int
) -> Indices | None:
    """Number of pods of a class that each row can take, as far as row-local filters tell.

    A row that is full stays full as pods are added, so bisection finds the number. Most rows can
    take `most`, so that is tried first.

    Each of the rows takes at least one pod. No more than `most` are counted on a row, 1 or more.

    Returns:
        The number for each of `rows`; None where it cannot be foreseen.

    Cost: one pass over the rows, and over those left for each time that `most` can be halved.
    """
    low, high = np.ones(len(rows), np.intp), np.full(len(rows), most, np.intp)
    middle, is_open = high, np.flatnonzero(low < high)
    while len(is_open):
        more = (middle[is_open] - 1).astype(np.float64)
        fits = pod_class.fits_with_more(snapshot, shape, rows[is_open], more)
        if fits is None:
            return None
        low[is_open] = np.where(fits, middle[is_open], low[is_open])
        high[is_open] = np.where(fits, high[is_open], middle[is_open] - 1)
        is_open = np.flatnonzero(low < high)
        middle = (low + high + 1) >> 1
    return low
