"""The plugin that pytest loads through the entry point group `pytest11`."""

from collections.abc import Iterator

import pytest

from scheduler.testing.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """An empty cluster of its own for each test; afterwards the engine checks its invariants."""
    made = Cluster()
    yield made
    made.check()
