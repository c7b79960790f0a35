"""Which images lie on which nodes.

Source: kubernetes pkg/scheduler/backend/cache/cache.go (addNodeImageStates) v1.36.
"""

from array import array

import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import ContainerImage


class _ImageState:
    """One image name: its size as the first node that had it reported, and who has it."""

    __slots__ = ("rows", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.rows = array("q")


class ImageIndex:
    """Rows by image name.

    Attributes:
        epoch: grows whenever any answer may have changed.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._states: dict[str, _ImageState] = {}
        self._images_of: dict[int, tuple[ContainerImage, ...]] = {}

    def set_row(self, row: int, images: tuple[ContainerImage, ...]) -> None:
        """Take over the images of a node."""
        if self._images_of.get(row, ()) == images:
            return
        self.remove_row(row)
        self._images_of[row] = images
        for image in images:
            for name in image.names:
                state = self._states.get(name)
                if state is None:
                    state = self._states[name] = _ImageState(image.size_bytes)
                state.rows.append(row)
        self.epoch += 1

    def remove_row(self, row: int) -> None:
        """Forget the images of a node."""
        for image in self._images_of.pop(row, ()):
            for name in image.names:
                state = self._states[name]
                state.rows.remove(row)
                if not state.rows:
                    del self._states[name]
        self.epoch += 1

    def nodes_changed(self) -> None:
        """The number of nodes changed, so every image's spread did."""
        self.epoch += 1

    def find(self, name: str) -> tuple[int, NDArray[np.int64]] | None:
        """Size in bytes and rows of an image, or None when no node has it."""
        state = self._states.get(name)
        if state is None:
            return None
        return state.size_bytes, np.unique(np.array(state.rows, np.int64))
