"""Output types of `stowage shadow`, as JSON."""

from scheduler.kernel.answers.model import CurrentPlacement, PluginRejection
from scheduler.kernel.answers.wire import Wire


class Disagreement(Wire, frozen=True):
    """A binding of another scheduler that this one would not have made.

    Attributes:
        pod: `namespace/name`.
        scheduler: the scheduler that made it.
        time: the time at which the binding appeared (RFC 3339).
        result: `unfit` or `lower`.
        fitting: number of nodes on which the pod fits.
        nominated_node: the node it was nominated to; if that fits, no other node is judged.
        rejection: the rejection of the node, or of the pod as a whole; None where it fits, or
            where no such node is known.
        placed: the node compared with the others, as it was before the binding.
    """

    pod: str
    scheduler: str
    time: str
    result: str
    fitting: int
    nominated_node: str
    rejection: PluginRejection | None
    placed: CurrentPlacement


class ShadowSummary(Wire, frozen=True):
    """A summary of the verdicts on the bindings of other schedulers.

    Attributes:
        time: now (RFC 3339).
        schedulers: the schedulers that are judged by their bindings.
        seconds: duration of the watch.
        bindings: number of bindings.
        results: number of bindings per result; docs/shadow.md explains the results.
        open: number of bindings to be judged a second time.
        unjudged: pods with a node that were not judged, by reason.
        examples: disagreements since the summary before.
    """

    time: str
    schedulers: tuple[str, ...]
    seconds: float
    bindings: int
    results: dict[str, int]
    open: int
    unjudged: dict[str, int]
    examples: tuple[Disagreement, ...]
