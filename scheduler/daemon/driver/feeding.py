"""From the informers to the engine: each change of an object is one event."""

from collections.abc import Callable
from typing import Generic, TypeVar

from scheduler.daemon.informers.kinds import Kind
from scheduler.kernel.engine.events import Event, ObjectGone, ObjectSet

T = TypeVar("T")


class Feed(Generic[T]):
    """Hears of one kind's objects (see `Handler`)."""

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
