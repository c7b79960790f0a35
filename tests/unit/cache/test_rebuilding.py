"""A snapshot that a change has broken is made anew from the cache."""

import pytest

from scheduler.kernel.cache import Cache
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.snapshot.changes import Change
from tests.support.builders import make_node, make_pod_info


class Broken(Snapshot):
    """Raises in the middle of the next update."""

    is_broken = False

    def _apply(self, change: Change) -> None:
        if self.is_broken:
            self.is_broken = False
            raise ValueError("half a change")
        super()._apply(change)


def requested(snapshot: Snapshot) -> dict[str, int]:
    return {name: int(snapshot.table.pod_count[row]) for name, row in snapshot.table.row_of.items()}


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_change_that_raises_leaves_nothing_stale(is_broken: bool) -> None:
    """Neither that change nor those after it are lost; it is told and counted."""
    cache, snapshot = Cache(), Broken()
    cache.set_node(make_node("a"))
    cache.set_node(make_node("b"))
    cache.update_snapshot(snapshot)
    epoch = snapshot.epoch
    for name, node in (("p", "a"), ("q", "b"), ("r", "b")):
        cache.add_pod(make_pod_info(name, node_name=node))
    snapshot.is_broken = is_broken

    rebuilt = cache.update_snapshot(snapshot)

    assert requested(snapshot) == {"a": 1, "b": 2}
    assert snapshot.epoch > epoch
    assert (rebuilt is not None and str(rebuilt.problem) == "half a change") is is_broken
    assert rebuilt is None or rebuilt.left_out == ()
