"""Finds the pods and profiles of `stowage explain`, and prints the answers."""

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from functools import partial
from os.path import isfile
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.clock import SystemClock
from scheduler.config.walker import did_you_mean, nearest
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.judgement import PodVerdict
from scheduler.kernel.answers.model import Unserved
from scheduler.kernel.answers.report import best_nodes
from scheduler.kernel.answers.scheduling_state import group_standing
from scheduler.kernel.answers.waiting_model import GroupStanding
from scheduler.kernel.answers.why import Depth
from scheduler.kernel.engine.instructions import POD_SCHEDULED
from scheduler.kernel.extender import Verb
from scheduler.kernel.framework.runtime import Framework
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.explain_text import PodReport, print_note, print_report
from scheduler.tools.cli.options import print_page
from scheduler.tools.cli.pod_page import PodPage, page_report, pod_page
from scheduler.tools.cli.progress import shown_progress
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, ClusterState, Profiles, scheduler_names
from scheduler.tools.offline.likeness import likeness_of
from scheduler.tools.offline.reading import ClusterObjects, InputError
from scheduler.tools.offline.simulate import Placement, simulate
from scheduler.tools.offline.workload_names import did_you_mean_pod

_NOT_ASKED: Final = (
    "Extenders are not asked about changes that would help: one may still reject the nodes."
)
_MOST_TOGETHER: Final = 10_000
"""Pending pods at most that are simulated together for an explanation."""


class ExplainOptions(msgspec.Struct, frozen=True):
    """The values of the options."""

    pods: tuple[str, ...]
    namespace: str
    profile: str
    nodes: tuple[str, ...]
    top: int
    depth: Depth
    with_unserved: bool = False
    """Whether to include pods whose schedulerName looks misspelt, if no pod is named."""


class ExplainInputs(msgspec.Struct, frozen=True):
    """The profiles that judge, and the pods to explain.

    Attributes:
        cluster: the loaded cluster.
        objects: the cluster as it was read.
        profiles: the profiles that judge pods.
        framework_of: returns the framework of a pod's profile.
        pods: the pods to explain.
    """

    cluster: ClusterState
    objects: ClusterObjects
    profiles: Profiles
    framework_of: Callable[[PodInfo], Framework]
    pods: list[PodInfo]
    unserved: Callable[[PodInfo], Unserved | None]


def explain_inputs(
    objects: ClusterObjects, profiles: Profiles, wanted: ExplainOptions
) -> ExplainInputs:
    """Find the profiles, and the pods to explain.

    Raises:
        SchedulerError: there is no such pod, node or profile.
    """
    frameworks = profiles.frameworks
    if wanted.profile and wanted.profile not in frameworks:
        names = ", ".join(frameworks)
        raise InputError(f"--profile {wanted.profile}: the profiles here are {names}")
    cluster = profiles.load(objects)
    for name in wanted.nodes:
        if name not in cluster.snapshot.table.row_of:
            guess = did_you_mean(name, cluster.snapshot.table.row_of)
            raise InputError(f"--node {name}: there is no such node{guess}")

    def framework_of(pod: PodInfo) -> Framework:
        return frameworks[wanted.profile] if wanted.profile else profiles.framework_of(pod)

    unserved = partial(unserved_name, served_names(objects.pods, profiles))
    pods = _chosen_pods(objects, cluster, wanted, unserved)
    return ExplainInputs(cluster, objects, profiles, framework_of, pods, unserved)


def served_names(pods: Iterable[PodInfo], profiles: Profiles) -> frozenset[str]:
    """Return the names of known schedulers: of profiles, kube-scheduler, and active others."""
    at_work = (p.spec.scheduler_name for p in pods if p.node_name or _was_tried(p))
    return frozenset({DEFAULT_PROFILE, *profiles.frameworks, *at_work})


def _was_tried(pod: PodInfo) -> bool:
    """Return whether a scheduler has reported in the pod's status that it is unschedulable."""
    return any(each.type == POD_SCHEDULED for each in pod.pod.status.conditions)


def unserved_name(served: frozenset[str], pod: PodInfo) -> Unserved | None:
    """Return a report if no known scheduler serves a pod, with a similar name; else None."""
    name = pod.spec.scheduler_name
    return None if name in served else Unserved(name, nearest(name, served) or "")


def _chosen_pods(
    objects: ClusterObjects,
    cluster: ClusterState,
    wanted: ExplainOptions,
    unserved: Callable[[PodInfo], Unserved | None],
) -> list[PodInfo]:
    """Return the named pods; without names the pending pods.

    Raises:
        InputError: a name is that of no pod that can be judged.
    """
    within = [pod for pod in objects.pods if wanted.namespace in ("", pod.namespace)]
    if not within:
        _check_namespace(objects, wanted.namespace)
    if not wanted.pods:
        ours = {pod.uid for pod in cluster.waiting}

        def is_meant(pod: PodInfo) -> bool:
            if pod.uid in ours or pod.node_name or pod.is_terminating:
                return pod.uid in ours
            slip = unserved(pod)
            is_slip = slip is not None and bool(slip.meant)
            return bool(wanted.profile) or (wanted.with_unserved and is_slip)

        return [pod for pod in within if is_meant(pod)]
    chosen: dict[str, PodInfo] = {}
    for name in wanted.pods:
        matching = [pod for pod in within if name in (pod.name, pod.key)]
        if not matching:
            raise _no_such_pod(name, within, objects.pods)
        if all(pod.is_terminating for pod in matching):
            raise InputError(f"{name}: it is being deleted")
        chosen.update((pod.key, pod) for pod in matching if not pod.is_terminating)
    return list(chosen.values())


def _no_such_pod(name: str, within: Iterable[PodInfo], pods: Iterable[PodInfo]) -> InputError:
    """Make the error about a name that no pod has; `within` are the pods of the namespace."""
    missing = f"{name}: there is no such pod, or it has ended"
    if isfile(name):  # noqa: PTH113 - `Path` raises for unreachable paths
        return InputError(f"{missing}; a file is given with -f")
    if name.count("/") > 1 or not all(name.split("/")):
        return InputError(f"expected the name of a pod, [NAMESPACE/]POD, got {name!r}")
    others = [pod.namespace for pod in pods if name in (pod.name, pod.key)]
    if others:
        return InputError(f"{missing}; namespace {others[0]} has one")
    return InputError(f"{missing}{did_you_mean_pod(name, within)}")


def _check_namespace(objects: ClusterObjects, name: str) -> None:
    """Refuse a namespace that neither an object nor a pod has.

    Raises:
        InputError: there is no such namespace.
    """
    known = {each.metadata.name for each in objects.namespaces}
    known |= {pod.namespace for pod in objects.pods}
    if name and name not in known:
        guess = did_you_mean(name, known)
        raise InputError(f"--namespace {name}: there is no such namespace{guess}")


class ExplainResult(msgspec.Struct):
    """The result of `stowage explain`.

    Attributes:
        failed: whether a plugin failed.
        pending: whether a pending pod fits on no node.
        advised: the pods for which changes were found.
    """

    failed: bool = False
    pending: bool = False
    advised: list[PodInfo] = msgspec.field(default_factory=list)

    def note(self, judgement: PodVerdict, pod: PodInfo) -> None:
        """Note one answer."""
        self.failed = self.failed or isinstance(judgement.summary.error, str)
        self.pending = self.pending or not (pod.node_name or judgement.feasible)
        if judgement.summary.changes:
            self.advised.append(pod)


def print_json(asked: ExplainInputs, explainer: Explainer, wanted: ExplainOptions) -> ExplainResult:
    """Print each answer as soon as it is known."""
    outcome = ExplainResult()
    write, between = sys.stdout.buffer.write, b""
    write(b'{"pods":[')
    for pod in asked.pods:
        judgement = explainer.judge(pod, wanted.depth)
        write(between + bytes(judgement.json(wanted.nodes)))
        between = b","
        outcome.note(judgement, pod)
    write(b"]")
    if asked.objects.warnings:
        write(b',"warnings":' + msgspec.json.encode(asked.objects.warnings))
    write(b"}\n")
    sys.stdout.buffer.flush()
    return outcome


def print_text(asked: ExplainInputs, explainer: Explainer, wanted: ExplainOptions) -> ExplainResult:
    """Print one report for each group of equal pods."""
    outcome = ExplainResult()
    reports = _reports(asked, explainer, wanted, outcome)
    together = _Together(asked, wanted)
    by_key = {pod.key: pod for pod in asked.pods}
    for report in reports:
        for_all, placements = None, None
        if report.others:
            alike = [by_key[key] for key in (report.pod.key, *report.others)]
            for_all = explainer.nodes_for_all(report.answer, alike)
            if best_nodes(report.answer) and not report.pod.node_name:
                placements = together.of({pod.key for pod in alike})
        print_report(
            msgspec.structs.replace(
                report, for_all=for_all, together=placements, group=together.group_of(report.pod)
            )
        )
    if not reports:
        echo("No pod waits for a node.")
    return outcome


def _reports(
    asked: ExplainInputs, explainer: Explainer, wanted: ExplainOptions, outcome: ExplainResult
) -> list[PodReport]:
    """Build one report per group of equal pods, with the names of the others."""
    reports: dict[object, PodReport] = {}
    equals: dict[Hashable, PodReport] = {}
    with shown_progress("judging pods") as progress:
        for number, pod in enumerate(asked.pods):
            progress(number / len(asked.pods))
            equal = likeness_of(asked.cluster.engine, pod)
            if equal in equals:
                equals[equal].others.append(pod.key)
                continue
            judgement = explainer.judge(pod, wanted.depth)
            outcome.note(judgement, pod)
            alike = pod.shape, pod.pod.status.nominated_node_name, judgement.likeness
            if alike in reports:
                reports[alike].others.append(pod.key)
            else:
                reports[alike] = _report_of(pod, judgement, asked, explainer, wanted)
            equals[equal] = reports[alike]
    return list(reports.values())


def _report_of(
    pod: PodInfo,
    judgement: PodVerdict,
    asked: ExplainInputs,
    explainer: Explainer,
    wanted: ExplainOptions,
) -> PodReport:
    # Checks have their own numbers, of all nodes together.
    has_numbers = judgement.summary.checks and not wanted.nodes
    return PodReport(
        pod,
        judgement.answer(),
        asked.framework_of(pod),
        len(judgement.nodes.names) or asked.cluster.snapshot.table.count,
        {} if has_numbers else explainer.reasons,
        wanted.nodes,
        wanted.top,
        [],
        extender_weights={
            each.label: each.config.weight for each in asked.cluster.engine.core.extenders.all
        },
    )


def print_pages(
    asked: ExplainInputs, explainer: Explainer, wanted: ExplainOptions
) -> ExplainResult:
    """Print one page for a browser, with the first pod of each group of equal pods.

    Raises:
        InputError: there are no pods, or standard output is a terminal.
    """
    outcome, now = ExplainResult(), SystemClock().wall()
    pages: dict[Hashable, PodPage] = {}
    others: dict[Hashable, list[str]] = {}
    together = _Together(asked, wanted)
    with shown_progress("judging pods") as progress:
        for number, pod in enumerate(asked.pods):
            progress(number / len(asked.pods))
            equal = likeness_of(asked.cluster.engine, pod)
            if equal in pages:
                others.setdefault(equal, []).append(pod.key)
                continue
            judgement = explainer.judge(pod, wanted.depth)
            outcome.note(judgement, pod)
            framework, nodes = asked.framework_of(pod), asked.cluster.snapshot.table.count
            report = page_report(pod, judgement, framework, nodes, together.group_of(pod))
            pages[equal] = pod_page(report, judgement, now, only=wanted.nodes)
    if not pages:
        raise InputError("no pod waits for a node: name a pod")
    each = [
        page if equal not in others else page.and_like(others[equal])
        for equal, page in pages.items()
    ]
    print_page("pod", {"each": each})
    return outcome


class _Together:
    """The simulated placements of all pending pods, one after the other."""

    def __init__(self, asked: ExplainInputs, wanted: ExplainOptions) -> None:
        self._asked = asked
        # A simulation uses neither `--profile` nor extenders.
        self._is_known = not wanted.profile and not asked.profiles.config.extenders
        self._is_known &= len(asked.cluster.waiting) <= _MOST_TOGETHER
        self._simulated: tuple[ClusterState, dict[str, Placement]] | None = None

    def of(self, pods: Collection[str]) -> tuple[Placement, ...] | None:
        """Return the placements of some pods, placed ones first; None if they are unknown."""
        if not self._is_known:
            return None
        _, found = self._simulation()
        return tuple(found[name] for name in found if name in pods)

    def group_of(self, pod: PodInfo) -> GroupStanding | None:
        """Return the progress of a pod's group: simulated for a pending pod, else the present one.

        None for pods without a group, and if it is unknown.
        """
        if pod.node_name:
            return group_standing(pod, self._asked.cluster.engine)
        if not (self._is_known and pod.group_name):
            return None
        cluster, _ = self._simulation()
        return group_standing(pod, cluster.engine)

    def _simulation(self) -> tuple[ClusterState, dict[str, Placement]]:
        """Return the cluster after all pending pods were tried, and their placements."""
        if self._simulated is None:
            cluster = self._asked.profiles.again().load(self._asked.objects)
            placements = simulate(cluster).placements
            self._simulated = cluster, {each.pod: each for each in placements}
        return self._simulated


def print_notes(
    asked: ExplainInputs, wanted: ExplainOptions, outcome: ExplainResult, notices: tuple[str, ...]
) -> None:
    """Print the notes that are not about one pod."""
    extenders = asked.cluster.engine.core.extenders
    unasked = any(extenders.interested_in(pod, Verb.FILTER) for pod in outcome.advised)
    about_advice = (_NOT_ASKED,) if unasked else ()
    for text in (
        *asked.objects.warnings,
        *_about_others(asked, wanted),
        *about_advice,
        *notices,
    ):
        print_note(text)


def _about_others(asked: ExplainInputs, wanted: ExplainOptions) -> Iterator[str]:
    """Yield sentences about pods of schedulers that no profile here serves."""
    if wanted.profile:
        return
    judged = {pod.uid for pod in asked.pods}
    strangers = [
        pod
        for pod in asked.cluster.others
        if wanted.namespace in ("", pod.namespace) and pod.uid not in judged
    ]
    if strangers and not wanted.pods:
        names = scheduler_names(strangers)
        yield (
            f"Pods of other schedulers also wait and are not judged here: {names}; "
            "--profile NAME judges them."
        )
    of_others: dict[tuple[str, str], list[str]] = {}
    for pod in asked.pods:
        name, judge = pod.spec.scheduler_name, asked.framework_of(pod).profile_name
        if name not in asked.profiles.frameworks:
            of_others.setdefault((name, judge), []).append(pod.key)
    for (name, judge), [first, *more] in of_others.items():
        pods = f"{first} and {len(more)} more are" if more else f"{first} is"
        done = f"{'they were' if more else 'it was'} judged by {judge}"
        yield f"{pods} {name}'s; {done} (--profile NAME: by another)."
