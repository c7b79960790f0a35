"""The questions that take long, from their JSON to their answers."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from scheduler.api.resources import PODS
from scheduler.daemon.recording.comparison import ReplayComparison, Side
from scheduler.daemon.recording.records import Header, Record
from scheduler.tools.cli.comparing import compared_with
from scheduler.tools.cli.inputs import NOT_ASKED, profiles_from_text
from scheduler.tools.offline import hypothetical_changes
from scheduler.tools.offline.asked_changes import AddedNodes, changes_of
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.heat import Heat, heat_of
from scheduler.tools.offline.progress import Progress, told
from scheduler.tools.offline.reading import ClusterObjects, InputError
from scheduler.tools.offline.recorded import recorded_profiles
from scheduler.tools.offline.what_if import what_if

_POINTS = 300
"""At so many moments both sides of a comparison are looked at."""


class _Wire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Common settings."""


class WhatIfQuestion(_Wire, frozen=True):
    """The options of `stowage what-if`; `apply` are texts, `at` a moment of a recording."""

    drain: tuple[str, ...] = ()
    remove_taint: tuple[str, ...] = ()
    add_nodes: tuple[AddedNodes, ...] = ()
    scale: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()
    at: float | None = None
    seed: int = 0


class CompareQuestion(_Wire, frozen=True):
    """A KubeSchedulerConfiguration to compare the recorded one with."""

    config: str


class SaveQuestion(_Wire, frozen=True):
    """What a page shows, to be made a file."""

    page: str
    data: msgspec.Raw


class HeatOfBoth(_Wire, frozen=True):
    """The nodes as they were, and as they would be."""

    before: Heat
    after: Heat


def answer_what_if(
    question: WhatIfQuestion,
    profiles: Profiles,
    objects: ClusterObjects,
    applied: Sequence[ClusterObjects],
    progress: Progress,
) -> dict[str, Any]:
    """What `stowage what-if -o json` prints, and `heat`; `objects` are changed.

    Raises:
        SchedulerError: a change names what is not there, or none is given.
    """
    changes = changes_of(
        drained=question.drain,
        taints=question.remove_taint,
        added=question.add_nodes,
        scaled=question.scale,
        deleted=question.delete,
    )
    changes += (partial(hypothetical_changes.apply, others=each) for each in applied)
    if not changes:
        raise InputError("nothing would change: add a change first")
    seen: list[Heat] = []
    found = what_if(
        profiles,
        objects,
        changes,
        question.seed,
        look=lambda snapshot: seen.append(heat_of(snapshot)),
        progress=progress,
    )
    answer: dict[str, Any] = msgspec.to_builtins(found)
    return {**answer, "heat": HeatOfBoth(*seen)}


# --- two configurations ---------------------------------------------------------------------------


class Curves(msgspec.Struct):
    """One side over time.

    Attributes:
        waiting: how many pods wait.
        oldest: how long the one has waited that came first, in seconds.
        victims: how many pods were evicted so far.
        use: by resource, the share of what all nodes have that is requested.
    """

    waiting: list[int] = []
    oldest: list[float] = []
    victims: list[int] = []
    use: dict[str, list[float]] = {}

    def add(self, time: float, side: Side) -> None:
        """One more moment."""
        came = [pod.came for pod in side.pods.values() if not pod.node]
        self.waiting.append(len(came))
        self.oldest.append(round(time - min(came), 3) if came else 0.0)
        self.victims.append(len(side.victims))
        for name, share in side.meter.shares.items():
            if name != PODS:
                self.use.setdefault(name, [0.0] * (len(self.waiting) - 1)).append(round(share, 4))


class BothCurves(msgspec.Struct, frozen=True):
    """Both sides at the same moments, in seconds since the start."""

    times: list[float]
    recorded: Curves
    now: Curves


def answer_comparison(
    question: CompareQuestion, header: Header, records: Sequence[Record], progress: Progress
) -> dict[str, Any]:
    """What `stowage replay --config FILE -o json` prints, with `curves` and `notices`.

    Raises:
        SchedulerError: the configuration is wrong.
    """
    settings = tuple(f"{name}=true" for name in header.feature_gates)
    profiles, notices = profiles_from_text(question.config, "configuration", feature_gates=settings)
    if profiles.config.extenders:
        notices = (*notices, NOT_ASKED)
    curves = BothCurves([], Curves(), Curves())
    step = (records[-1].time - header.clock) / _POINTS if records else 0.0

    def looked(time: float, recorded: Side, now: Side) -> None:
        seconds = time - header.clock
        if not curves.times or seconds - curves.times[-1] >= step:
            curves.times.append(round(seconds, 3))
            curves.recorded.add(time, recorded)
            curves.now.add(time, now)

    count = max(1, len(records))
    watched = told(((number / count, each) for number, each in enumerate(records)), progress)
    found: ReplayComparison = compared_with(
        header, watched, profiles, recorded_profiles(header), looked=looked
    )
    answer: dict[str, Any] = msgspec.to_builtins(found)
    return {**answer, "curves": curves, "notices": notices}
