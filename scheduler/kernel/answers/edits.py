"""What could be done so that a pod fits: edits of the pod, of nodes, of the cluster."""

from typing import TypeAlias

import msgspec


class _Wire(msgspec.Struct, frozen=True, rename="camel", tag_field="kind"):
    """Common settings."""

    @property
    def kind(self) -> str:
        """Which kind of edit it is."""
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


Edit: TypeAlias = (
    LowerRequest | AddToleration | DropRule | SetLabel | Uncordon | EvictPod | AddNodes
)
