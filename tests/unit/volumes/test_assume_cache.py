"""What is about to be written stands in for the stored object of the same version only."""

import pytest

from scheduler.api.storage import PersistentVolume
from scheduler.kernel.volumes.assume_cache import AssumeCache, OutOfSyncError
from tests.support.storage import make_claim, make_volume


class Store:
    """A store with one cache over it."""

    def __init__(self) -> None:
        self.objects: dict[str, PersistentVolume] = {}
        self.changed: list[str] = []
        self.cache = AssumeCache(self.objects.get, self.changed.append)

    def put(self, volume: PersistentVolume) -> PersistentVolume:
        self.objects[volume.key] = volume
        self.cache.stored_changed(volume.key)
        return volume


RESERVED = make_volume("pv", claim=make_claim())


def test_an_assumed_object_is_seen_until_the_server_says_more() -> None:
    """A repetition of the same version changes nothing; another version, or its end, counts."""
    store = Store()
    stored = store.put(make_volume("pv"))

    store.cache.assume(RESERVED)
    assert store.cache.get("pv") is RESERVED
    store.put(stored)
    assert store.cache.get("pv") is RESERVED
    newer = store.put(make_volume("pv", version="2"))
    assert store.cache.get("pv") is newer

    del store.objects["pv"]
    store.cache.stored_changed("pv")
    assert store.cache.get("pv") is None


def test_an_object_can_be_assumed_only_as_it_was_looked_at() -> None:
    """That is how a lost race shows."""
    store = Store()

    with pytest.raises(OutOfSyncError, match='"pv" not found'):
        store.cache.assume(RESERVED)
    stored = store.put(make_volume("pv", version="2"))
    with pytest.raises(OutOfSyncError, match=r'"pv" is out of sync \(stored: 2, assume: 1\)'):
        store.cache.assume(RESERVED)
    assert store.cache.get("pv") is stored


def test_restoring_takes_back_only_what_is_still_assumed() -> None:
    """Somebody else's later assumption stays."""
    store = Store()
    stored = store.put(make_volume("pv"))
    store.cache.assume(RESERVED)

    store.cache.restore(make_volume("pv", version="2"))
    assert store.cache.get("pv") is RESERVED
    store.cache.restore(RESERVED)
    assert store.cache.get("pv") is stored
    store.cache.restore(RESERVED)


def test_every_change_of_what_is_seen_is_told() -> None:
    """Indexes are kept by it."""
    store = Store()
    store.put(make_volume("pv"))
    store.cache.assume(RESERVED)
    store.cache.restore(RESERVED)

    assert store.changed == ["pv", "pv", "pv"]
