"""What `stowage explain -o json` and `/debug/explain` print, as types: one shape for all sources.

Field names are part of the interface. A field is optional if not every source knows it, or not
every caller asks for it. An absent field is left out.
"""

import msgspec
from msgspec import UNSET, UnsetType

from scheduler.kernel.answers.edits import Edit
from scheduler.kernel.framework.obstacles import Obstacle, PodOnNode
from scheduler.kernel.volumes.obstacles import ClaimObstacle


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Common settings of the output types."""


class Gate(Wire, frozen=True):
    """A plugin that keeps the pod out of the queue."""

    plugin: str
    reasons: tuple[str, ...]


class PluginRejection(Wire, frozen=True):
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


class DeviceTaken(Wire, frozen=True, omit_defaults=True):
    """A device that a claim would get; `consumedCapacity` of one that is shared."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    consumed_capacity: dict[str, str | int | float] = {}


class FeasibleNode(Wire, frozen=True):
    """A node that can take the pod, with the scores of every plugin that takes part.

    `devices` is there for pods that need devices: what each claim would get, by its name in the
    pod.
    """

    node: str
    scores: dict[str, PluginScore]
    total: int
    feasible: bool = True
    devices: dict[str, tuple[DeviceTaken, ...]] | UnsetType = UNSET


class RejectedNode(Wire, frozen=True):
    """A node that cannot take the pod, and the first plugin that says so.

    `rejections` is there with `--all-reasons` only: every plugin that rejects the node.
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
    """The pods to evict, and their node, so that a pod fits that fits nowhere.

    If no pod would be evicted, the message says why, and the node is empty.
    """

    nominated_node: str
    victims: tuple[str, ...]
    candidates: tuple[CandidateNode, ...]
    message: str


class NextNode(Wire, frozen=True):
    """The best of the other nodes."""

    node: str
    total: int


class Placed(Wire, frozen=True):
    """Why a pod has the node it has: judged as if it had to be placed again, as things are now.

    Attributes:
        node: where it is.
        fits: whether it would fit there (again).
        rank: 1 where no other node has a higher total; 0 where it does not fit.
        total: of its node.
        ahead: by how much that is more than the next node has; negative where that one is better.
        next: the best of the other nodes that fit, or None.
        scores: by plugin, how far its node is ahead of the next, weighted.
    """

    node: str
    fits: bool
    rank: int = 0
    total: int = 0
    ahead: int = 0
    next: NextNode | None = None
    scores: dict[str, int] = {}


class AwaitedEvents(Wire, frozen=True):
    """What a plugin that rejected a pod waits for."""

    plugin: str
    events: tuple[str, ...]


class Hold(Wire, frozen=True):
    """A Permit plugin that holds a pod, and when its patience ends (RFC 3339)."""

    plugin: str
    until: str


class StoryEntry(Wire, frozen=True):
    """One thing that happened to a pod: when (RFC 3339), in which attempt, what."""

    time: str
    attempt: int
    what: str
    detail: str


class GroupStanding(Wire, frozen=True, omit_defaults=True):
    """What is known of the pod group of a waiting pod.

    Attributes:
        group: `namespace/name`.
        text: how far the group is, in a sentence.
        min_count: how many members must run; None where one is enough, or without a PodGroup.
        running: members that have a node.
        tried: how many were tried together last; 0 before the first time.
        placed: for how many of these there was a place.
        lacking: why the first of the others had none.
        victims: pods that leave for the group, as `namespace/name`.
    """

    group: str
    text: str
    min_count: int | None = None
    running: int = 0
    tried: int = 0
    placed: int = 0
    lacking: str = ""
    victims: tuple[str, ...] = ()


class SchedulingState(Wire, frozen=True, omit_defaults=True):
    """What only a daemon knows: where a pod is, and how it came there. Times are RFC 3339.

    Attributes:
        place: `active`, `backoff`, `unschedulable` or `gated` in the queue; on its way to a node
            the state of its attempt (`held`, `prebinding`, `binding`, ...); `assigned` with a node;
            `elsewhere` when another scheduler is to place it.
        leading: whether this instance decides; another one may know better.
        since: since when it is there.
        until: when that ends at the latest: the back-off, or the patience with a rejection.
        attempts: how often a node was looked for.
        node: the node it is assumed on.
        nominated_node: the node that is being cleared for it.
        gated_by: the PreEnqueue plugin that keeps it out of the queue.
        rejected_by: the plugins that rejected it last.
        pending_by: the plugins that said Pending last.
        waits_for: by plugin, the events that may help it.
        held_by: the Permit plugins that hold it.
        message: why the last attempt failed.
        group: how far its pod group is, if it waits with one.
        story: what happened lately, oldest first.
    """

    place: str
    leading: bool
    since: str = ""
    until: str = ""
    attempts: int = 0
    node: str = ""
    nominated_node: str = ""
    gated_by: str = ""
    rejected_by: tuple[str, ...] = ()
    pending_by: tuple[str, ...] = ()
    waits_for: tuple[AwaitedEvents, ...] = ()
    held_by: tuple[Hold, ...] = ()
    message: str = ""
    group: GroupStanding | None = None
    story: tuple[StoryEntry, ...] = ()


class PodEnd(Wire, frozen=True, omit_defaults=True):
    """When a running pod is expected to end.

    Attributes:
        pod: `namespace/name`.
        node: where it runs.
        end: RFC 3339.
        source: what that is known by: `deletion`, `annotation`, `runs` or `deadline`.
        controller: kind, namespace and name of what made the pod.
        runs: how many earlier runs that was learned from.
    """

    pod: str
    node: str
    end: str
    source: str
    controller: str = ""
    runs: int = 0


class Estimate(Wire, frozen=True, omit_defaults=True):
    """When a waiting pod, or its gang, will fit, as far as ends of running pods are known.

    Attributes:
        text: all of it in a sentence.
        time: RFC 3339; empty where it is not known.
        at_latest: whether it may fit earlier: there were too many ends to ask about.
        count: how many pods have to end for it.
        ends: the last of these to end.
        known: how many running pods have a known end.
        unknown: how many others do not run for ever.
    """

    text: str
    time: str = ""
    at_latest: bool = False
    count: int = 0
    ends: tuple[PodEnd, ...] = ()
    known: int = 0
    unknown: int = 0


class Check(Wire, frozen=True):
    """Why one plugin rejects nodes, whether or not other plugins reject them.

    Attributes:
        plugin: its name.
        rejects: how many nodes it rejects.
        fits_without: how many nodes would fit if it alone were gone.
        obstacles: what stands in the way there, in numbers and names.
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
    """What Permit plugins would do with the pod on its best node.

    Attributes:
        node: which node.
        code: `Wait`, or that of the rejection.
        plugins: those that would hold it, or the one that would reject it.
        seconds: for how long it would be held at most.
        reasons: of the rejection.
    """

    node: str
    code: str
    plugins: tuple[str, ...]
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()


class Assumed(Wire, frozen=True):
    """Room on a node that is taken by pods of which the API server does not know it yet.

    Attributes:
        node: which node.
        pods: those that are bound to it just now, or held on it.
        requests: what they take, by resource.
    """

    node: str
    pods: tuple[str, ...]
    requests: dict[str, str]


class ForeignPods(Wire, frozen=True):
    """Pods of another scheduler on nodes of this one, without which the pod would find room.

    Attributes:
        scheduler_name: the other scheduler.
        pods: how many of its pods there are, and on how many nodes.
        nodes: of the profile's own.
        requests: what they take of what the pod asks for, by resource. Units: those of
            `scheduler.api.resources`.
        examples: some of them.
    """

    scheduler_name: str
    pods: int
    nodes: int
    requests: dict[str, int]
    examples: tuple[PodOnNode, ...]


class NearNode(Wire, frozen=True):
    """A node that fails few checks: how many, and what each says."""

    node: str
    fails: int
    rejections: tuple[PluginRejection, ...]


class SuggestedChange(Wire, frozen=True):
    """Something that would make the pod fit; the engine has tried it.

    Attributes:
        kind: of all its edits; `several` where they are of several kinds.
        edits: what to do, all of it.
        nodes: on how many nodes the pod would fit then.
        node: one of these.
    """

    kind: str
    edits: tuple[Edit, ...]
    nodes: int
    node: str


class Guess(Wire, frozen=True):
    """A word that nothing in the cluster has, one letter from one that is there.

    Attributes:
        path: where it is written.
        written: the word.
        meant: the word that is there.
        nodes: how many nodes have that.
        fits: on how many nodes the pod would fit if it were written so.
    """

    path: str
    written: str
    meant: str
    nodes: int
    fits: int


class RejectedNodes(Wire, frozen=True):
    """Nodes of which the same plugin says the same.

    Attributes:
        nodes: how many they are.
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
    """What is said about nodes, counted.

    Attributes:
        nodes: how many there are.
        feasible: how many of them fit.
        best: those of them with the highest totals; of equals the first by name.
        rejected: the others by what is said about them, the most frequent first.
    """

    nodes: int
    feasible: int
    best: tuple[FeasibleNode, ...]
    rejected: tuple[RejectedNodes, ...]


class PodAnswer(Wire, frozen=True):
    """Everything about one pod.

    `counts` is there only when a daemon answers that was not asked for nodes; `nodes` is not, then.
    `estimate` is there only where it was asked for, for pods that wait for room, and `expectedEnd`
    for pods that have a node.
    `unserved` is there only where no scheduler is known to serve the pod. `placed` is there only
    for pods that have a node. `claims` is there only when claims are in the way: which keeps the
    pod from which nodes. `permit` is there only where a Permit plugin would not let the pod go.
    `preemption` is there with `--preempt` only, for pods that fit nowhere. `schedulingState` is
    there only when a daemon answers, `assumed` when it has other pods on their way to nodes.
    `foreign` is there only where pods of other schedulers took the room on nodes of its own.
    `error` is there only when a plugin failed.
    """

    pod: str
    profile: str
    unserved: Unserved | UnsetType = UNSET
    pre_enqueue: Gate | None = None
    pre_filter: PluginRejection | None = None
    nodes: tuple[FeasibleNode | RejectedNode, ...] = ()
    message: str = ""
    placed: Placed | UnsetType = UNSET
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
    changes: tuple[SuggestedChange, ...] | UnsetType = UNSET
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
