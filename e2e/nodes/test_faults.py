"""Promise: if the leader or its node fails, the other replica soon schedules pods."""

from collections.abc import Iterator

import pytest

from e2e.nodes.arrivals import Arrivals
from e2e.nodes.faults import FAULTS, Fault, inflict
from e2e.nodes.lab import Lab


@pytest.fixture(scope="module")
def replicas(shared_lab: Lab) -> Iterator[None]:
    """Apply the base manifests, and create the node for the counted pods."""
    with shared_lab.applied("deploy/base"):
        Arrivals.prepare(shared_lab)
        yield
        shared_lab.cluster.reset()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_no_pod_waits_long(lab: Lab, replicas: None, fault: Fault) -> None:
    """A pod is created every 0.4 s; none is lost or waits longer than the lease duration."""
    waits = inflict(lab, fault)

    assert waits.lost == 0
    assert waits.longest_seconds < fault.most_seconds
