"""Metrics of `stowage shadow`: the verdicts on another scheduler's bindings."""

from typing import Final

from scheduler.observability.instruments import Instruments

_RANKS: Final = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


class ShadowMetrics:
    """The families of a shadow; indexed by label values in the order of declaration."""

    def __init__(self, add: Instruments) -> None:
        self.bindings = add.counter(
            "stowage_shadow_bindings_total",
            "Bindings of another scheduler by what we think of them: agreed (one of the nodes that "
            "we would choose among), only (no other node fits), raced (it depends on what else "
            "happened at that moment), lower (another node has a higher total), unfit (it does not "
            "fit there) or failed (a plugin failed).",
            "result",
            "scheduler",
        )
        self.unjudged = add.counter(
            "stowage_shadow_unjudged_total",
            "Pods with a node that were not judged: before (they had it when the watch began) or "
            "unseen (they had it when they were first seen).",
            "reason",
            "scheduler",
        )
        self.rank = add.histogram(
            "stowage_shadow_rank",
            "Place of the chosen node among those that fit, by total; 1 is the best.",
            "scheduler",
            bounds=_RANKS,
        )
