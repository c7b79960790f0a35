"""The plugin that pytest loads through the entry point group `pytest11`."""

from collections.abc import Iterator

import pytest

from scheduler.testing.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Yield a new empty cluster; after the test, check the invariants of its engine."""
    made = Cluster()
    yield made
    made.check()
