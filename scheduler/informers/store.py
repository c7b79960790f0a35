"""The objects of one kind by name, and who hears of their changes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from typing_extensions import override

from scheduler.api.objects import ObjectMeta

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Handler(Protocol[T_contra]):
    """Hears what changes. Handlers record, they never decide; they must be quick."""

    def on_add(self, obj: T_contra) -> None:
        """An object is new."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """An object is not what it was."""
        ...

    def on_delete(self, obj: T_contra) -> None:
        """An object is gone, or no longer selected; `obj` is what was last told of it."""
        ...


class Store(Mapping[str, T], Generic[T]):
    """The objects by `namespace/name`, or `name` where the kind has no namespaces.

    Invariant: the handlers have heard of exactly what is in it: each object was added once and
    not deleted since, and `on_update` always names the object that they know.
    """

    def __init__(self, meta_of: Callable[[T], ObjectMeta]) -> None:
        self._meta_of = meta_of
        self._objects: dict[str, T] = {}
        self._handlers: list[Handler[T]] = []

    @override
    def __getitem__(self, key: str) -> T:
        return self._objects[key]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    @override
    def __len__(self) -> int:
        return len(self._objects)

    def add_handler(self, handler: Handler[T]) -> None:
        """Adds a handler; it hears at once of what is there already."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            handler.on_add(obj)

    def key_of(self, obj: T) -> str:
        """The key of an object."""
        return key_of(self._meta_of(obj))

    def apply(self, obj: T) -> str:
        """Takes an object as it is now; answers its key.

        An object of another UID is another object: the old one is deleted first. The version that
        is there already changes nothing.
        """
        meta = self._meta_of(obj)
        key = key_of(meta)
        old = self._objects.get(key)
        if old is not None:
            known = self._meta_of(old)
            if known.uid == meta.uid:
                if known.resource_version != meta.resource_version:
                    self._objects[key] = obj
                    for handler in self._handlers:
                        handler.on_update(old, obj)
                return key
            self.remove(key)
        self._objects[key] = obj
        for handler in self._handlers:
            handler.on_add(obj)
        return key

    def remove(self, key: str) -> None:
        """Forgets an object; an unknown one is no matter.

        Handlers are given the state that they know, not the one the object had at last: a pod whose
        binding they never heard of must not leave as a bound one.
        """
        old = self._objects.pop(key, None)
        if old is not None:
            for handler in self._handlers:
                handler.on_delete(old)


class Named(Protocol):
    """Metadata, as far as a key needs it."""

    @property
    def name(self) -> str:
        """metadata.name."""
        ...

    @property
    def namespace(self) -> str:
        """metadata.namespace, empty for kinds without namespaces."""
        ...


def key_of(meta: Named) -> str:
    """`namespace/name`, or `name` without a namespace."""
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
