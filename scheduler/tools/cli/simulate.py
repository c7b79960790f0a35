"""`stowage simulate`: the placements of all waiting pods."""

from collections.abc import Iterable

import click

from scheduler.errors import SchedulerError
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.explain_text import print_note
from scheduler.tools.cli.inputs import feature_gates_option, read_documents, read_profiles, refuse
from scheduler.tools.cli.options import Output, command, output_option, print_line
from scheduler.tools.cli.progress import shown_progress
from scheduler.tools.cli.tables import grouped, print_by_reason, print_table, print_use
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.cluster import ClusterState, scheduler_names
from scheduler.tools.offline.reading import objects_from_documents
from scheduler.tools.offline.simulate import SimulationResult, simulate as simulate_pods
from scheduler.tools.offline.utilisation import changed, utilisation_of


@command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Objects in YAML or JSON (JSON is read much faster), also compressed with gzip, or a "
    "directory of such files; - is standard input. More files may follow.",
)
@click.argument("more_files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Decides between equally good nodes; the same seed gives the same placements.",
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
@output_option()
def simulate(
    *,
    files: tuple[str, ...],
    more_files: tuple[str, ...],
    seed: int,
    config_file: str | None,
    feature_gates: tuple[str, ...],
    output: Output,
) -> None:
    """Schedule all waiting pods of a cluster described in files, and show where they go.

    Pods are taken in queue order: by priority, then by age. Every decision builds on the ones
    before it, and a pod that fits nowhere is tried again when a later placement may help it. No
    cluster is asked and nothing is changed.

    \b
      kubectl get nodes,pods,ns,svc,rs,sts,rc -A -o json | stowage simulate -f -
      stowage simulate -f cluster.json -f new-pods.yaml --seed 7 -o json

    The exit status is 2 when a file or the configuration cannot be used.
    """  # noqa: D301 - \b is click's mark for lines to keep
    try:
        documents = read_documents((*files, *more_files))
        profiles, notices = read_profiles(config_file, feature_gates=feature_gates)
        objects = objects_from_documents(documents, admission=Admission(), watched=profiles.watched)
        notices = (*objects.warnings, *notices)
        cluster = profiles.load(objects, seed)
    except SchedulerError as problem:
        refuse("simulate", problem)
    before = utilisation_of(cluster.snapshot)
    with shown_progress("placing pods") as progress:
        outcome = simulate_pods(cluster, progress)
    if output == "json":
        print_line(outcome)
    else:
        _print(outcome, seed)
        after = utilisation_of(cluster.snapshot)
        if cluster.snapshot.table.count:
            print_use(changed(before, after), after.nodes)
    _print_notes(cluster, notices)


def _print(outcome: SimulationResult, seed: int) -> None:
    placements = outcome.placements
    if not placements:
        echo("No pod waits for a node.\n")
        return
    placed = [p for p in placements if p.node is not None]
    echo(f"{len(placed)} of {len(placements)} waiting pods find a node (seed {seed}).\n")
    if placed:
        rows = grouped((p.pod, p.node or "") for p in placed)
        print_table(("pod", "node"), rows, texts=(0, 1))
        echo()
    for preemptor in (p for p in placements if p.victims):
        echo(f"Evicted to make room for {preemptor.pod}: {', '.join(preemptor.victims)}\n")
    pending = [(p.message, p.pod) for p in placements if p.node is None]
    print_by_reason(pending, "stays pending", "stay pending")


def _print_notes(cluster: ClusterState, notices: Iterable[str]) -> None:
    if cluster.others:
        print_note(f"Pods of other schedulers wait as well: {scheduler_names(cluster.others)}.")
    for notice in notices:
        print_note(notice)
