"""The assume cache: assumed objects in place of the API server's versions.

Source: pkg/scheduler/framework/plugins/volumebinding/passive_assume_cache.go v1.36.
"""

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from scheduler.api.objects import ObjectMeta


class Versioned(Protocol):
    """An object with a version."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata of the object."""
        ...

    @property
    def key(self) -> str:
        """The key of the object in the store."""
        ...


T = TypeVar("T", bound=Versioned)


class OutOfSyncError(ValueError):
    """An object has changed since it was read."""


class AssumeCache(Generic[T]):
    """Objects, some of them in the state that pending writes of the scheduler will give them.

    An assumed object replaces the stored one of the same version only: any later version from the
    API server replaces the assumed one.

    Attributes:
        stored: returns the API server's object by key, or None.
    """

    def __init__(
        self,
        stored: Callable[[str], T | None],
        changed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start with nothing assumed.

        `changed` is called with the key of each object that is assumed or restored.
        """
        self.stored = stored
        self._changed = changed
        self._assumed: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """The assumed version of an object, or else the stored one; None without a stored one."""
        stored = self.stored(key)
        if stored is None:
            return None
        assumed = self._assumed.get(key)
        if assumed is None or not _is_same_version(assumed, stored):
            return stored
        return assumed

    def assume(self, obj: T) -> None:
        """Replace the stored object by this one until a new version arrives.

        Raises:
            OutOfSyncError: the stored object is gone, or of another version.
        """
        stored = self.stored(obj.key)
        if stored is None:
            raise OutOfSyncError(f'"{obj.key}" not found')
        if not _is_same_version(stored, obj):
            raise OutOfSyncError(
                f'"{obj.key}" is out of sync (stored: {stored.metadata.resource_version}, '
                f"assume: {obj.metadata.resource_version})"
            )
        self._assumed[obj.key] = obj
        self._changed(obj.key)

    def restore(self, obj: T) -> None:
        """Drop an assumed object, unless another version is assumed by now."""
        assumed = self._assumed.get(obj.key)
        if assumed is not None and _is_same_version(assumed, obj):
            del self._assumed[obj.key]
            self._changed(obj.key)

    def stored_changed(self, key: str) -> None:
        """Handle a new state of a stored object."""
        assumed = self._assumed.get(key)
        stored = self.stored(key)
        if assumed is not None and (stored is None or not _is_same_version(assumed, stored)):
            del self._assumed[key]
        self._changed(key)

    def copy_from(self, other: "AssumeCache[T]") -> None:
        """Copy the assumed objects of another cache, without a call about them."""
        self._assumed.update(other.assumptions)

    @property
    def assumptions(self) -> Mapping[str, T]:
        """The assumed objects, outdated ones included."""
        return self._assumed


def _is_same_version(one: Versioned, other: Versioned) -> bool:
    return one.metadata.resource_version == other.metadata.resource_version
