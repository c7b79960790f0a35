"""What `stowage explain -o json` prints, as types. Field names are part of the interface."""

import msgspec
from msgspec import UNSET, UnsetType

from scheduler.volumes.obstacles import ClaimObstacle


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Common settings of the output types."""


class Gate(Wire, frozen=True):
    """A plugin that keeps the pod out of the queue."""

    plugin: str
    reasons: tuple[str, ...]


class Rejection(Wire, frozen=True):
    """What one plugin has against the pod, or against one node for it.

    The plugin is empty where PreFilter plugins narrowed the search to other nodes.
    """

    plugin: str
    code: str
    reasons: tuple[str, ...]


class PluginScore(Wire, frozen=True):
    """What one plugin gives one node."""

    normalized: int
    weighted: int


class FeasibleNode(Wire, frozen=True):
    """A node that can take the pod, with the scores of every plugin that takes part."""

    node: str
    scores: dict[str, PluginScore]
    total: int
    feasible: bool = True


class RejectedNode(Wire, frozen=True):
    """A node that cannot take the pod, and the first plugin that says so.

    `rejections` is there with `--all-reasons` only: every plugin that rejects the node.
    """

    node: str
    plugin: str
    code: str
    reasons: tuple[str, ...]
    feasible: bool = False
    rejections: tuple[Rejection, ...] | UnsetType = UNSET


class CandidateNode(Wire, frozen=True):
    """A node that could be cleared for the pod, by the eviction of whom."""

    node: str
    victims: tuple[str, ...]
    pdb_violations: int


class Preempting(Wire, frozen=True):
    """Who would be evicted where, so that a pod fits that fits nowhere.

    The message says why nobody would be; the node is empty then.
    """

    nominated_node: str
    victims: tuple[str, ...]
    candidates: tuple[CandidateNode, ...]
    message: str


class PodAnswer(Wire, frozen=True):
    """Everything about one pod.

    `claims` is there only when claims are in the way: which keeps the pod from which nodes.
    `preemption` is there with `--preempt` only, for pods that fit nowhere. `error` is there only
    when a plugin failed.
    """

    pod: str
    profile: str
    pre_enqueue: Gate | None = None
    pre_filter: Rejection | None = None
    nodes: tuple[FeasibleNode | RejectedNode, ...] = ()
    message: str = ""
    claims: tuple[ClaimObstacle, ...] | UnsetType = UNSET
    preemption: Preempting | UnsetType = UNSET
    error: str | UnsetType = UNSET


class Answer(Wire, frozen=True):
    """The whole output. `error` is there only when the input as a whole cannot be judged."""

    pods: tuple[PodAnswer, ...] = ()
    error: str | UnsetType = UNSET
