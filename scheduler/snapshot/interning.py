"""Small integers for values, so that columns can hold them."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Gives every distinct value the next whole number, for ever.

    Attributes:
        values: the values by number.
    """

    __slots__ = ("_ids", "values")

    def __init__(self, values: Iterable[T] = ()) -> None:
        self.values: list[T] = []
        self._ids: dict[T, int] = {}
        for value in values:
            self.intern(value)

    def intern(self, value: T) -> int:
        """The number of the value, given now when it is new."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.values)
            self.values.append(value)
        return found

    def get(self, value: T) -> int | None:
        """The number of the value, or None when it has none."""
        return self._ids.get(value)

    def __len__(self) -> int:
        return len(self.values)
