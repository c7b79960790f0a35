"""Callbacks for changes of objects: PreBind plugins wait with them for what controllers write."""

from collections import defaultdict
from collections.abc import Iterable

from scheduler.kernel.framework.services import Wake


class Listeners:
    """The callbacks that wait for events about objects, by the key of the object."""

    def __init__(self) -> None:
        self._of: defaultdict[str, list[Wake]] = defaultdict(list)

    def listen(self, keys: Iterable[str], listener: Wake) -> Wake:
        """Call a function after every event about some objects.

        Returns:
            A function that ends the subscription.
        """
        keys = frozenset(keys)
        for key in keys:
            self._of[key].append(listener)

        def end() -> None:
            for key in keys:
                self._of[key].remove(listener)
                if not self._of[key]:
                    del self._of[key]

        return end

    def notify(self, key: str) -> None:
        """Call the functions that listen for an object."""
        for wake in self._of.get(key, ()):
            wake()
