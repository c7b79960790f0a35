"""`stowage capacity`: the number of further pods of a kind that fit."""

from typing import Final

import click
import msgspec

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.runtime import Framework
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.explain_text import print_note
from scheduler.tools.cli.inputs import read_documents, refuse
from scheduler.tools.cli.options import Output, command, output_option, print_line
from scheduler.tools.cli.progress import shown_progress
from scheduler.tools.cli.sources import InputSource, recorded_options, source_options
from scheduler.tools.cli.tables import print_table
from scheduler.tools.offline import hypothetical_changes
from scheduler.tools.offline.capacity import Capacity, capacity_of
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.documents import items_of
from scheduler.tools.offline.reading import ClusterObjects, InputError
from scheduler.tools.offline.workload_names import pod_called

_NODES_SHOWN: Final = 10


@command()
@source_options
@recorded_options
@click.option(
    "--like",
    metavar="[NAMESPACE/]POD",
    help="The pod that the others are like; without it the only pod that waits in the files.",
)
@output_option()
def capacity(*, source: InputSource, like: str | None, output: Output) -> None:
    """Say how many more pods like one fit, on which nodes, and what limits it first.

    Every pod that has a node counts, also those of other schedulers; pods that wait do not, and no
    pod is evicted. Files without nodes describe the pod, and the cluster of the kubeconfig is
    asked; files with nodes are the cluster. Fragmentation is the share of what is free that lies on
    nodes where neither this pod nor any kind of pod of the cluster fits.

    \b
      stowage capacity --like shop/web-0
      stowage capacity -f pod.yaml
      stowage capacity -f cluster.json -f pod.yaml -o json

    The exit status is 2 when a file, the cluster or the configuration cannot be used.
    """  # noqa: D301 - \b is click's mark for lines to keep
    try:
        objects, pod, profiles, notices = _read(source, like)
        framework = _framework_of(pod, profiles)
        pods = list(objects.pods)
        objects.pods = [each for each in pods if each.node_name]
        engine = profiles.load(objects, with_extenders=False).engine
        with shown_progress("counting pods") as progress:
            found = capacity_of(engine, framework, pod, pods, progress)
        found = msgspec.structs.replace(found, warnings=tuple(objects.warnings))
    except SchedulerError as problem:
        refuse("capacity", problem)
    if output == "json":
        print_line(found)
        return
    _print(found, pod)
    for notice in (*found.warnings, *notices):
        print_note(notice)


def _read(
    source: InputSource, like: str | None
) -> tuple[ClusterObjects, PodInfo, Profiles, tuple[str, ...]]:
    documents = read_documents(source.files) if source.files else []
    if any(raw.get("kind") == "Node" for doc in documents for _, raw in items_of(doc[1], doc[0])):
        if source.recorded is not None:
            raise InputError("-f: files with nodes are a cluster, --daemon or --recording another")
        objects, profiles, notices = source.read(documents=documents)
        return objects, _pod(objects, like), profiles, notices
    beside = msgspec.structs.replace(source, files=())
    objects, profiles, notices = beside.read()
    if not documents:
        return objects, _pod(objects, like), profiles, notices
    described = beside.read_beside(documents, objects, profiles)
    pod = _pod(described, like)
    described.pods, described.workloads = [], set()
    hypothetical_changes.apply(objects, described)
    return objects, pod, profiles, notices


def _pod(objects: ClusterObjects, like: str | None) -> PodInfo:
    if like is not None:
        return pod_called(like, objects.pods, f"--like {like}")
    kinds = {(p.kind, p.resource_claims): p for p in objects.pods if not p.node_name}
    if len(kinds) != 1:
        waiting = "no pod waits" if not kinds else f"pods of {len(kinds)} kinds wait"
        raise InputError(f"--like [NAMESPACE/]POD: {waiting}, so name the pod that is meant")
    return next(iter(kinds.values()))


def _framework_of(pod: PodInfo, profiles: Profiles) -> Framework:
    name = pod.spec.scheduler_name
    framework = profiles.frameworks.get(name)
    if framework is None:
        known = ", ".join(profiles.frameworks)
        raise InputError(f"{pod.key}: its schedulerName is {name}, the profiles here are {known}")
    return framework


def _print(found: Capacity, pod: PodInfo) -> None:
    at_least = "at least " if found.is_at_least else ""
    fit = "pod like {} fits" if found.fits == 1 else "pods like {} fit"
    echo(f"{at_least}{found.fits} more {fit.format(pod.key)}.\n")
    if found.nodes:
        most = sorted(found.nodes.items(), key=lambda item: (-item[1], item[0]))
        rows = [(name, str(number)) for name, number in most[:_NODES_SHOWN]]
        print_table(("node", "pods"), rows)
        if len(most) > _NODES_SHOWN:
            echo(f"  ... and {len(most) - _NODES_SHOWN} more nodes")
        echo()
    if found.limits:
        echo("Why no node takes another one:")
        print_table(("reason", "nodes"), [(why, str(n)) for why, n in found.limits.items()])
        echo()
    if found.fragmentation:
        echo("Free, but on nodes where no kind of pod of this cluster fits:")
        rows = [(name, f"{share:.1%}") for name, share in found.fragmentation.items()]
        print_table(("resource", "share"), rows)
