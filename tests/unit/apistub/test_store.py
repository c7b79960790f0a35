"""The store: its history always leads to what it holds."""

import msgspec
from hypothesis import given, settings, strategies

from apistub.storage.kinds import NODES, PODS
from apistub.storage.store import ChangeType, Collection, Key, Store

STEPS = strategies.lists(
    strategies.tuples(strategies.sampled_from("abcd"), strategies.booleans()), max_size=40
)


def play(steps: list[tuple[str, bool]], history_limit: int = 1000) -> tuple[Store, Collection]:
    """Writes or removes objects; the labels of each tell the step that wrote it."""
    store = Store(history_limit)
    collection = store.collection(NODES)
    for number, (name, removes) in enumerate(steps):
        key = Key("", name)
        if removes and collection.get(key):
            store.remove(collection, key)
        else:
            metadata = {"name": name, "uid": name, "labels": {"step": str(number)}}
            store.put(collection, key, {"metadata": metadata})
    return store, collection


def held(entries: object) -> dict[str, str]:
    return {entry.key.name: entry.labels["step"] for entry in entries}


@settings(deadline=None)
@given(STEPS)
def test_the_past_can_be_read_from_the_history(steps: list[tuple[str, bool]]) -> None:
    """The state of every version is what it was when that version was the newest."""
    store, collection = play(steps)

    for length in range(len(steps) + 1):
        earlier_store, earlier = play(steps[:length])
        assert held(collection.as_of(earlier_store.version)) == held(earlier.entries())
    assert held(collection.as_of(store.version)) == held(collection.entries())


@settings(deadline=None)
@given(STEPS)
def test_replaying_the_changes_gives_the_state(steps: list[tuple[str, bool]]) -> None:
    """Whoever follows all changes holds the same objects in the end, and versions only grow."""
    _, collection = play(steps)

    replayed: dict[str, str] = {}
    for change in collection.changes:
        if change.type is ChangeType.DELETED:
            del replayed[change.entry.key.name]
        else:
            assert (change.entry.key.name in replayed) is (change.type is ChangeType.MODIFIED)
            replayed[change.entry.key.name] = change.entry.labels["step"]

    versions = [change.version for change in collection.changes]
    assert versions == sorted(set(versions))
    assert replayed == held(collection.entries())


@settings(deadline=None)
@given(STEPS)
def test_a_cursor_is_behind_its_version(steps: list[tuple[str, bool]]) -> None:
    """After forgetting, every version above the floor still has all its later changes."""
    store, collection = play(steps, history_limit=10)

    for version in range(collection.floor, store.version + 1):
        start = collection.cursor_after(version) - collection.first_cursor
        assert [change.version for change in collection.changes[start:]] == [
            change.version for change in collection.changes if change.version > version
        ]
    assert len(collection.changes) <= 13


def test_an_entry_is_the_object_it_was_made_of() -> None:
    """What is stored comes back, with the version in it, and selectable fields beside it."""
    store = Store()
    content = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"nodeName": "n"},
    }

    entry = store.put(
        store.collection(PODS), Key("d", "p"), msgspec.json.decode(msgspec.json.encode(content))
    )

    content["metadata"]["resourceVersion"] = str(store.version)
    assert entry.content() == content
    assert entry.fields[PODS.field_positions["spec.nodeName"]] == "n"
    assert entry.fields[PODS.field_positions["status.phase"]] == ""
