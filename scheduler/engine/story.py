"""What happened to each pod lately, for people who ask."""

from collections import deque
from typing import Final

import msgspec

STORY_LENGTH: Final = 20_000
"""Entries kept over all pods: about two megabytes."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened.

    Attributes:
        time: seconds of the events' clock.
        uid: of the pod.
        attempt: of which attempt, 0 for none.
        what: a word; for an attempt the state it came to.
        detail: a node, a reason, or empty.
    """

    time: float
    uid: str
    attempt: int
    what: str
    detail: str


class Story:
    """The latest entries of all pods, oldest first."""

    def __init__(self, length: int = STORY_LENGTH) -> None:
        self._length = length
        self._entries: deque[Entry] = deque()
        self._of_pod: dict[str, list[Entry]] = {}

    def tell(self, time: float, uid: str, attempt: int, what: str, detail: str = "") -> None:
        """Note what happened to a pod."""
        if len(self._entries) == self._length:
            self._forget(self._entries.popleft().uid)
        entry = Entry(time, uid, attempt, what, detail)
        self._entries.append(entry)
        of_pod = self._of_pod.get(uid)
        if of_pod is None:
            self._of_pod[uid] = [entry]
        else:
            of_pod.append(entry)

    def of(self, uid: str) -> list[Entry]:
        """What is still known of one pod."""
        return self._of_pod.get(uid, []).copy()

    def _forget(self, uid: str) -> None:
        """Let go of a pod's oldest entry."""
        of_pod = self._of_pod[uid]
        del of_pod[0]
        if not of_pod:
            del self._of_pod[uid]
