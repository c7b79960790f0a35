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
    """Remove a requirement, a term, a constraint or a host port of the pod.

    With the last requirement of a node affinity term, all required terms are removed.

    Attributes:
        path: its field path.
        text: its text.
    """

    path: str
    text: str


class SetLabel(_Wire, frozen=True, tag="setLabel"):
    """Set a label of a node; a value of None removes it."""

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
    """Add nodes that are empty and otherwise like an existing one."""

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
    """Request `at_most` devices instead of `count`."""

    count: int
    at_most: int


class DropDeviceRule(_OfClaim, frozen=True, tag="dropDeviceRule"):
    """Remove a selector of a request, or a constraint of the claim.

    Attributes:
        path: its field path, below `spec.devices`.
        text: its text.
    """

    path: str
    text: str


class LoosenSelector(_OfClaim, frozen=True, tag="loosenSelector"):
    """Rewrite a selector so that more devices satisfy it.

    Attributes:
        path: its field path, below `spec.devices`.
        text: its text.
        instead: the new text.
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
    """Free the devices of another claim.

    Attributes:
        claim: `namespace/name`.
        pods: the pods that use it, which are to be deleted; without any, the claim itself is.
        node: the node on which that makes room.
        devices: number of its devices.
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
