"""`stowage explain`: the reasons for each pod's placement, or for its lack of one."""

import sys
from typing import Final

import click
from click.core import ParameterSource

from scheduler.config.feature_gates import turned_on
from scheduler.errors import SchedulerError
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.why import Depth
from scheduler.tools.cli.explaining import (
    ExplainOptions,
    explain_inputs,
    print_json,
    print_notes,
    print_pages,
    print_text,
)
from scheduler.tools.cli.inputs import input_lines, refuse
from scheduler.tools.cli.options import Output, command, page_option, print_line
from scheduler.tools.cli.sources import InputSource, recorded_options, source_options
from scheduler.tools.offline.cases import answer_case
from scheduler.tools.offline.reading import InputError

_FAILED: Final = 1
_PENDING: Final = 3
"""Exit status with `--fail-on-pending`."""
_WITH_JSONL: Final = frozenset({"jsonl", "preempts", "feature_gates"})


@command()
@click.argument("named_pods", nargs=-1, metavar="[[NAMESPACE/]POD]...")
@source_options
@recorded_options
@click.option("-n", "--namespace", default="", metavar="NAME", help="Only pods of this namespace.")
@click.option(
    "--pod",
    "pods",
    multiple=True,
    metavar="[NAMESPACE/]NAME",
    help="The same as naming the pod as an argument.",
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
    "--changes/--no-changes",
    default=True,
    help="For pods that fit nowhere: look for the smallest changes that would help (the default).",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="How many of the nodes that fit to show (text only).",
)
@click.option(
    "--profile",
    default="",
    metavar="NAME",
    help="Have this profile decide about all pods, whatever their schedulerName.",
)
@page_option()
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
    source: InputSource,
    namespace: str,
    pods: tuple[str, ...],
    nodes: tuple[str, ...],
    all_reasons: bool,
    preempts: bool,
    changes: bool,
    top: int,
    profile: str,
    output: Output,
    fail_on_pending: bool,
    jsonl: bool,
) -> None:
    """Say for pods on which nodes they fit, and why not on the others.

    The pods named, or all that wait, are judged one by one with the engine that schedules. Nothing
    is changed. The facts come from the cluster of the kubeconfig (rights to read are enough), or
    from files. A pod that has a node is judged as if it had none.

    \b
      stowage explain shop/web-0
      stowage explain -n shop --config config.yaml
      kubectl get nodes,pods,ns,svc,rs,sts,rc -A -o yaml | stowage explain -f -
      stowage explain -f cluster.json -f deployment.yaml --fail-on-pending
      stowage explain web-0 -f cluster.json --node n1 --all-reasons
      stowage explain shop/web-0 --daemon https://localhost:10259

    Workloads in files that never met an API server are taken as the pods they would make.

    The exit status is 2 when a file, the cluster or the configuration cannot be used, and 1 when a
    plugin failed. With --fail-on-pending it is 3 when a pod that waits fits nowhere or is held
    back.
    """  # noqa: D301 - \b is click's mark for lines to keep
    if jsonl:
        _check_alone(click.get_current_context())
        _answer_lines(turned_on(source.feature_gates), preempts=preempts)
        return
    depth = Depth.CHANGES if changes else Depth.CHECKS
    names = (*named_pods, *pods)
    wanted = ExplainOptions(
        names, namespace, profile, nodes, top, depth, with_unserved=output == "text"
    )
    try:
        objects, profiles, notices = source.read(tries_all_nodes=preempts, asks_extenders=True)
        asked = explain_inputs(objects, profiles, wanted)
    except SchedulerError as problem:
        refuse("explain", problem)
    explainer = Explainer(
        asked.cluster.engine,
        asked.framework_of,
        all_reasons=all_reasons or output == "html",
        preempts=preempts,
        asker=asked.cluster.asker,
        asks_permit=True,
        tells_devices=True,
        unserved=asked.unserved,
        wall=asked.cluster.engine.core.wall,
    )
    write = {"json": print_json, "text": print_text, "html": print_pages}[output]
    try:
        outcome = write(asked, explainer, wanted)
    except InputError as problem:
        refuse("explain", problem)
    if output != "json":
        print_notes(asked, wanted, outcome, notices)
    if outcome.failed:
        sys.exit(_FAILED)
    if outcome.pending and fail_on_pending:
        sys.exit(_PENDING)


def _check_alone(context: click.Context) -> None:
    """Refuse options that --jsonl would ignore.

    Raises:
        UsageError: there is one.
    """
    for option in context.command.params:
        name = option.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        is_default = (name, context.params.get(name)) == ("output", "json")
        if is_given and name not in _WITH_JSONL and not is_default:
            told = option.opts[-1] if isinstance(option, click.Option) else "names of pods"
            raise click.UsageError(
                f"--jsonl reads whole cases from standard input: leave out {told}"
            )


def _answer_lines(feature_gates: frozenset[str], *, preempts: bool) -> None:
    try:
        for line in input_lines():
            if line.strip():
                answer = answer_case(line, feature_gates, preempts=preempts)
                print_line(answer)
    except InputError as problem:
        refuse("explain", problem)
