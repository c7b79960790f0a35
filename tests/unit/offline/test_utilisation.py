"""How full a cluster is, by zone."""

from scheduler.kernel.snapshot import NodeSet, PodAdded, Snapshot
from scheduler.tools.offline.utilisation import UtilisationChange, changed, utilisation_of
from tests.support.builders import make_node, make_node_info, make_pod_info


def test_shares_by_zone() -> None:
    """Zones by name, nodes without one, then all; a resource that a zone lacks has no share."""
    snapshot = Snapshot()
    room = {"cpu": "4", "memory": "8Gi", "pods": 10}
    for name, zone, more in (("n1", "b", {"example.com/gpu": 4}), ("n2", "a", {}), ("n3", "", {})):
        node = make_node(name, zone=zone, allocatable={**room, **more})
        snapshot.update([NodeSet(make_node_info(node), node)])
    before = utilisation_of(snapshot)
    requests = {"cpu": "2", "memory": "2Gi", "example.com/gpu": 1}
    snapshot.update([PodAdded(make_pod_info("p", node_name="n1", requests=requests))])

    found = utilisation_of(snapshot)

    assert list(found.nodes.items()) == [("a", 1), ("b", 1), ("(no zone)", 1), ("all", 3)]
    empty = {"cpu": 0, "memory": 0, "example.com/gpu": None, "pods": 0}
    assert found.shares == {
        "a": empty,
        "b": {"cpu": 0.5, "memory": 0.25, "example.com/gpu": 0.25, "pods": 0.1},
        "(no zone)": empty,
        "all": {"cpu": 0.1667, "memory": 0.0833, "example.com/gpu": 0.25, "pods": 0.0333},
    }
    change = changed(before, found)
    assert change["all"]["cpu"] == UtilisationChange(0, 0.1667)
    assert change["a"]["example.com/gpu"] == UtilisationChange(None, None)


def test_a_cluster_without_nodes() -> None:
    """Has one line, of nothing."""
    found = utilisation_of(Snapshot())

    assert (found.nodes, found.shares) == ({"all": 0}, {"all": {}})
