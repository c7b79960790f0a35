"""A cluster with real nodes for the tests of this folder, and what a failure shows of it."""

import os
from collections.abc import Iterator

import pytest

from e2e.conftest import REPORTERS
from e2e.nodes.lab import VARIABLE, Lab


@pytest.fixture(scope="session")
def shared_lab() -> Iterator[Lab]:
    """One cluster with two real nodes for the whole run; tests ask for ``lab``."""
    if VARIABLE not in os.environ:
        pytest.fail("tests on real nodes run inside namespaces: make e2e HARNESS=nodes")
    with Lab() as lab:
        yield lab


@pytest.fixture
def lab(shared_lab: Lab, request: pytest.FixtureRequest) -> Lab:
    """The cluster with two real nodes; what a test makes in it, it removes again."""
    request.node.stash.setdefault(REPORTERS, []).append(shared_lab.report)
    return shared_lab
