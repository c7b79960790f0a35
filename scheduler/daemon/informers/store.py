"""The objects of one kind by name, and the listeners to their changes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from typing_extensions import override

from scheduler.api.objects import ObjectMeta

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Handler(Protocol[T_contra]):
    """Receives changes of objects. Handlers record, they never decide; they must be quick."""

    def on_add(self, obj: T_contra) -> None:
        """An object is new."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """An object has changed."""
        ...

    def on_delete(self, obj: T_contra) -> None:
        """An object is gone, or no longer selected; `obj` is its last known state."""
        ...


class Store(Mapping[str, T], Generic[T]):
    """The objects by `namespace/name`, or `name` where the kind has no namespaces.

    Invariant: the handlers know exactly the objects in it: each one was added once and not deleted
    since, and `on_update` always names the object that they know.
    """

    def __init__(self, meta_of: Callable[[T], ObjectMeta]) -> None:
        self._meta_of = meta_of
        self._objects: dict[str, dict[str, T]] = {}
        """By namespace and name: a key would be one more text for each of very many pods."""
        self._handlers: list[Handler[T]] = []

    @override
    def __getitem__(self, key: str) -> T:
        namespace, _, name = key.rpartition("/")
        return self._objects[namespace][name]

    @override
    def __iter__(self) -> Iterator[str]:
        for namespace, objects in self._objects.items():
            prefix = f"{namespace}/" if namespace else ""
            for name in objects:
                yield prefix + name

    @override
    def __len__(self) -> int:
        return sum(map(len, self._objects.values()))

    def add_handler(self, handler: Handler[T]) -> None:
        """Add a handler; it receives the objects in the store at once."""
        self._handlers.append(handler)
        for obj in [*self.values()]:
            handler.on_add(obj)

    def key_of(self, obj: T) -> str:
        """Return the key of an object."""
        return key_of(self._meta_of(obj))

    def apply(self, obj: T) -> None:
        """Store the current state of an object.

        An object of another UID is another object: the old one is deleted first. A version that
        the store already has changes nothing.
        """
        meta = self._meta_of(obj)
        name = meta.name
        objects = self._objects.get(meta.namespace)
        if objects is None:
            objects = self._objects[meta.namespace] = {}
        old = objects.get(name)
        if old is not None:
            known = self._meta_of(old)
            if known.uid == meta.uid:
                if known.resource_version != meta.resource_version:
                    objects[name] = obj
                    for handler in self._handlers:
                        handler.on_update(old, obj)
                return
            del objects[name]
            self._notify_deleted(old)
        objects[name] = obj
        for handler in self._handlers:
            handler.on_add(obj)

    def remove(self, key: str) -> None:
        """Remove an object; an unknown one is ignored.

        Handlers get the last state that they know, not the last state of the object. A pod must not
        leave as a bound one if the handlers never heard of its binding.
        """
        namespace, _, name = key.rpartition("/")
        objects = self._objects.get(namespace, {})
        old = objects.pop(name, None)
        if old is not None:
            if not objects:
                del self._objects[namespace]
            self._notify_deleted(old)

    def _notify_deleted(self, obj: T) -> None:
        for handler in self._handlers:
            handler.on_delete(obj)


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
