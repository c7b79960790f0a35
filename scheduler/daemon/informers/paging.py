"""The number of objects per page, so that a page takes about its target time."""

from typing import Final

FIRST: Final = 5000
"""Objects on the first page; their size is not known yet."""
TARGET_BYTES: Final = 2**28
"""For each page a server walks over all objects that follow it, so there should be few; but a page
must come within a minute, and one that breaks off is requested again."""

_LESS: Final = 8
_MORE: Final = 4


class PageSize:
    """Objects per page: as many as are worth a request and as their size allows.

    Tenants decide how large objects are: five hundred pods may be 1.5 MB or 4 GB.

    Attributes:
        now: the limit of the next page.
    """

    def __init__(self, first: int) -> None:
        self.now = first
        self._target_bytes = TARGET_BYTES

    def took(self, count: int, size_bytes: int) -> None:
        """Adapt the next pages to a page that has arrived."""
        fitting = self._target_bytes * count // max(1, size_bytes)
        self.now = max(1, min(fitting, self.now * _MORE))

    def shrink(self) -> bool:
        """Shrink pages after one failed; return whether a smaller one is possible."""
        is_smaller = self.now > 1
        self.now = max(1, self.now // _LESS)
        return is_smaller

    def grow(self) -> None:
        """Enlarge pages after a list expired before its last page."""
        self._target_bytes *= _MORE
        self.now *= _MORE
