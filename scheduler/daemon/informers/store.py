"""The objects of one kind by name, and the handlers of their changes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from typing_extensions import override

from scheduler.api.objects import ObjectMeta

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Handler(Protocol[T_contra]):
    """Receives changes of objects. A handler runs in the event loop and must be quick."""

    def on_add(self, obj: T_contra) -> None:
        """Handle a new object."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Handle a changed object."""
        ...

    def on_delete(self, obj: T_contra) -> None:
        """Handle an object that is gone or no longer selected; `obj` is its last known state."""
        ...


class Store(Mapping[str, T], Generic[T]):
    """The objects by `namespace/name`, or `name` where the kind has no namespaces.

    Invariant: the handlers know exactly the stored objects. Each was added once and not deleted
    since, and the `old` object of `on_update` is the one they received last.
    """

    def __init__(self, meta_of: Callable[[T], ObjectMeta]) -> None:
        self._meta_of = meta_of
        self._objects: dict[str, dict[str, T]] = {}
        """By namespace and name: joined keys would cost one more string for each pod."""
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
        """Return the key of an object in this store."""
        return key_of(self._meta_of(obj))

    def apply(self, obj: T) -> None:
        """Store the current state of an object.

        If the UID differs, the stored object is deleted first. An equal object changes nothing. The
        same version is not enough: a restored API server counts its versions again.
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
                if known.resource_version != meta.resource_version or old != obj:
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
        """Remove an object; ignore a key that is not in the store.

        Handlers get the last state that they know, not the state in the watch event. A pod must not
        be deleted as a bound pod if no handler received its binding.
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
    """The metadata that a key consists of."""

    @property
    def name(self) -> str:
        """metadata.name."""
        ...

    @property
    def namespace(self) -> str:
        """metadata.namespace, empty for kinds without namespaces."""
        ...


def key_of(meta: Named) -> str:
    """Return `namespace/name`, or `name` without a namespace."""
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
