"""Plugins hear of pods, nodes and namespaces, in an order that lets them count."""

from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from scheduler.api.objects import Namespace, ObjectMeta
from scheduler.api.pods import PodInfo
from scheduler.daemon.informers.kinds import watched_kind
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.events import (
    Allowed,
    BindFailed,
    Bound,
    Decide,
    ObjectGone,
    ObjectSet,
    Rejected,
)
from scheduler.kernel.framework.events import NAMESPACE_KIND, NODE_KIND, POD_KIND, ObjectKind
from scheduler.kernel.framework.handle import SharedState
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.driven import ENDED, DrivenEngine, Holds, Prepares, Room

S = AttemptState


class Diary(SharedState):
    """Everything it is told; and who has a node, counted as a quota would."""

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (POD_KIND, NODE_KIND, NAMESPACE_KIND)

    def __init__(self) -> None:
        self.told: list[str] = []
        self.places: dict[str, str] = {}

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        verb = "came" if old is None else "went" if new is None else "changed"
        self.told.append(f"{name_of(new or old)} {verb}")
        if kind != POD_KIND:
            return
        if new is None:
            self.places.pop(old.uid, None)
        elif new.node_name:
            self.places[new.uid] = new.node_name

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        self.told.append(f"{pod.name} reserved")
        self.places[pod.uid] = node_name

    @override
    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        self.told.append(f"{pod.name} unreserved")
        self.places.pop(pod.uid, None)

    @override
    def fork(self) -> "Diary":
        return self


def name_of(found: Any) -> str:
    return found.name if isinstance(found, PodInfo) else found.metadata.name


def made(name: str, **fields: Any) -> PodInfo:
    """A pod of ours."""
    return make_pod_info(name, **{"scheduler_name": "test", **fields})


def engine(*plugins: Any) -> tuple[DrivenEngine, Diary]:
    """An engine of one node, `n`, with room for two pods; the diary begins afterwards."""
    driven = DrivenEngine(Room(2), *plugins, kinds=Diary.WATCHES)
    diary = driven.states.shared(Diary, "Reader")
    diary.told.clear()
    return driven, diary


def places(driven: DrivenEngine) -> dict[str, str]:
    """Where the cache has everybody, assumed pods included."""
    return {uid: pod.node_name for uid, pod in driven.engine.core.cache.pods.items()}


def test_a_pod_from_its_creation_to_its_end() -> None:
    """It is reserved once, and what the API server says of it follows."""
    driven, diary = engine()
    pod = driven.add("p")

    driven.handle(Decide())
    driven.handle(Bound(driven.attempt(pod).id))
    driven.set(made("p", node_name="n", resource_version="2"))
    driven.set(made("p", node_name="n", resource_version="3", labels={"a": "b"}))
    driven.gone(pod)
    driven.gone(pod)

    assert diary.told == ["p came", "p reserved", "p changed", "p changed", "p went"]
    assert diary.places == {}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda d, p: d.handle(BindFailed(d.attempt(p).id, "no")), id="bind refused"),
        pytest.param(lambda d, p: d.gone(p), id="deleted"),
    ],
)
def test_what_comes_to_nothing_is_given_back(end: Callable[[DrivenEngine, PodInfo], Any]) -> None:
    driven, diary = engine()
    pod = driven.add("p")
    driven.handle(Decide())
    assert diary.places == {pod.uid: "n"}

    end(driven, pod)

    assert "p unreserved" in diary.told
    assert diary.places == {}


@pytest.mark.parametrize("node", ["n", "elsewhere"])
def test_a_held_pod_that_somebody_else_binds(node: str) -> None:
    """What was reserved is given back before the pod is said to run."""
    driven, diary = engine(Holds())
    driven.handle(ObjectSet("nodes", make_node("elsewhere")))
    pod = driven.add("p")
    driven.handle(Decide())
    diary.told.clear()

    driven.set(made("p", node_name=node, resource_version="2"))

    assert diary.told == ["p unreserved", "p changed"]
    assert diary.places == {pod.uid: node}


def test_a_successor_under_the_same_name() -> None:
    """Is another pod: the first one went."""
    driven, diary = engine()
    driven.set(made("p", uid="1", node_name="n"))

    driven.set(made("p", uid="2", node_name="n"))
    driven.handle(ObjectGone("pods", "default", "p", "1"))

    assert diary.told == ["p came", "p went", "p came"]
    assert diary.places == {"2": "n"}


def test_a_pod_that_loses_its_node() -> None:
    """The API server was restored from a backup: the pod has to be placed again."""
    driven, diary = engine()
    driven.set(made("p", node_name="n"))

    driven.set(made("p", resource_version="2"))

    assert diary.told == ["p came", "p went", "p came"]
    assert diary.places == {}


def test_nodes_and_namespaces() -> None:
    """What changes nothing that scheduling reads is told to nobody."""
    driven, diary = engine()
    space = Namespace(ObjectMeta(name="space", labels={"a": "b"}))

    driven.handle(ObjectSet("nodes", make_node("m")))
    driven.handle(ObjectSet("nodes", make_node("m", resource_version="2")))
    driven.handle(ObjectSet("nodes", make_node("m", labels={"a": "b"})))
    driven.handle(ObjectGone("nodes", "", "m", ""))
    driven.handle(ObjectSet("namespaces", space))
    driven.handle(ObjectSet("namespaces", space))
    driven.handle(ObjectGone("namespaces", "", "space", ""))

    assert diary.told == ["m came", "m changed", "m went", "space came", "space went"]


def test_pods_can_be_listed() -> None:
    """As the watch brought them, whoever schedules them."""
    driven, _ = engine()
    driven.set(made("ours"))
    driven.set(made("theirs", scheduler_name="other"))
    driven.set(made("runs", node_name="n"))

    assert sorted(pod.name for pod in driven.states.lister(POD_KIND)) == ["ours", "runs", "theirs"]


def test_known_kinds_are_declared_without_their_plural() -> None:
    """Else there would be two of them, one of which hears nothing."""
    with pytest.raises(ValueError, match=r"Pod \(v1\): known; leave out plural"):
        watched_kind(ObjectKind("Pod", "v1", "pods"))


def test_kinds_of_one_plural_are_two() -> None:
    """Knative has Services too: neither is to be taken for the other."""
    foreign = watched_kind(ObjectKind("Service", "serving.knative.dev/v1", "services"))

    assert foreign.name == "services.serving.knative.dev"
    assert foreign.path == "/apis/serving.knative.dev/v1/services"
    assert foreign.name != watched_kind(ObjectKind("Service")).name


@pytest.mark.parametrize("seed", range(20))
def test_what_is_counted_is_what_has_a_place(seed: int) -> None:
    """A law: after any history the diary has the pods where the cache has them."""
    chance = Random(seed)
    driven, diary = engine(Holds(), *([Prepares()] if seed % 2 else []))
    driven.handle(ObjectSet("nodes", make_node("m")))
    names = [f"p{i}" for i in range(6)]
    version = 1
    for _ in range(150):
        version += 1
        name = chance.choice(names)
        uid = f"default/{name}"
        attempt = driven.engine.attempts.of(uid)
        new = chance.choice(("", "", "n", "m"))
        match chance.randrange(9):
            case 0 | 1:
                ended = ENDED if chance.random() < 0.2 else None
                at = {"node_name": new, "resource_version": str(version)}
                driven.set(made(name, deletion_timestamp=ended, **at))
            case 2:
                driven.handle(ObjectGone("pods", "default", name, uid))
            case 3 | 4:
                driven.handle(Decide())
            case 5:
                driven.handle(Allowed(uid, "Holds"))
            case 6:
                driven.handle(Rejected(uid, "Holds", "no"))
            case 7 if attempt is not None and attempt.state is S.BINDING:
                certain = chance.random() < 0.5
                driven.handle(BindFailed(attempt.id, "no", is_certain=certain))
            case 8 if attempt is not None and attempt.state is S.BINDING:
                driven.handle(Bound(attempt.id))
            case _:
                driven.tick(chance.choice((1.0, 100.0)))

        assert diary.places == places(driven), diary.told[-10:]
