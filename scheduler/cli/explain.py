"""`stowage explain`: why each pod goes where it goes, or nowhere."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from scheduler.answers.explainer import Explainer
from scheduler.answers.judgement import Judgement
from scheduler.answers.model import FeasibleNode
from scheduler.api.pods import PodInfo
from scheduler.cli.explain_text import PodReport, print_note, print_report
from scheduler.cli.inputs import BAD_INPUT, read_files, read_profiles
from scheduler.cli.live import Place, read_cluster
from scheduler.errors import SchedulerError
from scheduler.framework.runtime import Framework
from scheduler.framework.runtime.shared_states import kinds_to_watch
from scheduler.offline.cases import answer_case
from scheduler.offline.cluster import Cluster, Profiles
from scheduler.offline.reading import ClusterObjects, InputError

_FAILED: Final = 1
_PENDING: Final = 3
"""Exit status with `--fail-on-pending`."""

Output = Literal["text", "json"]


class _Wanted(msgspec.Struct, frozen=True):
    """What the options ask for."""

    pods: tuple[str, ...]
    namespace: str
    profile: str
    nodes: tuple[str, ...]
    top: int


class _Asked(msgspec.Struct, frozen=True):
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


@click.command(context_settings={"max_content_width": 100})
@click.argument("named_pods", nargs=-1, metavar="[[NAMESPACE/]POD]...")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Ask files instead of a cluster: objects in YAML or JSON (JSON is read much faster); - is "
    "standard input. May be given several times.",
)
@click.option(
    "--kubeconfig", default="", metavar="FILE", help="The cluster to ask; as kubectl finds it."
)
@click.option("--context", default="", metavar="NAME", help="Which context of the kubeconfig.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Only pods of this namespace.")
@click.option(
    "--pod",
    "pods",
    multiple=True,
    metavar="[NAMESPACE/]NAME",
    help="The same as to name it as an argument.",
)
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    help="Only this node, in full detail. May be given several times.",
)
@click.option(
    "--all-reasons",
    is_flag=True,
    help="Ask every plugin about every node, not only until the first one rejects it.",
)
@click.option(
    "--preempt",
    "preempts",
    is_flag=True,
    help="For pods that fit nowhere: which less important pods would be evicted where.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="How many of the nodes that fit to show (text only).",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration whose profiles decide, each about the pods with its "
    "schedulerName. A profile without a name, such as the default one that is used without this "
    "option, decides about the pods of default-scheduler and of stowage.",
)
@click.option(
    "--profile",
    default="",
    metavar="NAME",
    help="Have this profile decide about all pods, whatever their schedulerName.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people or for programs.",
)
@click.option(
    "--fail-on-pending",
    is_flag=True,
    help="Exit with status 3 when a pod that waits fits nowhere, or is held back.",
)
@click.option(
    "--jsonl",
    is_flag=True,
    help='Read one case per line on standard input, {"config": ..., "objects": [...]}, and print '
    "one JSON answer per line.",
)
def explain(  # noqa: PLR0913 - one argument per option
    *,
    named_pods: tuple[str, ...],
    files: tuple[str, ...],
    kubeconfig: str,
    context: str,
    namespace: str,
    pods: tuple[str, ...],
    nodes: tuple[str, ...],
    all_reasons: bool,
    preempts: bool,
    top: int,
    config_file: str | None,
    profile: str,
    output: Output,
    fail_on_pending: bool,
    jsonl: bool,
) -> None:
    """Say for pods on which nodes they fit, and why not on the others.

    The pods named, or all that wait, are judged one by one with the engine that schedules. Nothing
    is changed. What there is to know comes from the cluster of the kubeconfig, which takes no more
    than rights to read, or from files. A pod that has a node is judged as if it had none.

    \b
      stowage explain shop/web-0
      stowage explain -n shop --config config.yaml
      kubectl get nodes,pods,ns,svc,rs,sts,rc -A -o yaml | stowage explain -f -
      stowage explain -f cluster.json -f deployment.yaml --fail-on-pending
      stowage explain web-0 -f cluster.json --node n1 --all-reasons

    Workloads in files that never met an API server are taken as the pods they would make.

    The exit status is 2 when a file, the cluster or the configuration cannot be used, 1 when a
    plugin failed.
    """  # noqa: D301 - \b is click's mark for lines to keep
    if jsonl:
        _answer_lines(preempts=preempts)
        return
    wanted = _Wanted((*named_pods, *pods), namespace, profile, nodes, top)
    try:
        if files and (kubeconfig or context):
            raise InputError("-f asks files, --kubeconfig and --context a cluster: give one")
        profiles, notices = read_profiles(config_file, tries_all_nodes=preempts)
        if files:
            objects = read_files(files)
        else:
            watched = kinds_to_watch(profiles.frameworks.values())
            objects = read_cluster(Place(kubeconfig, context), watched)
        asked = _asked(objects, profiles, wanted)
    except SchedulerError as problem:
        click.echo(f"stowage explain: {problem}", err=True)
        sys.exit(BAD_INPUT)
    explainer = Explainer(
        asked.cluster.engine, asked.framework_of, all_reasons=all_reasons, preempts=preempts
    )
    write = _print_json if output == "json" else _print_text
    failed, pending = write(asked, explainer, wanted)
    if output == "text":
        _print_notes(asked, wanted, notices)
    if failed:
        sys.exit(_FAILED)
    if pending and fail_on_pending:
        sys.exit(_PENDING)


def _asked(objects: ClusterObjects, profiles: Profiles, wanted: _Wanted) -> _Asked:
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
    first = next(iter(frameworks.values()))

    def framework_of(pod: PodInfo) -> Framework:
        return frameworks.get(wanted.profile or pod.spec.scheduler_name, first)

    return _Asked(cluster, objects, profiles, framework_of, _chosen_pods(objects, cluster, wanted))


def _chosen_pods(objects: ClusterObjects, cluster: Cluster, wanted: _Wanted) -> list[PodInfo]:
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


def _is_pending(judgement: Judgement, pod: PodInfo) -> bool:
    """Whether a pod waits and would go on waiting."""
    fits = any(isinstance(verdict, FeasibleNode) for verdict in judgement.verdicts)
    return not pod.node_name and not fits


def _has_failed(judgement: Judgement) -> bool:
    return isinstance(judgement.summary.error, str)


def _print_json(asked: _Asked, explainer: Explainer, wanted: _Wanted) -> tuple[bool, bool]:
    """Write the answers one by one; says whether a plugin failed, and whether a pod is pending."""
    failed = pending = False
    write, between = sys.stdout.buffer.write, b""
    write(b'{"pods":[')
    for pod in asked.pods:
        judgement = explainer.judge(pod)
        write(between + bytes(judgement.json(wanted.nodes)))
        between = b","
        failed = failed or _has_failed(judgement)
        pending = pending or _is_pending(judgement, pod)
    write(b"]")
    if asked.objects.warnings:
        write(b',"warnings":' + msgspec.json.encode(asked.objects.warnings))
    write(b"}\n")
    sys.stdout.buffer.flush()
    return failed, pending


def _print_text(asked: _Asked, explainer: Explainer, wanted: _Wanted) -> tuple[bool, bool]:
    """Print one page for all pods that are alike; says the same as `_print_json`."""
    failed = pending = False
    reports: dict[object, PodReport] = {}
    for pod in asked.pods:
        judgement = explainer.judge(pod)
        failed = failed or _has_failed(judgement)
        pending = pending or _is_pending(judgement, pod)
        alike = pod.shape, pod.pod.status.nominated_node_name, judgement.likeness
        known = reports.get(alike)
        if known is None:
            reports[alike] = PodReport(
                pod,
                judgement.answer(),
                asked.framework_of(pod),
                len(judgement.names) or asked.cluster.snapshot.table.count,
                explainer.reasons,
                wanted.nodes,
                wanted.top,
                [],
            )
        else:
            known.others.append(pod.key)
    for report in reports.values():
        print_report(report)
    if not reports:
        click.echo("No pod waits for a node.")
    return failed, pending


def _print_notes(asked: _Asked, wanted: _Wanted, notices: tuple[str, ...]) -> None:
    for text in (*asked.objects.warnings, *_about_others(asked, wanted), *notices):
        print_note(text)


def _about_others(asked: _Asked, wanted: _Wanted) -> Iterator[str]:
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


def _answer_lines(*, preempts: bool) -> None:
    for line in sys.stdin:
        if line.strip():
            answer = answer_case(line, preempts=preempts)
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.stdout.buffer.flush()
