"""How full a cluster is, by zone."""

import numpy as np

from scheduler.offline.utilisation import utilisation_of
from scheduler.snapshot import NodeSet, PodAdded, Snapshot
from tests.support.builders import make_node, make_node_info, make_pod_info


def test_shares_by_zone() -> None:
    """Zones by name, nodes without one, then all; a resource that a zone lacks has no share."""
    snapshot = Snapshot()
    room = {"cpu": "4", "memory": "8Gi", "pods": 10}
    for name, zone, more in (("n1", "b", {"example.com/gpu": 4}), ("n2", "a", {}), ("n3", "", {})):
        node = make_node(name, zone=zone, allocatable={**room, **more})
        snapshot.update([NodeSet(make_node_info(node), node)])
    requests = {"cpu": "2", "memory": "2Gi", "example.com/gpu": 1}
    snapshot.update([PodAdded(make_pod_info("p", node_name="n1", requests=requests))])

    found = utilisation_of(snapshot)

    assert found.zones == ("a", "b", "(no zone)", "all")
    assert found.nodes == (1, 1, 1, 3)
    assert found.resources == ("cpu", "memory", "example.com/gpu", "pods")
    expected = [
        [0, 0, np.nan, 0],
        [1 / 2, 1 / 4, 1 / 4, 1 / 10],
        [0, 0, np.nan, 0],
        [1 / 6, 1 / 12, 1 / 4, 1 / 30],
    ]
    np.testing.assert_allclose(found.shares, expected)


def test_a_cluster_without_nodes() -> None:
    """Has one line, of nothing."""
    found = utilisation_of(Snapshot())

    assert (found.zones, found.nodes, found.resources) == (("all",), (0,), ())
