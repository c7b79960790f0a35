"""Builds the data of the page "Pod" from an answer: the JSON of `explain`, and sentences."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.edits import (
    AddNodes,
    AddToleration,
    Edit,
    EvictPod,
    FreeClaim,
    SetLabel,
    Uncordon,
)
from scheduler.kernel.answers.judgement import PodVerdict
from scheduler.kernel.answers.model import CurrentPlacement, PodAnswer, SuggestedChange, Unserved
from scheduler.kernel.answers.report import amount_for_people, best_nodes
from scheduler.kernel.answers.waiting_model import GroupStanding, SchedulingState, StoryEntry
from scheduler.kernel.answers.words import (
    change_text,
    guess_text,
    near_text,
    obstacle_details,
    obstacle_text,
    untried_text,
)
from scheduler.kernel.engine.instructions import POD_SCHEDULED
from scheduler.kernel.framework.runtime import Framework
from scheduler.tools.cli.explain_text import PodReport, remarks, unserved_text, verdict

Mood: TypeAlias = Literal["good", "warn", "bad"]

_NEAREST_SHOWN: Final = 3
_OTHERS_SHOWN: Final = 5


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Common settings."""


class ChangeWords(_Wire, frozen=True):
    """A change as text, with the options of `what-if` that make it, if there are any."""

    text: str
    what_if: dict[str, list[str]]


class CheckWords(_Wire, frozen=True):
    """A check as text; see `answers.model.Check`."""

    plugin: str
    rejects: int
    fits_without: int
    texts: list[str]


class Words(_Wire, frozen=True):
    """An answer as sentences.

    Attributes:
        verdict: where the pod fits, or why it fits nowhere.
        mood: the style of the verdict.
        remarks: further sentences.
        nodes: number of nodes.
        filters: the filter plugins, in the order in which they run.
        checks: the reasons why it fits nowhere.
        nearest: the nodes that fail the fewest checks.
        guesses: words that look misspelt.
        changes: changes that would make it fit; None if they were not searched.
        untried: the kinds of new nodes that were not tried, as a sentence; empty if there are none.
    """

    verdict: str
    mood: Mood
    remarks: list[str]
    nodes: int
    filters: list[str]
    checks: list[CheckWords]
    nearest: list[str]
    guesses: list[str]
    changes: list[ChangeWords] | None
    untried: str


class About(_Wire, frozen=True):
    """Facts about the pod; its age is in seconds, None without a time of creation."""

    node: str
    priority: int
    requests: dict[str, str]
    age: float | None


class PodPage(_Wire, frozen=True):
    """The data of the page; `pods` is that of `stowage explain -o json`."""

    pods: tuple[msgspec.Raw]
    words: Words
    about: About
    story: tuple[StoryEntry, ...]
    state: SchedulingState | None
    notes: tuple[str, ...]

    def and_like(self, others: Sequence[str]) -> "PodPage":
        """Return the page with the names of other equal pods."""
        named = ", ".join(others[:_OTHERS_SHOWN])
        more = len(others) - _OTHERS_SHOWN
        told = f"It stands for {len(others)} more like it: {named}"
        told += f" and {more} more." if more > 0 else "."
        return self.with_remark(told)

    def with_remark(self, told: str) -> "PodPage":
        """Return the page with another remark, before the others."""
        words = msgspec.structs.replace(self.words, remarks=[told, *self.words.remarks])
        return msgspec.structs.replace(self, words=words)


def pod_page(
    report: PodReport,
    judgement: PodVerdict,
    now: datetime,
    *,
    state: SchedulingState | None = None,
    only: Collection[str] = (),
) -> PodPage:
    """Build the page of a pod.

    Args:
        report: the report about the pod.
        judgement: the profile's verdict, with every rejection.
        now: the time of the page.
        state: the scheduling state of the pod, if known.
        only: the nodes to list; all without any.
    """
    pod = report.pod
    created = pod.pod.metadata.creation_timestamp
    return PodPage(
        (judgement.json(only),),
        _words(report),
        About(
            pod.node_name,
            pod.priority,
            {name: amount_for_people(name, amount) for name, amount in pod.shape.requests.items()},
            seconds_since(created, now),
        ),
        tuple(_story(pod, () if state is None else state.story)),
        state,
        (),
    )


def page_report(
    pod: PodInfo,
    judgement: PodVerdict,
    framework: Framework,
    num_all_nodes: int,
    group: GroupStanding | None = None,
) -> PodReport:
    """Build the report of a pod's page, without nodes: the page lists them itself."""
    return PodReport(pod, judgement.answer(), framework, num_all_nodes, {}, (), 0, group=group)


def seconds_since(time: str | None, now: datetime) -> float | None:
    """Return the seconds since a time in RFC 3339; None if there is none."""
    try:
        return max(0.0, (now - datetime.fromisoformat(time or "")).total_seconds())
    except (ValueError, TypeError):
        return None


def _story(pod: PodInfo, known: Sequence[StoryEntry]) -> list[StoryEntry]:
    """Return the pod's creation and known events; without events, its creation and condition."""
    created = pod.pod.metadata.creation_timestamp
    story = [StoryEntry(created, 0, "created", "")] if created else []
    story += known
    if not known:
        story += (
            StoryEntry("", 0, each.reason or each.type, each.message)
            for each in pod.pod.status.conditions
            if each.type == POD_SCHEDULED
        )
    return story


def _words(report: PodReport) -> Words:
    answer = report.answer
    unserved = isinstance(answer.unserved, Unserved)
    first = [unserved_text(answer.unserved)] if isinstance(answer.unserved, Unserved) else []
    texts = [*first, verdict(report), *remarks(report)]
    return Words(
        texts[0],
        "warn" if unserved else _mood(answer),
        texts[1:],
        report.num_all_nodes,
        [plugin.name for plugin in report.framework.plugins.filter],
        [
            CheckWords(
                check.plugin,
                check.rejects,
                check.fits_without,
                [
                    text
                    for obstacle in check.obstacles
                    for text in (obstacle_text(obstacle), *obstacle_details(obstacle))
                ],
            )
            for check in answer.checks or ()
        ],
        [near_text(near) for near in (answer.nearest or ())[:_NEAREST_SHOWN]],
        [guess_text(guess) for guess in answer.guesses or ()],
        None
        if not isinstance(answer.changes, tuple) or (answer.frees and not answer.changes)
        else [
            ChangeWords(change_text(each), _what_if(each, report.pod.key))
            for each in answer.changes
        ],
        untried_text(answer),
    )


def _mood(answer: PodAnswer) -> Mood:
    if isinstance(answer.placed, CurrentPlacement):
        return "good" if answer.placed.fits else "warn"
    if answer.pre_enqueue is not None:
        return "warn"
    return "good" if best_nodes(answer) else "bad"


def _what_if(change: SuggestedChange, pod: str) -> dict[str, list[str]]:
    """Return the options of `what-if` that make a change; empty if an edit has none."""
    options: dict[str, list[str]] = {}
    for edit in change.edits:
        found = _options(edit, pod)
        if not found:
            return {}
        for name, values in found.items():
            options.setdefault(name, []).extend(values)
    return options


def _options(edit: Edit, pod: str) -> dict[str, list[str]]:  # noqa: PLR0911 - one case per kind of edit
    match edit:
        case AddNodes(like=like, count=count):
            return {"add-nodes": [str(count)], "like": [like]}
        case EvictPod(pod=victim):
            return {"delete": [f"pod/{victim}"]}
        case FreeClaim(pods=pods) if pods:
            return {"delete": [f"pod/{user}" for user in pods]}
        case Uncordon(node=node):
            return {"uncordon": [node]}
        case SetLabel(node=node, key=key, value=value):
            return {"label": [f"{node}:{key}-" if value is None else f"{node}:{key}={value}"]}
        case AddToleration(key=key, value=value, effect=effect):
            return {"tolerate": [f"{pod}:{key}{'=' if value else ''}{value}:{effect}"]}
        case _:
            return {}
