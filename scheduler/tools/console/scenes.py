"""The clusters that pages show: a watched cluster, files, or a recording at some time.

Only one thread uses a scene, because its engine must not be shared. Only `ClusterScene.submit` is
called from another thread, that of the event loop with the watches.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from datetime import datetime
from itertools import takewhile
from typing import Any, Final

import msgspec
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.clock import Clock
from scheduler.daemon.recording.files import Recording
from scheduler.kernel.answers.scheduling_state import scheduling_state_of
from scheduler.kernel.answers.waiting_model import SchedulingState
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Event, ObjectGone, ObjectSet
from scheduler.kernel.framework.runtime.shared_states import place_of
from scheduler.tools.cli.recordings import day_of, rfc3339
from scheduler.tools.cli.top.sources import RecordingSource
from scheduler.tools.cli.top.view import Rates
from scheduler.tools.cli.watching import Watched
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import ClusterObjects
from scheduler.tools.offline.recorded import Place, cluster_of, objects_for

_REMEMBERED: Final = 900
"""Samples of a watched cluster that are kept, one per second."""
_BINS: Final = 240
"""Number of points of the rates over a whole recording."""


class Series(msgspec.Struct, frozen=True):
    """Rates over time: seconds since 1970, and pods per second."""

    times: list[float]
    binds: list[float]
    arrivals: list[float]


class Scene(ABC):
    """A cluster at some time.

    Attributes:
        profiles: the profiles that judge pods.
        engine: the engine with the cluster; its snapshot is up to date after `go`.
        rates: recent arrivals and placements.
        decides: whether the engine made the decisions; then its queue is that of the scheduler.
        has_time: whether the scene has more than one time; files have only one.
        is_live: whether the cluster changes by itself.
        seconds: the length of a recording, else 0.
        default: the time that is shown by default.
    """

    profiles: Profiles
    engine: Engine
    rates: Rates
    decides = False
    has_time = True
    is_live = False
    seconds = 0.0
    default = 0.0

    @property
    @abstractmethod
    def title(self) -> str:
        """A short title of the scene."""

    @property
    def missing(self) -> str:
        """A notice about kinds that are not listed yet, or not watched; empty if there are none."""
        return ""

    @abstractmethod
    def go(self, moment: float | None) -> None:
        """Bring the engine to a time, in seconds since the start; only recordings have several.

        Raises:
            SchedulerError: a recording is damaged.
        """

    @property
    @abstractmethod
    def now(self) -> float:
        """Seconds of the clock of `rates`."""

    @abstractmethod
    def time(self) -> datetime:
        """The time of day that is shown."""

    @property
    @abstractmethod
    def series(self) -> Series:
        """Arrivals and placements over time."""

    @abstractmethod
    def objects(self) -> ClusterObjects:
        """Return the cluster's objects for a computation that may change them."""

    @abstractmethod
    def pods(self) -> Iterable[PodInfo]:
        """Return all non-terminal pods, by namespace and name."""

    def state(self, pod: PodInfo) -> SchedulingState | None:  # noqa: ARG002 - a recording uses it
        """Return the scheduling state of a pod; None if the scene has no scheduler's engine."""
        return None


class FileScene(Scene):
    """Objects of files, which do not change."""

    has_time = False

    def __init__(
        self, objects: ClusterObjects, profiles: Profiles, title: str, clock: Clock
    ) -> None:
        self.profiles = profiles
        self.engine = profiles.load(objects).engine
        self.rates = Rates()
        self._objects = objects
        self._title = title
        self._clock = clock

    @property
    @override
    def title(self) -> str:
        return self._title

    @override
    def go(self, moment: float | None) -> None:
        pass

    @property
    @override
    def now(self) -> float:
        return self._clock.monotonic()

    @override
    def time(self) -> datetime:
        return self._clock.wall()

    @property
    @override
    def series(self) -> Series:
        return Series([], [], [])

    @override
    def objects(self) -> ClusterObjects:
        return _copied(self._objects)

    @override
    def pods(self) -> Iterable[PodInfo]:
        return self._objects.pods


class ClusterScene(Scene):
    """A watched cluster. The engine makes no decisions, and nothing is written to the cluster."""

    is_live = True

    def __init__(self, profiles: Profiles, clock: Clock) -> None:
        self.profiles = profiles
        self.engine = profiles.engine(0, epoch=clock.wall().timestamp() - clock.monotonic())
        self.rates = Rates()
        self._server = ""
        self._unsynced: Callable[[], list[str]] = lambda: ["everything"]
        self._notice: Callable[[], str] = lambda: "waiting for everything"
        self._clock = clock
        self._objects: dict[Place, Any] = {}
        self._events: deque[tuple[float, Event]] = deque()
        self._samples: deque[tuple[float, float, float]] = deque(maxlen=_REMEMBERED)
        self._is_synced = False

    def watch(self, watched: Watched) -> None:
        """Set the watched cluster."""
        self._server = watched.server
        self._unsynced = lambda: watched.informers.unsynced
        self._notice = lambda: watched.notice(self._clock.monotonic())

    def submit(self, event: Event) -> None:
        """Queue an event; the engine handles it when a page is shown."""
        self._events.append((self._clock.monotonic(), event))

    @property
    @override
    def title(self) -> str:
        return self._server

    @property
    @override
    def missing(self) -> str:
        notice = self._notice()
        return f"The cluster: {notice}." if notice else ""

    @override
    def go(self, moment: float | None) -> None:
        is_synced = not self._unsynced()
        while self._events:
            time, event = self._events.popleft()
            self.rates.note(event, time)
            _note(self._objects, event)
            self.engine.handle(event, time)
        if is_synced and not self._is_synced:
            # Pods of the first lists do not count as arrivals.
            self._is_synced = True
            self.rates.forget()
        self.engine.core.catch_up()

    def sample(self) -> None:
        """Record the present rates; called once a second."""
        self.go(None)
        if self._is_synced:
            rates = self.rates.per_second(self.now)
            self._samples.append((self.time().timestamp(), *rates))

    @property
    @override
    def now(self) -> float:
        return self._clock.monotonic()

    @override
    def time(self) -> datetime:
        return self._clock.wall()

    @property
    @override
    def series(self) -> Series:
        times, binds, arrivals = zip(*self._samples, strict=True) if self._samples else ((), (), ())
        return Series(list(times), list(binds), list(arrivals))

    @override
    def objects(self) -> ClusterObjects:
        found = objects_for(self.profiles, self._objects)
        found.warnings += [self.missing] if self.missing else []
        return found

    @override
    def pods(self) -> Iterable[PodInfo]:
        return _pods_in(self._objects)


class RecordingScene(Scene):
    """A recording, at the time of the last `go`.

    Raises:
        SchedulerError: the recording cannot be read.
    """

    def __init__(self, recording: Recording, title: str, moment: float | None = None) -> None:
        self._source = RecordingSource(recording)
        self.decides = self._source.decides
        self.header = recording.header
        self.records = self._source.records
        self._title = title
        end = self.records[-1].time if self.records else self.header.clock
        self.seconds = round(end - self.header.clock, 3)
        self.default = self.seconds if moment is None else min(self.seconds, max(0.0, moment))
        self._at = self.seconds
        self._series = self._whole_series()
        self._objects: tuple[float, dict[Place, Any]] | None = None
        self.go(None)

    @property
    @override
    def title(self) -> str:
        return self._title

    @override
    def go(self, moment: float | None) -> None:
        wanted = self.default if moment is None else min(self.seconds, max(0.0, moment))
        self._source.move(wanted - self._at)
        self._source.catch_up()
        self._at = wanted
        self.profiles, self.engine = self._source.profiles, self._source.engine
        self.rates = self._source.rates
        self.engine.core.catch_up()

    @property
    @override
    def now(self) -> float:
        return self.header.clock + self._at

    @override
    def time(self) -> datetime:
        return day_of(self.header, self.now)

    @property
    @override
    def series(self) -> Series:
        return self._series

    @override
    def objects(self) -> ClusterObjects:
        end = self.now
        records = takewhile(lambda record: record.time <= end, self.records)
        return cluster_of(self.header, records).read_for(self.profiles)

    @override
    def pods(self) -> Iterable[PodInfo]:
        if self._objects is None or self._objects[0] != self._at:
            end = self.now
            records = takewhile(lambda record: record.time <= end, self.records)
            self._objects = self._at, cluster_of(self.header, records).objects
        return _pods_in(self._objects[1])

    @override
    def state(self, pod: PodInfo) -> SchedulingState | None:
        return scheduling_state_of(
            pod,
            self.engine,
            lambda time: rfc3339(day_of(self.header, time)),
            leading=self.decides,
        )

    def _whole_series(self) -> Series:
        """Return the rates of the whole recording, without the pods at its beginning."""
        width = max(1.0, self.seconds / _BINS)
        count = int(self.seconds / width) + 1
        binds, arrivals = [0] * count, [0] * count
        nodes: dict[str, str] = {}
        first = self.records[0].time if self.records else 0.0
        for record in self.records:
            event = record.event
            if not isinstance(event, ObjectSet) or not isinstance(pod := event.object, PodInfo):
                continue
            before = nodes.get(pod.uid)
            nodes[pod.uid] = pod.node_name
            if record.time - first < min(1.0, self.seconds / _BINS):
                continue
            number = min(count - 1, int((record.time - self.header.clock) / width))
            arrivals[number] += before is None
            binds[number] += bool(pod.node_name) and not before
        start = self.header.started
        return Series(
            [round(start + number * width, 3) for number in range(count)],
            [round(number / width, 2) for number in binds],
            [round(number / width, 2) for number in arrivals],
        )


def _note(objects: dict[Place, Any], event: Event) -> None:
    if isinstance(event, ObjectSet):
        objects[event.kind, *place_of(event.object)] = event.object
    elif isinstance(event, ObjectGone):
        objects.pop((event.kind, event.namespace, event.name), None)


def _pods_in(objects: Mapping[Place, Any]) -> list[PodInfo]:
    return [objects[place] for place in sorted(objects) if place[0] == "pods"]


def _copied(objects: ClusterObjects) -> ClusterObjects:
    """Return a copy with new lists: changes replace objects in lists, not the objects' fields."""
    found = copy(objects)
    found.nodes, found.pods = list(objects.nodes), list(objects.pods)
    found.namespaces, found.watched = list(objects.namespaces), list(objects.watched)
    found.warnings = list(objects.warnings)
    return found
