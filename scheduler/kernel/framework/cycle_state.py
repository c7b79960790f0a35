"""Values that plugins pass between the extension points of one attempt.

Source: k8s.io/kube-scheduler framework/cycle_state.go (v0.36). Differs: keys carry their type, so
that reading needs no cast.
"""

from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")


class StateKey(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """Names one value of type T in a `CycleState`; compared by identity."""

    name: str


NEEDS_NO_NODE: Final = StateKey[bool]("needs no node")
"""Written before Unreserve if the pod is deleted, or bound by another client. Its controllers then
release what was written to the API server for it."""

NOT_REACHED: Final = StateKey[frozenset[str]]("not reached")
"""The plugins whose PreFilter did not run because an earlier plugin rejected the pod."""

SKIPPED: Final = StateKey[frozenset[str]]("skipped")
"""The plugins whose PreFilter skipped the pod: Filter, AddPod and RemovePod are not called."""


class CycleState:
    """Typed values of one attempt to schedule one pod.

    A state may have a parent, with the values of the pod's class: they are read through it, and
    never written.
    """

    __slots__ = ("_parent", "_values")

    def __init__(self, parent: "CycleState | None" = None) -> None:
        self._parent = parent
        self._values: dict[object, Any] = {}

    def write(self, key: StateKey[T], value: T) -> None:
        """Write a value."""
        self._values[key] = value

    def read(self, key: StateKey[T]) -> T:
        """Return the value under a key.

        Raises:
            KeyError: nothing was written under the key.
        """
        found = self.get(key)
        if found is None and not self._has(key):
            raise KeyError(
                f"nothing was written under {key.name}; is its plugin disabled at preFilter or "
                "preScore?"
            )
        return found  # type: ignore[return-value] # None only where it was written

    def get(self, key: StateKey[T]) -> T | None:
        """Return the value under a key, or None."""
        found: T | None = self._values.get(key)
        if found is None and self._parent is not None:
            return self._parent.get(key)
        return found

    def _has(self, key: StateKey[T]) -> bool:
        return key in self._values or (self._parent is not None and self._parent._has(key))  # noqa: SLF001 - its own

    def clone(self) -> "CycleState":
        """A copy whose changes do not reach this state: for trying pods on a node.

        Values that change after PreFilter (add_pod, remove_pod) have a `clone` of their own.
        """
        copy = CycleState(self._parent)
        for key, value in self._values.items():
            clone = getattr(value, "clone", None)
            copy._values[key] = value if clone is None else clone()
        return copy
