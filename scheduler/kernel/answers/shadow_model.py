"""Output types of the JSON of `stowage shadow`."""

from scheduler.kernel.answers.model import CurrentPlacement, PluginRejection
from scheduler.kernel.answers.wire import Wire


class Disagreement(Wire, frozen=True):
    """A binding of another scheduler that this one would not have made.

    Attributes:
        pod: `namespace/name`.
        scheduler: the scheduler that made the binding.
        time: the time at which the binding appeared (RFC 3339).
        result: `unfit` or `lower`.
        fitting: number of nodes on which the pod fits.
        nominated_node: its nominated node; if that is feasible, no other node is judged.
        rejection: the rejection of the node, or of the pod as a whole; None if the pod fits there,
            or the node is unknown.
        placed: the node compared with the others, in the state before the binding.
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
        time: the time of the summary (RFC 3339).
        schedulers: the names of the judged schedulers.
        seconds: duration of the watch.
        bindings: number of bindings.
        results: number of bindings per result; docs/shadow.md explains the results.
        open: number of bindings without a final result.
        unjudged: number of assigned pods that were not judged, by reason.
        examples: disagreements since the previous summary.
    """

    time: str
    schedulers: tuple[str, ...]
    seconds: float
    bindings: int
    results: dict[str, int]
    open: int
    unjudged: dict[str, int]
    examples: tuple[Disagreement, ...]
