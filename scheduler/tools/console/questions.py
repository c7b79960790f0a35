"""Decodes the long requests of pages, and computes their answers."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from scheduler.daemon.recording.records import Header, Record
from scheduler.tools.cli.comparing import configured_by
from scheduler.tools.cli.comparison_page import comparison_page
from scheduler.tools.offline.asked_changes import AddedNodes, Reader, applying, changes_of
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.progress import Progress, with_progress
from scheduler.tools.offline.reading import ClusterObjects, InputError
from scheduler.tools.offline.what_if_page import what_if_page


class _Wire(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Common settings."""


class WhatIfQuestion(_Wire, frozen=True):
    """The options of `stowage what-if`; `apply` has manifests, `at` is a time of a recording."""

    drain: tuple[str, ...] = ()
    remove_taint: tuple[str, ...] = ()
    add_nodes: tuple[AddedNodes, ...] = ()
    scale: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    uncordon: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    tolerate: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()
    at: float | None = None
    seed: int = 0


class CompareQuestion(_Wire, frozen=True):
    """A KubeSchedulerConfiguration to compare the recorded one with."""

    config: str


class SaveQuestion(_Wire, frozen=True):
    """The data of a page to save as a file."""

    page: str
    data: msgspec.Raw


def answer_what_if(
    question: WhatIfQuestion,
    profiles: Profiles,
    objects: ClusterObjects,
    applied: Iterable[Reader],
    progress: Progress,
) -> dict[str, Any]:
    """Simulate the changes of a question and return the page's data; `objects` are changed.

    Raises:
        SchedulerError: a change names an unknown object, or none is given.
    """
    changes = changes_of(
        drained=question.drain,
        taints=question.remove_taint,
        added=question.add_nodes,
        scaled=question.scale,
        deleted=question.delete,
        uncordoned=question.uncordon,
        labelled=question.label,
        tolerated=question.tolerate,
    )
    changes += map(applying, applied)
    if not changes:
        raise InputError("nothing would change: add a change first")
    return what_if_page(profiles, objects, changes, question.seed, progress).data


def answer_comparison(
    question: CompareQuestion, header: Header, records: Sequence[Record], progress: Progress
) -> dict[str, Any]:
    """Replay the recorded pods under another configuration, and return the page's data.

    Raises:
        SchedulerError: the configuration is wrong.
    """
    count = max(1, len(records))
    watched = with_progress(
        ((number / count, each) for number, each in enumerate(records)), progress
    )
    return comparison_page(header, watched, configured_by(header, question.config))
