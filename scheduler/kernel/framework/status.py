"""The status that a plugin returns.

Source: k8s.io/kube-scheduler framework/interface.go Code, Status (v0.36).
"""

from enum import IntEnum
from typing import Final

import msgspec


class Code(IntEnum):
    """The outcome of a call for the pod, in order of severity."""

    SUCCESS = 0
    """The pod passes."""
    WAIT = 1
    """Permit only: hold the pod until it is allowed or rejected."""
    SKIP = 2
    """PreFilter, PreScore, Bind: this plugin has nothing to do for this pod."""
    PENDING = 3
    """Rejected until an external event; a pod that is requeued then skips back-off."""
    UNSCHEDULABLE = 4
    """Rejected; removing other pods might help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 5
    """Rejected; removing other pods cannot help."""
    ERROR = 6
    """Unexpected: the attempt ends and is repeated after back-off."""

    @property
    def upstream_name(self) -> str:
        """The name used in output and in metric labels."""
        return CODE_NAMES[self]


CODE_NAMES: Final = {
    code: "".join(word.capitalize() for word in code.name.split("_")) for code in Code
}


class Status(msgspec.Struct, frozen=True, gc=False):
    """One answer of a plugin: a code, and human-readable reasons when it is not success."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    """The plugin that rejected; the runtime sets it."""

    @property
    def is_success(self) -> bool:
        """Whether the code is Success."""
        return self.code is Code.SUCCESS

    @property
    def is_rejection(self) -> bool:
        """Whether a plugin rejected the pod, as opposed to having failed."""
        return self.code in REJECTIONS

    @property
    def message(self) -> str:
        """The reasons as one line."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> "Status":
        """Return the status with this plugin as its plugin."""
        return self if self.plugin == plugin else msgspec.structs.replace(self, plugin=plugin)


EXTENDER: Final = "Extender"
"""The plugin named where an extender rejects a node. Source: framework/types.go ExtenderName."""

REJECTIONS: Final = frozenset(
    {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}
)
SUCCESS: Final = Status()
SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """A rejection that removing other pods might cure."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A rejection that removing other pods cannot cure."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """An unexpected error: the attempt fails and is retried after back-off."""
    return Status(Code.ERROR, reasons)
