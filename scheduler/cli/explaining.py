"""What `stowage explain` is asked, of whom, and how the answers are printed."""

import sys
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import click
import msgspec

from scheduler.answers.explainer import Explainer
from scheduler.answers.judgement import Judgement
from scheduler.answers.why import Depth
from scheduler.api.pods import PodInfo
from scheduler.cli.explain_text import PodReport, print_note, print_report
from scheduler.framework.runtime import Framework
from scheduler.offline.cluster import Cluster, Profiles
from scheduler.offline.reading import ClusterObjects, InputError


class Wanted(msgspec.Struct, frozen=True):
    """What the options ask for."""

    pods: tuple[str, ...]
    namespace: str
    profile: str
    nodes: tuple[str, ...]
    top: int
    depth: Depth


class Asked(msgspec.Struct, frozen=True):
    """Who is asked about what.

    Attributes:
        cluster: what is known.
        objects: the same as it was read.
        profiles: who may be asked.
        framework_of: who decides about a pod.
        pods: those to explain.
    """

    cluster: Cluster
    objects: ClusterObjects
    profiles: Profiles
    framework_of: Callable[[PodInfo], Framework]
    pods: list[PodInfo]


def asked_of(objects: ClusterObjects, profiles: Profiles, wanted: Wanted) -> Asked:
    """Find out who is to be asked about which pods.

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
            raise InputError(f"--node {name}: there is no such node")

    def framework_of(pod: PodInfo) -> Framework:
        return frameworks[wanted.profile] if wanted.profile else profiles.framework_of(pod)

    return Asked(cluster, objects, profiles, framework_of, _chosen_pods(objects, cluster, wanted))


def _chosen_pods(objects: ClusterObjects, cluster: Cluster, wanted: Wanted) -> list[PodInfo]:
    """The pods that are named; without names those that wait, for the profiles or for anybody.

    Raises:
        InputError: a name is that of no pod that can be judged.
    """
    within = [pod for pod in objects.pods if wanted.namespace in ("", pod.namespace)]
    if not wanted.pods:
        ours = {pod.uid for pod in cluster.waiting}
        return [
            pod
            for pod in within
            if pod.uid in ours or (wanted.profile and not pod.node_name and not pod.is_terminating)
        ]
    chosen: dict[str, PodInfo] = {}
    for name in wanted.pods:
        matching = [pod for pod in within if name in (pod.name, pod.key)]
        if not matching:
            is_file = Path(name).is_file()
            more = "; a file is given with -f" if is_file else ""
            raise InputError(f"{name}: there is no such pod, or it has ended{more}")
        if all(pod.is_terminating for pod in matching):
            raise InputError(f"{name}: it is being deleted")
        chosen.update((pod.key, pod) for pod in matching if not pod.is_terminating)
    return list(chosen.values())


class Outcome(msgspec.Struct):
    """What came of it.

    Attributes:
        failed: whether a plugin failed.
        pending: whether a pod that waits would go on waiting.
    """

    failed: bool = False
    pending: bool = False

    def note(self, judgement: Judgement, pod: PodInfo) -> None:
        """Take note of one answer."""
        self.failed = self.failed or isinstance(judgement.summary.error, str)
        self.pending = self.pending or not (pod.node_name or judgement.feasible)


def print_json(asked: Asked, explainer: Explainer, wanted: Wanted) -> Outcome:
    """Write the answers one by one, as they come about."""
    outcome = Outcome()
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


def print_text(asked: Asked, explainer: Explainer, wanted: Wanted) -> Outcome:
    """Print one page for all pods that are alike."""
    outcome = Outcome()
    reports: dict[object, PodReport] = {}
    equals: dict[object, PodReport] = {}
    for pod in asked.pods:
        equal = _all_that_is_judged(pod)
        if equal in equals:
            equals[equal].others.append(pod.key)
            continue
        judgement = explainer.judge(pod, wanted.depth)
        outcome.note(judgement, pod)
        alike = pod.shape, pod.pod.status.nominated_node_name, judgement.likeness
        known = reports.get(alike)
        if known is None:
            # Checks have their own numbers, of all nodes together.
            has_numbers = judgement.summary.checks and not wanted.nodes
            reports[alike] = PodReport(
                pod,
                judgement.answer(),
                asked.framework_of(pod),
                len(judgement.nodes.names) or asked.cluster.snapshot.table.count,
                {} if has_numbers else explainer.reasons,
                wanted.nodes,
                wanted.top,
                [],
            )
        else:
            known.others.append(pod.key)
        if not pod.pod.volumes and not pod.node_name:
            equals[equal] = reports[alike]
    for report in reports.values():
        for_all = None
        if report.others:
            together = 1 + len(report.others)
            for_all = explainer.nodes_for_all(report.pod, report.answer, together)
        print_report(msgspec.structs.replace(report, for_all=for_all))
    if not reports:
        click.echo("No pod waits for a node.")
    return outcome


def _all_that_is_judged(pod: PodInfo) -> Hashable:
    """What verdicts on a pod without volumes depend on, whatever it is called."""
    owners, nominated = pod.pod.metadata.owner_references, pod.pod.status.nominated_node_name
    return pod.shape, pod.label_set, pod.namespace, owners, nominated


def print_notes(asked: Asked, wanted: Wanted, notices: tuple[str, ...]) -> None:
    """Print what concerns no pod in particular."""
    for text in (*asked.objects.warnings, *_about_others(asked, wanted), *notices):
        print_note(text)


def _about_others(asked: Asked, wanted: Wanted) -> Iterator[str]:
    """What is to be said about pods that no profile here answers to."""
    if wanted.profile:
        return
    strangers = asked.cluster.others
    if strangers and not wanted.pods:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(strangers.items()))
        yield f"Pods of other schedulers also wait and are not judged here: {names} (--profile)."
    for pod in asked.pods:
        name, judge = pod.spec.scheduler_name, asked.framework_of(pod).profile_name
        if name not in asked.profiles.frameworks:
            yield f"{pod.key} is {name}'s; it was judged by {judge}, as --profile can say."
