"""Attempts to schedule, and their states as a transition table.

`TRANSITIONS` lists the allowed transitions; `schedule_one`, `binding_cycle` and
`scheduling_failure` do the work. This module uses no queue, no cache and no plugins.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.clock import EventClock
from scheduler.errors import SchedulerError
from scheduler.kernel.engine.events import ObjectGone
from scheduler.kernel.extender import Advice, ExtenderCalls
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.results import PostFilterResult
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.status import SUCCESS, Status
from scheduler.kernel.framework.types import Failure, QueuedPodInfo

STORY_LENGTH: Final = 20_000
"""Entries that are kept over all pods: about two megabytes."""


class AttemptError(SchedulerError):
    """The state of an attempt does not allow an event; a programming error."""


class AttemptState(Enum):
    """The state of an attempt."""

    POPPED = "popped"
    """The search for a node is under way."""
    ASKING = "asking"
    """Extenders are being asked, or the attempt waits for its turn to ask them."""
    ASSUMED = "assumed"
    """The cache has assumed the pod on its node."""
    RESERVED = "reserved"
    """All or some of the Reserve plugins have run for the pod."""
    HELD = "held"
    """The pod waits for at least one Permit plugin, or was settled and has not continued."""
    PREBINDING = "prebinding"
    """The PreBind plugins run."""
    CANCELLED = "cancelled"
    """PreBind was cancelled and has not ended: it may have a write under way."""
    BINDING = "binding"
    """The binding is on its way to the API server."""
    UNSURE = "unsure"
    """The outcome of the binding is unknown; the pod stays assumed until a read or watch event."""
    BOUND = "bound"
    """The API server has accepted the binding; the watch has not shown it yet."""
    CONFIRMED = "confirmed"
    """Final: the API server shows the pod on its node."""
    FAILED = "failed"
    """Final: the pod is unreserved, forgotten and requeued."""
    GONE = "gone"
    """Final: the pod is unreserved and forgotten; this scheduler need not place it any more."""

    # Members are singletons; `Enum.__hash__` would hash their names in Python each time.
    __hash__ = object.__hash__


STATE_WORDS: Final = {state: state.value for state in AttemptState}
"""Looked up for each step of each pod; `Enum.value` is a Python property, and slower."""


class AttemptEvent(Enum):
    """An event of an attempt."""

    ASK = "ask"
    FIT = "fit"
    RESERVE = "reserve"
    WAIT = "wait"
    PREPARE = "prepare"
    CANCEL = "cancel"
    BIND = "bind"
    DOUBT = "doubt"
    ACCEPT = "accept"
    CONFIRM = "confirm"
    FAIL = "fail"
    ABANDON = "abandon"

    # Members are singletons; `Enum.__hash__` would hash their names in Python each time.
    __hash__ = object.__hash__


class Acquired(Enum):
    """A resource that an attempt may have acquired, and must release."""

    ROOM = "room"
    """The assumed pod in the cache."""
    RESERVATIONS = "reservations"
    """The reservations of Reserve plugins."""
    HOLD = "hold"
    """The entry of the pod among the waiting pods of Permit."""
    WORK = "work"
    """Questions to extenders, or a binding, under way."""


_S, _E = AttemptState, AttemptEvent

ACQUIRED: Final[dict[AttemptState, tuple[Acquired, ...]]] = {
    _S.POPPED: (),
    _S.ASKING: (Acquired.WORK,),
    _S.ASSUMED: (Acquired.ROOM,),
    _S.RESERVED: (Acquired.RESERVATIONS, Acquired.ROOM),
    _S.HELD: (Acquired.HOLD, Acquired.RESERVATIONS, Acquired.ROOM),
    _S.PREBINDING: (Acquired.RESERVATIONS, Acquired.ROOM),
    _S.CANCELLED: (Acquired.RESERVATIONS, Acquired.ROOM),
    _S.BINDING: (Acquired.WORK, Acquired.RESERVATIONS, Acquired.ROOM),
    _S.UNSURE: (Acquired.RESERVATIONS, Acquired.ROOM),
    _S.BOUND: (Acquired.RESERVATIONS, Acquired.ROOM),
}
"""The resources that FAIL and ABANDON release in each state, in this order."""

TRANSITIONS: Final[dict[tuple[AttemptState, AttemptEvent], AttemptState]] = {
    (_S.POPPED, _E.FIT): _S.ASSUMED,
    (_S.POPPED, _E.ASK): _S.ASKING,
    (_S.ASKING, _E.ASK): _S.ASKING,
    (_S.ASKING, _E.FIT): _S.ASSUMED,
    (_S.ASSUMED, _E.RESERVE): _S.RESERVED,
    (_S.RESERVED, _E.WAIT): _S.HELD,
    (_S.RESERVED, _E.PREPARE): _S.PREBINDING,
    (_S.RESERVED, _E.BIND): _S.BINDING,
    (_S.HELD, _E.PREPARE): _S.PREBINDING,
    (_S.HELD, _E.BIND): _S.BINDING,
    (_S.PREBINDING, _E.BIND): _S.BINDING,
    (_S.PREBINDING, _E.CANCEL): _S.CANCELLED,
    (_S.BINDING, _E.ACCEPT): _S.BOUND,
    (_S.BINDING, _E.DOUBT): _S.UNSURE,
    (_S.UNSURE, _E.ACCEPT): _S.BOUND,
    # The watch may show the bound pod before the bind request is answered.
    (_S.BINDING, _E.CONFIRM): _S.CONFIRMED,
    (_S.UNSURE, _E.CONFIRM): _S.CONFIRMED,
    (_S.BOUND, _E.CONFIRM): _S.CONFIRMED,
    **{(state, _E.FAIL): _S.FAILED for state in ACQUIRED if state is not _S.BOUND},
    # The pod is gone, is being deleted, was bound by another client, or was never bound although
    # the API server had accepted the binding. ASSUMED becomes RESERVED in the same step, and
    # PREBINDING is CANCELLED first.
    **{
        (state, _E.ABANDON): _S.GONE
        for state in ACQUIRED
        if state not in (_S.ASSUMED, _S.PREBINDING)
    },
}
"""The next state for each allowed state and event; any other pair is a programming error."""

UNDECIDED: Final = frozenset({_S.POPPED, _S.ASSUMED, _S.RESERVED})
"""States before a decision: no other attempt has seen the pod on a node. An attempt leaves them in
the step in which it enters them, except for a member of a large pod group.
"""

PLACED: Final = frozenset({_S.HELD, _S.PREBINDING, _S.BINDING})
"""The states of a pod with a node at the end of its scheduling cycle."""

REVOCABLE: Final = frozenset(
    {_S.POPPED, _S.ASKING, _S.RESERVED, _S.HELD, _S.PREBINDING, _S.CANCELLED}
)
"""States before the bind request: the attempt can end without a request to the API server."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One event in the history of a pod, for operators.

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


class Attempt(msgspec.Struct):
    """One pod on its way from the queue to a node; members of a group have one each.

    Attributes:
        id: the number of the attempt; grows.
        framework: the profile of the pod.
        queued: the pod as it was popped.
        start: the start of the attempt, in seconds of the events' clock.
        state: its state.
        since: the time at which the attempt entered that state.
        cycle_state: the plugins' data of this attempt; empty before a node was found.
        placed: the pod on its (assumed) node; None before.
        doubt: the failure of a binding in doubt, if the pod has no node.
        asked_at: the time of the last `ReadPod` about it; 0 for never.
        choice: the fields of its outcome about the choice of a node; None without a consumer.
        deciding_seconds: time to choose a node, or to find that none fits.
        extender_calls: the calls to extenders with their answers; None before the first.
        binder: the number of the extender that is to bind it; None for the profile's plugins.
        is_nominated: whether the node of the pod was sent as its nominatedNodeName.
        failure: the reason why it is to end: PreBind was cancelled for it, or the member of a group
            has no place. None otherwise.
        latest: the latest event of the pod since PreBind was cancelled, handled when PreBind ends.
        order: its place in the queue's order, of a member that of its group; smaller goes first.
            None where it is not known yet: see `BindingCycle.start`.
        permit: the status of Permit for the node of a member.
        waits_for: the plugins that asked a member to wait.
        preemption: the preemption that makes room for a member; None where there is room.
        fit_error: the reason why there is no room for a member; None if there is.
        within: the rows to which the choice for a member is limited; None for all.
    """

    id: int
    framework: Framework
    queued: QueuedPodInfo
    start: float
    state: AttemptState = AttemptState.POPPED
    since: float = 0.0
    cycle_state: CycleState = msgspec.field(default_factory=CycleState)
    placed: PodInfo | None = None
    doubt: Failure = Failure("")
    asked_at: float = 0.0
    choice: Mapping[str, Any] | None = None
    deciding_seconds: float = 0.0
    extender_calls: ExtenderCalls | None = None
    binder: int | None = None
    is_nominated: bool = False
    failure: Failure | None = None
    latest: PodInfo | ObjectGone | None = None
    order: Any = None
    permit: Status = SUCCESS
    waits_for: frozenset[str] = frozenset()
    preemption: PostFilterResult | None = None
    fit_error: Failure | None = None
    within: NDArray[np.intp] | None = None

    @property
    def pod(self) -> PodInfo:
        """The pod, on its node if it has one."""
        return self.queued.pod_info if self.placed is None else self.placed

    @property
    def advice(self) -> Advice | None:
        """The answers of extenders about the nodes; None where they were not asked."""
        return None if self.extender_calls is None else self.extender_calls.advice()

    @property
    def has_failed(self) -> bool:
        """Whether it failed with an error, as opposed to a rejection."""
        return self.failure is not None and not self.failure.is_rejection

    @property
    def has_left(self) -> bool:
        """Whether it has ended, or continues after Reserve and Permit, without its group."""
        return self.state not in UNDECIDED and self.state is not AttemptState.ASKING

    @property
    def is_gone(self) -> bool:
        """Whether the pod no longer needs a node."""
        return self.state is AttemptState.GONE


class Attempts:
    """All attempts that have not ended, by number and by pod.

    Attributes:
        story: the latest entries about all pods, oldest first.
        bound: attempts in BOUND by number, in order of arrival.
        doubtful: attempts in UNSURE, or for long in BOUND, by number; `ReadPod` is due for them in
            this order.
    """

    def __init__(self, clock: EventClock) -> None:
        self._clock = clock
        self._by_id: dict[int, Attempt] = {}
        self._by_uid: dict[str, Attempt] = {}
        self._last_id = 0
        self.story: deque[Entry] = deque(maxlen=STORY_LENGTH)
        self.bound: dict[int, Attempt] = {}
        self.doubtful: dict[int, Attempt] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._by_id.values())

    def assumed(self) -> Iterator[PodInfo]:
        """The pods of attempts with a node, on that node."""
        return (each.placed for each in self if each.placed is not None)

    def __getitem__(self, attempt_id: int) -> Attempt:
        return self._by_id[attempt_id]

    def get(self, attempt_id: int) -> Attempt | None:
        """The attempt, if it has not ended."""
        return self._by_id.get(attempt_id)

    def of(self, uid: str) -> Attempt | None:
        """The attempt about a pod, if there is one."""
        return self._by_uid.get(uid)

    def in_state(self, attempt_id: int, *states: AttemptState) -> Attempt | None:
        """The attempt if it is in one of the states, else None: an answer may come too late."""
        attempt = self._by_id.get(attempt_id)
        return attempt if attempt is not None and attempt.state in states else None

    def begin(
        self, profiles: Mapping[str, Framework], queued: QueuedPodInfo, order: Any = None
    ) -> Attempt:
        """Begin the attempt of a popped pod; `order` is the place of its group in the queue."""
        self._last_id += 1
        framework = profiles[queued.pod_info.spec.scheduler_name]
        attempt = Attempt(self._last_id, framework, queued, self._clock.now, order=order)
        self._by_id[attempt.id] = self._by_uid[queued.pod_info.uid] = attempt
        return attempt

    def advance(self, attempt: Attempt, event: AttemptEvent, detail: str = "") -> None:
        """Move an attempt to its next state, and add that to the story.

        Without a detail, the entry names the node if there is one.

        Raises:
            AttemptError: the event cannot happen in this state.
        """
        following = TRANSITIONS.get((attempt.state, event))
        if following is None:
            raise AttemptError(
                f"attempt {attempt.id} of pod {attempt.pod.key} is {attempt.state.value}: "
                f"cannot {event.value}"
            )
        now = self._clock.now
        attempt.state, attempt.since = following, now
        # The UID of a pod does not change on its way to a node.
        pod = (attempt.queued.pod_info if attempt.placed is None else attempt.placed).pod
        detail = detail or pod.node_name
        self.story.append(Entry(now, pod.metadata.uid, attempt.id, STATE_WORDS[following], detail))

    def forget(self, attempt: Attempt) -> None:
        """Remove an attempt that has ended."""
        del self._by_id[attempt.id]
        del self._by_uid[attempt.queued.pod_info.uid]
        self.bound.pop(attempt.id, None)
        self.doubtful.pop(attempt.id, None)
