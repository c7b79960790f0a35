"""The answers of a class for rows, by the capacity and the load of each row.

Rows that offer the same and hold the same get the same answers, wherever they are and whatever
happens in between. So nothing has to be invalidated: a row that changes has another key.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from scheduler.kernel.snapshot.resource_sums import Content

RowAnswer: TypeAlias = tuple[int, int, float]
"""`first`, `bits` and `total` of a row; see `PodClass`."""
Key: TypeAlias = tuple[RowAnswer, Content]
"""The answer of plugins that read the node alone, and the capacity and load of a row."""

_MAX_KEPT: Final = 1024
BYTES: Final = _MAX_KEPT * 512
"""The most memory that the answers of a class take."""


class RowAnswers:
    """The answers of a class by the content of a row, for one layout of the sums."""

    def __init__(self) -> None:
        self._by_key: dict[Key, RowAnswer] = {}
        self._layout: object = None

    def get(self, layout: object, key: Key) -> RowAnswer | None:
        """The answer for such a row, or None."""
        return self._by_key.get(key) if layout is self._layout else None

    def put(self, layout: object, keys: Iterable[Key], answers: Iterable[RowAnswer]) -> None:
        """Keep answers for rows."""
        if layout is not self._layout or len(self._by_key) >= _MAX_KEPT:
            self._by_key.clear()
            self._layout = layout
        self._by_key.update(zip(keys, answers, strict=True))
