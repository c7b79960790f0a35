"""The latest history of each pod, for operators."""

from typing import Final

import msgspec

STORY_LENGTH: Final = 20_000
"""Entries kept over all pods: about two megabytes."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One event in the history of a pod.

    Attributes:
        time: seconds of the events' clock.
        uid: the UID of the pod.
        attempt: the number of the attempt, 0 for none.
        what: the event in a word or two; for an attempt, its new state.
        detail: a node, a reason, or empty.
    """

    time: float
    uid: str
    attempt: int
    what: str
    detail: str
