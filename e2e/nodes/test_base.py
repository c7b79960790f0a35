"""Promise: `kubectl apply -k deploy/base` gives a scheduler that runs, and what it places runs."""

from collections.abc import Iterator

import pytest

from e2e.nodes.lab import Lab, is_ready
from e2e.support.waiting import wait_for


@pytest.fixture
def deployed(lab: Lab) -> Iterator[None]:
    """Apply the base manifests."""
    with lab.applied("deploy/base"):
        yield


def test_it_runs_and_what_it_places_runs(lab: Lab, deployed: None) -> None:
    """Both replicas are Ready, one of them leads, and pods run that it has placed."""
    lab.wait_for_rollout("stowage", "stowage")
    replicas = lab.pods("stowage")
    leader = wait_for(lab.leader, "a leader")

    with lab.applied("deploy/examples"):
        wait_for(
            lambda: len(pods := lab.pods("default")) == 7 and all(map(is_ready, pods)),
            "the examples to run",
            180,
        )
        placed = lab.pods("default")

    assert leader in {pod["metadata"]["name"] for pod in replicas}
    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in replicas] == [0, 0]
    assert {pod["spec"]["nodeName"] for pod in replicas} == {"node-1", "node-2"}
    assert {pod["spec"]["nodeName"] for pod in placed} == {"node-1", "node-2"}
