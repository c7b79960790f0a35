"""What `stowage explain` says of how a pod waits: where it is, how it came there, until when.

Types of the output, as in `model.py`. Most of this only a daemon knows.
"""

from scheduler.kernel.answers.wire import Wire


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
    """What is known of the pod group of a pod.

    Attributes:
        group: `namespace/name`.
        text: how far the group is, or of a pod with a node whether it is whole, in a sentence.
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
        group: how far its pod group is, or whether it is whole, if it has one.
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
