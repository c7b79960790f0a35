"""The promise to those who pay for GPUs: no other pods run there, and they are packed.

What is tested is the scheduler's configuration and the taints that nodes are made with.
"""

from pathlib import Path

import pytest

from scheduler.testing import Cluster, Manifest, node, pod

HERE = Path(__file__).parent
GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
TOLERATED = [{"key": GPU, "operator": "Exists"}]


@pytest.fixture
def gpus(cluster: Cluster) -> Cluster:
    """Two nodes with GPUs, one of them half taken, and one without."""
    cluster.configure(HERE / "config.yaml")
    for name in ("gpu-1", "gpu-2"):
        cluster.add(node(name, allocatable={GPU: 8, "cpu": "32"}, taints=[TAINT]))
    cluster.add(node("plain"), training("running", 4, node="gpu-2"))
    return cluster


def training(name: str, count: int, **options: str) -> Manifest:
    requests = {GPU: count, "cpu": "2"}
    return pod(name, requests=requests, schedulerName="stowage", tolerations=TOLERATED, **options)


def web(name: str, cpu: str) -> Manifest:
    return pod(name, requests={"cpu": cpu}, schedulerName="stowage")


def test_pods_without_gpus_stay_away(gpus: Cluster) -> None:
    gpus.schedule(web("web-0", "3")).must_land_on("plain")

    gpus.schedule(web("web-1", "3")).must_wait(because="untolerated taint")


def test_training_is_packed(gpus: Cluster) -> None:
    """So that a whole node stays free for who needs it."""
    gpus.schedule(training("small-0", 2)).must_land_on("gpu-2")
    gpus.schedule(training("small-1", 2)).must_land_on("gpu-2")

    gpus.schedule(training("big", 8)).must_land_on("gpu-1")


def test_nobody_is_evicted_for_equals(gpus: Cluster) -> None:
    gpus.schedule(training("big", 8)).must_land_on("gpu-1")

    decision = gpus.schedule(training("next", 8))

    decision.must_wait(because=f"Insufficient {GPU}")
    decision.must_evict()
