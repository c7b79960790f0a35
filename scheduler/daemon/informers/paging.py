"""Adapts the number of objects per page so that a page has about `TARGET_BYTES`."""

from typing import Final

FIRST: Final = 5000
"""Objects on the first page; their size is not known yet."""
TARGET_BYTES: Final = 2**28
"""For each page a server reads all objects that follow it, so pages should be few. But a page must
arrive within a minute, and one that breaks off is requested again. Lists by watch cost the server
1.3 to 2.7 times as much: it encodes and sends each object by itself."""

_LESS: Final = 8
_MORE: Final = 4


class PageSize:
    """The `limit` of list requests, adapted to the size of the objects.

    Tenants decide how large objects are: five hundred pods may be 1.5 MB or 4 GB.

    Attributes:
        now: the limit of the next page, in objects.
    """

    def __init__(self, first: int) -> None:
        self.now = first
        self._target_bytes = TARGET_BYTES

    def took(self, count: int, size_bytes: int) -> None:
        """Adapt the limit to a page that has arrived, of `count` objects and `size_bytes`."""
        fitting = self._target_bytes * count // max(1, size_bytes)
        self.now = max(1, min(fitting, self.now * _MORE))

    def shrink(self) -> bool:
        """Shrink pages after a page failed; return whether a smaller page is possible."""
        is_smaller = self.now > 1
        self.now = max(1, self.now // _LESS)
        return is_smaller

    def grow(self) -> None:
        """Enlarge pages after the continue token of a list expired."""
        self._target_bytes *= _MORE
        self.now *= _MORE
