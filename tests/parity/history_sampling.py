"""Histories in which a sample of many nodes is enough (`percentageOfNodesToScore`).

These differences are meant, and are kept out, beside those of `tests.parity.living`:

- The order of the nodes after a zone lost its first node, or a node changed its zone: no node does,
  and only nodes without zones are deleted.
"""

from collections.abc import Mapping, Sequence

from typing_extensions import override

from tests.parity.generator.draw import NODE_LABELS, REGION, ZONE, Object
from tests.parity.generator.history_sampling import has_samples, has_zones
from tests.parity.history_steps import STEPS, History

_WITHOUT_ZONES = {key: some for key, some in NODE_LABELS.items() if key not in (ZONE, REGION)}


def live_through_sampling(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with samples; see `history_steps.live_through`."""
    return HistoryOfMany(case, seed).lived(steps)


class HistoryOfMany(History):
    """A life that may have so many nodes that searches end early."""

    def __init__(self, case: Object, seed: int) -> None:
        super().__init__(case, seed)
        self._samples = has_samples(case)
        self._keeps_nodes = self._samples and has_zones(case)

    @override
    def label(self, raw: Object, vocabulary: Mapping[str, Sequence[str]]) -> None:
        keeps_zones = self._samples and raw["kind"] == "Node"
        super().label(raw, _WITHOUT_ZONES if keeps_zones else vocabulary)

    @override
    def written(self, step: Object) -> Object:
        start = self.engine.core.algorithm.next_start_node_index
        return super().written(step) | ({"start": start} if self._samples else {})

    @override
    def _delete_node(self) -> None:
        if not self._keeps_nodes:
            super()._delete_node()
