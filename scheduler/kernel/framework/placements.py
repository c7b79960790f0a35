"""Placements: parts of the cluster, in one of which all members of a pod group are to run.

Source: k8s.io/kube-scheduler framework/interface.go (Placement, PlacementGeneratePlugin,
PlacementScorePlugin) v0.36.
Differs: upstream lists the nodes of each placement. Here they are one column over all rows, and all
placements are scored at once.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.interface import Plugin, Scores
from scheduler.kernel.framework.status import Status
from scheduler.kernel.snapshot import Snapshot


class Placements(msgspec.Struct, frozen=True, eq=False):
    """The placements of a group, until a node changes.

    Attributes:
        numbers: the numbers of the placements; each has a node at least.
        of_row: by row, the number of its placement, or a number outside `numbers` where it has
            none. None where the only placement is all nodes.
        names: the names of placements by number, for messages.
    """

    numbers: NDArray[np.intp]
    of_row: NDArray[np.intp] | None
    names: Sequence[str | None]

    def rows(self, number: int) -> NDArray[np.intp] | None:
        """The rows of a placement; None where they are all nodes."""
        return None if self.of_row is None else np.flatnonzero(self.of_row == number)

    def parts(self) -> list[NDArray[np.intp] | None]:
        """The rows of each placement, in the order of `numbers`; None where they are all nodes."""
        return [self.rows(number) for number in self.numbers.tolist()]

    def name(self, number: int) -> str:
        """The name of a placement."""
        return self.names[number] or ""

    def sums(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum columns over the rows of each placement.

        Args:
            columns: shape (lines, rows).

        Returns:
            Shape (lines, placements), in the order of `numbers`.
        """
        if self.of_row is None:
            return np.array([[column.sum()] for column in columns])
        found = np.empty((len(columns), len(self.numbers)))
        for line, column in enumerate(columns):
            found[line] = np.bincount(self.of_row, column, len(self.names))[self.numbers]
        return found

    def among(self, rows: NDArray[np.intp], chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The rows among `rows` in chosen placements; `chosen` is a mask over `numbers`."""
        if self.of_row is None:
            return rows
        is_meant = np.zeros(len(self.names), np.bool_)
        is_meant[self.numbers[chosen]] = True
        return rows[is_meant[self.of_row[rows]]]

    def only(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "Placements":
        """The chosen placements, given as positions in `numbers`."""
        return Placements(self.numbers[chosen], self.of_row, self.names)


ALL_NODES: Final = Placements(np.zeros(1, np.intp), None, ("",))
"""One placement with all nodes."""


class FeasiblePlacements(msgspec.Struct, frozen=True, eq=False):
    """Placements in which a group can run.

    Attributes:
        placements: the placements.
        kinds: pods, one for each kind of member.
        placed: number of members of each kind that find a node in each placement; shape
            (kinds, placements).
    """

    placements: Placements
    kinds: Sequence[PodInfo]
    placed: NDArray[np.intp]


class PlacementGeneratePlugin(Plugin, Protocol):
    """Generates the placements of a group. Only the first such plugin of a profile runs."""

    @abstractmethod
    def generate_placements(
        self, pods: Sequence[PodInfo], snapshot: Snapshot
    ) -> tuple[Placements, Status]:
        """The placements to try for the pending members, one at least."""


class PlacementScorePlugin(Plugin, Protocol):
    """Column form of PlacementScore."""

    @abstractmethod
    def score_placements(
        self, pods: Sequence[PodInfo], candidates: FeasiblePlacements, snapshot: Snapshot
    ) -> Scores:
        """Return the score of each candidate, 0 to 100, normalised.

        There are several candidates, and one pending member at least; the snapshot has none of
        these.
        """
