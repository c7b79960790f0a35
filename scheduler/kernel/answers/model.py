"""Output types of `stowage explain -o json` and `/debug/explain`: one shape for all sources.

Field names are part of the interface. A field is optional if not every source knows it, or not
every caller asks for it. An absent field is left out.
"""

import msgspec
from msgspec import UNSET, UnsetType

from scheduler.kernel.answers.edits import Edit
from scheduler.kernel.answers.waiting_model import Assumed, Estimate, PodEnd, SchedulingState
from scheduler.kernel.answers.wire import Wire
from scheduler.kernel.framework.obstacles import Obstacle, PodOnNode
from scheduler.kernel.volumes.obstacles import ClaimObstacle


class Gate(Wire, frozen=True):
    """A plugin that keeps the pod out of the queue."""

    plugin: str
    reasons: tuple[str, ...]


class PluginRejection(Wire, frozen=True):
    """The rejection of a pod, or of one node for it, by one plugin.

    The plugin is empty where PreFilter plugins narrowed the search to other nodes.
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
    """A node that can take the pod, with the scores of every plugin that takes part.

    `devices` is present for pods that need devices: the devices of each claim, by its name in the
    pod.
    """

    node: str
    scores: dict[str, PluginScore]
    total: int
    feasible: bool = True
    devices: dict[str, tuple[DeviceTaken, ...]] | UnsetType = UNSET


class RejectedNode(Wire, frozen=True):
    """A node that cannot take the pod, and the first plugin that rejects it.

    `rejections` is present with `--all-reasons` only: every plugin that rejects the node.
    """

    node: str
    plugin: str
    code: str
    reasons: tuple[str, ...]
    feasible: bool = False
    rejections: tuple[PluginRejection, ...] | UnsetType = UNSET


class CandidateNode(Wire, frozen=True):
    """A node that could be cleared for the pod, and the pods to evict from it."""

    node: str
    victims: tuple[str, ...]
    pdb_violations: int


class Preempting(Wire, frozen=True):
    """The pods to evict, and their node, for a pod that fits nowhere.

    If no pod would be evicted, the message has the reason, and the node is empty.
    """

    nominated_node: str
    victims: tuple[str, ...]
    candidates: tuple[CandidateNode, ...]
    message: str


class NextNode(Wire, frozen=True):
    """The best of the other nodes."""

    node: str
    total: int


class CurrentPlacement(Wire, frozen=True):
    """A pod's current node, judged as if the pod had to be placed again, as things are now.

    Attributes:
        node: its current node.
        fits: whether it would fit there (again).
        rank: 1 where no other node has a higher total; 0 where it does not fit.
        total: of its node.
        ahead: its total minus that of the next node; negative where the next node is better.
        next: the best of the other nodes that fit, or None.
        scores: by plugin, the weighted lead of its node over the next.
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
        plugin: its name.
        rejects: number of nodes that it rejects.
        fits_without: number of nodes that would fit if it alone were gone.
        obstacles: its obstacles there, in numbers and names.
    """

    plugin: str
    rejects: int
    fits_without: int
    obstacles: tuple[Obstacle, ...]


class Unserved(Wire, frozen=True):
    """A schedulerName that no scheduler is known to serve; the name that may be meant, if any."""

    scheduler_name: str
    meant: str = ""


class Permitting(Wire, frozen=True):
    """The Permit plugins' verdict on the pod on its best node.

    Attributes:
        node: the name of the node.
        code: `Wait`, or that of the rejection.
        plugins: those that would hold it, or the one that would reject it.
        seconds: the longest time it would be held.
        reasons: of the rejection.
    """

    node: str
    code: str
    plugins: tuple[str, ...]
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()


class ForeignPods(Wire, frozen=True):
    """Pods of another scheduler on nodes of this one, without which the pod would find room.

    Attributes:
        scheduler_name: the other scheduler.
        pods: number of its pods there.
        nodes: number of the profile's own nodes with these pods.
        requests: their requests of the resources that the pod requests. Units: those of
            `scheduler.api.resources`.
        examples: some of them.
    """

    scheduler_name: str
    pods: int
    nodes: int
    requests: dict[str, int]
    examples: tuple[PodOnNode, ...]


class KeptFor(Wire, frozen=True, omit_defaults=True):
    """Room kept for another pod or group, where the pod would fit otherwise.

    Attributes:
        waiter: the pod or pod group that the room is kept for.
        pods: number of pods nominated there.
        nodes: number of their nodes, among those on which the pod would fit.
        until: the time they need it, in RFC 3339; pods that end before may use it. Empty if
            unknown.
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
        kind: of all its edits; `several` where they are of several kinds.
        edits: all edits to make.
        nodes: number of nodes on which the pod would fit then.
        node: one of these.
    """

    kind: str
    edits: tuple[Edit, ...]
    nodes: int
    node: str


class Guess(Wire, frozen=True):
    """A word that nothing in the cluster has, one letter from a known word.

    Attributes:
        path: its field path.
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
        plugin: the first that rejects them; see `PluginRejection`.
        code: its code.
        reasons: its reasons.
        examples: the first of them by name.
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
        feasible: number of them that fit.
        best: those of them with the highest totals; of equals the first by name.
        rejected: the other nodes by rejection, the most frequent first.
    """

    nodes: int
    feasible: int
    best: tuple[FeasibleNode, ...]
    rejected: tuple[RejectedNodes, ...]


class PodAnswer(Wire, frozen=True):
    """Everything about one pod.

    Each of these fields is present only under its condition:
    `counts` when a daemon answers without nodes (`nodes` is absent then);
    `estimate` on request, for pods that wait for room; `expectedEnd` for pods that have a node;
    `unserved` if no known scheduler serves the pod; `placed` for pods that have a node;
    `claims` when claims exclude nodes, with the nodes that each excludes;
    `permit` if a Permit plugin would not let the pod go;
    `preemption` with `--preempt`, for pods that fit nowhere;
    `schedulingState` when a daemon answers, `assumed` if it has other pods on their way to nodes;
    `foreign` if pods of other schedulers took the room on the profile's own nodes;
    `kept` if room is kept for others that the pod would have otherwise;
    `untriedNodes` beside `changes`, if no new node that was tried helps and others were not tried;
    `error` when a plugin failed.
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

    `warnings` is there only when something about the input looks wrong. `error` is there only when
    the input as a whole cannot be judged.
    """

    pods: tuple[PodAnswer, ...] = ()
    warnings: tuple[str, ...] | UnsetType = UNSET
    error: str | UnsetType = UNSET
