"""The law of the snapshot: what it was told piece by piece equals what it is told at once."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.api.host_ports import HostPort
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    selector_from_labels,
)
from scheduler.kernel.snapshot import PodAdded, Snapshot
from scheduler.kernel.snapshot.pod_selectors import PodSelector
from scheduler.kernel.snapshot.term_counts import TermKind
from tests.support.builders import make_pod_info
from tests.support.histories import APPS, IMAGES, KEYS, NAMESPACES, PORTS, History

SELECTORS = (
    EVERYTHING,
    NOTHING,
    *(selector_from_labels({"app": app}) for app in APPS),
    selector_from_labels({"app": "web", "tier": "front"}),
    Selector((Requirement("tier", Operator.DOES_NOT_EXIST),)),
    Selector((Requirement("app", Operator.IN, frozenset({"web", "db"})),)),
    Selector((Requirement("app", Operator.NOT_IN, frozenset({"web"})),)),
)
NAMESPACE_SELECTORS = (NOTHING, EVERYTHING, selector_from_labels({"team": "a"}))
POD_SELECTORS = tuple(
    PodSelector(frozenset(names), selector, namespace_selector, skip_terminating)
    for names in ((), ("red",), ("red", "blue"))
    for selector in SELECTORS
    for namespace_selector in NAMESPACE_SELECTORS
    for skip_terminating in (False, True)
)
PROBES = tuple(
    make_pod_info(f"probe-{namespace}-{app}", namespace=namespace, labels={"app": app})
    for namespace in NAMESPACES
    for app in APPS
)


def view(snapshot: Snapshot) -> dict[str, Any]:
    """All a plugin can learn from a snapshot, by name instead of by row."""
    table = snapshot.table
    return {
        "count": table.count,
        "alive": sorted(table.names[row] for row in table.live_rows()),
        "by name": sorted(table.row_of, key=lambda name: table.name_ranks()[table.row_of[name]]),
        "order": [table.names[row] for row in table.node_order()],
        "nodes": {name: _row(snapshot, row) for name, row in table.row_of.items()},
        "dead rows": _leftovers(snapshot),
        "labels": {key: _labels(snapshot, key) for key in KEYS},
        "ports": {port: _ports(snapshot, port) for port in PORTS},
        "images": {name: _image(snapshot, name) for image in IMAGES for name in image.names},
        "pods": {pods: _counts(snapshot, pods) for pods in POD_SELECTORS},
        "domains": {
            (pods, key): _domains(snapshot, pods, key) for pods in POD_SELECTORS for key in KEYS
        },
        "terms": {
            (kind, probe.key): _terms_about(snapshot, kind, probe)
            for kind in TermKind
            for probe in PROBES
        },
        "each term": {
            (kind, probe.key): _each_term_about(snapshot, kind, probe)
            for kind in TermKind
            for probe in PROBES
        },
    }


def _row(snapshot: Snapshot, row: int) -> dict[str, Any]:
    table = snapshot.table
    has = {name: table.allocatable[i, row] for i, name in enumerate(table.resources.values)}
    return {
        "info": snapshot.info(row),
        "node": snapshot.node(row),
        "unschedulable": bool(table.unschedulable[row]),
        "taints": table.taint_sets.values[table.taint_set[row]],
        "features": table.feature_sets.values[table.feature_set[row]],
        "max pods": table.max_pods[row],
        "has": {name: amount for name, amount in has.items() if amount},
        "sums": table.sums.of_row(row),
    }


def _leftovers(snapshot: Snapshot) -> list[float]:
    """What is left on rows without a node; all must be 0."""
    table = snapshot.table
    dead = ~table.alive
    columns = [table.max_pods, table.pod_count, *table.allocatable, *table.requested]
    columns += [snapshot.pod_counts(pods).column(table.size) for pods in POD_SELECTORS]
    columns += [snapshot.label_column(key).ids(table.size) for key in KEYS]
    return sorted({float(value) for column in columns for value in column[dead]} - {0.0})


def _labels(snapshot: Snapshot, key: str) -> dict[str, str | None]:
    column = snapshot.label_column(key)
    ids = column.ids(snapshot.table.size)
    return {name: column.values.values[ids[row]] for name, row in snapshot.table.row_of.items()}


def _ports(snapshot: Snapshot, port: HostPort) -> list[str]:
    taken = snapshot.ports.conflicts(port, snapshot.table.size)
    return [] if taken is None else _names(snapshot, np.flatnonzero(taken))


def _image(snapshot: Snapshot, name: str) -> tuple[int, list[str]] | None:
    found = snapshot.images.find(name)
    return None if found is None else (found[0], _names(snapshot, found[1]))


def _counts(snapshot: Snapshot, pods: PodSelector) -> dict[str, float]:
    counts = snapshot.pod_counts(pods)
    found = _by_name(snapshot, counts.column(snapshot.table.size))
    assert found == {snapshot.table.names[row]: counts.at(int(row)) for row in counts.rows()}
    assert counts.total == sum(found.values())
    assert counts.is_empty == (not found)
    return found


def _domains(snapshot: Snapshot, pods: PodSelector, key: str) -> dict[str | None, float]:
    sums = snapshot.pod_counts(pods).by_domain(snapshot.topology(key))
    values = snapshot.label_column(key).values.values
    return {values[domain]: total for domain, total in enumerate(sums.tolist()) if total}


def _terms_about(snapshot: Snapshot, kind: TermKind, probe: PodInfo) -> dict[Any, dict[str, float]]:
    """Of several terms of equal key and weight a snapshot may tell the sum."""
    size = snapshot.table.size
    sums: dict[Any, Any] = {}
    for cls in snapshot.terms_about(kind, probe):
        about = cls.topology_key, cls.weight
        sums[about] = sums.get(about, 0) + cls.counts.column(size)
    return {about: _by_name(snapshot, column) for about, column in sums.items()}


def _each_term_about(
    snapshot: Snapshot, kind: TermKind, probe: PodInfo
) -> dict[Any, dict[str, float]]:
    size = snapshot.table.size
    return {
        (cls.pods, cls.topology_key, cls.weight): _by_name(snapshot, cls.counts.column(size))
        for cls in snapshot.each_term_about(kind, probe)
    }


def ask_about_terms(snapshot: Snapshot) -> None:
    """Let the snapshot remember answers that later changes must correct."""
    for kind in TermKind:
        for probe in PROBES:
            snapshot.terms_about(kind, probe)


def _by_name(snapshot: Snapshot, column: Any) -> dict[str, float]:
    return {snapshot.table.names[row]: float(column[row]) for row in np.flatnonzero(column)}


def _names(snapshot: Snapshot, rows: Any) -> list[str]:
    return sorted(snapshot.table.names[row] for row in rows)


def assert_equal_to_rebuilt(snapshot: Snapshot, cluster: History) -> None:
    rebuilt = Snapshot()
    # Pods come together, as at a start, where they are summed up before they are counted.
    rebuilt.update(sorted(cluster.rebuild(), key=lambda change: isinstance(change, PodAdded)))
    actual, expected = view(snapshot), view(rebuilt)
    assert actual["by name"] == sorted(rebuilt.table.row_of)
    for part, value in expected.items():
        assert actual[part] == value, part


@pytest.mark.parametrize(("seed", "nodes"), [(1, 5), (2, 30), (3, 150), (4, 400)])
def test_a_long_history_leads_where_a_fresh_start_leads(seed: int, nodes: int) -> None:
    """After thousands of changes the snapshot equals one built from the cluster as it is."""
    cluster = History(seed, nodes)
    snapshot = Snapshot()

    for step in range(3000):
        snapshot.update(cluster.change())
        # Every term that comes or goes lets the answers be forgotten: those before the last steps
        # are not there any more when the snapshot is looked at. Asking takes longer than the rest.
        if step % 10 == 0 or step % 500 >= 450:
            ask_about_terms(snapshot)
        if step % 500 == 499:
            assert_equal_to_rebuilt(snapshot, cluster)

    assert snapshot.namespace_epoch > 0


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 6), steps=st.integers(1, 60))
def test_any_short_history_leads_where_a_fresh_start_leads(
    seed: int, nodes: int, steps: int
) -> None:
    """The same, with questions asked before anything happened."""
    cluster = History(seed, nodes)
    snapshot = Snapshot()
    view(snapshot)

    for _ in range(steps):
        snapshot.update(cluster.change())
        ask_about_terms(snapshot)

    assert_equal_to_rebuilt(snapshot, cluster)
