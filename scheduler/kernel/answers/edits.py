"""Edits of a pod, of its claims, of nodes or of the cluster, that make the pod fit."""

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
    """Lower the request of the whole pod from `requested` to `at_most`; exact quantities."""

    resource: str
    requested: str
    at_most: str


class AddToleration(_Wire, frozen=True, tag="addToleration"):
    """Add a toleration of a taint, with operator Equal, also for an empty value."""

    key: str
    value: str
    effect: str


class DropRule(_Wire, frozen=True, tag="dropRule"):
    """Remove a requirement, a term, a constraint or a host port of the pod.

    With the last requirement of a node affinity term, all required terms are removed.

    Attributes:
        path: the field path of the rule.
        text: the text of the rule.
    """

    path: str
    text: str


class SetLabel(_Wire, frozen=True, tag="setLabel"):
    """Set a label of a node; a value of None removes it."""

    node: str
    key: str
    value: str | None


class Uncordon(_Wire, frozen=True, tag="uncordon"):
    """Uncordon a node."""

    node: str


class EvictPod(_Wire, frozen=True, tag="evictPod"):
    """Evict a pod, given as `namespace/name`, from its node."""

    pod: str
    node: str
    priority: int


class AddNodes(_Wire, frozen=True, tag="addNodes"):
    """Add nodes that are like an existing one, without its pods."""

    like: str
    count: int


class _OfClaim(_Wire, frozen=True):
    """The place of an edit in a claim.

    Attributes:
        claim: `namespace/name`.
        template: the template of the claim, which is edited instead, as claims are immutable; empty
            for a claim without a template.
        request: the name of the request; `request/alternative` in a prioritized list. Empty for
            edits of several requests.
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
        path: the field path of the selector or constraint, below `spec.devices`.
        text: the text of the selector or constraint.
    """

    path: str
    text: str


class LoosenSelector(_OfClaim, frozen=True, tag="loosenSelector"):
    """Rewrite a selector so that more devices satisfy it.

    Attributes:
        path: the field path of the selector, below `spec.devices`.
        text: the present expression.
        instead: the new expression.
    """

    path: str
    text: str
    instead: str


class TolerateDevices(_OfClaim, frozen=True, tag="tolerateDevices"):
    """Add a toleration of a device taint, with operator Equal, also for an empty value."""

    key: str
    value: str
    effect: str


class FreeClaim(_Wire, frozen=True, tag="freeClaim"):
    """Free the devices of another claim.

    Attributes:
        claim: `namespace/name`.
        pods: the pods to delete, which use the claim; if empty, delete the claim itself.
        node: the node on which this frees devices.
        devices: number of devices of the claim.
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
