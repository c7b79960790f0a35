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
    """Where a group may be placed, until a node changes.

    Attributes:
        numbers: of the placements; each has a node at least.
        of_row: the number of the placement that a row belongs to; that of no placement where it
            belongs to none. None where the only placement is all nodes.
        names: for people, by number.
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
        """What the rows of each placement have together.

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
        """Those of some rows that belong to some placements, by their places in `numbers`."""
        if self.of_row is None:
            return rows
        is_meant = np.zeros(len(self.names), np.bool_)
        is_meant[self.numbers[chosen]] = True
        return rows[is_meant[self.of_row[rows]]]

    def only(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "Placements":
        """Some of the placements, by their places in `numbers`."""
        return Placements(self.numbers[chosen], self.of_row, self.names)


ALL_NODES: Final = Placements(np.zeros(1, np.intp), None, ("",))
"""One placement, which limits nothing."""


class FeasiblePlacements(msgspec.Struct, frozen=True, eq=False):
    """Placements in which a group can run.

    Attributes:
        placements: these.
        kinds: pods, one for each kind of member.
        placed: how many members of each kind find a node in each placement; shape
            (kinds, placements).
    """

    placements: Placements
    kinds: Sequence[PodInfo]
    placed: NDArray[np.intp]


class PlacementGeneratePlugin(Plugin, Protocol):
    """Says where a group may be placed. Only the first one of a profile is asked."""

    @abstractmethod
    def generate_placements(
        self, pods: Sequence[PodInfo], snapshot: Snapshot
    ) -> tuple[Placements, Status]:
        """The placements to try.

        Args:
            pods: the members that wait, one at least.
            snapshot: the cluster.
        """


class PlacementScorePlugin(Plugin, Protocol):
    """Column form of PlacementScore."""

    @abstractmethod
    def score_placements(
        self, pods: Sequence[PodInfo], candidates: FeasiblePlacements, snapshot: Snapshot
    ) -> Scores:
        """How good each candidate is, 0 to 100, normalised.

        Args:
            pods: as in `generate_placements`.
            candidates: several placements.
            snapshot: the cluster without the members that wait.
        """
