"""Extended resources that device classes stand for, as plugins about resources look at them.

Source: pkg/scheduler/framework/plugins/noderesources/fit.go (shouldDelegateResourceToDRA) v1.36.
"""

from typing import Final

from scheduler.api.pods import DEVICES, PodInfo
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.extended_resources import resources_asked
from scheduler.kernel.framework.handle import Handle

_NONE: Final = frozenset[str]()


class ResourcesOfDevices:
    """Which resources of a pod devices may serve."""

    def __init__(self, handle: Handle | None) -> None:
        self._handle = handle
        if handle is not None:
            handle.shared(ClaimCatalog)

    @property
    def version(self) -> int:
        """Grows with each change of what classes stand for."""
        return 0 if self._handle is None else self._handle.shared(ClaimCatalog).class_names.version

    def of(self, pod: PodInfo) -> frozenset[str]:
        """The resources that the pod asks for and that a class stands for."""
        if self._handle is None or not pod.needs & DEVICES:
            return _NONE
        names = self._handle.shared(ClaimCatalog).class_names
        if not names:
            return _NONE
        return frozenset(n for n in resources_asked(pod) if names.class_of(n) is not None)
