"""Promise: Stowage can be the only scheduler, and runs again after a cold start.

kube-scheduler schedules Stowage's replicas in a separate cluster, and is then stopped for good.
"""

from collections.abc import Iterator

import pytest

from e2e.conftest import REPORTERS
from e2e.nodes.lab import Lab
from e2e.nodes.test_manifests import deployment, running
from e2e.support.waiting import wait_for

DEFAULT = "default-scheduler"


@pytest.fixture(scope="module")
def alone() -> Iterator[Lab]:
    """A cluster in which Stowage is the only scheduler."""
    with Lab() as lab:
        manifests = lab.rendered("deploy/overlays/default-scheduler")
        lab.kubectl("apply", "--filename=-", stdin=manifests)
        lab.wait_for_rollout("stowage", "stowage")
        wait_for(lab.leader, "a leader")
        programs = lab.control_plane.programs
        [kube_scheduler] = [each for each in programs if each.name == "kube-scheduler"]
        lab.control_plane.stop_program(kube_scheduler)
        yield lab


@pytest.fixture
def lab(alone: Lab, request: pytest.FixtureRequest) -> Lab:
    request.node.stash.setdefault(REPORTERS, []).append(alone.report)
    return alone


def test_every_pod_goes_through_it(lab: Lab) -> None:
    """Stowage schedules pods without a schedulerName, and its own replicas."""
    with lab.applied_text(deployment("anything", replicas=4, scheduler=DEFAULT)):
        running(lab, "default", 4)
        before = {pod["metadata"]["name"] for pod in lab.pods("stowage")}
        lab.kubectl("rollout", "restart", "-nstowage", "deployment/stowage")
        lab.wait_for_rollout("stowage", "stowage")

    replaced = {pod["metadata"]["name"] for pod in lab.pods("stowage")} - before
    assert len(replaced) == 2
    wait_for(lambda: replaced <= scheduled_by_us(lab), "the events of both replicas")


def scheduled_by_us(lab: Lab) -> set[str]:
    """Return the names of Stowage's pods with an event that Stowage has scheduled them."""
    events = lab.get("events", "-nstowage", "--field-selector=reason=Scheduled")["items"]
    return {
        event["involvedObject"]["name"]
        for event in events
        if event["source"].get("component") == DEFAULT or event.get("reportingComponent") == DEFAULT
    }


def test_a_cold_start(lab: Lab) -> None:
    """Nodes and API server are powered off; afterwards old pods run and new pods are scheduled."""
    with lab.applied_text(deployment("old", replicas=2, scheduler=DEFAULT)):
        running(lab, "default", 2)
        for node in lab.nodes:
            node.stop()
        lab.control_plane.kill_api_server()
        lab.control_plane.start_api_server()
        for node in lab.nodes:
            node.start()
        lab.wait_for_nodes()
        lab.wait_for_rollout("stowage", "stowage")
        with lab.applied_text(deployment("new", replicas=2, scheduler=DEFAULT)):
            running(lab, "default", 4)
