"""An index of the nodes that have each image.

Source: kubernetes pkg/scheduler/backend/cache/cache.go (addNodeImageStates) v1.36.
"""

from array import array
from collections.abc import Iterable
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.objects import ContainerImage

_NamedSize: TypeAlias = tuple[str, int]
"""One name of an image, and the size in bytes the node reports."""


class _ImageState(msgspec.Struct):
    """One image name: the size that the first node with it reported, and the rows that have it."""

    size_bytes: int
    changed_at: int = 0
    rows: "array[int]" = msgspec.field(default_factory=lambda: array("q"))
    distinct_rows: NDArray[np.int64] | None = None


class ImageIndex:
    """Rows by image name."""

    def __init__(self) -> None:
        self._states: dict[str, _ImageState] = {}
        self._images_of: dict[int, tuple[ContainerImage, ...]] = {}
        self._clock = 0
        self._node_count_changed_at = 0

    def set_row(self, row: int, images: tuple[ContainerImage, ...]) -> None:
        """Set the images of a row; none for a row without a node.

        Cost: O(images of the node) when they differ; only the names that differ count as changed.
        """
        known = self._images_of.get(row, ())
        if known == images:
            return
        before, after = _named_sizes(known), _named_sizes(images)
        for name, _ in [pair for pair in before if pair not in after]:
            self._remove(name, row)
        for name, size_bytes in [pair for pair in after if pair not in before]:
            self._add(name, size_bytes, row)
        if images:
            self._images_of[row] = images
        else:
            del self._images_of[row]

    def nodes_changed(self) -> None:
        """Note that the number of nodes changed, and so the spread of every image."""
        self._node_count_changed_at = self._tick()

    def changed_at(self, names: Iterable[str]) -> int:
        """Return a number that grows when the score of any of these images may change on all nodes.

        An image that no node has any more is ignored: only the score of its last node changed.
        """
        states = [self._states[name] for name in names if name in self._states]
        if not states:
            return 0
        return max(self._node_count_changed_at, *(state.changed_at for state in states))

    def holders(self, names: Iterable[str]) -> NDArray[np.intp]:
        """The rows that have any of the images."""
        found = [held[1] for held in map(self.find, names) if held is not None]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.intp)

    def find(self, name: str) -> tuple[int, NDArray[np.int64]] | None:
        """Size in bytes and rows of an image, or None when no node has it."""
        state = self._states.get(name)
        if state is None:
            return None
        if state.distinct_rows is None:
            state.distinct_rows = np.unique(np.array(state.rows, np.int64))
        return state.size_bytes, state.distinct_rows

    def copy(self) -> "ImageIndex":
        """An independent copy."""
        copy = ImageIndex()
        copy.__dict__.update(self.__dict__)
        copy._images_of = self._images_of.copy()
        copy._states = {n: replace(s, rows=s.rows[:]) for n, s in self._states.items()}
        return copy

    def _add(self, name: str, size_bytes: int, row: int) -> None:
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = _ImageState(size_bytes)
        state.rows.append(row)
        state.distinct_rows = None
        state.changed_at = self._tick()

    def _remove(self, name: str, row: int) -> None:
        state = self._states[name]
        state.rows.remove(row)
        state.distinct_rows = None
        state.changed_at = self._tick()
        if not state.rows:
            del self._states[name]

    def _tick(self) -> int:
        self._clock += 1
        return self._clock


def _named_sizes(images: Iterable[ContainerImage]) -> dict[_NamedSize, None]:
    """The names with their sizes, in order, each once."""
    return {(name, image.size_bytes): None for image in images for name in image.names}
