"""For tests of policies and plugins: a cluster in memory with the real engine.

    def test_databases_keep_apart(cluster):
        cluster.add("cluster.yaml")
        cluster.schedule(pod("db-1", labels={"app": "db"})).must_land_on("n2", "n3")

With pytest, installing Stowage adds the fixture `cluster`; without pytest, create a `Cluster`.
"""

from scheduler.testing.cluster import Cluster
from scheduler.testing.decision import Decision
from scheduler.testing.objects import Manifest, node, pod
from scheduler.testing.world import ClusterError

__all__ = ["Cluster", "ClusterError", "Decision", "Manifest", "node", "pod"]
