"""The law of the snapshot: what it was told piece by piece equals what it is told at once."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import (
    Affinity,
    ContainerImage,
    ContainerPort,
    LabelSelector,
    LabelSelectorRequirement,
    PodAffinitySpec,
    PodAffinityTerm,
    Taint,
    WeightedPodAffinityTerm,
)
from scheduler.api.pods import HostPort, PodInfo
from scheduler.api.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    selector_from_labels,
)
from scheduler.snapshot import (
    Change,
    NamespaceChanged,
    NodeRemoved,
    NodeSet,
    PodAdded,
    PodRemoved,
    Snapshot,
)
from scheduler.snapshot.pod_selectors import PodSelector
from scheduler.snapshot.port_counts import WILDCARD_IP
from scheduler.snapshot.term_counts import TermKind
from tests.support.builders import HOSTNAME, ZONE, make_node, make_node_info, make_pod_info

NAMESPACES = ("red", "green", "blue")
APPS = ("web", "db", "cache")
RACK = "example.com/rack"
KEYS = (HOSTNAME, ZONE, RACK)
PORTS = (
    HostPort(WILDCARD_IP, "TCP", 80),
    HostPort("10.0.0.1", "TCP", 80),
    HostPort(WILDCARD_IP, "UDP", 80),
)
IMAGES = tuple(ContainerImage((f"image-{i}", f"alias-{i % 2}"), 10) for i in range(4))
RESOURCES = ("cpu", "memory", "example.com/gpu")

SELECTORS = (
    EVERYTHING,
    NOTHING,
    *(selector_from_labels({"app": app}) for app in APPS),
    selector_from_labels({"app": "web", "tier": "front"}),
    Selector(frozenset({Requirement("tier", Operator.DOES_NOT_EXIST)})),
    Selector(frozenset({Requirement("app", Operator.IN, frozenset({"web", "db"}))})),
    Selector(frozenset({Requirement("app", Operator.NOT_IN, frozenset({"web"}))})),
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


class Cluster:
    """A cluster that changes at random and says how."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.random = random.Random(seed)
        self.names = [f"node-{i}" for i in range(nodes)]
        self.nodes: dict[str, NodeInfo] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self._serial = 0

    def change(self) -> Iterator[Change]:
        """One random event, as the changes the cache would report."""
        events: tuple[tuple[int, Callable[[], Iterator[Change]]], ...] = (
            (12, self._add_pod),
            (6, self._remove_pod),
            (2, self._relabel_pod),
            (4, self._set_node),
            (1, self._remove_node),
            (1, self._change_namespace),
        )
        weights = [weight for weight, _ in events]
        _, event = self.random.choices(events, weights)[0]
        yield from event()

    def rebuild(self) -> Iterator[Change]:
        """The changes that build the cluster as it is now."""
        for name, labels in self.namespaces.items():
            yield NamespaceChanged(name, labels)
        for info in self.nodes.values():
            if info.node is not None:
                yield NodeSet(info, info.node)
        for info in self.nodes.values():
            yield from map(PodAdded, info.pods.values())

    def _set_node(self) -> Iterator[Change]:
        draw = self.random
        name = draw.choice(self.names)
        self._serial += 1
        labels = {RACK: draw.choice(("", "r1", "r2"))} if draw.random() < 0.7 else {}
        if draw.random() < 0.5:
            labels[HOSTNAME] = f"host-{self._serial}"
        node = make_node(
            name,
            zone=draw.choice(("", "a", "b", "c")),
            labels=labels,
            allocatable={"example.com/gpu": draw.randint(0, 2)} if draw.random() < 0.3 else None,
            taints=draw.choice(((), (Taint("dedicated", "x", "NoSchedule"),))),
            unschedulable=draw.random() < 0.2,
            images=draw.sample(IMAGES, draw.randint(0, 3)),
            declared_features=draw.choice(((), ("F",))),
        )
        info = self.nodes.setdefault(name, make_node_info(node))
        info.node = node
        yield NodeSet(info, node)

    def _remove_node(self) -> Iterator[Change]:
        if self.nodes:
            info = self.nodes.pop(self.random.choice(list(self.nodes)))
            yield from map(PodRemoved, info.pods.values())
            yield NodeRemoved(info.name)

    def _add_pod(self) -> Iterator[Change]:
        if self.nodes:
            info = self.nodes[self.random.choice(list(self.nodes))]
            pod = self._new_pod().on_node(info.name)
            info.pods[pod.uid] = pod
            yield PodAdded(pod)

    def _remove_pod(self) -> Iterator[Change]:
        info = self._busy_node()
        if info is not None:
            yield PodRemoved(info.pods.pop(self.random.choice(list(info.pods))))

    def _relabel_pod(self) -> Iterator[Change]:
        info = self._busy_node()
        if info is not None:
            old = info.pods.pop(self.random.choice(list(info.pods)))
            new = self._new_pod().on_node(info.name)
            info.pods[new.uid] = new
            yield PodRemoved(old)
            yield PodAdded(new)

    def _change_namespace(self) -> Iterator[Change]:
        name = self.random.choice(NAMESPACES)
        labels = self.random.choice((None, {}, {"team": "a"}, {"team": "b"}))
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        yield NamespaceChanged(name, labels)

    def _busy_node(self) -> NodeInfo | None:
        busy = [info for info in self.nodes.values() if info.pods]
        return self.random.choice(busy) if busy else None

    def _new_pod(self) -> PodInfo:
        draw = self.random
        self._serial += 1
        labels = {"app": draw.choice(APPS)}
        if draw.random() < 0.5:
            labels["tier"] = draw.choice(("front", "back"))
        ports = [p for p in PORTS if draw.random() < 0.1]
        return make_pod_info(
            f"pod-{self._serial}",
            namespace=draw.choice(NAMESPACES),
            labels=labels,
            requests={draw.choice(RESOURCES): draw.randint(0, 3)},
            host_ports=[ContainerPort(p.port, p.port, p.host_ip, p.protocol) for p in ports],
            affinity=self._affinity() if draw.random() < 0.5 else None,
            deletion_timestamp="2026-01-01T00:00:00Z" if draw.random() < 0.1 else None,
        )

    def _affinity(self) -> Affinity:
        return Affinity(pod_affinity=self._terms(), pod_anti_affinity=self._terms())

    def _terms(self) -> PodAffinitySpec | None:
        draw = self.random
        if draw.random() < 0.3:
            return None
        return PodAffinitySpec(
            required_during_scheduling_ignored_during_execution=tuple(
                self._term() for _ in range(draw.randint(0, 2))
            ),
            preferred_during_scheduling_ignored_during_execution=tuple(
                WeightedPodAffinityTerm(draw.choice((1, 5)), self._term())
                for _ in range(draw.randint(0, 2))
            ),
        )

    def _term(self) -> PodAffinityTerm:
        draw = self.random
        return PodAffinityTerm(
            topology_key=draw.choice(KEYS),
            label_selector=draw.choice(
                (
                    None,
                    LabelSelector(),
                    LabelSelector({"app": draw.choice(APPS)}),
                    LabelSelector(
                        match_expressions=(LabelSelectorRequirement("app", "In", ("web", "db")),)
                    ),
                )
            ),
            namespaces=draw.choice(((), (), ("red",), ("green", "blue"))),
            namespace_selector=draw.choice(
                (None, None, LabelSelector(), LabelSelector({"team": "a"}))
            ),
        )


def view(snapshot: Snapshot) -> dict[str, Any]:
    """All a plugin can learn from a snapshot, by name instead of by row."""
    table = snapshot.table
    return {
        "count": table.count,
        "alive": sorted(table.names[row] for row in table.live_rows()),
        "order": [table.names[row] for row in snapshot.node_order()],
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
    }


def _row(snapshot: Snapshot, row: int) -> dict[str, Any]:
    table = snapshot.table
    amounts = {
        name: (table.allocatable[column, row], table.requested[column, row])
        for column, name in enumerate(table.resources.values)
    }
    return {
        "info": snapshot.info(row),
        "node": snapshot.node(row),
        "unschedulable": bool(table.unschedulable[row]),
        "taints": table.taint_sets.values[table.taint_set[row]],
        "features": table.feature_sets.values[table.feature_set[row]],
        "pods": (table.max_pods[row], table.pod_count[row]),
        "amounts": {name: pair for name, pair in amounts.items() if any(pair)},
        "non-zero": table.non_zero_requested[:, row].tolist(),
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
    ids, domains = snapshot.topology(key)
    sums = snapshot.pod_counts(pods).by_domain(ids, domains)
    values = snapshot.label_column(key).values.values
    return {values[domain]: total for domain, total in enumerate(sums.tolist()) if total}


def _terms_about(snapshot: Snapshot, kind: TermKind, probe: PodInfo) -> dict[Any, dict[str, float]]:
    size = snapshot.table.size
    return {
        (cls.pods, cls.topology_key, cls.weight): _by_name(snapshot, cls.counts.column(size))
        for cls in snapshot.terms_about(kind, probe)
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


def assert_equal_to_rebuilt(snapshot: Snapshot, cluster: Cluster) -> None:
    rebuilt = Snapshot()
    rebuilt.update(cluster.rebuild())
    actual, expected = view(snapshot), view(rebuilt)
    for part, value in expected.items():
        assert actual[part] == value, part


@pytest.mark.parametrize(("seed", "nodes"), [(1, 5), (2, 30), (3, 150), (4, 400)])
def test_a_long_history_leads_where_a_fresh_start_leads(seed: int, nodes: int) -> None:
    """After thousands of changes the snapshot equals one built from the cluster as it is."""
    cluster = Cluster(seed, nodes)
    snapshot = Snapshot()

    for step in range(4000):
        snapshot.update(cluster.change())
        ask_about_terms(snapshot)
        if step % 800 == 799:
            assert_equal_to_rebuilt(snapshot, cluster)

    assert snapshot.namespace_epoch > 0
    assert_equal_to_rebuilt(snapshot, cluster)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 6), steps=st.integers(1, 60))
def test_any_short_history_leads_where_a_fresh_start_leads(
    seed: int, nodes: int, steps: int
) -> None:
    """The same, with questions asked before anything happened."""
    cluster = Cluster(seed, nodes)
    snapshot = Snapshot()
    view(snapshot)

    for _ in range(steps):
        snapshot.update(cluster.change())
        ask_about_terms(snapshot)

    assert_equal_to_rebuilt(snapshot, cluster)
