"""Edits that make a pod fit: of the pod, of nodes, of the cluster."""

from typing import TypeAlias

import msgspec


class _Wire(msgspec.Struct, frozen=True, rename="camel", tag_field="kind"):
    """Common settings."""

    @property
    def kind(self) -> str:
        """The kind of edit, as its tag in JSON."""
        tag: str = self.__struct_config__.tag  # type: ignore[assignment] # every type below has one
        return tag


class LowerRequest(_Wire, frozen=True, tag="lowerRequest"):
    """Let the whole pod request no more of a resource than `at_most`; quantities, exact."""

    resource: str
    requested: str
    at_most: str


class AddToleration(_Wire, frozen=True, tag="addToleration"):
    """Tolerate a taint. Operator Equal; an empty value is one as well."""

    key: str
    value: str
    effect: str


class DropRule(_Wire, frozen=True, tag="dropRule"):
    """Take out a requirement, a term, a constraint or a host port of the pod.

    Where the last requirement of a term of node affinity goes, the required terms go altogether.

    Attributes:
        path: where it is written.
        text: what it says.
    """

    path: str
    text: str


class SetLabel(_Wire, frozen=True, tag="setLabel"):
    """Give a node a label; a value of None takes it away."""

    node: str
    key: str
    value: str | None


class Uncordon(_Wire, frozen=True, tag="uncordon"):
    """Let pods go to a cordoned node again."""

    node: str


class EvictPod(_Wire, frozen=True, tag="evictPod"):
    """Let a pod, given as `namespace/name`, go from a node."""

    pod: str
    node: str
    priority: int


class AddNodes(_Wire, frozen=True, tag="addNodes"):
    """Add nodes that are empty and otherwise like one that is there."""

    like: str
    count: int


class _OfClaim(_Wire, frozen=True):
    """The place of an edit in a claim.

    Attributes:
        claim: `namespace/name`.
        template: the template of the claim, which is to be edited, as claims are immutable; empty
            for a claim that is written by itself.
        request: the name of the request; `request/alternative` in a prioritized list. Empty for
            edits that concern several requests.
    """

    claim: str
    template: str
    request: str


class LowerCount(_OfClaim, frozen=True, tag="lowerCount"):
    """Ask for `at_most` devices in place of `count`."""

    count: int
    at_most: int


class DropDeviceRule(_OfClaim, frozen=True, tag="dropDeviceRule"):
    """Take out a selector of a request, or a constraint of the claim.

    Attributes:
        path: where it is written, below `spec.devices`.
        text: what it says.
    """

    path: str
    text: str


class LoosenSelector(_OfClaim, frozen=True, tag="loosenSelector"):
    """Write a selector otherwise, so that more devices satisfy it.

    Attributes:
        path: where it is written, below `spec.devices`.
        text: what it says.
        instead: what it is to say.
    """

    path: str
    text: str
    instead: str


class TolerateDevices(_OfClaim, frozen=True, tag="tolerateDevices"):
    """Tolerate a taint of devices. Operator Equal; an empty value is one as well."""

    key: str
    value: str
    effect: str


class FreeClaim(_Wire, frozen=True, tag="freeClaim"):
    """Let the devices of another claim be free.

    Attributes:
        claim: `namespace/name`.
        pods: the pods that use it and would have to go; without any it is to be deleted.
        node: where that makes room.
        devices: how many it has.
    """

    claim: str
    pods: tuple[str, ...]
    node: str
    devices: int


ClaimEdit: TypeAlias = LowerCount | LoosenSelector | DropDeviceRule | TolerateDevices
Edit: TypeAlias = (
    LowerRequest
    | AddToleration
    | DropRule
    | SetLabel
    | Uncordon
    | EvictPod
    | AddNodes
    | ClaimEdit
    | FreeClaim
)
