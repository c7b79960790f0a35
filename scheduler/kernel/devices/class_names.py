"""The device class of each extended resource.

Source: k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache (v0.36.3).
"""

from typing import Final, Self

from scheduler.api.devices import DeviceClass

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Every class serves the resource that has this prefix and the name of the class."""


class ClassNames:
    """Device classes by the extended resources that they serve.

    As upstream, an event about a class is ignored while its explicit resource name is held. The
    holder is a newer class, or one of the same age whose name is not greater, such as itself. The
    deletion of any class with that resource name frees it. So the result depends on the order of
    events.

    Attributes:
        version: number of changes so far.
    """

    def __init__(self) -> None:
        self.version = 0
        self._classes: dict[str, DeviceClass] = {}

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class that serves a resource, in the version that was stored."""
        return self._classes.get(resource)

    def __bool__(self) -> bool:
        return bool(self._classes)

    def changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """Handle a class that was added (`old` is None), changed, or deleted (`new` is None)."""
        if new is None:
            self._remove(old)
        elif not self._is_outdone(new):
            self._remove(old)
            for name in names_of(new):
                self._classes[name] = new
            self.version += 1

    def fork(self) -> Self:
        """An independent copy."""
        copy = type(self)()
        copy.version = self.version
        copy._classes.update(self._classes)  # noqa: SLF001 - its own
        return copy

    def _is_outdone(self, new: DeviceClass) -> bool:
        holder = self._classes.get(new.spec.extended_resource_name or "")
        if holder is None:
            return False
        age, holders = new.metadata.creation_timestamp or "", holder.metadata.creation_timestamp
        if age == (holders or ""):
            return new.metadata.name >= holder.metadata.name
        return age < (holders or "")

    def _remove(self, old: DeviceClass | None) -> None:
        if old is not None:
            for name in names_of(old):
                self._classes.pop(name, None)
            self.version += 1


def names_of(device_class: DeviceClass) -> tuple[str, ...]:
    """The resources that a class serves."""
    explicit = device_class.spec.extended_resource_name
    implicit = IMPLICIT_PREFIX + device_class.metadata.name
    return (implicit,) if explicit is None else (explicit, implicit)
