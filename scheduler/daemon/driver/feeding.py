"""The handlers between informers and engine: each change of an object is one event."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from scheduler.daemon.informers.informer import Informer
from scheduler.daemon.informers.kinds import Kind
from scheduler.daemon.informers.store import key_of
from scheduler.kernel.engine.events import Event, ObjectGone, ObjectSet

T = TypeVar("T")


class Feed(Generic[T]):
    """A handler that passes one kind's objects to the engine (see `Handler`)."""

    def __init__(self, kind: Kind[T], submit: Callable[[Event], None]) -> None:
        self._kind = kind
        self._submit = submit

    def on_add(self, obj: T) -> None:
        """An object is new."""
        self._submit(ObjectSet(self._kind.name, obj))

    def on_update(self, old: T, new: T) -> None:
        """An object has changed."""
        del old
        self._submit(ObjectSet(self._kind.name, new))

    def on_delete(self, obj: T) -> None:
        """An object is gone."""
        meta = self._kind.meta_of(obj)
        self._submit(ObjectGone(self._kind.name, meta.namespace, meta.name, meta.uid))


class OneOfSeveral(Generic[T]):
    """The handler of one of several sources of a kind: the first of two equal names counts.

    Args:
        kind: the kind under which the engine gets the objects of all sources.
        before: the stores of the sources with precedence.
        after: the stores of the sources without.
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
        """An object is new: it takes the place of one that counts less."""
        if self._of_same_name(obj, self._before) is not None:
            return
        other = self._of_same_name(obj, self._after)
        if other is not None:
            self._feed.on_delete(other)
        self._feed.on_add(obj)

    def on_update(self, old: T, new: T) -> None:
        """An object has changed."""
        if self._of_same_name(new, self._before) is None:
            self._feed.on_update(old, new)

    def on_delete(self, obj: T) -> None:
        """An object is gone: one that counts less takes its place."""
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
    """Feed several sources to the engine as one kind; the first of objects of one name counts."""
    stores = [source.store for source in sources]
    for rank, source in enumerate(sources):
        source.add_handler(OneOfSeveral(kind, stores[:rank], stores[rank + 1 :], submit))
