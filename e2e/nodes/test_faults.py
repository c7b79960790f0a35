"""Promise: whatever happens to the leader or its node, the other replica places pods soon after."""

from collections.abc import Iterator

import pytest

from e2e.nodes.arrivals import Arrivals
from e2e.nodes.faults import FAULTS, Fault, inflict
from e2e.nodes.lab import Lab


@pytest.fixture(scope="module")
def replicas(shared_lab: Lab) -> Iterator[None]:
    """The base manifests, as they are, and a node for the pods that are counted."""
    with shared_lab.applied("deploy/base"):
        Arrivals.prepare(shared_lab)
        yield
        shared_lab.cluster.reset()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_no_pod_waits_long(lab: Lab, replicas: None, fault: Fault) -> None:
    """One pod is made every 0.4 s; none is lost, and none waits longer than the lease lasts."""
    waits = inflict(lab, fault)

    assert waits.lost == 0
    assert waits.longest_seconds < fault.most_seconds
