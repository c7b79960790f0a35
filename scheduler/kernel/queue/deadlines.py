"""When each waiting pod is tried again although nothing happened.

Source: kubernetes pkg/scheduler/backend/queue/scheduling_queue.go flushUnschedulablePodsLeftover
v1.36. Differs: upstream looks at every waiting pod every 30 seconds, so a pod waits for up to 330
seconds. Here pods are filed by second: looking costs as much as there are pods to be tried, and can
be done every second.
"""

from collections.abc import Iterator
from math import floor


class Deadlines:
    """Pods by the time at which they are tried again, in seconds of the queue's clock."""

    def __init__(self) -> None:
        self._of: dict[str, float] = {}
        self._by_second: dict[int, dict[str, None]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def of(self, uid: str) -> float:
        """The deadline of a pod that has one."""
        return self._of[uid]

    def set(self, uid: str, deadline: float) -> None:
        """Give a pod a deadline, in place of an earlier one."""
        self.remove(uid)
        self._of[uid] = deadline
        self._by_second.setdefault(floor(deadline), {})[uid] = None

    def remove(self, uid: str) -> None:
        """Forget a pod, if it has a deadline."""
        deadline = self._of.pop(uid, None)
        if deadline is None:
            return
        second = floor(deadline)
        pods = self._by_second[second]
        del pods[uid]
        if not pods:
            del self._by_second[second]

    def has_before(self, now: float) -> bool:
        """Whether the deadline of any pod is over."""
        return any(second < now for second in self._by_second)

    def before(self, now: float) -> list[str]:
        """The pods past their deadline, the earliest second first.

        Cost: O(these pods, and seconds in which a deadline ends).
        """
        seconds = sorted(second for second in self._by_second if second <= now)
        pods = (uid for second in seconds for uid in self._by_second[second])
        return [uid for uid in pods if self._of[uid] < now]
