"""Waking in parts: what changes are worth to pods that wait, so many questions in one step.

A change in the cluster may concern every workload that waits, each with a question to the plugins
that rejected it. It is a wave: begun when the change comes, and gone on with in later steps when
there is more to ask than one step may cost.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias

from scheduler.framework.types import QueuedPodInfo
from scheduler.queue.hints import ObservedEvent, QueueingHints, Strategy

Woken: TypeAlias = tuple[QueuedPodInfo, Strategy]

MAX_ASKED: Final = 300
"""Questions and moves in one step: 10 us to 40 us each."""

MAX_WAVES: Final = 16
"""Waves under way before everybody is simply tried again."""


class Wave:
    """One change and the pods that are still to be asked about it.

    Attributes:
        label: the change's name in metrics.
        woken: one item per question asked: the pod that is to be moved, or None.
        observed: the change; None where no pod can escape it by being updated meanwhile.
    """

    __slots__ = ("label", "observed", "woken")

    def __init__(
        self, label: str, woken: Iterator[Woken | None], observed: ObservedEvent | None = None
    ) -> None:
        self.label = label
        self.woken = woken
        self.observed = observed


class Waves:
    """The waves under way, oldest first.

    Invariant: a pod that waited when a change came, and waits still, was asked about it, or a wave
    here comes to it, or it was asked when it was updated.
    """

    def __init__(self, hints: QueueingHints) -> None:
        self._hints = hints
        self._waves: deque[Wave] = deque()

    def __len__(self) -> int:
        return len(self._waves)

    @property
    def are_too_many(self) -> bool:
        """Whether no further one is to be begun."""
        return len(self._waves) >= MAX_WAVES

    def add(self, wave: Wave) -> None:
        """Begin a wave; it comes after those under way."""
        self._waves.append(wave)

    def replace(self, wave: Wave) -> None:
        """Forget all waves for one that wakes everybody."""
        self._waves = deque((wave,))

    def take(self) -> Iterator[tuple[QueuedPodInfo, Strategy, str]]:
        """The next pods to be moved, each with the name of the change that moves it."""
        for _ in range(MAX_ASKED):
            if not self._waves:
                return
            wave = self._waves[0]
            try:
                woken = next(wave.woken)
            except StopIteration:
                self._waves.popleft()
            else:
                if woken is not None:
                    yield (*woken, wave.label)

    def strategy_for(self, queued: QueuedPodInfo) -> tuple[Strategy, str]:
        """What the waves under way do to a pod that they might miss, as it changes."""
        strongest, label = Strategy.SKIP, ""
        for wave in self._waves:
            if wave.observed is not None:
                strategy = self._hints.strategy_for(queued, wave.observed)
                if strategy > strongest:
                    strongest, label = strategy, wave.label
        return strongest, label
