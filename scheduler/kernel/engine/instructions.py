"""Instructions of the engine, as plain values.

The driver carries them out and makes no decisions. Answers come back as events that name the
attempt.
"""

from typing import Final, TypeAlias

import msgspec

from scheduler.api.written import NORMAL, Condition, ObjectReference
from scheduler.kernel.extender import Verb
from scheduler.kernel.framework.results import Write as Write  # noqa: PLC0414 - one of them

POD_SCHEDULED: Final = "PodScheduled"


class _Instruction(msgspec.Struct, frozen=True, gc=False, tag=True, omit_defaults=True):
    """Common settings of instructions."""


class Bind(_Instruction, frozen=True):
    """Bind a pod to a node; answered by `Bound` or `BindFailed`.

    Attributes:
        attempt: the number of the attempt.
        uid: the UID of the pod; a successor of the same name must not be bound.
        by_plugins: whether the profile's Bind plugins must run; False where they would only write
            this binding.
        extender: the number of the extender that binds it instead; None if no extender does.
    """

    attempt: int
    namespace: str
    name: str
    uid: str
    node: str
    by_plugins: bool = False
    extender: int | None = None

    @property
    def is_by_others(self) -> bool:
        """Whether Bind plugins or an extender carry it out."""
        return self.by_plugins or self.extender is not None


class Ask(_Instruction, frozen=True):
    """Ask an extender; answered by `Answered`. The attempt keeps the question itself.

    Attributes:
        question: the number of the question.
        extender: the number of the extender.
        count: number of nodes or candidates in the question.
    """

    attempt: int
    question: int
    extender: int
    verb: Verb
    count: int


class RunPreBind(_Instruction, frozen=True):
    """Run the PreBind plugins of an attempt; answered by `PreBound`."""

    attempt: int


class Cancel(_Instruction, frozen=True):
    """Cancel all calls that run for this attempt; `PreBound` still answers a cancelled PreBind."""

    attempt: int


class ReadPod(_Instruction, frozen=True):
    """Read the pod of an attempt from the API server; answered by `PodRead` or `ReadFailed`."""

    attempt: int
    namespace: str
    name: str
    uid: str


class PatchStatus(_Instruction, frozen=True):
    """Change a pod's status; None leaves a part alone, an empty node withdraws the nomination."""

    namespace: str
    name: str
    uid: str
    condition: Condition | None = None
    nominated_node_name: str | None = None


class PatchGroupStatus(_Instruction, frozen=True):
    """Change a condition of a pod group's status, in the API that the group comes from."""

    api_version: str
    namespace: str
    name: str
    uid: str
    condition: Condition


class Evict(_Instruction, frozen=True):
    """Delete the pod with this UID after writing the reason; answered by `Evicted`, `EvictFailed`.

    Attributes:
        preemptor: UID of the pod or group that needs the room.
        condition: the reason; None when its status has the condition already.
    """

    preemptor: str
    namespace: str
    name: str
    uid: str
    condition: Condition | None = None


class RecordEvent(_Instruction, frozen=True):
    """Record an event for people.

    Attributes:
        regarding: the object of the event.
        reason: the reason in one word: `Scheduled`.
        action: the action: `Binding`.
        note: a sentence.
        controller: the scheduler name of the profile.
        event_type: `Normal` or `Warning`.
        related: a second object.
        is_repeatable: False for events that an object can have only once.
    """

    regarding: ObjectReference
    reason: str
    action: str
    note: str
    controller: str
    event_type: str = NORMAL
    related: ObjectReference | None = None
    is_repeatable: bool = True


class SetTimer(_Instruction, frozen=True):
    """Send a `Tick` at this time, in seconds of the events' clock."""

    time: float


class LogError(_Instruction, frozen=True):
    """Write an error to the log that an operator should know.

    Attributes:
        message: a constant message.
        pod: `namespace/name`, or empty.
        problem: the error.
        trace: the stack frames of an unexpected exception, or empty.
    """

    message: str
    pod: str = ""
    problem: str = ""
    trace: str = ""


class Configured(_Instruction, frozen=True):
    """The answer to `Configure`.

    Attributes:
        problem: the reason why the former configuration stays; empty if the new one is used.
    """

    problem: str = ""


Instruction: TypeAlias = (
    Bind
    | Write
    | Ask
    | RunPreBind
    | Cancel
    | ReadPod
    | PatchStatus
    | PatchGroupStatus
    | Evict
    | RecordEvent
    | SetTimer
    | LogError
    | Configured
)
