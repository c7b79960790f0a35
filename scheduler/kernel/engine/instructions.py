"""Instructions of the engine, as plain values.

The driver carries them out and makes no decisions. Answers come back as events that name the
attempt.
"""

from typing import Final, TypeAlias

import msgspec

from scheduler.api.written import NORMAL, Condition, ObjectReference
from scheduler.kernel.extender import Verb
from scheduler.kernel.framework.interface import Write as Write  # noqa: PLC0414 - one of them

POD_SCHEDULED: Final = "PodScheduled"


class _Instruction(msgspec.Struct, frozen=True, gc=False, tag=True, omit_defaults=True):
    """Common settings of instructions."""


class Bind(_Instruction, frozen=True):
    """Bind a pod to a node; answered by `Bound` or `BindFailed`.

    Attributes:
        attempt: the number of the attempt.
        namespace: of the pod.
        name: of the pod.
        uid: of the pod; a successor of the same name must not be bound.
        node: where to.
        by_plugins: whether the profile's Bind plugins must be asked, because it has others than
            the one that writes exactly this binding.
        extender: the number of the extender that binds it instead; None if no extender does.
    """

    attempt: int
    namespace: str
    name: str
    uid: str
    node: str
    by_plugins: bool = False
    extender: int | None = None


class Ask(_Instruction, frozen=True):
    """Ask an extender; answered by `Answered`. The attempt keeps the question itself.

    Attributes:
        attempt: the number of the attempt.
        question: the number of the question.
        extender: the number of the extender.
        verb: what is asked.
        count: about how many nodes.
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
    """Whatever still runs for this attempt is no longer wanted."""

    attempt: int


class ReadPod(_Instruction, frozen=True):
    """Ask the API server how the pod of an attempt is; answered by `PodRead` or `ReadFailed`."""

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
    """Change a condition of a pod group's status.

    Attributes:
        api_version: the API that the group comes from.
        namespace: of the group.
        name: of the group.
        uid: of the group.
        condition: as it shall be.
    """

    api_version: str
    namespace: str
    name: str
    uid: str
    condition: Condition


class Evict(_Instruction, frozen=True):
    """Delete a pod, this very one, after writing why; answered by `Evicted` or `EvictFailed`.

    Attributes:
        preemptor: UID of the pod that needs the room.
        namespace: of the victim.
        name: of the victim.
        uid: of the victim.
        condition: why; None when its status says so already.
    """

    preemptor: str
    namespace: str
    name: str
    uid: str
    condition: Condition | None = None


class RecordEvent(_Instruction, frozen=True):
    """Record an event for people.

    Attributes:
        regarding: what it is about.
        reason: why, in one word: `Scheduled`.
        action: what was done: `Binding`.
        note: a sentence.
        controller: the scheduler name of the profile.
        event_type: `Normal` or `Warning`.
        related: a second object.
        is_repeatable: False for what happens to an object once.
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
    """Write a line into the log: something went wrong that an operator should know.

    Attributes:
        message: what, the same words each time.
        pod: `namespace/name`, or empty.
        problem: why.
        trace: the stack frames of an unexpected exception, or empty.
    """

    message: str
    pod: str = ""
    problem: str = ""
    trace: str = ""


class Configured(_Instruction, frozen=True):
    """The answer to `Configure`.

    Attributes:
        problem: why the configuration before is still in force; empty when the new one is.
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
