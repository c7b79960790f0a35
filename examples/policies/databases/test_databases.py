"""The promise to the database team: losing one zone loses one replica.

What is tested is the manifest that their chart makes, on a cluster like the one they have.
"""

from pathlib import Path

import pytest
import yaml

from scheduler.testing import Cluster, Manifest, pod

HERE = Path(__file__).parent


def replica(number: int) -> Manifest:
    manifest: Manifest = yaml.safe_load((HERE / "database.yaml").read_text())
    manifest["metadata"]["name"] = f"database-{number}"
    return manifest


@pytest.fixture
def zones(cluster: Cluster) -> Cluster:
    cluster.add(HERE / "cluster.yaml")
    return cluster


def test_three_replicas_are_in_three_zones(zones: Cluster) -> None:
    for number in range(3):
        zones.schedule(replica(number))

    placed = {zones.node_of(f"database-{number}")[0] for number in range(3)}
    assert placed == {"a", "b", "c"}


def test_a_full_zone_is_not_made_up_for_elsewhere(zones: Cluster) -> None:
    """Two replicas in one zone would break the promise: the third one waits, and says why."""
    zones.add(pod("resident", node="c1", requests={"cpu": "1"}, priority=2000))
    zones.schedule(replica(0))
    zones.schedule(replica(1))

    zones.schedule(replica(2)).must_wait(because="didn't match pod topology spread constraints")


def test_batch_work_makes_way(zones: Cluster) -> None:
    """It is evicted where the third replica has to go, and nowhere else."""
    zones.add(
        pod("batch-a", node="a1", requests={"cpu": "12"}),
        pod("batch-c", node="c1", requests={"cpu": "2"}),
    )
    zones.schedule(replica(0)).must_land_on("a2", "b1")
    zones.schedule(replica(1)).must_land_on("a2", "b1")

    decision = zones.schedule(replica(2))

    decision.must_land_on("c1")
    decision.must_evict("default/batch-c")
