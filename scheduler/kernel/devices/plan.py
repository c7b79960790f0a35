"""The requests of a pod's claims, parsed once for all nodes and all pods with equal claims.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(Allocate, validateDeviceRequest, v0.36.3).
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from scheduler.api.devices import (
    ALL,
    EXACT_COUNT,
    CapacityRequirements,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from scheduler.api.objects import Toleration
from scheduler.api.taints import Tolerations
from scheduler.kernel.devices.selectors import SelectorExpression

Classes: TypeAlias = Mapping[str, DeviceClass]

_MAX_KEY: Final = 1024
"""Larger claims have a digest as key."""
_encoder: Final = msgspec.json.Encoder()


class RequestData:
    """A request, or one alternative of a request.

    Attributes:
        index: its position among all requests and alternatives of the plan.
        name: the name of the request or the alternative.
        parent: the name of the request whose alternative it is; empty for a request.
        class_: the device class; None when there is none of that name.
        selectors: of the class, then of the request.
        is_all: whether it requests all matching devices.
        count: the number of devices requested otherwise.
        is_admin: whether it requests admin access, which shares devices in use.
        tolerations: the tolerated taints.
        capacity: the capacity that a device must provide.
        problem: the reason why nothing can be allocated for it anywhere; empty without one.
    """

    __slots__ = (
        "capacity",
        "class_",
        "class_name",
        "count",
        "index",
        "is_admin",
        "is_all",
        "name",
        "parent",
        "problem",
        "selectors",
        "tolerations",
        "tolerations_written",
    )

    def __init__(
        self,
        index: int,
        request: ExactDeviceRequest | DeviceSubRequest,
        names: tuple[str, str],
        classes: Classes,
    ) -> None:
        self.index = index
        self.parent, self.name = names
        self.class_name = request.device_class_name
        self.class_ = classes.get(request.device_class_name)
        self.is_all = request.allocation_mode == ALL
        self.count = request.count
        self.is_admin = isinstance(request, ExactDeviceRequest) and bool(request.admin_access)
        self.tolerations_written: tuple[DeviceToleration, ...] = request.tolerations
        self.tolerations = Tolerations(
            Toleration(t.key, t.operator, t.value, t.effect) for t in request.tolerations
        )
        self.capacity: CapacityRequirements | None = request.capacity
        of_class = [] if self.class_ is None else selectors_of_class(self.class_)
        self.problem = _problem(request, self.class_, self.name)
        self.selectors = (
            *of_class,
            *_selectors(request.selectors, None),
        )

    @property
    def full_name(self) -> str:
        """The name as an allocation has it: `request`, or `request/alternative`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """The name of the request."""
        return self.parent or self.name


class RequestPlan:
    """A request of a claim, with its alternatives.

    Attributes:
        name: the name of the request.
        has_alternatives: whether it is a prioritized list.
        asks: the request or its alternatives, in order.
    """

    __slots__ = ("asks", "has_alternatives", "name")

    def __init__(self, name: str, asks: Sequence[RequestData], *, has_alternatives: bool) -> None:
        self.name = name
        self.asks = tuple(asks)
        self.has_alternatives = has_alternatives


class ClaimPlan:
    """The requests and constraints of one claim.

    Attributes:
        requests: in order.
        constraints: in order.
    """

    __slots__ = ("constraints", "requests")

    def __init__(
        self, requests: Sequence[RequestPlan], constraints: tuple[DeviceConstraint, ...]
    ) -> None:
        self.requests = tuple(requests)
        self.constraints = constraints


class AllocationPlan:
    """The requests of all claims of a pod.

    Attributes:
        claims: in the order in which they are allocated.
        asks: all requests and alternatives, in order.
        claim_of: by request or alternative, the index of its claim.
        attributes: the attributes that constraints name, each once.
    """

    __slots__ = ("asks", "attributes", "claim_of", "claims")

    def __init__(self, claims: Sequence[ClaimPlan]) -> None:
        self.claims = tuple(claims)
        self.asks = tuple(
            ask for claim in claims for request in claim.requests for ask in request.asks
        )
        self.claim_of = tuple(
            index
            for index, claim in enumerate(claims)
            for request in claim.requests
            for _ in request.asks
        )
        constraints = [c for claim in claims for c in claim.constraints]
        named = (name for c in constraints for name in (c.match_attribute, c.distinct_attribute))
        self.attributes = tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def has_all(self) -> bool:
        """Whether any request is for all matching devices."""
        return any(ask.is_all for ask in self.asks)

    @property
    def has_alternatives(self) -> bool:
        """Whether any request is a prioritized list, whose choice scores a node."""
        return any(ask.parent for ask in self.asks)

    @property
    def only_counts(self) -> bool:
        """Whether a single request needs only a number of matching devices."""
        return len(self.asks) == 1 and not self.has_all and not self.attributes


def plan_of(claims: Sequence[ResourceClaim], classes: Classes) -> AllocationPlan:
    """Build the plan of claims without an allocation."""
    asks: list[RequestData] = []
    plans: list[ClaimPlan] = []
    for claim in claims:
        devices = claim.spec.devices
        requests: list[RequestPlan] = []
        for request in devices.requests:
            found = _asks(request, len(asks), classes)
            asks += found
            requests.append(
                RequestPlan(request.name, found, has_alternatives=bool(request.first_available))
            )
        plans.append(ClaimPlan(requests, devices.constraints))
    return AllocationPlan(plans)


def key_of(claims: Sequence[ResourceClaim]) -> bytes:
    """A key that is equal for claims with equal requests, whatever their names."""
    known: dict[int, bytes] = {}
    keys = []
    for claim in claims:
        # A pod may name one large claim many times.
        key = known.get(id(claim))
        if key is None:
            devices = claim.spec.devices
            text = _encoder.encode((devices.requests, devices.constraints))
            key = known[id(claim)] = text if len(text) <= _MAX_KEY else sha256(text).digest()
        keys.append(key)
    return b"\n".join(keys)


def selectors_of_class(device_class: DeviceClass) -> list[SelectorExpression]:
    """The selectors of a device class."""
    return _selectors(device_class.spec.selectors, device_class.metadata.name)


def _asks(request: DeviceRequest, first: int, classes: Classes) -> list[RequestData]:
    if not request.first_available:
        exactly = request.exactly or ExactDeviceRequest()
        return [RequestData(first, exactly, ("", request.name), classes)]
    return [
        RequestData(first + index, alternative, (request.name, alternative.name), classes)
        for index, alternative in enumerate(request.first_available)
    ]


def _problem(
    request: ExactDeviceRequest | DeviceSubRequest, class_: DeviceClass | None, name: str
) -> str:
    for index, selector in enumerate(request.selectors):
        if selector.cel is None:
            return (
                f"request {name}, selector #{index}: CEL expression empty "
                "(unsupported selector type?)"
            )
    if not request.device_class_name:
        return f"request {name}: missing device class name (unsupported request type?)"
    if class_ is None:
        return (
            f"request {name}: could not retrieve device class {request.device_class_name}: "
            f'deviceclass.resource.k8s.io "{request.device_class_name}" not found'
        )
    if request.allocation_mode not in (EXACT_COUNT, ALL):
        return f"request {name}: unsupported count mode {request.allocation_mode}"
    return ""


def _selectors(
    written: Sequence[DeviceSelector], device_class: str | None
) -> list[SelectorExpression]:
    return [
        SelectorExpression(selector.cel.expression if selector.cel else "", index, device_class)
        for index, selector in enumerate(written)
    ]
