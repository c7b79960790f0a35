"""Everything that changes over time, without I/O: events in, instructions out.

The engine owns the attempts, the queue, the cache, the snapshot, the pods that Permit holds, and
the story of every pod. It knows no event loop, no socket, no log and no clock: each event comes
with its time. The same events with the same times and seed give the same instructions.
"""

from scheduler.kernel.engine.attempt import AttemptState
from scheduler.kernel.engine.engine import Engine

__all__ = ["AttemptState", "Engine"]
