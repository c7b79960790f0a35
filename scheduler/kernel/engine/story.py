"""The latest history of each pod, for operators."""

from collections import deque
from collections.abc import Callable
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


class Story:
    """The latest entries of all pods, oldest first.

    Attributes:
        append: adds an entry.
    """

    def __init__(self, length: int = STORY_LENGTH) -> None:
        self._entries: deque[Entry] = deque(maxlen=length)
        self.append: Callable[[Entry], None] = self._entries.append

    def of(self, uid: str) -> list[Entry]:
        """The kept entries of one pod; scans all entries, which takes about a millisecond."""
        return [entry for entry in self._entries if entry.uid == uid]
