"""Output types of `stowage explain -o json` and `/debug/explain`: one shape for all sources.

Field names are part of the interface. A field is optional if some sources do not know it, or only
some callers request it. An absent field is left out.
"""

import msgspec
from msgspec import UNSET, UnsetType

from scheduler.kernel.answers.edits import Edit
from scheduler.kernel.answers.waiting_model import Assumed, Estimate, PodEnd, SchedulingState
from scheduler.kernel.answers.wire import Wire
from scheduler.kernel.framework.obstacles import Obstacle, PodOnNode
from scheduler.kernel.volumes.obstacles import ClaimObstacle


class Gate(Wire, frozen=True):
    """The PreEnqueue plugin that gates the pod."""

    plugin: str
    reasons: tuple[str, ...]


class PluginRejection(Wire, frozen=True):
    """The rejection of a pod, or of one node for it, by one plugin.

    The plugin is empty if PreFilter plugins restrict the pod to other nodes.
    """

    plugin: str
    code: str
    reasons: tuple[str, ...]


class PluginScore(Wire, frozen=True):
    """The score of one node by one plugin."""

    normalized: int
    weighted: int


class DeviceTaken(Wire, frozen=True, omit_defaults=True):
    """A device that a claim would get; with `consumedCapacity` if it is shared."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    consumed_capacity: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class FeasibleNode(Wire, frozen=True):
    """A node on which the pod fits, with the scores of every Score plugin that is not skipped.

    `devices` is present for pods that need devices: the devices of each claim, by its name in the
    pod.
    """

    node: str
    scores: dict[str, PluginScore]
    total: int
    feasible: bool = True
    devices: dict[str, tuple[DeviceTaken, ...]] | UnsetType = UNSET


class RejectedNode(Wire, frozen=True):
    """A node on which the pod does not fit, and the first plugin that rejects it.

    `rejections` is present only with `--all-reasons`: every plugin that rejects the node.
    """

    node: str
    plugin: str
    code: str
    reasons: tuple[str, ...]
    feasible: bool = False
    rejections: tuple[PluginRejection, ...] | UnsetType = UNSET


class CandidateNode(Wire, frozen=True):
    """A candidate of preemption: a node, and the victims on it."""

    node: str
    victims: tuple[str, ...]
    pdb_violations: int


class Preempting(Wire, frozen=True):
    """The result of preemption for a pod that fits nowhere: the nominated node and the victims.

    If preemption does not help, the message has the reason, and the node is empty.
    """

    nominated_node: str
    victims: tuple[str, ...]
    candidates: tuple[CandidateNode, ...]
    message: str


class NextNode(Wire, frozen=True):
    """The best of the other nodes, with its total score."""

    node: str
    total: int


class CurrentPlacement(Wire, frozen=True):
    """The verdict on a pod's current node, as if the pod had to be scheduled again now.

    Attributes:
        node: the current node.
        fits: whether the pod would fit there again.
        rank: 1 if no other node has a higher total; 0 if the pod does not fit.
        total: the total score of the node.
        ahead: this total minus that of the next node; negative if the next node is better.
        next: the best of the other nodes that fit, or None.
        scores: by plugin, the weighted score of the node minus that of the next node.
    """

    node: str
    fits: bool
    rank: int = 0
    total: int = 0
    ahead: int = 0
    next: NextNode | None = None
    scores: dict[str, int] = msgspec.field(default_factory=dict)


class Check(Wire, frozen=True):
    """The nodes that one plugin rejects, whether or not other plugins reject them.

    Attributes:
        plugin: the name of the plugin.
        rejects: number of nodes that it rejects.
        fits_without: number of nodes that would fit if only this plugin did not reject them.
        obstacles: the causes of these rejections, with numbers and names.
    """

    plugin: str
    rejects: int
    fits_without: int
    obstacles: tuple[Obstacle, ...]


class Unserved(Wire, frozen=True):
    """A schedulerName that no known scheduler serves; `meant` is a similar known name, if any."""

    scheduler_name: str
    meant: str = ""


class Permitting(Wire, frozen=True):
    """The Permit plugins' verdict on the pod on its best node.

    Attributes:
        node: the name of the node.
        code: `Wait`, or the code of the rejection.
        plugins: the plugins for which the pod would wait, or the one that would reject it.
        seconds: the longest time that the pod would wait.
        reasons: the reasons of the rejection.
    """

    node: str
    code: str
    plugins: tuple[str, ...]
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()


class ForeignPods(Wire, frozen=True):
    """Pods of another scheduler on nodes of this one, without which the pod would fit there.

    Attributes:
        scheduler_name: the other scheduler.
        pods: number of its pods on these nodes.
        nodes: number of the profile's own nodes with these pods.
        requests: the sum of their requests, for the resources that the pod requests. Units: those
            of `scheduler.api.resources`.
        examples: some of these pods.
    """

    scheduler_name: str
    pods: int
    nodes: int
    requests: dict[str, int]
    examples: tuple[PodOnNode, ...]


class KeptFor(Wire, frozen=True, omit_defaults=True):
    """Room kept for another nominated pod or group, without which the pod would fit there.

    Attributes:
        waiter: the pod or pod group for which the room is kept.
        pods: number of pods nominated to these nodes.
        nodes: number of the nodes to which they are nominated and on which the pod would fit.
        until: the time (RFC 3339) at which they need the room; pods that end before may use it.
            Empty if unknown.
    """

    waiter: str
    pods: int
    nodes: int
    until: str = ""


class NearNode(Wire, frozen=True):
    """A node that fails few checks: their number, and each rejection."""

    node: str
    fails: int
    rejections: tuple[PluginRejection, ...]


class SuggestedChange(Wire, frozen=True):
    """A change that would make the pod fit; the engine has tried it.

    Attributes:
        kind: the kind of the edits; `several` if they are of several kinds.
        edits: the edits, all of which are necessary.
        nodes: number of nodes on which the pod would fit after the edits.
        node: one of these nodes.
    """

    kind: str
    edits: tuple[Edit, ...]
    nodes: int
    node: str


class Guess(Wire, frozen=True):
    """A word in a pod that no node has, one letter from a word that nodes have.

    Attributes:
        path: the field path of the word.
        written: the word.
        meant: the known word.
        nodes: number of nodes that have the known word.
        fits: number of nodes on which the pod would fit with the known word.
    """

    path: str
    written: str
    meant: str
    nodes: int
    fits: int


class RejectedNodes(Wire, frozen=True):
    """Nodes that the same plugin rejects for the same reasons.

    Attributes:
        nodes: number of these nodes.
        plugin: the first plugin that rejects them; see `PluginRejection`.
        code: the code of the rejection.
        reasons: the reasons of the rejection.
        examples: the first of these nodes by name.
    """

    nodes: int
    plugin: str
    code: str
    reasons: tuple[str, ...]
    examples: tuple[str, ...]


class NodeCounts(Wire, frozen=True):
    """Counts of the verdicts on nodes.

    Attributes:
        nodes: number of nodes.
        feasible: number of feasible nodes.
        best: the feasible nodes with the highest totals, equal ones by name.
        rejected: the other nodes by rejection, the most frequent first.
    """

    nodes: int
    feasible: int
    best: tuple[FeasibleNode, ...]
    rejected: tuple[RejectedNodes, ...]


class PodAnswer(Wire, frozen=True):
    """The answer about one pod.

    Each of these fields is present only under its condition:

    - `counts` when a daemon answers without nodes; `nodes` is absent then
    - `estimate` on request, for pods that wait for room
    - `expectedEnd` and `placed` for pods that have a node
    - `unserved` if no known scheduler serves the pod
    - `claims` when claims exclude nodes, with the number of nodes that each excludes
    - `frees` if the scheduler frees a claim of the pod (`namespace/name`), and tries it again
    - `permit` if a Permit plugin would let the pod wait or reject it
    - `preemption` with `--preempt`, for pods that fit nowhere
    - `schedulingState` when a daemon answers, `assumed` if it has assumed other pods
    - `foreign` if pods of other schedulers took the room on the profile's own nodes
    - `kept` if nodes have room for the pod that is kept for nominated pods
    - `untriedNodes` beside `changes`, if no tried new node helps and others were not tried
    - `error` when a plugin failed
    """

    pod: str
    profile: str
    unserved: Unserved | UnsetType = UNSET
    pre_enqueue: Gate | None = None
    pre_filter: PluginRejection | None = None
    nodes: tuple[FeasibleNode | RejectedNode, ...] = ()
    message: str = ""
    placed: CurrentPlacement | UnsetType = UNSET
    claims: tuple[ClaimObstacle, ...] | UnsetType = UNSET
    frees: str | UnsetType = UNSET
    permit: Permitting | UnsetType = UNSET
    assumed: tuple[Assumed, ...] | UnsetType = UNSET
    preemption: Preempting | UnsetType = UNSET
    estimate: Estimate | UnsetType = UNSET
    expected_end: PodEnd | UnsetType = UNSET
    scheduling_state: SchedulingState | UnsetType = UNSET
    counts: NodeCounts | UnsetType = UNSET
    checks: tuple[Check, ...] | UnsetType = UNSET
    nearest: tuple[NearNode, ...] | UnsetType = UNSET
    foreign: tuple[ForeignPods, ...] | UnsetType = UNSET
    kept: tuple[KeptFor, ...] | UnsetType = UNSET
    changes: tuple[SuggestedChange, ...] | UnsetType = UNSET
    untried_nodes: int | UnsetType = UNSET
    guesses: tuple[Guess, ...] | UnsetType = UNSET
    error: str | UnsetType = UNSET


class Answer(Wire, frozen=True):
    """The whole output.

    `warnings` is present only if the input looks wrong. `error` is present only if the input as a
    whole cannot be judged.
    """

    pods: tuple[PodAnswer, ...] = ()
    warnings: tuple[str, ...] | UnsetType = UNSET
    error: str | UnsetType = UNSET
