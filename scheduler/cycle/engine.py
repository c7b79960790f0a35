"""What the cycles of one daemon share; built once by `bootstrap`."""

from collections.abc import Callable, Mapping

import msgspec

from scheduler.cache import Cache
from scheduler.cycle.recorder import CycleRecorder
from scheduler.cycle.status_writer import StatusWriter
from scheduler.framework.runtime import Framework, WaitingPods
from scheduler.queue import SchedulingQueue
from scheduler.snapshot import Snapshot


class Engine(msgspec.Struct, frozen=True):
    """The state that scheduling, binding and failure handling work on.

    Attributes:
        frameworks: by profile name.
        cache: what runs where.
        snapshot: what the present cycle decides on.
        queue: who waits.
        waiting: pods that Permit plugins hold.
        writer: tells the API server what came of an attempt.
        recorder: metrics.
        now: monotonic seconds.
    """

    frameworks: Mapping[str, Framework]
    cache: Cache
    snapshot: Snapshot
    queue: SchedulingQueue
    waiting: WaitingPods
    writer: StatusWriter
    recorder: CycleRecorder
    now: Callable[[], float]
