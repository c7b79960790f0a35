"""Event handlers of informers: they submit each change of an object to the engine as an event."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from scheduler.daemon.informers.informer import Informer
from scheduler.daemon.informers.kinds import Kind
from scheduler.daemon.informers.store import key_of
from scheduler.kernel.engine.events import Event, ObjectGone, ObjectSet

T = TypeVar("T")


class Feed(Generic[T]):
    """Passes the changes of one kind's objects to the engine; see `Handler`."""

    def __init__(self, kind: Kind[T], submit: Callable[[Event], None]) -> None:
        self._kind = kind
        self._submit = submit

    def on_add(self, obj: T) -> None:
        """Submit a new object."""
        self._submit(ObjectSet(self._kind.name, obj))

    def on_update(self, old: T, new: T) -> None:
        """Submit the new state of an object."""
        del old
        self._submit(ObjectSet(self._kind.name, new))

    def on_delete(self, obj: T) -> None:
        """Submit the deletion of an object."""
        meta = self._kind.meta_of(obj)
        self._submit(ObjectGone(self._kind.name, meta.namespace, meta.name, meta.uid))


class OneOfSeveral(Generic[T]):
    """The handler of one of several sources of a kind: an earlier source hides an equal name.

    Args:
        kind: the kind under which the engine gets the objects of all sources.
        before: the stores of the sources with precedence over this one.
        after: the stores of the sources over which this one has precedence.
        submit: passes events to the engine.
    """

    def __init__(
        self,
        kind: Kind[T],
        before: Sequence[Mapping[str, T]],
        after: Sequence[Mapping[str, T]],
        submit: Callable[[Event], None],
    ) -> None:
        self._kind = kind
        self._before = before
        self._after = after
        self._feed = Feed(kind, submit)

    def on_add(self, obj: T) -> None:
        """Pass on a new object unless it is hidden; delete an object that it hides first."""
        if self._of_same_name(obj, self._before) is not None:
            return
        other = self._of_same_name(obj, self._after)
        if other is not None:
            self._feed.on_delete(other)
        self._feed.on_add(obj)

    def on_update(self, old: T, new: T) -> None:
        """Pass on the new state of an object unless it is hidden."""
        if self._of_same_name(new, self._before) is None:
            self._feed.on_update(old, new)

    def on_delete(self, obj: T) -> None:
        """Pass on the deletion of an object unless it is hidden; then add the one that it hid."""
        if self._of_same_name(obj, self._before) is not None:
            return
        self._feed.on_delete(obj)
        other = self._of_same_name(obj, self._after)
        if other is not None:
            self._feed.on_add(other)

    def _of_same_name(self, obj: T, stores: Sequence[Mapping[str, T]]) -> T | None:
        key = key_of(self._kind.meta_of(obj))
        return next((store[key] for store in stores if key in store), None)


def listen_in_order(
    sources: Sequence[Informer[Any]], kind: Kind[Any], submit: Callable[[Event], None]
) -> None:
    """Pass several sources to the engine as one kind; an earlier source hides equal names."""
    stores = [source.store for source in sources]
    for rank, source in enumerate(sources):
        source.add_handler(OneOfSeveral(kind, stores[:rank], stores[rank + 1 :], submit))
