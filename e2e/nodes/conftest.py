"""Provides a cluster with real nodes, and its diagnostics for failed tests."""

import os
from collections.abc import Iterator

import pytest

from e2e.conftest import REPORTERS
from e2e.nodes.lab import VARIABLE, Lab


@pytest.fixture(scope="session")
def shared_lab() -> Iterator[Lab]:
    """A cluster with two real nodes for the session; tests use ``lab``."""
    if VARIABLE not in os.environ:
        pytest.fail("tests on real nodes run inside namespaces: make e2e HARNESS=nodes")
    with Lab() as lab:
        yield lab


@pytest.fixture
def lab(shared_lab: Lab, request: pytest.FixtureRequest) -> Lab:
    """The session's cluster with two real nodes; tests delete the objects that they create."""
    request.node.stash.setdefault(REPORTERS, []).append(shared_lab.report)
    return shared_lab
