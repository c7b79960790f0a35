"""`stowage what-if`: the effect of a change on the pods of a cluster."""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

import click

from scheduler.errors import SchedulerError
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.explain_text import print_note
from scheduler.tools.cli.inputs import read_documents, refuse
from scheduler.tools.cli.options import Output, command, page_option, print_line, print_page
from scheduler.tools.cli.progress import shown_progress
from scheduler.tools.cli.sources import InputSource, recorded_options, source_options
from scheduler.tools.cli.tables import grouped, print_by_reason, print_table, print_use
from scheduler.tools.offline import hypothetical_changes
from scheduler.tools.offline.asked_changes import AddedNodes, applying, changes_of, readers_of
from scheduler.tools.offline.reading import InputError
from scheduler.tools.offline.what_if import WhatIfResult
from scheduler.tools.offline.what_if_page import WhatIfPage, what_if_page

_CHANGES: Final = (
    "drained",
    "taints",
    "count",
    "like",
    "scaled",
    "deleted",
    "uncordoned",
    "labelled",
    "tolerated",
    "applied",
)
"""The parameters that change something."""
_HOMELESS: Final = 3
"""Exit status with `--fail-on-homeless`."""


@command()
@source_options
@recorded_options
@click.option(
    "--drain",
    "drained",
    multiple=True,
    metavar="NODE",
    help="Cordon this node and evict its pods, as kubectl drain does. May be given several times.",
)
@click.option(
    "--remove-taint",
    "taints",
    multiple=True,
    metavar="KEY[=VALUE][:EFFECT]",
    help="Take this taint off all nodes. May be given several times.",
)
@click.option(
    "--add-nodes",
    "count",
    type=click.IntRange(1, hypothetical_changes.MAX_ADDED),
    metavar="N",
    help="Add so many nodes; --like says of which kind.",
)
@click.option("--like", metavar="NODE", help="The node that those added are like.")
@click.option(
    "--scale",
    "scaled",
    multiple=True,
    metavar="KIND/[NAMESPACE/]NAME=N",
    help="Give this workload so many pods. May be given several times.",
)
@click.option(
    "--delete",
    "deleted",
    multiple=True,
    metavar="KIND/[NAMESPACE/]NAME",
    help="Take away a node, a pod, or the pods of a workload. May be given several times.",
)
@click.option(
    "--uncordon",
    "uncordoned",
    multiple=True,
    metavar="NODE",
    help="Let pods go to this node again. May be given several times.",
)
@click.option(
    "--label",
    "labelled",
    multiple=True,
    metavar="NODE:KEY=VALUE",
    help="Give a node a label; NODE:KEY- takes it away. May be given several times.",
)
@click.option(
    "--tolerate",
    "tolerated",
    multiple=True,
    metavar="[NAMESPACE/]POD:KEY[=VALUE][:EFFECT]",
    help="Let a pod tolerate a taint. May be given several times.",
)
@click.option(
    "--apply",
    "applied",
    multiple=True,
    metavar="FILE",
    help="Add the objects of this file, or put them in the place of those of the same name. May be "
    "given several times.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Decides between equally good nodes; the same seed gives the same placements.",
)
@page_option()
@click.option(
    "--fail-on-homeless",
    is_flag=True,
    help="Exit with status 3 when a pod is left without a node that had one before, or is new.",
)
def what_if(  # noqa: PLR0913 - one argument per option
    *,
    source: InputSource,
    drained: tuple[str, ...],
    taints: tuple[str, ...],
    count: int | None,
    like: str | None,
    scaled: tuple[str, ...],
    deleted: tuple[str, ...],
    uncordoned: tuple[str, ...],
    labelled: tuple[str, ...],
    tolerated: tuple[str, ...],
    applied: tuple[str, ...],
    seed: int,
    output: Output,
    fail_on_homeless: bool,
) -> None:
    """Say which pods would move, and which would be left without a node, if something changed.

    All changes together are made to a copy of the cluster, in the order of the options below. Then
    all pods that wait are scheduled there, as the daemon would, preemption included. Pods of a
    controller are made again, others are lost. The cluster itself is only read.

    \b
      stowage what-if --drain node-7 --drain node-8
      stowage what-if --scale deployment/shop/web=50 --add-nodes 3 --like node-7
      stowage what-if -f cluster.json --apply new-release.yaml --fail-on-homeless
      stowage what-if --daemon https://localhost:10259 --drain node-7

    The exit status is 2 when a file, the cluster or the configuration cannot be used. With
    --fail-on-homeless it is 3 when a pod that had a node, or is new, gets none.
    """  # noqa: D301 - \b is click's mark for lines to keep
    try:
        changes = changes_of(
            drained=drained,
            taints=taints,
            added=_added(count, like),
            scaled=scaled,
            deleted=deleted,
            uncordoned=uncordoned,
            labelled=labelled,
            tolerated=tolerated,
        )
        if not (changes or applied):
            raise InputError(
                "nothing would change: give --drain, --remove-taint, --add-nodes, --scale, "
                "--delete, --uncordon, --label, --tolerate or --apply "
                "(`stowage simulate` places the pods that wait as things are)"
            )
        documents = [read_documents([file]) for file in applied]
        objects, profiles, notices = source.read()
        if documents:
            admission, problems = source.admission_beside(objects)
            objects.warnings += problems
            changes += map(applying, readers_of(documents, objects, admission, profiles.watched))
        with shown_progress("placing pods") as progress:
            page = what_if_page(profiles, objects, changes, seed, progress)
        _tell(page, output, seed, notices)
    except SchedulerError as problem:
        refuse("what-if", problem)
    if fail_on_homeless and any(not pod.has_waited for pod in page.found.homeless):
        sys.exit(_HOMELESS)


def _tell(page: WhatIfPage, output: Output, seed: int, notices: Iterable[str]) -> None:
    """Print the result; data get no notes beside them."""
    if output == "json":
        print_line(page.found)
        return
    if output == "html":
        print_page("what-if", {**page.data, "asked": list(_asked(click.get_current_context()))})
    else:
        _print(page.found, seed)
    for notice in (*page.found.warnings, *notices):
        print_note(notice)


def _asked(context: click.Context) -> Iterator[str]:
    """The options that change something, as they were given."""
    for option in context.command.params:
        given = context.params.get(option.name or "") if option.name in _CHANGES else None
        for value in given if isinstance(given, tuple) else [given]:
            if value is not None:
                yield f"{option.opts[0]} {value}"


def _added(count: int | None, like: str | None) -> tuple[AddedNodes, ...]:
    if (count is None) != (like is None):
        raise InputError("expected --add-nodes N and --like NODE together, got only one of them")
    return () if count is None or like is None else (AddedNodes(count, like),)


# --- for people -----------------------------------------------------------------------------------


def _print(found: WhatIfResult, seed: int) -> None:
    if not (found.placements or found.homeless):
        echo("No pod moves, and no pod waits for a node.\n")
    if found.placements:
        echo(f"{_pods(len(found.placements))} a node (seed {seed}):\n")
        rows = grouped((each.pod, each.came_from or "-", each.node) for each in found.placements)
        print_table(("pod", "from", "to"), rows, texts=(0, 1, 2))
        echo()
    for each in found.placements:
        if each.victims:
            echo(f"Evicted to make room for {each.pod}: {', '.join(each.victims)}\n")
    for has_waited, result in ((False, "would be homeless"), (True, "would go on waiting")):
        pods = [(pod.message, pod.pod) for pod in found.homeless if pod.has_waited is has_waited]
        print_by_reason(pods, result, result)
    print_use(found.use)


def _pods(number: int) -> str:
    return "1 pod finds" if number == 1 else f"{number} pods find"
