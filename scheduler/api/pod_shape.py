"""The shape that pods of one specification share, and all values computed from it."""

from typing import Final

from msgspec.structs import force_setattr

from scheduler.api.affinity import AffinityTerms, affinity_terms_of
from scheduler.api.host_ports import host_ports_of
from scheduler.api.memory import estimated_bytes
from scheduler.api.objects import Pod, PodSpec
from scheduler.api.quantity import QuantityError
from scheduler.api.resources import (
    may_be_devices,
    non_zero_requests,
    pod_limits,
    pod_requests,
    scoring_requests,
)

VOLUMES: Final = 1
DEVICES: Final = 2
EVERY_NEED: Final = VOLUMES | DEVICES

OWN_FIELDS: Final = {
    "affinity": None,
    "scheduling_group": None,
    "topology_spread_constraints": (),
}
"""Fields that often differ between otherwise equal pods: they name groups or labels."""
_OFTEN_ALIKE: Final = [f for f in PodSpec.__struct_fields__ if f not in OWN_FIELDS]


class PodShape:
    """The values that all pods of one specification share, computed once.

    Pods of one template differ in name, labels and node only, and share this object. So values that
    depend on the specification are computed once per workload, not once per pod.

    Attributes:
        spec: the specification, without a node name.
        requests: the requests of an incoming pod (see `scheduler.api.resources` for units).
        occupied: the resources of such a pod on a node (an in-place resize may hold more).
        scoring_requests: the requests with which NodeResourcesFit scores nodes.
        non_zero_occupied: cpu (milli) and memory (bytes) of a pod on a node, with defaults.
        host_ports: host ports of its containers and sidecars.
        affinity: its pod (anti-)affinity terms, without namespace defaults applied.
        exceeded_limit: the part of `scheduler.api.limits` for the shape; None until it is computed.
        needs: DEVICES if such a pod requests resources that devices may serve.
        limits: the limits of its containers; empty where they cannot be read.
        size: the memory that the specification takes, as estimated.
        is_resized: whether an in-place resize makes `occupied` differ from `requests`.
    """

    __slots__ = (
        "__weakref__",
        "_limits",
        "_size",
        "affinity",
        "exceeded_limit",
        "host_ports",
        "is_resized",
        "needs",
        "non_zero_occupied",
        "occupied",
        "requests",
        "scoring_requests",
        "spec",
    )

    def __init__(self, pod: Pod, *, is_reported: bool, alike: "PodShape | None" = None) -> None:
        """Compute all values of the shape.

        Args:
            pod: a pod of the shape.
            is_reported: whether its status reports the resources of its containers.
            alike: a shape that differs in `OWN_FIELDS` at most, to share the rest with.

        Raises:
            QuantityError: a quantity cannot be read.
            SelectorError: a selector cannot be read.
        """
        self.spec: PodSpec = pod.spec
        self.affinity: AffinityTerms | None = affinity_terms_of(pod.spec)
        self.exceeded_limit: str | None = None
        self._limits: dict[str, int] | None = None
        self._size = 0
        if alike is None:
            self._add_up(pod, is_reported=is_reported)
        else:
            self._share_with(alike)
        self.needs = DEVICES if any(map(may_be_devices, self.requests)) else 0

    @property
    def limits(self) -> dict[str, int]:
        """The limits of the containers; computed on first use, as only metrics need them."""
        if self._limits is None:
            try:
                self._limits = pod_limits(self.spec)
            except QuantityError:
                self._limits = {}
        return self._limits

    @property
    def size(self) -> int:
        """The estimated memory of the specification; computed once, as only recorders need it."""
        if not self._size:
            self._size = estimated_bytes(self.spec)
        return self._size

    def _share_with(self, alike: "PodShape") -> None:
        for field in _OFTEN_ALIKE:
            force_setattr(self.spec, field, getattr(alike.spec, field))
        for field in _SUMS:
            setattr(self, field, getattr(alike, field))

    def _add_up(self, pod: Pod, *, is_reported: bool) -> None:
        self.requests = pod_requests(pod, use_status=False)
        self.scoring_requests = scoring_requests(pod)
        non_zero = non_zero_requests(pod, use_status=False)
        self.occupied = self.requests
        self.non_zero_occupied = non_zero
        if is_reported:
            self.occupied = pod_requests(pod, use_status=True)
            self.non_zero_occupied = non_zero_requests(pod, use_status=True)
        self.is_resized = (self.occupied, self.non_zero_occupied) != (self.requests, non_zero)
        self.host_ports = host_ports_of(pod.spec)


_SUMS: Final = (
    "requests",
    "occupied",
    "scoring_requests",
    "non_zero_occupied",
    "is_resized",
    "host_ports",
)
"""Attributes of a shape that depend on none of `OWN_FIELDS`."""
