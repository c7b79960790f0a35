"""Explains pods one by one: the verdict of every plugin on every node."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.limits import exceeded_limit
from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.assumed import assumed_on
from scheduler.kernel.answers.cluster_changes import nodes_for_all
from scheduler.kernel.answers.devices import claim_to_free, devices_taken
from scheduler.kernel.answers.edits import AddNodes
from scheduler.kernel.answers.estimate import (
    estimate,
    may_be_estimated,
    pod_end,
    with_end,
    with_estimate,
)
from scheduler.kernel.answers.extender_results import BlockingExtenders, ExtenderResults
from scheduler.kernel.answers.hypothetical_devices import hypothetical_devices
from scheduler.kernel.answers.hypothetical_nodes import HypotheticalNodes
from scheduler.kernel.answers.judgement import (
    TOLD,
    NodeNames,
    PodVerdict,
    Scored,
    judgement_of,
    rejection_of,
)
from scheduler.kernel.answers.model import (
    CandidateNode,
    CurrentPlacement,
    FeasibleNode,
    Gate,
    NextNode,
    Permitting,
    PodAnswer,
    Preempting,
    Unserved,
)
from scheduler.kernel.answers.trials import Trials
from scheduler.kernel.answers.waiting_model import Assumed, Estimate
from scheduler.kernel.answers.why import Depth, Whys
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.algorithm import NO_NODES
from scheduler.kernel.extender import ExtenderError
from scheduler.kernel.framework.results import Reason
from scheduler.kernel.framework.runtime import Feasibility, Framework, PluginError, Verdicts
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.framework.steps import finished
from scheduler.kernel.plugins.default_preemption import MESSAGE_PREFIX
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.obstacles import ClaimObstacle, claim_obstacles

_TRIALS_FOR_ALL: Final = 1024
"""Filter runs at most to place equal pods one by one; more pods get no answer."""

_ESTIMATES_KEPT: Final = 256
"""Estimates at most that are kept for equal pods."""


class _Asked(msgspec.Struct, frozen=True):
    """The snapshot and the verdicts of filters for the pod that was judged last."""

    snapshot: Snapshot
    found: Feasibility
    every: Sequence[Verdicts] | None


class Explainer:
    """Judges pods without changing the engine; an assigned pod as if it had no node."""

    def __init__(  # noqa: PLR0913 - what differs between a daemon and a command
        self,
        engine: Engine,
        framework_of: Callable[[PodInfo], Framework],
        *,
        all_reasons: bool = False,
        preempts: bool = False,
        asker: BlockingExtenders | None = None,
        asks_permit: bool = False,
        tells_devices: bool = False,
        unserved: Callable[[PodInfo], Unserved | None] = lambda _: None,
        wall: Callable[[], float] | None = None,
    ) -> None:
        """Configure the explanations.

        Args:
            engine: the engine with the cluster; its snapshot must be up to date.
            framework_of: returns the framework of a pod's profile.
            all_reasons: whether to run every filter on every node, beyond the first rejection.
            preempts: whether to run PostFilter for pods that fit nowhere. It uses the engine's
                random numbers, which an explanation must not change in a running scheduler.
            asker: calls extenders; None leaves them out.
            asks_permit: whether to run Permit plugins. They may allow waiting pods, which an
                explanation must not cause in a running scheduler.
            tells_devices: whether to name the devices that claims would get on each node.
            unserved: reports pods that no known scheduler serves.
            wall: returns the time of day, in seconds since 1970, to estimate when pods fit; None
                for no estimates.
        """
        self._core = engine.core
        self._framework_of = framework_of
        self._all_reasons = all_reasons
        self._preempts = preempts
        self._asker = asker
        self._asks_permit = asks_permit
        self._tells_devices = tells_devices
        self._unserved = unserved
        self._engine = engine
        self._wall = wall
        self._estimates: dict[object, Estimate | None] = {}
        self._asked: _Asked | None = None
        self._new_nodes = partial(HypotheticalNodes, engine.services, engine.core.states)
        self._whys = Whys(
            partial(hypothetical_devices, engine),
            lambda: engine.core.frameworks,
            self._new_nodes,
        )
        self._nodes = NodeNames()

    def explain(self, pod: PodInfo, depth: Depth = Depth.VERDICTS) -> PodAnswer:
        """Return the answer about one pod, with a verdict on each node."""
        return self.judge(pod, depth).answer()

    def judge(self, pod: PodInfo, depth: Depth = Depth.VERDICTS) -> PodVerdict:
        """Return the verdict on one pod, with equal nodes grouped."""
        framework = self._framework_of(pod)
        self._asked = None
        with framework.calls.unmeasured():
            try:
                judged = self._judge(framework, pod, depth)
            except (PluginError, ExtenderError) as problem:
                return PodVerdict(PodAnswer(pod.key, framework.profile_name, error=str(problem)))
        if self._wall is None:
            return judged
        if pod.node_name:
            return with_end(judged, pod_end(self._engine, pod, self._wall()))
        if not may_be_estimated(judged, framework, pod):
            return judged
        found = self._estimate(framework, pod, self._wall())
        return judged if found is None else with_estimate(judged, found)

    def _estimate(self, framework: Framework, pod: PodInfo, now: float) -> Estimate | None:
        """Estimate when a pod fits; once for equal pods while the snapshot does not change."""
        snapshot, is_alone = self._core.snapshot, not framework.is_member(pod)
        # A nominated pod may use the room that is kept for it.
        has_own = pod.has_own_objects or pod.uid in self._core.queue.nominator.nodes
        of_pod: object = pod.uid if has_own else pod.kind
        about = of_pod if is_alone else pod.group_name
        key = framework, snapshot.epoch, pod.namespace, about
        if key not in self._estimates:
            if len(self._estimates) >= _ESTIMATES_KEPT:
                self._estimates.clear()
            self._estimates[key] = finished(estimate(self._engine, framework, pod, now))
        return self._estimates[key]

    def nodes_for_all(self, answer: PodAnswer, pods: Sequence[PodInfo]) -> AddNodes | None:
        """Return how many nodes must be added so that several pods fit, or None.

        `answer` is about each of the pods, and has changes.
        """
        likes = [
            edit.like
            for change in answer.changes or ()
            for edit in change.edits
            if isinstance(edit, AddNodes)
        ]
        if not likes:
            return None
        trials = Trials(
            self._framework_of(pods[0]),
            pods[0],
            self._core.snapshot,
            self._core.queue.nominator,
            nodes=self._new_nodes(),
        )
        trials.left = _TRIALS_FOR_ALL
        count = nodes_for_all(trials, likes[0], pods)
        return None if count is None else AddNodes(likes[0], count)

    def forget(self) -> None:
        """Drop the input of `reasons`, which a change of the cluster makes invalid."""
        self._asked = None

    @property
    def reasons(self) -> Mapping[str, Sequence[Reason]]:
        """By rejected node, the reasons against the pod judged last, with their numbers.

        Cost: a call per node.
        """
        asked = self._asked
        if asked is None or asked.found.verdicts is None:
            return {}
        verdicts, table = asked.found.verdicts, asked.snapshot.table
        reasons: dict[str, Sequence[Reason]] = {}
        for row in table.live_rows().tolist():
            position = verdicts.position_of(row)
            if position is not None and verdicts.first[position] == FEASIBLE:
                continue
            if asked.every is not None:
                found: Sequence[Reason] = [r for v in asked.every for r in v.reasons(row)]
            else:
                found = () if position is None else verdicts.reasons(position)
            reasons[table.names[row]] = found
        return reasons

    # --- judging --------------------------------------------------------------------------------

    def _judge(self, framework: Framework, pod: PodInfo, depth: Depth) -> PodVerdict:  # noqa: C901 - the cycle of one pod, read from top to bottom
        summary = PodAnswer(
            pod.key,
            framework.profile_name,
            self._unserved(pod) or UNSET,
            assumed=self._assumed(pod) or UNSET,
        )
        node_name = pod.node_name
        if node_name:
            summary = replace(summary, placed=CurrentPlacement(node_name, fits=False))
            pod = pod.on_node("")
        gate = framework.run_pre_enqueue_plugins(pod)
        if not gate.is_success:
            return PodVerdict(_gated(summary, gate))
        snapshot = self._snapshot_without(pod)
        refused = exceeded_limit(pod) or ("" if snapshot.table.count else NO_NODES.message)
        if refused:
            return PodVerdict(replace(summary, message=refused))
        nominated = self._core.queue.nominator
        found = framework.filtering.find_nodes_that_fit(pod, snapshot, nominated)
        every = None
        if self._all_reasons and found.verdicts is not None:
            every = framework.filtering.every_verdict(found, pod, snapshot, nominated)
        self._asked = _Asked(snapshot, found, every)
        results = self._extender_results(pod, found, snapshot)
        rows = results.rows_of(found, snapshot)
        if not len(rows):
            diagnosis = found.diagnosis(snapshot, results.refused)
            summary = replace(
                summary,
                message=diagnosis.message(),
                frees=claim_to_free(framework, found, pod, diagnosis) or UNSET,
                preemption=self._preemption(framework, pod, found, results, snapshot),
            )
            if not results.refused:
                summary = self._whys.add(summary, depth, framework, pod, found, snapshot, nominated)
        summary = replace(summary, claims=self._claims(framework, pod, snapshot) or UNSET)
        if found.verdicts is None:
            return PodVerdict(replace(summary, pre_filter=rejection_of(found.pre_filter)))
        scored = results.scored(_scored(framework, found, pod, snapshot, rows), snapshot)
        scored = self._with_devices(scored, framework, found, snapshot)
        judgement = judgement_of(
            summary,
            snapshot,
            self._nodes_of(snapshot),
            found,
            scored,
            every,
            results.rejections(snapshot),
        )
        if not node_name:
            permit = self._permit(framework, pod, found, judgement)
            return replace(judgement, summary=replace(judgement.summary, permit=permit))
        return replace(
            judgement, summary=replace(summary, placed=_current_placement(judgement, node_name))
        )

    def _claims(
        self, framework: Framework, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[ClaimObstacle, ...]:
        catalog = self._core.states.known(VolumeCatalog)
        if catalog is None:
            return ()
        filters = frozenset(plugin.name for plugin in framework.plugins.filter)
        return claim_obstacles(pod, catalog, snapshot, filters)

    def _with_devices(
        self, scored: Scored, framework: Framework, found: Feasibility, snapshot: Snapshot
    ) -> Scored:
        if not self._tells_devices:
            return scored
        return replace(scored, devices=devices_taken(framework, found, snapshot, scored.rows))

    def _permit(
        self, framework: Framework, pod: PodInfo, found: Feasibility, judgement: PodVerdict
    ) -> Permitting | UnsetType:
        """Return the Permit verdict for the best node, without reserving resources there."""
        best = judgement.best(1)
        if not (self._asks_permit and best and framework.plugins.permit):
            return UNSET
        node = best[0].node
        status, waits = framework.run_permit_plugins(found.state, pod.on_node(node))
        if status.is_success:
            return UNSET
        name = status.code.upstream_name
        if status.code is Code.WAIT:
            return Permitting(node, name, tuple(waits), min(waits.values()))
        return Permitting(node, name, (status.plugin,), reasons=status.reasons)

    def _assumed(self, pod: PodInfo) -> tuple[Assumed, ...]:
        """Return the nodes with the most assumed pods, not counting the pod itself."""
        found = assumed_on(p for p in self._core.cache.assumed_pods() if p.uid != pod.uid)
        return tuple(sorted(found, key=lambda each: (-len(each.pods), each.node))[:TOLD])

    def _nodes_of(self, snapshot: Snapshot) -> NodeNames:
        """Return the node names of a snapshot; cached, as nodes rarely change."""
        if not self._nodes.are_of(snapshot):
            self._nodes = NodeNames.of(snapshot)
        return self._nodes

    def _extender_results(
        self, pod: PodInfo, found: Feasibility, snapshot: Snapshot
    ) -> ExtenderResults:
        """Call extenders about the nodes that passed the filters, and return their verdicts."""
        if self._asker is None:
            return ExtenderResults(None, ())
        names = snapshot.table.names
        fitting = tuple(names[row] for row in found.feasible_rows().tolist())
        return ExtenderResults(self._asker.about_nodes(pod, fitting), self._asker.extenders.all)

    def _snapshot_without(self, pod: PodInfo) -> Snapshot:
        """Return the snapshot without the pod."""
        snapshot = self._core.snapshot
        placed = self._core.cache.seen_by_snapshot(pod.uid)
        if placed is None or placed.node_name not in snapshot.table.row_of:
            return snapshot
        return snapshot.fork(remove=[placed])

    def _preemption(
        self,
        framework: Framework,
        pod: PodInfo,
        found: Feasibility,
        results: ExtenderResults,
        snapshot: Snapshot,
    ) -> Preempting | UnsetType:
        if not self._preempts:
            return UNSET
        diagnosis, asker = found.diagnosis(snapshot, results.refused), self._asker
        run = framework.run_post_filter_plugins
        result, status = run(found.state, pod, snapshot, diagnosis)
        if asker is not None and result is not None and status.is_success:
            diagnosis.reviewed = asker.about_candidates(pod, tuple(result.candidates), snapshot)
            if diagnosis.reviewed is not None:
                result, status = run(found.state, pod, snapshot, diagnosis)
        if result is None or not status.is_success:
            return Preempting("", (), (), _preemption_message(status))
        candidates = [
            CandidateNode(c.node_name, _keys(c.victims), c.pdb_violations)
            for c in result.candidates
        ]
        candidates.sort(key=lambda candidate: candidate.node)
        return Preempting(result.node_name, _keys(result.victims), tuple(candidates), "")


def _gated(summary: PodAnswer, gate: Status) -> PodAnswer:
    if gate.code is Code.ERROR:
        return replace(summary, error=gate.message)
    return replace(summary, pre_enqueue=Gate(gate.plugin, gate.reasons))


def _scored(
    framework: Framework,
    found: Feasibility,
    pod: PodInfo,
    snapshot: Snapshot,
    rows: NDArray[np.intp],
) -> Scored:
    if not len(rows):
        return Scored()
    table = framework.scoring.score_table(found, pod, snapshot, rows)
    # Plugins may reuse the arrays that they returned.
    columns = [(name, weight, column.copy()) for name, weight, column in table]
    return Scored(rows, columns, framework.scoring.totals(found, pod, snapshot, rows))


def _current_placement(judgement: PodVerdict, node_name: str) -> CurrentPlacement:
    """Compare a pod's node with the other feasible nodes."""
    own, best = judgement.about(node_name), judgement.best(2)
    next_best = next((each for each in best if each.node != node_name), None)
    after = None if next_best is None else NextNode(next_best.node, next_best.total)
    if own is None:
        return CurrentPlacement(node_name, fits=False, next=after)
    rank = judgement.rank(own.total)
    if next_best is None:
        return CurrentPlacement(node_name, fits=True, rank=rank, total=own.total)
    ahead = own.total - next_best.total
    return CurrentPlacement(node_name, True, rank, own.total, ahead, after, _lead(own, next_best))  # noqa: FBT003 - a struct's field


def _lead(own: FeasibleNode, other: FeasibleNode) -> dict[str, int]:
    """Return by plugin the weighted score of one node minus that of another."""
    return {
        name: score.weighted - other.scores[name].weighted for name, score in own.scores.items()
    }


def _keys(pods: Sequence[PodInfo]) -> tuple[str, ...]:
    return tuple(pod.key for pod in pods)


def _preemption_message(status: Status) -> str:
    """Return the message of preemption without those of other PostFilter plugins."""
    own = [reason for reason in status.reasons if reason.startswith(MESSAGE_PREFIX)]
    return own[0].removeprefix(MESSAGE_PREFIX) if own else status.message
