"""Items filed by a key, where most keys have a single item."""

from collections.abc import Collection
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Buckets(Generic[K, T]):
    """Items by key, in order of arrival; compared by identity.

    There may be as many keys as pods. The only item of a key is stored without a dictionary, which
    would take 200 bytes.
    """

    __slots__ = ("_alone", "_several")

    def __init__(self) -> None:
        self._alone: dict[K, T] = {}
        self._several: dict[K, dict[T, None]] = {}

    def add(self, key: K, item: T) -> None:
        """File an item that is not filed under this key."""
        several = self._several.get(key)
        if several is not None:
            several[item] = None
        elif key in self._alone:
            self._several[key] = dict.fromkeys((self._alone.pop(key), item))
        else:
            self._alone[key] = item

    def discard(self, key: K, item: T) -> None:
        """Remove an item that is filed under this key."""
        several = self._several.get(key)
        if several is None:
            del self._alone[key]
            return
        del several[item]
        if not several:
            del self._several[key]

    def __bool__(self) -> bool:
        return bool(self._alone or self._several)

    def of(self, key: K) -> Collection[T]:
        """The items under a key."""
        several = self._several.get(key)
        if several is not None:
            return several
        found = self._alone.get(key)
        return () if found is None else (found,)
