"""What is always true of the queue, checked."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from scheduler.errors import SchedulerError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue.active import ActiveQueue
from scheduler.kernel.queue.backoff import BackoffQueue
from scheduler.kernel.queue.in_flight import InFlightPods
from scheduler.kernel.queue.readmission import Readmission
from scheduler.kernel.queue.unschedulable_pods import UnschedulablePods


class QueueInvariantError(SchedulerError):
    """The queue contradicts itself; a programming error."""


def validate_queue(  # noqa: PLR0913, PLR0917 - all parts of the queue
    active: ActiveQueue,
    backoff: BackoffQueue,
    unschedulable: UnschedulablePods,
    in_flight: InFlightPods,
    readmission: Readmission,
    nominator: NominatedPods,
    known: Mapping[str, QueuedPodInfo],
) -> None:
    """Check what is always true.

    `known` is to have the pods of all places, by UID.

    Raises:
        QueueInvariantError: something is not; the message lists all that is wrong.
    """
    problems = list(
        chain(
            _places(known, active, backoff, unschedulable, in_flight, readmission),
            _active(active),
            active.validate(),
            _backoff(backoff),
            unschedulable.validate(),
            in_flight.validate(),
            nominator.validate(),
        )
    )
    if problems:
        raise QueueInvariantError("; ".join(problems))


def _places(known: Mapping[str, QueuedPodInfo], *places: Iterable[QueuedPodInfo]) -> Iterator[str]:
    pods = [queued for place in places for queued in place]
    for uid, count in Counter(queued.pod_info.uid for queued in pods).items():
        if count > 1:
            yield f"pod {uid} is in {count} places"
    if known != {queued.pod_info.uid: queued for queued in pods}:
        yield "the pods that are known are not those that wait or are in flight"


def _active(active: ActiveQueue) -> Iterator[str]:
    for queued in active:
        if queued.is_gated:
            yield f"gated pod {queued.pod_info.uid} is active"
        if queued.initial_attempt_timestamp is None:
            yield f"pod {queued.pod_info.uid} is active without having become ready"


def _backoff(backoff: BackoffQueue) -> Iterator[str]:
    for queued in backoff:
        uid = queued.pod_info.uid
        if queued.is_gated:
            yield f"gated pod {uid} is in back-off"
        if queued.backoff_expiration != backoff.expiration(queued):
            yield f"pod {uid} has a back-off that does not follow from its failures"
        if backoff.has_failed(uid) == queued.may_come_early:
            yield f"pod {uid} is in the wrong kind of back-off"
