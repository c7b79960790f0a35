"""The best rows of a class where scores by domain are added to its totals.

Pods come to the rows of a class one by one, and scores by zone mostly stay the same from pod to
pod, as they are rounded. So a ranking is kept for each set of such scores, and only rows whose
total has changed are looked at again.
"""

from collections import OrderedDict
from typing import Final, TypeAlias
from weakref import ref

import numpy as np

from scheduler.framework.interface import Scores
from scheduler.framework.runtime.pod_class import PodClass
from scheduler.framework.runtime.ranking import INFEASIBLE_TOTAL, Ranking
from scheduler.snapshot.topology import Topology

_MAX_BYTES: Final = 64 * 2**20
_BYTES_PER_ROW: Final = 16
_BASE_BYTES: Final = 4096

_Key: TypeAlias = tuple[int, Topology, bytes]


class _Ranked:
    """The totals of a class with scores by domain added."""

    __slots__ = ("_by_domain", "_position", "_topology", "pod_class", "ranking", "total")

    def __init__(self, pod_class: PodClass, topology: Topology, by_domain: Scores) -> None:
        self.pod_class = ref(pod_class)
        self._topology = topology
        self._by_domain = by_domain
        self._position = -1
        self.ranking = Ranking()
        self.total: Scores = np.zeros(0)

    def refresh(self, pod_class: PodClass) -> None:
        """Take over what has changed in the class."""
        rows = pod_class.changed.since(self._position)
        if rows is None:
            alone = pod_class.total[: len(self._topology.ids)]
            self.total = self._by_domain.take(self._topology.ids)
            self.total += alone
            self.total[alone == INFEASIBLE_TOTAL] = INFEASIBLE_TOTAL
            self.ranking.forget()
        elif len(rows):
            now = pod_class.total[rows]
            fits = now != INFEASIBLE_TOTAL
            now[fits] += self._by_domain[self._topology.ids[rows[fits]]]
            self.ranking.follow_all(rows, self.total, now)
            self.total[rows] = now
        self._position = pod_class.changed.position
        if not self.ranking.is_known:
            self.ranking.look(self.total)


class DomainRankings:
    """Rankings of classes, bounded in bytes; those asked for longest ago are dropped first."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, _Ranked] = OrderedDict()

    def ranked(
        self, pod_class: PodClass, topology: Topology, by_domain: Scores
    ) -> tuple[Ranking, Scores]:
        """The best rows and all totals, with these scores added; good until the next change.

        Args:
            pod_class: the class, up to date.
            topology: the domains.
            by_domain: what is added to each row of a domain; whole numbers.
        """
        key = (id(pod_class), topology, by_domain.tobytes())
        found = self._known.get(key)
        if found is None or found.pod_class() is not pod_class:
            found = self._known[key] = _Ranked(pod_class, topology, by_domain)
        self._known.move_to_end(key)
        size_bytes = _BYTES_PER_ROW * len(topology.ids) + 2 * by_domain.nbytes + _BASE_BYTES
        most = _MAX_BYTES // size_bytes
        while len(self._known) > max(1, most):
            self._known.popitem(last=False)
        found.refresh(pod_class)
        return found.ranking, found.total
