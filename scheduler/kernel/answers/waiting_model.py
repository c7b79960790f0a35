"""Output types of `stowage explain` for waiting pods: place, history and expected end.

Types of the output, as in `model.py`. Most of this only a daemon knows.
"""

from scheduler.kernel.answers.wire import Wire


class AwaitedEvents(Wire, frozen=True):
    """The events that a plugin which rejected a pod waits for."""

    plugin: str
    events: tuple[str, ...]


class Hold(Wire, frozen=True):
    """A Permit plugin that holds a pod, and when its patience ends (RFC 3339)."""

    plugin: str
    until: str


class StoryEntry(Wire, frozen=True):
    """One event in a pod's history: its time (RFC 3339), attempt and text."""

    time: str
    attempt: int
    what: str
    detail: str


class GroupStanding(Wire, frozen=True, omit_defaults=True):
    """The standing of a pod's group.

    Attributes:
        group: `namespace/name`.
        text: the progress of the group, or for a pod with a node whether it is whole, as a
            sentence.
        min_count: number of members that must run; None where one is enough, or without a PodGroup.
        running: members that have a node.
        tried: number of members tried together last; 0 before the first time.
        placed: number of these that had a place.
        lacking: the reason why the first of the rest had none.
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
    """A pod's place and history, which only a daemon knows. Times are RFC 3339.

    Attributes:
        place: `active`, `backoff`, `unschedulable` or `gated` in the queue; on its way to a node
            the state of its attempt (`held`, `prebinding`, `binding`, ...); `assigned` with a node;
            `elsewhere` when another scheduler is to place it.
        leading: whether this instance decides; another one may know better.
        since: the time it entered this place.
        until: the latest end of its stay: of the back-off, or of the patience with a rejection.
        attempts: number of scheduling attempts.
        node: the node it is assumed on.
        nominated_node: the node that is being cleared for it.
        gated_by: the PreEnqueue plugin that keeps it out of the queue.
        rejected_by: the plugins that rejected it last.
        pending_by: the plugins that returned Pending last.
        waits_for: by plugin, the events that may help it.
        held_by: the Permit plugins that hold it.
        message: the reason why the last attempt failed.
        group: the progress of its pod group, or whether it is whole, if it has one.
        story: recent events, oldest first.
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
    """The expected end of a running pod.

    Attributes:
        pod: `namespace/name`.
        node: its node.
        end: RFC 3339.
        source: the source of the estimate: `deletion`, `annotation`, `runs` or `deadline`.
        controller: kind, namespace and name of the pod's controller.
        runs: number of earlier runs behind the estimate.
    """

    pod: str
    node: str
    end: str
    source: str
    controller: str = ""
    runs: int = 0


class Estimate(Wire, frozen=True, omit_defaults=True):
    """The estimated time at which a waiting pod or gang fits, from known ends of running pods.

    Attributes:
        text: the complete estimate, as a sentence.
        time: RFC 3339; empty if unknown.
        at_latest: whether it may fit earlier: there were too many ends to try.
        count: number of pods that have to end for it.
        ends: the last of these to end.
        known: number of running pods with a known end.
        unknown: number of other pods that do not run for ever.
    """

    text: str
    time: str = ""
    at_latest: bool = False
    count: int = 0
    ends: tuple[PodEnd, ...] = ()
    known: int = 0
    unknown: int = 0


class Assumed(Wire, frozen=True):
    """Room on a node taken by pods whose placement the API server does not know yet.

    Attributes:
        node: the node.
        pods: the pods that are being bound to it, or held on it.
        requests: their requests, by resource.
    """

    node: str
    pods: tuple[str, ...]
    requests: dict[str, str]
