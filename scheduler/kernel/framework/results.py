"""The results of extension points: the values that plugins return beside a status.

The diagnosis sums up those of Filter, for PostFilter.

Source: k8s.io/kube-scheduler framework/interface.go (PreFilterResult, PostFilterResult) v0.36.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import Taint
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.status import Code, Status


class Shortage(msgspec.Struct, frozen=True):
    """A node has too little of a resource. Units: as in the node table."""

    resource: str
    requested: float
    free: float
    allocatable: float


class Untolerated(msgspec.Struct, frozen=True):
    """A node has taints that keep the pod away."""

    taints: tuple[Taint, ...]


class Reason(msgspec.Struct, frozen=True):
    """A reason why a node is rejected. A reason without a text only raises the code.

    Attributes:
        text: human-readable; no code parses it.
        code: the severity of the rejection.
        data: the numbers and names behind the text, where the plugin has them.
    """

    text: str
    code: Code = Code.UNSCHEDULABLE
    data: Shortage | Untolerated | msgspec.Struct | None = None


class PreFilterResult(msgspec.Struct, frozen=True):
    """The nodes to which the search is limited; None means all."""

    node_names: frozenset[str] | None = None


class Diagnosis(Protocol):
    """The rejection of each node."""

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """Every plugin that rejected a node or the pod."""
        ...

    def status_of(self, node_name: str) -> Status:
        """The first rejection of one node."""
        ...

    def rows_of(self, plugin: str) -> NDArray[np.intp]:
        """The rows of the nodes that a plugin rejects first."""
        ...

    def reason_counts(self) -> Mapping[str, int]:
        """Number of nodes that each reason rejects."""
        ...


class Write(msgspec.Struct, frozen=True, gc=False, tag=True, omit_defaults=True):
    """A request to the API server that follows from a decision; watches show its result.

    Attributes:
        method: the HTTP method; PATCH is a strategic merge patch.
        path: the path of the object.
        body: the body as JSON values; None for no body.
        uid: the pod that waits for the result, set by the engine for PostFilter.
    """

    method: str
    path: str
    body: dict[str, Any] | None = None
    uid: str = ""


class Candidate(msgspec.Struct, frozen=True):
    """A node on which the pod would fit once the victims are evicted.

    Attributes:
        node_name: the node.
        victims: the pods to evict, most important first.
        pdb_violations: number of victims that violate a PodDisruptionBudget.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    pdb_violations: int


class PostFilterResult(msgspec.Struct, frozen=True):
    """Steps by which the pod may fit later; the engine, not the plugin, carries them out.

    Attributes:
        nominated_node_name: the node on which the pod is to run; empty withdraws its nomination,
            None leaves it.
        victims: the pods to evict there, most important first; those that are being deleted
            already are included, and need no eviction.
        cleared: less important pods that lose their nomination to the same node.
        candidates: the nodes to choose from, the chosen one included; made when read.
        writes: changes to objects by which the pod may fit later. The engine sends them with any
            status; the other fields take effect with Success only.
        needed_at: the time at which the pod needs its room, in seconds since 1970; pods that end
            earlier may use that room. 0: no pod may.
    """

    nominated_node_name: str | None = ""
    victims: tuple[PodInfo, ...] = ()
    cleared: tuple[PodInfo, ...] = ()
    candidates: Sequence[Candidate] = ()
    writes: tuple[Write, ...] = ()
    needed_at: float = 0.0

    @property
    def node_name(self) -> str:
        """The node on which the pod is to run; empty for none."""
        return self.nominated_node_name or ""
