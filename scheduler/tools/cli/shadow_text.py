"""The verdicts on other schedulers' bindings as text."""

from collections.abc import Iterator

from scheduler.kernel.answers.bindings import AGREEMENT, DISAGREEMENT, BindingAgreement, Unjudged
from scheduler.kernel.answers.shadow_model import Disagreement, ShadowSummary
from scheduler.kernel.answers.words import lead_text, nodes_text

_WORDS = {
    BindingAgreement.AGREED: "on a node that we would choose among",
    BindingAgreement.ONLY: "on the only node that fits",
    BindingAgreement.RACED: "it depends on what else happened at that moment",
    BindingAgreement.LOWER: "on a node that fits; we would choose another",
    BindingAgreement.UNFIT: "on a node that does not fit",
    BindingAgreement.FAILED: "a plugin failed",
}
_UNJUDGED = {
    Unjudged.BEFORE: "had a node when the watch began",
    Unjudged.UNSEEN: "had a node when first seen",
}


def summary_lines(summary: ShadowSummary) -> Iterator[str]:
    """Yield the lines of a summary."""
    names = ", ".join(summary.schedulers)
    judged = summary.bindings - summary.open
    agreed = sum(summary.results[result.value] for result in AGREEMENT)
    share = f", {agreed / judged:.1%} agreed" if judged else ""
    yield f"{summary.time}  {names}: {judged} bindings in {summary.seconds:.0f} s{share}"
    for result, words in _WORDS.items():
        count = summary.results[result.value]
        if count or result in (*AGREEMENT, *DISAGREEMENT):
            yield f"  {count:>7} {result.value:<8} {words}"
    if summary.open:
        yield f"  {summary.open:>7} {'open':<8} to be looked at again"
    for reason, words in _UNJUDGED.items():
        if summary.unjudged[reason.value]:
            yield f"  {summary.unjudged[reason.value]:>7} {reason.value:<8} not judged: {words}"
    for example in summary.examples:
        yield f"  {disagreement_text(example)}"


def disagreement_text(told: Disagreement) -> str:
    """Say on which node a pod is, and why we would choose another."""
    placed, after = told.placed, told.placed.next
    about = f"{told.time} {told.pod} on {placed.node}"
    if not placed.fits:
        why = "no such node is known"
        if told.rejection is not None:
            by = told.rejection.plugin
            why = f"{f'{by}: ' if by else ''}{', '.join(told.rejection.reasons)}"
        best = "" if after is None else f", best {after.node} ({after.total})"
        return f"{about}, where it does not fit: {why}; fits on {nodes_text(told.fitting)}{best}"
    rank = f"number {placed.rank} of {told.fitting} ({placed.total})"
    if told.nominated_node not in ("", placed.node):
        return f"{about}, {rank}; it is nominated to {told.nominated_node}, where it fits"
    if after is None:
        return f"{about}, {rank}"
    by = lead_text(placed.scores)
    return f"{about}, {rank}, {-placed.ahead} behind {after.node} ({after.total}): {by}"
