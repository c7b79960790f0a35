"""In which part of the cluster a pod group is placed, where plugins make several.

Columns say how many members each placement can take at most. Where nothing but the class of the
members decides, the number is exact: the best placement is known before any member is placed. Else
the placements that may be large enough are tried one after the other. A trial takes room and
reservations as an attempt does, and gives all back.

Source: kubernetes pkg/scheduler/schedule_one_podgroup.go (podGroupSchedulingPlacementAlgorithm,
findBestPlacement) v1.36.
Differs: upstream tries every placement in every case. Where none can hold the group it reports any
of them; here it is the one that holds most. Once a placement holds the group, no others are tried
after `MAX_TRIED` members: those that promise the highest scores come first.
"""

import traceback
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.algorithm import ScheduleResult
from scheduler.kernel.engine.attempt import Attempt
from scheduler.kernel.engine.engine_state import TRACE_LINES, EngineState
from scheduler.kernel.engine.failure import Failure, unexpected
from scheduler.kernel.engine.groups_asking import advice_of
from scheduler.kernel.engine.scheduling_failure import FailureHandler
from scheduler.kernel.extender import Advice
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.placements import Candidates, Placements
from scheduler.kernel.framework.runtime import Feasibility, Framework, PluginError
from scheduler.kernel.framework.runtime.room import room_for
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.groups import GroupMembers

MAX_TRIED: Final = 2048
"""Members that are tried in vain, or for a placement that may not be the best: about 0.3 s."""

Rows = NDArray[np.intp]
Said = Mapping[str, Advice | None]
"""By UID, what extenders said about the nodes for a member."""


class Choice(msgspec.Struct, frozen=True):
    """Where the members of a group are to be placed.

    Attributes:
        count: how many placements there are; 0 where the profile makes none.
        name: of the one that was chosen.
        rows: its nodes; None for all.
        hosts: by member, the only row that is to be looked at; None where all of the placement are.
        failure: why the group cannot be placed, before any member is tried.
    """

    count: int = 0
    name: str = ""
    rows: Rows | None = None
    hosts: Sequence[Rows | None] = ()
    failure: Failure | None = None

    def within(self, member: int) -> Rows | None:
        """The only rows to look at for a member; None for all."""
        host = self.hosts[member] if self.hosts else None
        return self.rows if host is None else host

    def verdict(self, why: str) -> str:
        """What the group's condition says if its members fail in this placement."""
        if not self.count:
            return why
        return f"0/{self.count} placements are available, first placement status: {why}"


class _Kind(msgspec.Struct):
    """Members that are equal.

    Attributes:
        pod: one of them.
        count: how many there are.
        fit: how many of them each placement can take, at most.
    """

    pod: PodInfo
    count: int
    fit: Rows


class _Trial(msgspec.Struct):
    """How a group fares in one placement.

    Attributes:
        at: its place among the placements.
        hosts: by member, its row; None where it has none.
        is_whole: whether Permit is content with one of the places.
        has_failed: whether something went wrong: then the group fails here.
    """

    at: int
    hosts: list[Rows | None]
    is_whole: bool = False
    has_failed: bool = False

    @property
    def placed(self) -> int:
        """How many members have a node."""
        return sum(host is not None for host in self.hosts)


class PodGroupPlacements:
    """Chooses placements."""

    def __init__(self, core: EngineState, failures: FailureHandler) -> None:
        self._core = core
        self._failures = failures

    def choose(self, attempts: Sequence[Attempt], known: GroupMembers | None) -> Choice:
        """Where to place members that wait; nothing is taken when this ends.

        Args:
            attempts: theirs, in the order in which they are placed.
            known: of their group.
        """
        framework = attempts[0].framework
        if known is None or not framework.tries_placements:
            return Choice()
        core = self._core
        core.catch_up()
        framework.calls.begin_cycle(sampled=False)
        try:
            return self._chosen(framework, attempts, known)
        except PluginError as problem:
            return Choice(failure=Failure(str(problem)))
        except Exception as problem:  # noqa: BLE001 - one group must never stop the others
            trace = traceback.format_exc(-TRACE_LINES)
            core.report("Unexpected error", attempts[0].pod.key, problem, trace=trace)
            return Choice(failure=unexpected(problem))

    def wakers(self, attempt: Attempt) -> frozenset[str]:
        """The plugins that know what may help in the placements that were not reported."""
        core, framework = self._core, attempt.framework
        try:
            found = framework.filtering.find_nodes_that_fit(
                attempt.pod, core.snapshot, core.queue.nominator
            )
        except PluginError:
            return frozenset()
        filters = () if found.attempt is None else found.attempt.filters
        names = {each.name for each in filters} | found.restricting | {found.pre_filter.plugin}
        makers = {each.name for each in framework.plugins.placement_generate}
        return frozenset(names | makers) - {""}

    def _chosen(
        self, framework: Framework, attempts: Sequence[Attempt], known: GroupMembers
    ) -> Choice:
        core, pods = self._core, [attempt.pod for attempt in attempts]
        placements, status = framework.run_placement_generate_plugins(pods, core.snapshot)
        if not status.is_success:
            return Choice(failure=_refused(status))
        count = len(placements.numbers)
        if placements.of_row is None:
            return Choice(count)
        if count == 1:
            return _at(placements, 0)
        kinds, is_exact = self._kinds(framework, pods, placements)
        # Extenders may have something against nodes, which columns do not show.
        said = {each.pod.uid: advice_of(each) for each in attempts}
        is_exact &= not any(said.values())
        fit = np.sum([kind.fit for kind in kinds], axis=0)
        is_enough = np.flatnonzero(fit >= _least(known))
        if not len(is_enough):
            return _at(placements, int(fit.argmax()))
        if is_exact:
            scores = self._scores(framework, pods, kinds, placements, is_enough)
            return _at(placements, int(is_enough[self._best(scores)]))
        return self._tried(framework, pods, said, kinds, placements, is_enough)

    # --- how many members fit -------------------------------------------------------------------

    def _kinds(
        self, framework: Framework, pods: Sequence[PodInfo], placements: Placements
    ) -> tuple[list[_Kind], bool]:
        """The members by kind, and whether what is said of their number is exact."""
        of_kind: dict[int, list[PodInfo]] = {}
        for pod in pods:
            of_kind.setdefault(id(pod.kind), []).append(pod)
        of_class: dict[int, tuple[Feasibility, list[PodInfo]]] = {}
        is_exact = True
        snapshot, nominated = self._core.snapshot, self._core.queue.nominator
        for equal in of_kind.values():
            found = framework.filtering.find_nodes_that_fit(equal[0], snapshot, nominated)
            # Nominated pods take room that columns do not show.
            is_exact &= nominated.before(equal[0], snapshot) is None
            is_exact &= found.is_row_local and all(map(framework.decides_alike, equal))
            of_class.setdefault(id(found.pod_class), (found, []))[1].extend(equal)
        kinds = []
        for found, equal in of_class.values():
            kind, is_sure = self._kind(framework, found, equal, placements)
            kinds.append(kind)
            is_exact &= is_sure
        return kinds, is_exact and len(kinds) == 1

    def _kind(
        self,
        framework: Framework,
        found: Feasibility,
        equal: Sequence[PodInfo],
        placements: Placements,
    ) -> tuple[_Kind, bool]:
        pod, count, snapshot = equal[0], len(equal), self._core.snapshot
        if found.verdicts is None or found.looks_at_few or not framework.plugins.judges_alike:
            # The columns of the class are not filled, or a filter may see what they do not show.
            return _Kind(pod, count, np.full(len(placements.numbers), count)), False
        room, is_exact = room_for(found.pod_class, pod.shape, snapshot, count)
        fit = placements.sums(room[np.newaxis].astype(np.float64))[0]
        return _Kind(pod, count, np.minimum(fit, count).astype(np.intp)), is_exact

    # --- which placement ------------------------------------------------------------------------

    def _scores(
        self,
        framework: Framework,
        pods: Sequence[PodInfo],
        kinds: Sequence[_Kind],
        placements: Placements,
        chosen: Rows,
    ) -> NDArray[np.float64]:
        """The scores of some placements, as if as many members were there as fit at most."""
        placed = np.array([kind.fit[chosen] for kind in kinds])
        candidates = Candidates(placements.only(chosen), [kind.pod for kind in kinds], placed)
        return framework.run_placement_score_plugins(pods, candidates, self._core.snapshot)

    def _best(self, scores: NDArray[np.float64]) -> int:
        return self._core.algorithm.pick_placement(np.flatnonzero(scores == scores.max()))

    def _tried(
        self,
        framework: Framework,
        pods: Sequence[PodInfo],
        said: Said,
        kinds: Sequence[_Kind],
        placements: Placements,
        chosen: Rows,
    ) -> Choice:
        """The best of the placements in which a trial places the group."""
        promise = self._scores(framework, pods, kinds, placements, chosen)
        whole: list[_Trial] = []
        most, tried = None, 0
        for at in chosen[np.argsort(-promise, kind="stable")].tolist():
            if whole and tried > MAX_TRIED:
                break
            trial = self._trial(framework, pods, said, placements, at)
            tried += len(pods)
            if trial.has_failed:
                return _at(placements, at)
            if trial.is_whole:
                whole.append(trial)
            if most is None or trial.placed > most.placed:
                most = trial
        if most is not None and not whole:
            return _at(placements, most.at, most.hosts)
        best = whole[0]
        if len(whole) > 1:
            # Each pod is a kind of its own here: only some of those that are equal may fit.
            placed = np.array([[host is not None for host in trial.hosts] for trial in whole]).T
            at = np.array([trial.at for trial in whole])
            candidates = Candidates(placements.only(at), pods, placed.astype(np.intp))
            scores = framework.run_placement_score_plugins(pods, candidates, self._core.snapshot)
            best = whole[self._best(scores)]
        return _at(placements, best.at, best.hosts)

    # --- trials ---------------------------------------------------------------------------------

    def _trial(
        self,
        framework: Framework,
        pods: Sequence[PodInfo],
        said: Said,
        placements: Placements,
        at: int,
    ) -> _Trial:
        """Place the members in one placement, and give everything back."""
        core, trial = self._core, _Trial(at, [])
        rows = placements.rows(placements.numbers.item(at))
        taken: list[tuple[CycleState, PodInfo]] = []
        framework.calls.begin_cycle(sampled=False)
        try:
            for pod in pods:
                core.waiting.deciding = pod.uid
                found = self._found(framework, pod, said[pod.uid], rows)
                trial.hosts.append(self._take(framework, pod, found, taken, trial))
                if trial.has_failed:
                    break
        except PluginError:
            # It fails again where the placement is chosen, and is told then.
            trial.has_failed = True
        finally:
            core.waiting.deciding = ""
            while taken:
                self._give_back(framework, *taken.pop())
            core.catch_up()
        return trial

    def _found(
        self, framework: Framework, pod: PodInfo, advice: Advice | None, rows: Rows | None
    ) -> ScheduleResult | None:
        """The node for a member, of those that extenders let pass."""
        core = self._core
        core.catch_up()
        about = framework, pod, core.snapshot, core.queue.nominator
        if advice is None:
            found = core.algorithm.schedule_pod(*about, rows)
        else:
            found = core.algorithm.schedule_advised(*about, advice, rows)
        return found if isinstance(found, ScheduleResult) else None

    def _take(
        self,
        framework: Framework,
        pod: PodInfo,
        found: ScheduleResult | None,
        taken: list[tuple[CycleState, PodInfo]],
        trial: _Trial,
    ) -> Rows | None:
        """Take the node for a member; gives its row."""
        core = self._core
        if found is None:
            return None
        placed, state = pod.on_node(found.suggested_host), found.state
        core.cache.assume_pod(placed)
        taken.append((state, placed))
        self._failures.tell_states(core.states.reserved, placed)
        status = framework.run_reserve_plugins(state, placed, placed.node_name)
        if status.is_success:
            status, _ = framework.run_permit_plugins(state, placed, placed.node_name)
        if status.is_success or status.code is Code.WAIT:
            trial.is_whole |= status.is_success
            return np.array([found.row], np.intp)
        self._give_back(framework, *taken.pop())
        trial.has_failed = not status.is_rejection
        return None

    def _give_back(self, framework: Framework, state: CycleState, pod: PodInfo) -> None:
        core = self._core
        failures, writes = framework.run_unreserve_plugins(state, pod, pod.node_name)
        for problem in failures:
            core.report("Unreserve failed", pod.key, problem)
        core.out.extend(writes)
        self._failures.tell_states(core.states.unreserved, pod)
        core.cache.forget_pod(pod)


def _at(placements: Placements, at: int, hosts: Sequence[Rows | None] = ()) -> Choice:
    number = placements.numbers.item(at)
    count = len(placements.numbers)
    return Choice(count, placements.name(number), placements.rows(number), hosts)


def _least(known: GroupMembers) -> int:
    """How many members must find a place, so that the group goes on."""
    least = None if known.group is None else known.group.min_count
    return max(1, (least or 0) - known.scheduled)


def _refused(status: Status) -> Failure:
    if not status.is_rejection:
        return Failure(status.message)
    plugins = frozenset({status.plugin} - {""})
    return Failure(status.message, is_rejection=True, unschedulable_plugins=plugins)
