"""What a class has said of rows, by what these offer and hold.

Rows that offer the same and hold the same get the same answers, wherever they are and whatever
happens in between. So nothing has to be invalidated: a row that changes has another key.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from scheduler.kernel.snapshot.resource_sums import Content

Answer: TypeAlias = tuple[int, int, float]
"""`first`, `bits` and `total` of a row; see `PodClass`."""
Key: TypeAlias = tuple[Answer, Content]
"""What plugins that read the node alone say of a row, and what it offers and holds."""

_MAX_KEPT: Final = 1024
BYTES: Final = _MAX_KEPT * 512
"""Memory that the answers of a class take at most."""


class RowAnswers:
    """The answers of a class by what a row holds; those of one layout of the sums."""

    __slots__ = ("_by_key", "_layout")

    def __init__(self) -> None:
        self._by_key: dict[Key, Answer] = {}
        self._layout: object = None

    def get(self, layout: object, key: Key) -> Answer | None:
        """What was said of such a row, if one was judged."""
        return self._by_key.get(key) if layout is self._layout else None

    def put(self, layout: object, keys: Iterable[Key], answers: Iterable[Answer]) -> None:
        """Keep what was said of rows."""
        if layout is not self._layout or len(self._by_key) >= _MAX_KEPT:
            self._by_key.clear()
            self._layout = layout
        self._by_key.update(zip(keys, answers, strict=True))
