"""Prints one pod's answer as text."""

import os
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.edits import AddNodes
from scheduler.kernel.answers.estimate import end_text
from scheduler.kernel.answers.model import (
    CurrentPlacement,
    FeasibleNode,
    Permitting,
    PodAnswer,
    Preempting,
    Unserved,
)
from scheduler.kernel.answers.report import Group, Miss, Reasons, best_nodes, groups_of
from scheduler.kernel.answers.waiting_model import Estimate, GroupStanding, PodEnd
from scheduler.kernel.answers.words import (
    device_advice,
    edit_text,
    foreign_text,
    kept_text,
    lead_text,
    nodes_text,
)
from scheduler.kernel.ends import unread_annotation
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.volumes.obstacles import ClaimObstacle
from scheduler.observability.visible import visible
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.tables import fits, plugin_header, print_table, terminal_width
from scheduler.tools.cli.why_text import say_why
from scheduler.tools.offline.simulate import Placement

_NAMES_SHOWN: Final = 3
_TAINTS_SHOWN: Final = 5
_NARROWEST: Final = 20


class PodReport(msgspec.Struct, frozen=True):
    """The report about one pod.

    Attributes:
        pod: the pod.
        answer: the plugins' verdicts.
        framework: the framework of the profile that judged the pod.
        num_all_nodes: number of nodes in the cluster.
        reasons: by node, the reasons of its rejection, with their numbers.
        nodes: the nodes to report; all if empty.
        top: number of feasible nodes to show.
        others: other pods with the same answer.
        for_all: added nodes that would be enough for all of these pods, if known.
        together: placements of all these pods if all pending pods are scheduled, if known.
        group: the progress of its pod group then; None for a pod without a group.
        extender_weights: the weight of each extender that may have scored nodes, by label.
    """

    pod: PodInfo
    answer: PodAnswer
    framework: Framework
    num_all_nodes: int
    reasons: Reasons
    nodes: tuple[str, ...]
    top: int
    others: list[str] = msgspec.field(default_factory=list)
    for_all: AddNodes | None = None
    together: tuple[Placement, ...] | None = None
    group: GroupStanding | None = None
    extender_weights: Mapping[str, int] = {}


def print_report(report: PodReport) -> None:
    """Print the verdict, the rejected nodes by reason, and the best feasible nodes."""
    answer = report.answer
    echo(answer.pod, nl=False, bold=_is_colored())
    echo(f"  (profile {answer.profile})")
    if report.others:
        _say(f"and {len(report.others)} more like it: {_names(report.others)}")
    if isinstance(answer.unserved, Unserved):
        _say(unserved_text(answer.unserved), color="red")
    _say(verdict(report), color=_color(report))
    for remark in remarks(report):
        _say(remark)
    shown = _narrowed(report)
    _print_groups(shown, report)
    if answer.checks and not report.nodes:
        echo()
        say_why(answer, _say)
        if report.for_all is not None:
            _say(f"  for all {1 + len(report.others)}: {edit_text(report.for_all)}")
    _print_scores(shown, report)
    echo()


def _say(text: str, color: str = "") -> None:
    """Print a sentence without line breaks: the terminal wraps it."""
    text, width = visible(text), terminal_width()
    lines = [text]
    if width is not None:
        indent = " " * (len(text) - len(text.lstrip()) + 2)
        lines = textwrap.wrap(
            text,
            max(width - 2, _NARROWEST),
            subsequent_indent=indent,
            # Names of nodes have hyphens.
            break_on_hyphens=False,
        )
    for line in lines:
        echo("  ", nl=False)
        echo(line, color=color if _is_colored() else "")


def _is_colored() -> bool:
    return terminal_width() is not None and "NO_COLOR" not in os.environ


def _color(report: PodReport) -> str:
    answer = report.answer
    if isinstance(answer.error, str):
        return "magenta"
    if answer.pre_enqueue is not None:
        return "yellow"
    return "green" if best_nodes(answer) else "red"


def print_note(text: str) -> None:
    """Print a note that is not about one pod."""
    echo(f"note: {text}", err=True)


def unserved_text(found: Unserved) -> str:
    """Say that no scheduler serves the pod."""
    if found.meant:
        return f"No scheduler serves `{found.scheduler_name}`; did you mean `{found.meant}`?"
    return (
        f"No scheduler is known to serve `{found.scheduler_name}`: none of its pods has a node or "
        "a condition."
    )


def _permit(found: Permitting) -> str:
    names = ", ".join(found.plugins)
    if found.reasons or not found.seconds:
        return f"Permit: {names} would reject it on {found.node}: {', '.join(found.reasons)}"
    return f"Permit: {names} would hold it on {found.node}, for {found.seconds:g} s at most"


def verdict(report: PodReport) -> str:  # noqa: PLR0911 - one case per verdict
    """Say where the pod fits, or why it fits nowhere."""
    answer = report.answer
    if isinstance(answer.error, str):
        return f"A plugin failed: {answer.error}"
    if answer.pre_enqueue is not None:
        reasons = ", ".join(answer.pre_enqueue.reasons)
        held = f"held back by {answer.pre_enqueue.plugin} before any node is looked at: {reasons}"
        return _as_a_whole(answer, held)
    if answer.pre_filter is not None:
        by = f" by {answer.pre_filter.plugin}" if answer.pre_filter.plugin else ""
        told = f"rejected{by} on all {report.num_all_nodes} nodes at once: {answer.message}"
        return _as_a_whole(answer, told)
    best = best_nodes(answer)
    if isinstance(answer.placed, CurrentPlacement):
        return _placed(answer.placed, len(best), report.num_all_nodes)
    if not best:
        advice = device_advice(answer)
        return (
            f"Fits nowhere. {advice} {answer.message}"
            if advice
            else f"Fits nowhere: {answer.message}"
        )
    fits = f"Fits on {len(best)} of {report.num_all_nodes} nodes"
    nominated = report.pod.pod.status.nominated_node_name
    if any(node.node == nominated for node in best):
        return f"{fits}; goes to {nominated}, where it is nominated, whatever the scores."
    ties = [node.node for node in best if node.total == best[0].total]
    goes = f"goes to {ties[0]}" if len(ties) == 1 else f"goes to one of {_names(ties)} (a tie)"
    return f"{fits}; {goes}."


def _as_a_whole(answer: PodAnswer, told: str) -> str:
    """Say what becomes of the pod, whatever the node; of one with a node, what would become."""
    if isinstance(answer.placed, CurrentPlacement):
        return f"Is on {answer.placed.node}. Placed again now it would be {told}"
    return f"{told[0].upper()}{told[1:]}"


def _placed(placed: CurrentPlacement, fitting: int, num_all_nodes: int) -> str:
    """Say why a pod is on its node, or that it would not be placed there now."""
    on = f"Is on {placed.node}. Placed again now it would fit on {fitting} of {num_all_nodes} nodes"
    after = placed.next
    if not placed.fits:
        better = "" if after is None else f", and {after.node} would be the best ({after.total})"
        return f"{on}, not on {placed.node}{better}."
    if after is None:
        return f"{on}, only there."
    by = lead_text(placed.scores)
    if placed.ahead > 0:
        how = f"{placed.ahead} ahead of the next, {after.node} ({after.total}): {by}"
    elif placed.ahead == 0:
        how = f"as good as {after.node}"
    else:
        how = f"{-placed.ahead} behind {after.node} ({after.total}): {by}"
    return f"{on}; {placed.node} is number {placed.rank} ({placed.total}), {how}."


def remarks(report: PodReport) -> Iterator[str]:
    """Yield further sentences about the pod as a whole."""
    nominated = report.pod.pod.status.nominated_node_name
    if nominated and _fails_on(nominated, report.answer):
        yield f"It is nominated to {nominated}, which is tried first, and does not fit there."
    if report.group is not None:
        yield f"Member of pod group {report.group.group}: {report.group.text}"
    elif report.together:
        yield _together(report.together)
    # Without known ends, as in most clusters, the estimate says nothing.
    if isinstance(report.answer.estimate, Estimate) and report.answer.estimate.known:
        yield report.answer.estimate.text
    yield from _end(report)
    if report.group is None and isinstance(report.answer.permit, Permitting):
        yield _permit(report.answer.permit)
    if isinstance(report.answer.preemption, Preempting):
        yield _preempting(report.answer.preemption)
    if report.answer.frees:
        yield (
            f"The scheduler frees claim {report.answer.frees}, which no other pod uses, and tries "
            "this pod again."
        )
    yield from map(_claim, report.answer.claims or ())
    yield from map(foreign_text, report.answer.foreign or ())
    yield from map(kept_text, report.answer.kept or ())


def _fails_on(node: str, answer: PodAnswer) -> bool:
    """Return whether a pending pod was judged, and does not fit on a node."""
    is_judged = bool(answer.nodes) or answer.pre_filter is not None
    is_pending = not isinstance(answer.placed, CurrentPlacement)
    return is_judged and is_pending and not any(n.node == node for n in best_nodes(answer))


def _preempting(found: Preempting) -> str:
    if not found.nominated_node:
        return f"No room can be made: {found.message}"
    victims, others = ", ".join(found.victims), nodes_text(len(found.candidates))
    return (
        f"Room could be made on {found.nominated_node} by evicting {victims}; candidates: {others}."
    )


def _end(report: PodReport) -> Iterator[str]:
    """Yield the expected end of the pod, and a warning about an unreadable annotation."""
    if isinstance(report.answer.expected_end, PodEnd):
        yield end_text(report.answer.expected_end)
    unread = unread_annotation(report.pod)
    if unread:
        yield f"An annotation cannot be read: {unread}"


def _together(placements: tuple[Placement, ...]) -> str:
    """Say how many of the equal pods find a node, and in which order they are placed."""
    placed = Counter(each.node for each in placements if each.node is not None)
    nodes = [name if count == 1 else f"{name} ({count})" for name, count in placed.items()]
    where = f": {_names(nodes)}" if nodes else ""
    rest = [each for each in placements if each.node is None]
    left = f"; the others wait: {rest[0].message}" if rest else ""
    return (
        f"Placed one after the other, by priority and then by age, {placed.total()} of "
        f"{len(placements)} find a node{where}{left}"
    )


def _claim(found: ClaimObstacle) -> str:
    about = f"Claim {found.claim}" if found.claim else f"Disk {found.volume}"
    if found.claim and found.volume:
        about += f" (volume {found.volume})"
    driver = f" of {found.driver}" if found.driver else ""
    users = f"; in use by {', '.join(found.pods)}" if found.pods else ""
    where = f"{nodes_text(found.nodes)}: {_names(found.examples, found.nodes)}"
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
    echo()
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
        yield "", "", f"  taint {taint.taint} on {nodes_text(taint.nodes)}"
    if len(group.taints) > _TAINTS_SHOWN:
        yield "", "", f"  and {len(group.taints) - _TAINTS_SHOWN} more taints"
    yield "", "", f"  on {_names(group.nodes)}"


def _miss(miss: Miss) -> str:
    text = f"short by {miss.amount} {miss.resource} on {nodes_text(miss.nodes)}"
    if miss.nodes > 1:
        text += f", nearest {miss.nearest}"
    if miss.hopeless == miss.nodes:
        return f"{text}; too small even when empty"
    return f"{text}; {miss.hopeless} too small even when empty" if miss.hopeless else text


def _names(names: Sequence[str], count: int = 0) -> str:
    """Return some of the names; `count` is their number, if only the first are known."""
    count = count or len(names)
    if count <= min(len(names), _NAMES_SHOWN + 1):
        return ", ".join(names)
    shown = names[:_NAMES_SHOWN]
    return f"{', '.join(shown)} and {count - len(shown)} more"


# --- nodes that fit -------------------------------------------------------------------------------


def _print_scores(answer: PodAnswer, report: PodReport) -> None:
    best = best_nodes(answer)
    if not best:
        return
    by_plugin = {scored.name: scored.weight for scored in report.framework.plugins.score}
    weights = {**by_plugin, **report.extender_weights}
    plugins = [name for name in weights if name in best[0].scores]
    shown = best if report.nodes else best[: report.top]
    echo()
    # Leave out scores that are equal on all shown nodes if the table is too wide.
    same = [
        name
        for name in plugins
        if len(shown) > 1 and len({node.scores[name].weighted for node in shown}) == 1
    ]
    rest = [name for name in plugins if name not in same]
    whole, short = _score_table(shown, plugins, weights), _score_table(shown, rest, weights)
    if fits(*whole):
        print_table(*whole)
    elif fits(*short, texts=(0,)):
        if same:
            every = ", ".join(f"{name} {shown[0].scores[name].weighted}" for name in same)
            _say(f"The same on all of these: {every}")
        print_table(*short)
    else:
        for node in shown:
            scores = " + ".join(f"{node.scores[name].weighted} {name}" for name in plugins)
            _say(f"{node.node}: {node.total} = {scores}")
    if len(shown) < len(best):
        echo(f"  ... and {len(best) - len(shown)} more nodes (--top)")


def _score_table(
    shown: Sequence[FeasibleNode], plugins: list[str], weights: Mapping[str, int]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    headers = ("node", "total", *(plugin_header(name, weights[name]) for name in plugins))
    return headers, [_score_row(node, plugins) for node in shown]


def _score_row(node: FeasibleNode, plugins: list[str]) -> tuple[str, ...]:
    return (node.node, str(node.total), *(str(node.scores[p].weighted) for p in plugins))
