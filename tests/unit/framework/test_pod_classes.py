"""Which pods share their row-local answers, and what that saves."""

import tracemalloc
from collections.abc import Hashable
from typing import Any
from weakref import ref

import numpy as np
import pytest
from typing_extensions import override

from scheduler.api.objects import ContainerImage
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.interface import FilterPlugin, Reads
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.bound import row_indices
from scheduler.kernel.snapshot import NodeSet, PodAdded, Snapshot
from scheduler.kernel.snapshot.label_columns import Topology
from tests.support.builders import make_node, make_node_info, make_pod_info
from tests.support.fake_plugins import (
    ColumnFilter,
    ColumnScore,
    NodeFilter,
    PreFilter,
    RelativeScore,
    make_framework,
    make_snapshot,
)
from tests.support.storage import claims_of


class Signing(ColumnFilter):
    """Signs as it is told."""

    def __init__(self, name: str, sign: Any, reads: Reads = Reads.NODE) -> None:
        super().__init__(name, {}, reads=reads)
        self._sign = sign

    @override
    def sign(self, pod: PodInfo) -> Hashable | None:
        fragment: Hashable | None = self._sign(pod)
        return fragment


def hits(framework: Framework, snapshot: Snapshot, *pods: PodInfo) -> int:
    """How many of the pods, one after the other, belong to a class that is known."""
    for pod in pods:
        framework.filtering.find_nodes_that_fit(pod, snapshot)
    classes = framework.classes
    assert classes.hits + classes.misses == len(pods)
    return classes.hits


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"labels": {"a": "b"}}, 1, id="labels it reads"),
        pytest.param({"namespace": "other"}, 1, id="namespace it reads"),
        pytest.param({"requests": {"cpu": 1}}, 2, id="a specification it does not read"),
    ],
)
def test_pods_with_equal_signatures_are_one_class(fields: dict[str, Any], expected: int) -> None:
    """What plugins say they read decides, nothing else."""
    plugin = Signing("S", lambda pod: (tuple(pod.labels.items()), pod.namespace))
    framework = make_framework(plugin)

    pods = [make_pod_info("a"), make_pod_info("b", **fields), make_pod_info("c")]

    assert hits(framework, make_snapshot("n"), *pods) == expected


def test_a_plugin_may_sign_the_volumes_of_a_pod() -> None:
    """Pods of one kind may differ in them."""
    plugin = Signing("S", lambda pod: len(pod.pod.volumes))
    framework = make_framework(plugin, trusted=[])
    plain, with_volume = make_pod_info("a"), make_pod_info("b", volumes=claims_of("c"))
    assert plain.kind is with_volume.kind

    assert hits(framework, make_snapshot("n"), plain, with_volume, with_volume) == 1


class Unsigned(FilterPlugin):
    """Reads only the row, and does not sign."""

    NAME = "Unsigned"
    READS = Reads.NODE

    @override
    def filter(self, *_: Any) -> None:
        return None

    @override
    def reasons(self, *_: Any) -> tuple[()]:
        return ()


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(Signing("S", lambda pod: None), id="None"),
        pytest.param(Unsigned(), id="no signature at all"),
        pytest.param(PreFilter("P", nodes=("n",)), id="a set of nodes"),
    ],
)
def test_what_must_not_be_shared_is_not(plugin: Any) -> None:
    """Each pod is judged anew."""
    framework = make_framework(plugin, Signing("T", lambda pod: 1))
    expected = 2 if plugin.NAME == "P" else 0

    # A PreFilter plugin that reads the cluster restricts the pod, not its class.
    assert hits(framework, make_snapshot("n"), *(make_pod_info("p") for _ in range(3))) == expected


def test_plugins_that_read_the_cluster_need_not_sign() -> None:
    """Nothing of theirs is kept."""
    framework = make_framework(
        NodeFilter("N", lambda node: pytest.fail("no nodes")), Signing("S", lambda pod: 1)
    )

    assert hits(framework, Snapshot(), make_pod_info("a"), make_pod_info("b")) == 1


def test_a_signature_that_cannot_be_compared_names_its_plugin() -> None:
    """A list, for instance."""
    framework = make_framework(Signing("Mine", lambda pod: []))

    with pytest.raises(PluginError, match='running Sign plugin "Mine": TypeError: unhashable'):
        framework.filtering.find_nodes_that_fit(make_pod_info("p"), make_snapshot("n"))


def test_only_changed_rows_are_looked_at_again() -> None:
    """A node for those who read nodes, a pod's row for those who read pods."""
    reads_node = ColumnFilter("Node", {})
    reads_pods = ColumnFilter("Pods", {}, reads=Reads.PODS)
    framework = make_framework(reads_node, reads_pods)
    names = [f"n{i}" for i in range(20)]
    snapshot, pod = make_snapshot(*names), make_pod_info("p")

    def asked_for() -> list[list[list[int]]]:
        for plugin in (reads_node, reads_pods):
            plugin.rows_asked.clear()
        framework.filtering.find_nodes_that_fit(pod, snapshot)
        return [
            [list(range(20))[rows] if isinstance(rows, slice) else rows.tolist() for rows in asked]
            for asked in (reads_node.rows_asked, reads_pods.rows_asked)
        ]

    everything = list(range(20))
    assert asked_for() == [[everything], [everything]]
    assert asked_for() == [[], []]
    snapshot.update([PodAdded(make_pod_info("r", node_name="n3"))] * 2)
    assert asked_for() == [[], [[3]]]
    changed = make_node("n5")
    snapshot.update([NodeSet(make_node_info(changed), changed)])
    assert asked_for() == [[[5]], [[5]]]


def test_an_image_matters_to_its_holders() -> None:
    """One more copy of an image changes what it is worth where it lies; nobody else is asked."""
    plugin = ColumnFilter("F", {}, reads=Reads.IMAGES)
    framework = make_framework(plugin, ColumnFilter("G", {}, reads=Reads.NODE))
    snapshot = make_snapshot(*(f"n{i}" for i in range(20)))
    pod = make_pod_info("p", image="mine")

    def asked_after_pull(name: str, *images: str) -> list[list[int]]:
        node = make_node(name, images=[ContainerImage((f"{image}:latest",), 9) for image in images])
        snapshot.update([NodeSet(make_node_info(node), node)])
        plugin.rows_asked.clear()
        framework.filtering.find_nodes_that_fit(pod, snapshot)
        return [row_indices(rows).tolist() for rows in plugin.rows_asked]

    framework.filtering.find_nodes_that_fit(pod, snapshot)
    assert asked_after_pull("n3", "mine") == [[3]]
    assert asked_after_pull("n7", "other") == [[7]]
    assert asked_after_pull("n8", "mine", "other") == [[3, 8]]
    assert asked_after_pull("n8", "mine", "other", "third") == [[8]]
    assert asked_after_pull("n3") == [[3, 8]]
    assert asked_after_pull("n8") == [[8]]


def test_memory_is_bounded() -> None:
    """Beyond it, the class that was used longest ago is forgotten."""
    plugins = [Signing("S", lambda pod: pod.labels["c"]), ColumnScore("T", {})]
    one_class = make_framework(*plugins).classes.class_of(
        make_pod_info("p", labels={"c": "x"}), make_snapshot("n")
    )
    capacity = make_snapshot("n").table.capacity
    framework = make_framework(*plugins, class_cache_bytes=2 * one_class.size_bytes(capacity))
    pods = {c: make_pod_info(c, labels={"c": c}) for c in "abc"}
    snapshot = make_snapshot("n")

    assert hits(framework, snapshot, *(pods[c] for c in "aba")) == 1
    for c, known in (("c", False), ("a", True), ("b", False)):
        before = framework.classes.hits
        framework.filtering.find_nodes_that_fit(pods[c], snapshot)
        assert (framework.classes.hits > before) is known


def test_a_class_counts_for_the_memory_that_it_takes() -> None:
    """Its columns, and the best rows by two topologies as spread pods ask for them, over and over.

    Beside them is room for a third set of columns: what nominated pods exclude.
    """
    rows, domains = 4096, 8
    snapshot = make_snapshot(*(f"n{i}" for i in range(rows)))
    assert snapshot.table.capacity == rows
    topologies = [Topology(np.arange(rows) % domains, domains) for _ in range(2)]
    raw = [RelativeScore(f"Raw{i}", {}, reads=Reads.NODE) for i in range(8)]
    framework = make_framework(Signing("S", lambda pod: 1, Reads.PODS), ColumnScore("T", {}), *raw)

    tracemalloc.start()
    pod_class = framework.filtering.find_nodes_that_fit(make_pod_info("p"), snapshot).pod_class
    pod_class.ranking.best_rows(pod_class.total[:rows])
    for topology in topologies:
        for left_out in range(domains):
            pod_class.best_by_domain(topology, np.where(np.arange(domains) == left_out, 0.0, 1.0))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    counted = pod_class.size_bytes(rows)
    assert 0.92 * counted < taken <= counted


def test_without_memory_nothing_is_kept() -> None:
    """The answers are the same (see the law), every pod is a new class."""
    framework = make_framework(Signing("S", lambda pod: 1), class_cache_bytes=0)

    assert hits(framework, make_snapshot("n"), make_pod_info("a"), make_pod_info("b")) == 0


def test_a_class_goes_with_the_last_pod_of_it() -> None:
    """Pods that are created and deleted fill no memory; neither do their specifications."""
    framework, snapshot = make_framework(Signing("S", lambda pod: pod.labels["c"])), make_snapshot()
    shapes, kinds = [], []

    for number in range(100):
        pod = make_pod_info("p", node_selector={"key": str(number)}, labels={"c": str(number)})
        framework.filtering.find_nodes_that_fit(pod, snapshot)
        shapes.append(ref(pod.shape))
        kinds.append(ref(pod.kind))
        del pod

    assert [kind() for kind in kinds if kind() is not None] == []
    # The class that was used last is there until the next is.
    assert sum(shape() is not None for shape in shapes) <= 1
    assert len(framework.classes._classes) == len(framework.classes._signatures) == 0


def test_in_tree_plugins_sign_a_kind_once() -> None:
    """And again where another profile asks, or the kind does not tell which node a pod names."""
    signed: list[str] = []
    framework, other = (
        make_framework(
            Signing(name, lambda pod, name=name: signed.append(name) or pod.node_name),
            trusted=[name],
        )
        for name in ("S", "T")
    )
    pods, snapshot = [make_pod_info(name) for name in "abc"], make_snapshot("n")
    named = make_pod_info("d", node_name="n")

    for asked, pod in ((framework, pods[0]), (framework, pods[1]), (other, pods[2])):
        asked.filtering.find_nodes_that_fit(pod, snapshot)
    assert signed == ["S", "T"]
    for pod in (named, pods[0], pods[1], named):
        framework.filtering.find_nodes_that_fit(pod, snapshot)

    assert signed == ["S", "T", "S", "S", "S"]
    assert framework.classes.hits == 2


@pytest.mark.parametrize(
    ("trusted", "scores", "is_foreseen"),
    [
        pytest.param(["Sums"], [], True, id="an in-tree filter"),
        pytest.param([], [], False, id="another filter"),
        pytest.param(
            ["Sums", "Raw"], [RelativeScore("Raw", {}, reads=Reads.SUMS)], False, id="a raw score"
        ),
    ],
)
def test_who_is_asked_about_pods_to_come(
    trusted: list[str], scores: list[ColumnScore], is_foreseen: bool
) -> None:
    """In-tree plugins that read sums, unless scores must be normalized: others judge what is."""
    plugin = ColumnFilter("Sums", {}, reads=Reads.SUMS)
    framework = make_framework(plugin, *scores, trusted=trusted)
    pod, snapshot = make_pod_info("p"), make_snapshot("n")
    pod_class = framework.filtering.find_nodes_that_fit(pod, snapshot).pod_class
    plugin.rows_asked.clear()
    fits = pod_class.fits_with_more(snapshot, pod.shape, np.array([0]), np.array([1.0]))

    assert (fits is not None) == is_foreseen
    assert len(plugin.rows_asked) == is_foreseen
