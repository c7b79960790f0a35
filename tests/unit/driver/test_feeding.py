"""Several sources of one kind: of the objects of a name the engine hears of one."""

import random

import pytest

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import PodGroup
from scheduler.daemon.driver.feeding import OneOfSeveral
from scheduler.daemon.informers.kinds import POD_GROUPS
from scheduler.daemon.informers.store import Store
from scheduler.kernel.engine.events import Event, ObjectGone, ObjectSet

SOURCES = ("upstream", "plugins", "volcano")


def group(source: str, name: str = "train", least: int = 1) -> PodGroup:
    meta = ObjectMeta(
        name=name, namespace="ml", uid=f"{source}-{name}", resource_version=str(least)
    )
    return PodGroup(meta, least, api_version=source)


class Heard:
    """Stores, and what an engine knows that hears of them."""

    def __init__(self) -> None:
        self.stores = {source: Store[PodGroup](POD_GROUPS.meta_of) for source in SOURCES}
        self.known: dict[str, PodGroup] = {}
        self.story: list[str] = []
        stores = list(self.stores.values())
        for rank, store in enumerate(stores):
            store.add_handler(
                OneOfSeveral(POD_GROUPS, stores[:rank], stores[rank + 1 :], self._submit)
            )

    def _submit(self, event: Event) -> None:
        if isinstance(event, ObjectSet):
            assert event.kind == "podgroups"
            before = self.known.get(event.object.name)
            assert before is None or before.uid == event.object.uid
            self.known[event.object.name] = event.object
            self.story.append(f"+{event.object.uid}")
        else:
            assert isinstance(event, ObjectGone)
            assert self.known.pop(event.name).uid == event.uid
            self.story.append(f"-{event.uid}")

    def put(self, source: str, name: str = "train", least: int = 1) -> None:
        self.stores[source].apply(group(source, name, least))

    def drop(self, source: str, name: str = "train") -> None:
        self.stores[source].remove(f"ml/{name}")


@pytest.mark.parametrize("order", [SOURCES, SOURCES[::-1]], ids=["first first", "last first"])
def test_the_first_source_counts(order: tuple[str, ...]) -> None:
    """Whichever is heard of first."""
    heard = Heard()

    for source in order:
        heard.put(source)

    assert heard.known == {"train": group("upstream")}


def test_when_it_is_gone_the_next_one_takes_its_place() -> None:
    """The engine hears that one is gone before it hears of another of that name."""
    heard = Heard()
    for source in SOURCES:
        heard.put(source)
    heard.story.clear()

    heard.drop("plugins")
    heard.drop("upstream")
    heard.put("volcano", least=3)
    heard.drop("volcano")

    assert heard.story == [
        "-upstream-train",
        "+volcano-train",
        "+volcano-train",
        "-volcano-train",
    ]
    assert heard.known == {}


def test_the_engine_knows_what_counts_whatever_happens() -> None:
    """Random histories; no object is told of twice without its end, and none is missing."""
    rng, heard = random.Random(1), Heard()

    for _ in range(2_000):
        source, name = rng.choice(SOURCES), rng.choice("abc")
        if rng.random() < 0.5:
            heard.put(source, name, rng.randint(1, 9))
        else:
            heard.drop(source, name)
        expected = {
            key.removeprefix("ml/"): found
            for store in reversed(heard.stores.values())
            for key, found in store.items()
        }
        assert heard.known == expected
