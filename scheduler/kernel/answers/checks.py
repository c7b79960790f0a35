"""Runs every filter on every node, in columns, and finds rejection counts and near misses.

Each filter runs once over all nodes; its results are not cached, and its run is not measured.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.judgement import rejection_of
from scheduler.kernel.answers.model import Check, NearNode, PluginRejection
from scheduler.kernel.framework.obstacles import Obstacle
from scheduler.kernel.framework.runtime import Feasibility, Framework
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.runtime.verdicts import FEASIBLE, FilterAttempt, Verdicts
from scheduler.kernel.snapshot import Snapshot

NEAREST: Final = 5
"""Near misses at most that are reported."""


class EveryCheck(msgspec.Struct, frozen=True, eq=False):
    """The verdicts of all filters on one pod.

    Attributes:
        pod: the pod.
        snapshot: the snapshot of the cluster.
        found: the filter result without the plugins that reject the pod in PreFilter.
        outright: by plugin, its rejection of the pod in PreFilter.
        names: the names of the plugins that reject any node, in their order.
        rejects: by plugin and row, whether the plugin rejects the row; False for unused rows.
        verdicts: the verdicts of each filter, by name; without plugins that reject in PreFilter.
        fits_without: by plugin, the number of nodes that would fit without its rejections.
        world: the snapshot with the pods nominated before this one, to which the counts refer.
        attempt: the filters, as PreFilter prepares them for `world`.
    """

    pod: PodInfo
    snapshot: Snapshot
    found: Feasibility
    outright: dict[str, PluginRejection]
    names: list[str]
    rejects: NDArray[np.bool_]
    verdicts: dict[str, Verdicts]
    fits_without: dict[str, int]
    world: Snapshot
    attempt: FilterAttempt | None

    @property
    def fails(self) -> NDArray[np.intp]:
        """Number of checks that each row fails."""
        count: NDArray[np.intp] = self.rejects.sum(axis=0)
        return count

    def rejected_by(self, name: str) -> NDArray[np.intp]:
        """Return the rows that a plugin rejects."""
        if name not in self.names:
            return np.zeros(0, np.intp)
        return np.flatnonzero(self.rejects[self.names.index(name)])

    def rejected_by_none_but(self, *names: str) -> NDArray[np.intp]:
        """Return the rows that at least one of the plugins rejects, and no other plugin."""
        meant = np.isin(self.names, names)
        by_these = self.rejects[meant].any(axis=0)
        return np.flatnonzero(by_these & ~self.rejects[~meant].any(axis=0))

    def obstacles(self, name: str, rows: NDArray[np.intp]) -> tuple[Obstacle, ...]:
        """Return the obstacles of a filter on some of the rows that it rejects.

        Raises:
            PluginError: the plugin failed.
        """
        attempt = self.attempt
        for each in () if attempt is None else attempt.filters:
            if attempt is not None and name == each.name:
                return tuple(each.obstacles(attempt.state, self.pod, self.world, rows))
        return ()


def every_check(
    framework: Framework,
    pod: PodInfo,
    snapshot: Snapshot,
    nominated: NominatedPods | None = None,
    found: Feasibility | None = None,
) -> EveryCheck:
    """Run every filter on every node; return all verdicts.

    `found` is the filter result, if known.

    Raises:
        PluginError: a plugin failed.
    """

    def find(without: Container[str]) -> Feasibility:
        return framework.aside(without).find_nodes_that_fit(pod, snapshot, nominated)

    found, aside, outright = _past_pre_filter(find(()) if found is None else found, find)
    with framework.calls.unmeasured():
        every_verdict = framework.filtering.every_verdict(found, pod, snapshot, nominated)
    alive = snapshot.table.alive
    verdicts = {
        name: each
        for name, each in _named(found, every_verdict)
        if not _is_told_outright(each, alive, outright)
    }
    columns = _rejections_by_row(found, alive, outright, verdicts)
    names = [name for name, column in columns.items() if column.any()]
    rejects = np.array([columns[name] for name in names], np.bool_).reshape(len(names), len(alive))
    alone = rejects.sum(axis=0) == 1
    fits_without = dict(zip(names, (rejects & alone).sum(axis=1).tolist(), strict=True))
    for name in found.restricting.intersection(names):
        fits_without[name] = len(find({name}).feasible_rows())
    before = None if nominated is None else nominated.before(pod, snapshot)
    world, attempt = snapshot, found.attempt
    if before is not None:
        world = snapshot.fork(before.pods_on(snapshot))
        attempt = framework.aside(aside).find_nodes_that_fit(pod, world).attempt
    return EveryCheck(
        pod, snapshot, found, outright, names, rejects, verdicts, fits_without, world, attempt
    )


def _past_pre_filter(
    found: Feasibility, find: Callable[[Container[str]], Feasibility]
) -> tuple[Feasibility, set[str], dict[str, PluginRejection]]:
    """Filter again without the plugins that reject the pod in PreFilter.

    Returns:
        The result, these plugins, and their rejections; of equal rejections only the first.
    """
    outright: dict[str, PluginRejection] = {}
    aside: set[str] = set()
    while found.verdicts is None:
        status = found.pre_filter
        rejection = rejection_of(status)
        # If PreFilter results of several plugins have no common node, each plugin is an obstacle.
        names = [status.plugin] if status.plugin else sorted(found.restricting)
        aside.update(names)
        if not _is_told(rejection, outright.values()):
            outright.update(dict.fromkeys(names, rejection))
        found = find(aside)
    return found, aside, outright


def _rejections_by_row(
    found: Feasibility,
    alive: NDArray[np.bool_],
    outright: Iterable[str],
    verdicts: Mapping[str, Verdicts],
) -> dict[str, NDArray[np.bool_]]:
    """Return by plugin the rows that it rejects in PreFilter, in Filter, or by PreFilterResult."""
    columns: dict[str, NDArray[np.bool_]] = {name: alive.copy() for name in outright}
    for name, of_plugin in verdicts.items():
        columns[name] = alive & (of_plugin.first != FEASIBLE)
    looked_at = None if found.verdicts is None else found.verdicts.rows
    if looked_at is not None:
        absent = alive.copy()
        absent[looked_at] = False
        for name in found.restricting:
            columns[name] = columns.get(name, np.zeros_like(alive)) | absent
    return columns


def _is_told_outright(
    verdicts: Verdicts, alive: NDArray[np.bool_], outright: Mapping[str, PluginRejection]
) -> bool:
    """Return whether a filter rejects nodes for the reason of another plugin's PreFilter."""
    rejected = np.flatnonzero(alive & (verdicts.first != FEASIBLE))
    if not outright or not len(rejected):
        return False
    return _is_told(rejection_of(verdicts.status(int(rejected[0]))), outright.values())


def _is_told(rejection: PluginRejection, others: Iterable[PluginRejection]) -> bool:
    """Return whether another plugin has rejected the pod for the same reason, as a missing claim.

    Plugins may put different prefixes before the reason.
    """
    return any(
        len(rejection.reasons) == len(other.reasons)
        and all(
            one.endswith(another) or another.endswith(one)
            for one, another in zip(rejection.reasons, other.reasons, strict=True)
        )
        for other in others
    )


def checks_of(every: EveryCheck) -> tuple[Check, ...]:
    """Return the number of nodes that each plugin rejects, with its obstacles, largest first.

    Raises:
        PluginError: a plugin failed.
    """
    counts = zip(every.names, every.rejects.sum(axis=1).tolist(), strict=True)
    return tuple(
        Check(name, nodes, every.fits_without[name], every.obstacles(name, every.rejected_by(name)))
        for name, nodes in sorted(counts, key=lambda count: -count[1])
    )


def nearest_nodes(every: EveryCheck) -> tuple[NearNode, ...]:
    """Return the nodes that fail the fewest checks; equal ones by shortage, then by name.

    Raises:
        PluginError: a plugin failed.
    """
    table, fails = every.snapshot.table, every.fails
    rows = np.flatnonzero(table.alive & (fails > 0))
    keys = fails[rows], shortage(every, rows), table.name_ranks()[rows]
    rows = rows[_foremost(keys, NEAREST)]
    return tuple(
        NearNode(table.names[row], int(fails[row]), tuple(_rejections(every, row)))
        for row in rows.tolist()
    )


def shortage(every: EveryCheck, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return by row the largest share of a requested amount that is not free on the node."""
    table = every.world.table
    shares = np.zeros(len(rows))
    for name, amount in every.pod.shape.requests.items():
        column = table.resources.get(name)
        if amount > 0:
            free: NDArray[np.float64] | float = 0.0
            if column is not None:
                free = table.allocatable[column, rows] - table.requested[column, rows]
            shares = np.maximum(shares, (amount - free) / amount)
    return shares


def _foremost(keys: Sequence[NDArray[Any]], count: int) -> NDArray[np.intp]:
    """Return the positions of the `count` smallest by keys, the first key first. Cost: O(n)."""
    found, tied = np.zeros(0, np.intp), np.arange(len(keys[0]))
    for key in keys:
        left, values = count - len(found), key[tied]
        if len(tied) <= left:
            break
        # Smaller values than the last possible one are found; the next key orders equal ones.
        last = np.partition(values, left - 1)[left - 1]
        found = np.concatenate((found, tied[values < last]))
        tied = tied[values == last]
    found = np.concatenate((found, tied))
    return found[np.lexsort([key[found] for key in reversed(keys)])][:count]


def _named(found: Feasibility, every: list[Verdicts]) -> Iterator[tuple[str, Verdicts]]:
    """Pair each filter's name with its verdicts."""
    filters = () if found.attempt is None else found.attempt.filters
    names = [each.name for each in sorted(filters, key=lambda f: f.index)]
    return zip(names, every, strict=True)


def _rejections(every: EveryCheck, row: int) -> Iterator[PluginRejection]:
    """Yield all rejections of one node."""
    for name, rejects in zip(every.names, every.rejects, strict=True):
        if not rejects[row]:
            continue
        if name in every.outright:
            yield every.outright[name]
            continue
        verdicts = every.verdicts.get(name)
        status = every.found.absent
        if verdicts is not None and verdicts.first[row] != FEASIBLE:
            status = verdicts.status(row)
        if status is not None:
            yield PluginRejection(name, status.code.upstream_name, status.reasons)
