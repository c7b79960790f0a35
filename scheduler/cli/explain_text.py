"""One pod's answer in the words of people."""

from collections.abc import Iterator
from typing import Final

import click
import msgspec

from scheduler.api.pods import PodInfo
from scheduler.cli.tables import plugin_header, print_table
from scheduler.framework.runtime import Framework
from scheduler.offline.answers import FeasibleNode, PodAnswer, Preempting
from scheduler.offline.findings import Group, Miss, Reasons, best_nodes, groups_of
from scheduler.volumes.obstacles import ClaimObstacle

_NAMES_SHOWN: Final = 3
_TAINTS_SHOWN: Final = 5


class PodReport(msgspec.Struct, frozen=True):
    """What there is to say about one pod.

    Attributes:
        pod: the pod.
        answer: the plugins' verdicts.
        framework: the profile that judged.
        num_all_nodes: nodes in the cluster.
        obstacles: what is missing where, and which taints there are.
        nodes: the only nodes to speak of; all when empty.
        top: how many of the nodes that fit to show.
    """

    pod: PodInfo
    answer: PodAnswer
    framework: Framework
    num_all_nodes: int
    reasons: Reasons
    nodes: tuple[str, ...]
    top: int


def print_report(report: PodReport) -> None:
    """Print the verdict, the nodes that do not fit by reason, the best of those that do."""
    answer = report.answer
    click.secho(f"{answer.pod}", bold=True, nl=False)
    click.echo(f"  (profile {answer.profile})")
    click.echo(f"  {_verdict(report)}")
    for remark in _remarks(report):
        click.echo(f"  {remark}")
    shown = _narrowed(report)
    _print_groups(shown, report)
    _print_scores(shown, report)
    click.echo()


def print_note(text: str) -> None:
    """Print what concerns no pod in particular."""
    click.echo(f"note: {text}", err=True)


def _verdict(report: PodReport) -> str:
    answer = report.answer
    if isinstance(answer.error, str):
        return f"A plugin failed: {answer.error}"
    if answer.pre_enqueue is not None:
        reasons = ", ".join(answer.pre_enqueue.reasons)
        return f"Held back by {answer.pre_enqueue.plugin} before any node is looked at: {reasons}"
    if answer.pre_filter is not None:
        by = f" by {answer.pre_filter.plugin}" if answer.pre_filter.plugin else ""
        return f"Rejected{by} on all {report.num_all_nodes} nodes at once: {answer.message}"
    best = best_nodes(answer)
    if not best:
        return f"Fits nowhere: {answer.message}"
    fits = f"Fits on {len(best)} of {report.num_all_nodes} nodes"
    nominated = report.pod.pod.status.nominated_node_name
    if any(node.node == nominated for node in best):
        return f"{fits}; goes to {nominated}, where it is nominated, whatever the scores."
    ties = [node.node for node in best if node.total == best[0].total]
    goes = f"goes to {ties[0]}" if len(ties) == 1 else f"goes to one of {_names(ties)} (a tie)"
    return f"{fits}; {goes}."


def _remarks(report: PodReport) -> Iterator[str]:
    nominated = report.pod.pod.status.nominated_node_name
    if nominated and not any(n.node == nominated for n in best_nodes(report.answer)):
        yield f"It is nominated to {nominated}, which is tried first, and does not fit there."
    preempting = report.answer.preemption
    if isinstance(preempting, Preempting):
        if preempting.nominated_node:
            victims = ", ".join(preempting.victims)
            others = _nodes(len(preempting.candidates))
            node = preempting.nominated_node
            yield f"Room could be made on {node} by evicting {victims}; candidates: {others}."
        else:
            yield f"No room can be made: {preempting.message}"
    for found in report.answer.claims or ():
        yield _claim(found)


def _claim(found: ClaimObstacle) -> str:
    about = f"Claim {found.claim}" if found.claim else f"Disk {found.volume}"
    if found.claim and found.volume:
        about += f" (volume {found.volume})"
    driver = f" of {found.driver}" if found.driver else ""
    users = f"; in use by {', '.join(found.pods)}" if found.pods else ""
    where = f"{_nodes(len(found.nodes))}: {_names(found.nodes)}"
    return f"{about}: {found.reason}{driver}, on {where}{users}"


def _narrowed(report: PodReport) -> PodAnswer:
    if not report.nodes:
        return report.answer
    kept = tuple(node for node in report.answer.nodes if node.node in report.nodes)
    return msgspec.structs.replace(report.answer, nodes=kept)


# --- nodes that do not fit ------------------------------------------------------------------------


def _print_groups(answer: PodAnswer, report: PodReport) -> None:
    groups = groups_of(answer, report.reasons)
    if not groups:
        return
    click.echo()
    rows = [row for group in groups for row in _group_rows(group)]
    print_table(("nodes", "plugin", "reasons"), rows, texts=(1, 2))


def _group_rows(group: Group) -> Iterator[tuple[str, str, str]]:
    count = str(len(group.nodes))
    for rejection in group.rejections:
        yield count, rejection.plugin, ", ".join(rejection.reasons)
        count = ""
    for miss in group.misses:
        yield "", "", f"  {_miss(miss)}"
    for taint in group.taints[:_TAINTS_SHOWN]:
        yield "", "", f"  taint {taint.taint} on {_nodes(taint.nodes)}"
    if len(group.taints) > _TAINTS_SHOWN:
        yield "", "", f"  and {len(group.taints) - _TAINTS_SHOWN} more taints"
    yield "", "", f"  on {_names(group.nodes)}"


def _miss(miss: Miss) -> str:
    text = f"short by {miss.amount} {miss.resource} on {_nodes(miss.nodes)}"
    if miss.nodes > 1:
        text += f", nearest {miss.nearest}"
    if miss.hopeless == miss.nodes:
        return f"{text}; too small even when empty"
    return f"{text}; {miss.hopeless} too small even when empty" if miss.hopeless else text


def _nodes(count: int) -> str:
    return f"{count} nodes" if count > 1 else "1 node"


def _names(names: tuple[str, ...] | list[str]) -> str:
    if len(names) <= _NAMES_SHOWN + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMES_SHOWN])} and {len(names) - _NAMES_SHOWN} more"


# --- nodes that fit -------------------------------------------------------------------------------


def _print_scores(answer: PodAnswer, report: PodReport) -> None:
    best = best_nodes(answer)
    if not best:
        return
    weights = {scored.plugin.NAME: scored.weight for scored in report.framework.plugins.score}
    plugins = [name for name in weights if name in best[0].scores]
    shown = best if report.nodes else best[: report.top]
    click.echo()
    print_table(
        ("node", "total", *(plugin_header(name, weights[name]) for name in plugins)),
        [_score_row(node, plugins) for node in shown],
    )
    if len(shown) < len(best):
        click.echo(f"  ... and {len(best) - len(shown)} more nodes (--top)")


def _score_row(node: FeasibleNode, plugins: list[str]) -> tuple[str, ...]:
    return (node.node, str(node.total), *(str(node.scores[p].weighted) for p in plugins))
