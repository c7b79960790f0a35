"""What every plugin says about every node, for every pod on its own."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from scheduler.answers.model import (
    CandidateNode,
    FeasibleNode,
    Gate,
    PluginScore,
    PodAnswer,
    Preempting,
    RejectedNode,
    Rejection,
)
from scheduler.api.pods import PodInfo
from scheduler.engine import Engine
from scheduler.engine.algorithm import NoNodesAvailable
from scheduler.framework.interface import Reason
from scheduler.framework.runtime import Feasibility, Framework, PluginError
from scheduler.framework.runtime.nominated_pods import NominatedPods
from scheduler.framework.runtime.verdicts import FEASIBLE
from scheduler.framework.status import Code, Status
from scheduler.plugins.default_preemption import MESSAGE_PREFIX
from scheduler.snapshot import Snapshot
from scheduler.volumes.catalog import VolumeCatalog
from scheduler.volumes.obstacles import claim_obstacles


class Explainer:
    """Judges waiting pods, changing nothing.

    Attributes:
        reasons: by rejected node, why it cannot take the pod explained last, with the numbers.
    """

    def __init__(
        self,
        engine: Engine,
        framework_of: Callable[[PodInfo], Framework],
        *,
        all_reasons: bool = False,
        preempts: bool = False,
    ) -> None:
        """Take what is to be judged.

        Args:
            engine: what knows the cluster.
            framework_of: the profile that decides about a pod.
            all_reasons: ask every plugin about every node, beyond the first that rejects it.
            preempts: say who would be evicted for pods that fit nowhere.
        """
        self._core = engine.core
        self._framework_of = framework_of
        self._all_reasons = all_reasons
        self._preempts = preempts
        self.reasons: dict[str, list[Reason]] = {}

    def explain(self, pod: PodInfo) -> PodAnswer:
        """What the plugins say about one pod."""
        framework = self._framework_of(pod)
        self.reasons = {}
        try:
            return self._judge(framework, pod)
        except PluginError as problem:
            return PodAnswer(pod.key, framework.profile_name, error=str(problem))

    def _judge(self, framework: Framework, pod: PodInfo) -> PodAnswer:
        profile = framework.profile_name
        gate = framework.run_pre_enqueue_plugins(pod)
        if gate.code is Code.ERROR:
            return PodAnswer(pod.key, profile, error=gate.message)
        if not gate.is_success:
            return PodAnswer(pod.key, profile, pre_enqueue=Gate(gate.plugin, gate.reasons))
        snapshot = self._core.snapshot
        if not snapshot.table.count:
            return PodAnswer(pod.key, profile, message=NoNodesAvailable().message)
        nominated = self._core.queue.nominator
        found = framework.find_nodes_that_fit(pod, snapshot, nominated)
        message = found.diagnosis(snapshot).message()
        claims = (
            claim_obstacles(pod, self._core.states.shared(VolumeCatalog, ""), snapshot) or UNSET
        )
        if found.verdicts is None:
            return PodAnswer(
                pod.key,
                profile,
                pre_filter=_rejection(found.pre_filter),
                message=message,
                claims=claims,
                preemption=self._preemption(framework, pod, found),
            )
        rows = found.feasible_rows()
        nodes: list[FeasibleNode | RejectedNode] = []
        nodes.extend(self._rejected(framework, pod, found, nominated))
        if len(rows):
            nodes.extend(_feasible(framework, found, pod, snapshot, rows))
            message = ""
        nodes.sort(key=lambda node: node.node)
        preemption = UNSET if len(rows) else self._preemption(framework, pod, found)
        return PodAnswer(
            pod.key,
            profile,
            nodes=tuple(nodes),
            message=message,
            claims=claims,
            preemption=preemption,
        )

    def _preemption(
        self, framework: Framework, pod: PodInfo, found: Feasibility
    ) -> Preempting | UnsetType:
        if not self._preempts:
            return UNSET
        snapshot = self._core.snapshot
        result, status = framework.run_post_filter_plugins(
            found.state, pod, snapshot, found.diagnosis(snapshot)
        )
        if result is None or not status.is_success:
            return Preempting("", (), (), _preemption_message(status))
        candidates = [
            CandidateNode(c.node_name, _keys(c.victims), c.pdb_violations)
            for c in result.candidates
        ]
        candidates.sort(key=lambda candidate: candidate.node)
        return Preempting(result.nominated_node_name, _keys(result.victims), tuple(candidates), "")

    def _rejected(
        self,
        framework: Framework,
        pod: PodInfo,
        found: Feasibility,
        nominated: NominatedPods,
    ) -> Iterator[RejectedNode]:
        verdicts = found.verdicts
        if verdicts is None:
            return
        snapshot = self._core.snapshot
        table = snapshot.table
        every = None
        if self._all_reasons:
            every = framework.every_verdict(found, pod, snapshot, nominated)
        for row in table.live_rows().tolist():
            position = verdicts.position_of(row)
            if position is None:
                status = found.absent or Status()
            elif verdicts.first[position] == FEASIBLE:
                continue
            else:
                status = verdicts.status(position)
            name = table.names[row]
            self.reasons[name] = [] if position is None else list(verdicts.reasons(position))
            node = RejectedNode(name, status.plugin, status.code.upstream_name, status.reasons)
            if every is not None:
                self.reasons[name] = [reason for v in every for reason in v.reasons(row)]
                statuses = [v.status(row) for v in every if v.first[row] != FEASIBLE]
                if position is None:
                    statuses.insert(0, status)
                node = _with_rejections(node, statuses)
            yield node


def _feasible(
    framework: Framework,
    found: Feasibility,
    pod: PodInfo,
    snapshot: Snapshot,
    rows: NDArray[np.intp],
) -> Iterator[FeasibleNode]:
    table = framework.score_table(found, pod, snapshot, rows)
    totals = framework.totals(found, pod, snapshot, rows).tolist()
    columns = [(name, weight, column.tolist()) for name, weight, column in table]
    for position, row in enumerate(rows.tolist()):
        scores = {
            name: PluginScore(int(column[position]), int(column[position]) * weight)
            for name, weight, column in columns
        }
        yield FeasibleNode(snapshot.table.names[row], scores, int(totals[position]))


def _with_rejections(node: RejectedNode, statuses: Sequence[Status]) -> RejectedNode:
    return RejectedNode(
        node.node,
        node.plugin,
        node.code,
        node.reasons,
        rejections=tuple(_rejection(status) for status in statuses),
    )


def _rejection(status: Status) -> Rejection:
    return Rejection(status.plugin, status.code.upstream_name, status.reasons)


def _keys(pods: Sequence[PodInfo]) -> tuple[str, ...]:
    return tuple(pod.key for pod in pods)


def _preemption_message(status: Status) -> str:
    """What preemption says, without what other PostFilter plugins say."""
    own = [reason for reason in status.reasons if reason.startswith(MESSAGE_PREFIX)]
    return own[0].removeprefix(MESSAGE_PREFIX) if own else status.message
