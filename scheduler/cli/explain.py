"""`stowage explain`: why each waiting pod goes where it goes, or nowhere."""

import sys
from collections.abc import Callable, Iterable
from typing import Final, Literal

import click
import msgspec
from msgspec import UNSET

from scheduler.api.pods import PodInfo
from scheduler.cli.explain_text import PodReport, print_note, print_report
from scheduler.cli.inputs import BAD_INPUT, feature_gates_option, read_files, read_profiles
from scheduler.errors import SchedulerError
from scheduler.offline.answers import Answer, PodAnswer
from scheduler.offline.cases import answer_case
from scheduler.offline.cluster import Cluster, Profiles
from scheduler.offline.explain import Explainer
from scheduler.offline.reading import ClusterObjects, InputError

_FAILED: Final = 1

Output = Literal["text", "json"]


class _Wanted(msgspec.Struct, frozen=True):
    """What the options ask for."""

    pods: tuple[str, ...]
    nodes: tuple[str, ...]
    all_reasons: bool
    top: int


@click.command(context_settings={"max_content_width": 100})
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Objects in YAML or JSON (JSON is read much faster); - is standard input. More files may "
    "follow.",
)
@click.argument("more_files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--pod",
    "pods",
    multiple=True,
    metavar="[NAMESPACE/]NAME",
    help="Only this pod. May be given several times.",
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
@feature_gates_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people or for programs.",
)
@click.option(
    "--jsonl",
    is_flag=True,
    help='Read one case per line on standard input, {"config": ..., "objects": [...]}, and print '
    "one JSON answer per line.",
)
def explain(  # noqa: PLR0913 - one argument per option
    *,
    files: tuple[str, ...],
    more_files: tuple[str, ...],
    pods: tuple[str, ...],
    nodes: tuple[str, ...],
    all_reasons: bool,
    preempts: bool,
    top: int,
    config_file: str | None,
    feature_gates: frozenset[str],
    output: Output,
    jsonl: bool,
) -> None:
    """Say for every waiting pod on which nodes it fits, and why not on the others.

    Nothing is changed and no cluster is asked: what there is to know comes from files. Every pod
    without a node is judged on its own by the same engine that schedules.

    \b
      kubectl get nodes,pods,ns,svc,rs,sts,rc -A -o yaml | stowage explain -f -
      stowage explain -f cluster.json --pod web-0
      stowage explain -f cluster.json --pod web-0 --node n1 --all-reasons

    The exit status is 2 when a file or the configuration cannot be used, 1 when a plugin failed.
    """  # noqa: D301 - \b is click's mark for lines to keep
    if jsonl:
        _answer_lines(feature_gates, preempts=preempts)
        return
    wanted = _Wanted(pods, nodes, all_reasons, top)
    try:
        objects = read_files((*files, *more_files))
        profiles, notices = read_profiles(
            config_file, feature_gates=feature_gates, tries_all_nodes=preempts
        )
        cluster = profiles.load(objects)
        chosen = _chosen_pods(objects, profiles, cluster, wanted.pods)
        _check_nodes(cluster, wanted.nodes)
    except SchedulerError as problem:
        click.echo(f"stowage explain: {problem}", err=True)
        sys.exit(BAD_INPUT)
    explainer = Explainer(profiles, cluster, all_reasons=all_reasons, preempts=preempts)
    if output == "json":
        answers = tuple(_narrowed(explainer.explain(pod), wanted.nodes) for pod in chosen)
        _write(Answer(answers))
    else:
        answers = _print_all(profiles, cluster, explainer, chosen, wanted)
        _print_others(cluster, notices)
    if any(answer.error is not UNSET for answer in answers):
        sys.exit(_FAILED)


def _print_all(
    profiles: Profiles,
    cluster: Cluster,
    explainer: Explainer,
    chosen: Iterable[PodInfo],
    wanted: _Wanted,
) -> tuple[PodAnswer, ...]:
    answers = []
    for pod in chosen:
        answer = explainer.explain(pod)
        answers.append(answer)
        print_report(
            PodReport(
                pod,
                answer,
                profiles.framework_of(pod),
                cluster.snapshot.table.count,
                explainer.reasons,
                wanted.nodes,
                wanted.top,
            )
        )
    if not answers:
        click.echo("No pod waits for a node.")
    return tuple(answers)


def _print_others(cluster: Cluster, notices: Iterable[str]) -> None:
    if cluster.others:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(cluster.others.items()))
        print_note(f"Pods of other schedulers also wait and are not judged here: {names}.")
    for notice in notices:
        print_note(notice)


def _narrowed(answer: PodAnswer, nodes: tuple[str, ...]) -> PodAnswer:
    if not nodes:
        return answer
    kept = tuple(node for node in answer.nodes if node.node in nodes)
    return msgspec.structs.replace(answer, nodes=kept)


def _chosen_pods(
    objects: ClusterObjects, profiles: Profiles, cluster: Cluster, names: tuple[str, ...]
) -> list[PodInfo]:
    """The waiting pods asked for.

    Raises:
        InputError: a name is that of no waiting pod.
    """
    if not names:
        return cluster.waiting
    chosen: dict[str, PodInfo] = {}
    for name in names:
        is_meant = _matcher(name)
        matching = [pod for pod in cluster.waiting if is_meant(pod)]
        if not matching:
            raise InputError(_why_not(name, [p for p in objects.pods if is_meant(p)], profiles))
        chosen.update((pod.key, pod) for pod in matching)
    return list(chosen.values())


def _matcher(name: str) -> Callable[[PodInfo], bool]:
    return lambda pod: name in (pod.name, pod.key)


def _why_not(name: str, known: list[PodInfo], profiles: Profiles) -> str:
    if not known:
        return f"--pod {name}: the files have no such pod"
    pod = known[0]
    if pod.node_name:
        return f"--pod {name}: it is on node {pod.node_name} already; only waiting pods are judged"
    if pod.is_terminating:
        return f"--pod {name}: it is being deleted"
    ours = ", ".join(profiles.frameworks)
    return (
        f"--pod {name}: its schedulerName is {pod.spec.scheduler_name}, the profiles here are "
        f"{ours} (--config decides)"
    )


def _check_nodes(cluster: Cluster, names: tuple[str, ...]) -> None:
    for name in names:
        if name not in cluster.snapshot.table.row_of:
            raise InputError(f"--node {name}: the files have no such node")


def _answer_lines(feature_gates: frozenset[str], *, preempts: bool) -> None:
    for line in sys.stdin:
        if line.strip():
            _write(answer_case(line, feature_gates, preempts=preempts))


def _write(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
