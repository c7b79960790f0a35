"""Values computed once for each kind of pods, and dropped with the last pod of that kind."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from scheduler.api.pods import PodKind

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Value(Generic[K, T]):
    """A value, and the key that it depends on."""

    __slots__ = ("__weakref__", "key", "value")

    def __init__(self, key: K, value: T) -> None:
        self.key = key
        self.value = value


class KindMemo(Generic[K, T]):
    """Values by kind. Kinds share a value if all that it depends on is equal.

    There may be as many kinds as pods, so only different values are kept.
    """

    def __init__(self) -> None:
        self._of_kind: WeakKeyDictionary[PodKind, _Value[K, T]] = WeakKeyDictionary()
        self._values: WeakValueDictionary[K, _Value[K, T]] = WeakValueDictionary()

    def value(self, kind: PodKind, key: K, compute: Callable[[], T]) -> T:
        """Return the value of a kind, computed at most once per key.

        Args:
            kind: the kind.
            key: all that the value depends on at present.
            compute: computes the value if none is known.
        """
        known = self._of_kind.get(kind)
        if known is not None and known.key == key:
            return known.value
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = _Value(key, compute())
        self._of_kind[kind] = found
        return found.value

    def __len__(self) -> int:
        """Number of different values in the memo."""
        return len(self._values)
