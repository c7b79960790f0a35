"""The events that the engine takes, as plain values: they can be written down and read back."""

from typing import Any, TypeAlias

import msgspec

from scheduler.kernel.engine.instructions import RecordEvent
from scheduler.kernel.extender import Answer


class _Event(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Common settings of events."""


class ObjectSet(_Event, frozen=True):
    """An object of the cluster is new, or has changed to this.

    Attributes:
        kind: the plural, as in `scheduler.daemon.informers.kinds`: `pods`.
        object: the object; a pod is a `PodInfo`.
    """

    kind: str
    object: Any


class ObjectGone(_Event, frozen=True):
    """An object is gone, or no longer concerns scheduling."""

    kind: str
    namespace: str
    name: str
    uid: str


class Decide(_Event, frozen=True):
    """Schedule the next pod, and the equal pods that follow it in the queue.

    Attributes:
        limit: the most pods to schedule. An event recorded without a limit schedules one pod.
    """

    limit: int = 1


class Tick(_Event, frozen=True):
    """Time has passed: sent every second, and at the time of each `SetTimer`."""


class Bound(_Event, frozen=True):
    """The API server, or a Bind plugin, has bound the pod of an attempt."""

    attempt: int


class BindFailed(_Event, frozen=True):
    """The pod of an attempt is not bound, for certain or not.

    Attributes:
        is_certain: False when the API server may have carried out the request, or has no such pod:
            the engine reads the pod.
        is_rejection: whether a Bind plugin has rejected the pod, as opposed to having failed.
    """

    attempt: int
    message: str
    is_certain: bool = True
    is_rejection: bool = False


class Answered(_Event, frozen=True):
    """The answer to `Ask`, by the number of the question."""

    question: int
    answer: Answer


class PreBound(_Event, frozen=True):
    """The PreBind plugins of an attempt are done; with a problem it must not be bound.

    Attributes:
        problem: the reason; empty without one.
        is_rejection: whether a plugin has rejected the pod, as opposed to having failed.
    """

    attempt: int
    problem: str = ""
    is_rejection: bool = False


class PodRead(_Event, frozen=True):
    """The answer to `ReadPod`: the pod, or None when it does not exist (under this UID)."""

    attempt: int
    pod: Any = None


class ObjectRead(_Event, frozen=True):
    """An object in the API server's answer to a write; the watch may still show the old one."""

    kind: str
    object: Any


class ReadFailed(_Event, frozen=True):
    """`ReadPod` had no answer."""

    attempt: int


class Allowed(_Event, frozen=True):
    """A Permit plugin allows a pod that it held."""

    uid: str
    plugin: str


class Rejected(_Event, frozen=True):
    """A plugin rejects a pod that Permit holds."""

    uid: str
    plugin: str
    message: str


class Evicted(_Event, frozen=True):
    """A victim is being deleted; `was_there` is False if it was gone already."""

    uid: str
    was_there: bool = True


class EvictFailed(_Event, frozen=True):
    """A victim could not be deleted."""

    uid: str
    message: str


class WriteFailed(_Event, frozen=True):
    """A `Write` that the pod with this UID waits for has failed, or had no answer."""

    uid: str
    message: str


class GroupStatusFailed(_Event, frozen=True):
    """The condition of a pod group could not be written, or its write had no answer."""

    namespace: str
    name: str
    uid: str


class Activate(_Event, frozen=True):
    """A plugin activates pods."""

    uids: tuple[str, ...]


class PluginEvent(_Event, frozen=True, rename={"instruction": "tell"}):
    """A plugin records a Kubernetes event."""

    instruction: RecordEvent


class Configure(_Event, frozen=True):
    """Use another configuration; answered by `Configured`.

    Attributes:
        configuration: all of it in plain values, as `config.write.to_object` returns it.
    """

    configuration: dict[str, Any]


class SetBack(_Event, frozen=True):
    """The API server was set back to an older state, in which other pods may use the room.

    Attributes:
        message: the failure of the attempts that the event stops.
    """

    message: str


class SlowDecision(_Event, frozen=True):
    """A slow decision about a pod: it took this thread `seconds` of processor time."""

    uid: str
    seconds: float


Event: TypeAlias = (
    ObjectSet
    | ObjectGone
    | Decide
    | Tick
    | Bound
    | BindFailed
    | Answered
    | PreBound
    | PodRead
    | ReadFailed
    | ObjectRead
    | Allowed
    | Rejected
    | Evicted
    | EvictFailed
    | WriteFailed
    | GroupStatusFailed
    | Activate
    | PluginEvent
    | SetBack
    | SlowDecision
    | Configure
)
