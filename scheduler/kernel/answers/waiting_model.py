"""Output types of `stowage explain` for pending pods: queue, history and expected end.

See `model.py`. Only a daemon knows most of these fields.
"""

from scheduler.kernel.answers.wire import Wire


class AwaitedEvents(Wire, frozen=True):
    """The cluster events for which a plugin that rejected a pod has queueing hints."""

    plugin: str
    events: tuple[str, ...]


class Hold(Wire, frozen=True):
    """A Permit plugin for which a pod waits, and the end of its timeout (RFC 3339)."""

    plugin: str
    until: str


class StoryEntry(Wire, frozen=True):
    """One event in a pod's history: its time (RFC 3339), attempt and text."""

    time: str
    attempt: int
    what: str
    detail: str


class GroupStanding(Wire, frozen=True, omit_defaults=True):
    """The progress of a pod's group.

    Attributes:
        group: `namespace/name`.
        text: the progress as a sentence; for an assigned pod, whether enough members have a node.
        min_count: number of members that must run; None if one is enough, or without a PodGroup.
        running: number of members that have a node.
        tried: number of members in the last attempt of the group; 0 before the first one.
        placed: number of these members for which a node was found.
        lacking: the reason why no node was found for the first of the others.
        victims: victims of the group that are being evicted, as `namespace/name`.
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
    """A pod's queue or state, and its history, which only a daemon knows. Times are RFC 3339.

    Attributes:
        place: `active`, `backoff`, `unschedulable` or `gated` in the queue; during an attempt, its
            state (`held`, `prebinding`, `binding`, ...); `assigned` with a node; `terminating`
            without one, if it is being deleted; `elsewhere` for a pod of another scheduler.
        leading: whether this instance leads; otherwise only the leader knows the present state.
        since: the time at which the pod entered this place.
        until: the latest end of its stay: of the backoff, or in the unschedulable pods.
        attempts: number of scheduling attempts.
        node: the node on which it is assumed.
        nominated_node: its nominated node.
        gated_by: the PreEnqueue plugin that gates it.
        rejected_by: the plugins that rejected it last.
        pending_by: the plugins that returned Pending last.
        waits_for: by plugin, the cluster events that may requeue it.
        held_by: the Permit plugins for which it waits.
        message: the failure of the last attempt.
        group: the progress of its pod group, if it has one.
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
        node: the node of the pod.
        end: the expected end (RFC 3339).
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
    """The estimated time at which a pending pod or gang fits, from known ends of running pods.

    Attributes:
        text: the complete estimate, as a sentence.
        time: the time (RFC 3339); empty if unknown.
        at_latest: whether the pod may fit earlier: there were too many ends to try.
        count: number of pods that must end before the pod fits.
        ends: those of these pods that end last.
        known: number of running pods with a known end.
        unknown: number of running pods that will end at an unknown time.
    """

    text: str
    time: str = ""
    at_latest: bool = False
    count: int = 0
    ends: tuple[PodEnd, ...] = ()
    known: int = 0
    unknown: int = 0


class Assumed(Wire, frozen=True):
    """The pods assumed on a node, whose bindings the watch has not shown yet.

    Attributes:
        node: the name of the node.
        pods: the assumed pods, in Permit, PreBind or binding.
        requests: the sum of their requests, by resource.
    """

    node: str
    pods: tuple[str, ...]
    requests: dict[str, str]
