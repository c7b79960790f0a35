"""Room kept for pods and gangs that wait for devices or volumes which running pods hold."""

from typing import Any, Final

import msgspec
import pytest

from scheduler.api.devices import ResourceClaim, ResourceClaimStatus
from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.hypothetical_devices import hypothetical_devices
from scheduler.kernel.answers.kept import kept_for
from scheduler.kernel.answers.model import KeptFor
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.ends.times import text_of
from scheduler.kernel.engine.attempt import AttemptState
from scheduler.kernel.engine.engine_state import EngineProfiles
from scheduler.kernel.engine.events import Configure, Decide, ObjectGone, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Instruction, PatchGroupStatus
from scheduler.kernel.preemption.kept_room import KeptRoom, RoomReservation
from scheduler.testing.validation import validate_engine
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents
from tests.support.builders import make_node
from tests.support.device_manifests import (
    Object,
    claim_manifest,
    class_manifest,
    slice_manifest,
    using,
)
from tests.support.manifests import node_manifest, pod_manifest
from tests.unit.answers.test_ahead import disk, gang, limit, mounting
from tests.unit.engine.test_kept_room import CONFIGURATION, PLAIN, configured

NOW: Final = 1767225600.0
ON_ITS_WAY: Final = frozenset(AttemptState) - {AttemptState.FAILED, AttemptState.GONE}


def ending(name: str, node: str, seconds: int | None = None, **spec: Any) -> Object:
    """A running pod that ends so many seconds from now, if that is known."""
    pod = pod_manifest(name, nodeName=node, **spec)
    pod["metadata"]["uid"] = name
    if seconds is not None:
        pod["metadata"]["annotations"] = {"stowage.dev/expected-end": text_of(NOW + seconds)}
    return pod


def holding(name: str, device: str, seconds: int | None = None) -> list[Object]:
    """A running pod with a device of the name `node/device`."""
    claim = claim_manifest(f"of-{name}", has=(device,), users=(name,))
    node = device.partition("/")[0]
    return [ending(name, node, seconds, resourceClaims=using(f"of-{name}")), claim]


def wanting(name: str, count: int = 1, duration: str = "", **spec: Any) -> list[Object]:
    """A pod that waits for so many devices, and its claim."""
    pod = pod_manifest(name, resourceClaims=using(f"for-{name}"), **spec)
    pod["metadata"]["uid"] = name
    if duration:
        pod["metadata"]["annotations"] = {"stowage.dev/expected-duration": duration}
    device = {"deviceClassName": "gpu", "count": count}
    return [pod, claim_manifest(f"for-{name}", {"name": "gpu", "exactly": device})]


class Scene:
    """An engine with KeepRoom that keeps room at once, and what comes to it later.

    Attributes:
        engine: the engine.
        now: seconds since its start.
        conditions: of groups, what was written last.
    """

    def __init__(self, *documents: Object, nodes: str = "nm", after: int = 0) -> None:
        given = [class_manifest(), *map(node_manifest, nodes), *documents]
        self.profiles = Profiles(configured(CONFIGURATION % after), is_named=False)
        self.now = 0.0
        self.conditions: dict[str, str] = {}
        self.engine = self.profiles.load(self._read(*given)).engine
        self.pass_seconds()

    def _read(self, *documents: Object) -> Any:
        objects = objects_from_documents((f"o{i}", o) for i, o in enumerate(documents))
        objects.time = NOW
        return objects

    def come(self, *documents: Object) -> None:
        """A pod and its claim come."""
        objects = self._read(*documents)
        for kind, obj in objects.watched:
            assert kind.kind == "ResourceClaim"
            self.handle(ObjectSet("resourceclaims", obj))
        for pod in objects.pods:
            self.handle(ObjectSet("pods", pod))

    def show(self, kind: str, document: Object) -> None:
        """An object that plugins watch is like this by now."""
        [(_, obj)] = self._read(document).watched
        self.handle(ObjectSet(kind, obj))

    def end(self, name: str, *, frees: bool = True) -> None:
        """A running pod ends, and its claim is deallocated, unless that never happens."""
        pod = self.pod(name)
        self.handle(ObjectGone("pods", "default", name, pod.uid))
        catalog = self.profiles.shared(ClaimCatalog)
        claim = catalog.claims.get(f"default/of-{name}")
        if frees and claim is not None:
            free: ResourceClaim = msgspec.structs.replace(claim, status=ResourceClaimStatus())
            self.handle(ObjectSet("resourceclaims", free))

    def pod(self, name: str) -> PodInfo:
        found = self.engine.core.cache.pods.get(name)
        assert found is not None
        return found

    def handle(self, event: Any) -> list[Instruction]:
        told = list(self.engine.handle(event, self.now))
        for each in told:
            if isinstance(each, PatchGroupStatus):
                self.conditions[each.name] = each.condition.message
        validate_engine(self.engine)
        return told

    def pass_seconds(self, seconds: float = 1.0) -> None:
        """All that is ready is decided; nothing is bound."""
        self.now += seconds
        self.handle(Tick())
        while self.engine.has_ready:
            self.handle(Decide())

    def place(self, name: str) -> str:
        """The node that a waiting pod was given; empty for none."""
        attempt = self.engine.attempts.of(name)
        if attempt is None or attempt.state not in ON_ITS_WAY:
            return ""
        return attempt.pod.node_name

    @property
    def room(self) -> RoomReservation | None:
        kept = self.engine.core.states.known(KeptRoom)
        assert kept is not None
        rooms = kept.rooms()
        return rooms[0] if rooms else None

    def told(self, name: str) -> tuple[KeptFor, ...]:
        """For which others room is kept, as an answer about a waiting pod says."""
        core, pod = self.engine.core, self.engine.core.queue.get(name)
        assert pod is not None
        core.catch_up()
        [framework] = {*core.frameworks.values()}
        about = framework, pod, core.snapshot, core.queue.nominator
        return kept_for(*about, hypothetical_devices(self.engine))

    def message(self, name: str) -> str:
        """Why the last attempt of a waiting pod failed."""
        place = self.engine.core.queue.place_of(name)
        assert place is not None
        return place.queued.last_failure


def kept() -> Scene:
    """Two devices on n, of which one comes free in a minute, when `big` is to have both."""
    return Scene(
        slice_manifest("n", "a", "b"),
        *holding("early", "n/a", 60),
        *wanting("big", 2),
    )


def test_room_of_a_pod_is_where_its_devices_come_free_first() -> None:
    """The holder of the other node ends later."""
    scene = Scene(
        slice_manifest("n", "a"),
        slice_manifest("m", "b"),
        *holding("late", "n/a", 90),
        *holding("early", "m/b", 60),
        *wanting("big"),
    )
    room = scene.room

    assert room is not None
    assert (room.places, room.until) == ({"big": "m"}, NOW + 60)
    assert scene.message("big").endswith(
        f' room is kept on node "m", expected start {text_of(NOW + 60)}'
    )


@pytest.mark.parametrize(("duration", "is_let"), [("", False), ("10s", True), ("5m", False)])
def test_devices_are_kept_from_pods_that_do_not_end_before(duration: str, is_let: bool) -> None:
    """One is free, and stays so; both go to the pod that they are kept for."""
    scene = kept()
    scene.come(*wanting("small", duration=duration))
    scene.pass_seconds()
    assert scene.place("small") == ("n" if is_let else "")
    if is_let:
        return

    scene.end("early")
    scene.pass_seconds(60)

    assert (scene.place("big"), scene.place("small")) == ("n", "")


def test_other_devices_are_not_kept() -> None:
    """A third one on the node is of no use to the big pod, nor are those of other nodes."""
    scene = Scene(
        slice_manifest("n", "a", "b", "c"),
        slice_manifest("m", "d"),
        *holding("early", "n/a", 60),
        *holding("later", "n/b", 120),
        *wanting("big", 3),
        *wanting("first", nodeSelector={"kubernetes.io/hostname": "m"}),
    )
    assert scene.room is not None
    assert scene.room.until == NOW + 120

    assert scene.place("first") == "m"


def test_a_more_important_pod_takes_devices_that_are_kept() -> None:
    scene = kept()
    scene.come(*wanting("important", priority=10))
    scene.pass_seconds()

    assert scene.place("important") == "n"


def test_devices_that_are_never_freed_are_not_waited_for_by_others_for_ever() -> None:
    """The pod has ended and its claim stays allocated: what was kept is given up."""
    scene = kept()
    scene.come(*wanting("small"))
    scene.pass_seconds()
    before = scene.room, scene.place("small")
    scene.end("early", frees=False)
    scene.pass_seconds(61)
    for _ in range(12):
        scene.pass_seconds(31)

    assert before[0] is not None
    assert before[1] == ""
    assert scene.room is None
    assert scene.place("small") == "n"


def test_room_is_kept_on_while_the_pod_that_should_end_does_not() -> None:
    """When it ends is not known any more; no pod is let through, as none ends before."""
    scene = kept()
    for _ in range(12):
        scene.pass_seconds(31)
    room = scene.room
    scene.come(*wanting("small", duration="1s"))
    scene.pass_seconds()

    assert room is not None
    assert (room.until, room.unknown) == (0.0, 1)
    assert scene.message("big").endswith('room is kept on node "n" until 1 pod there ends')
    assert scene.place("small") == ""
    scene.end("early")
    scene.pass_seconds(31)
    assert scene.place("big") == "n"


def test_room_for_devices_is_given_up_with_its_pod() -> None:
    """Pods that waited for it are woken, though no claim and no pod on a node changes."""
    scene = kept()
    scene.come(*wanting("small"))
    scene.pass_seconds()
    assert [(each.waiter, each.nodes) for each in scene.told("small")] == [("pod default/big", 1)]
    scene.handle(ObjectGone("pods", "default", "big", "big"))
    for _ in range(3):
        scene.pass_seconds(11)

    assert scene.room is None
    assert scene.place("small") == "n"


def test_a_configuration_without_the_plugin_keeps_no_devices() -> None:
    """A pod that comes next has one, before any time passes; so has one that waited."""
    scene = kept()
    scene.come(*wanting("waits"))
    scene.pass_seconds()
    before = scene.room, scene.place("waits")
    [plain] = scene.profiles._builder.build(configured(PLAIN)).values()
    rules = EngineProfiles(dict.fromkeys(scene.profiles.frameworks, plain))
    scene.engine._rules_of = lambda _: rules
    scene.handle(Configure({}))
    scene.come(*wanting("small"))
    while scene.engine.has_ready:
        scene.handle(Decide())
    at_once = scene.place("small")
    scene.end("early")
    scene.handle(ObjectGone("pods", "default", "big", "big"))
    for _ in range(2):
        scene.pass_seconds(11)

    assert before[0] is not None
    assert before[1] == ""
    assert at_once == "n"
    assert scene.place("waits") == "n"


def test_devices_are_kept_no_longer_for_a_pod_whose_claim_is_gone() -> None:
    """It must not run; its nomination is withdrawn, and others get the device at once."""
    scene = kept()
    scene.come(*wanting("small"))
    scene.pass_seconds()
    uid = scene.profiles.shared(ClaimCatalog).claims["default/for-big"].metadata.uid
    scene.handle(ObjectGone("resourceclaims", "default", "for-big", uid))
    for _ in range(2):
        scene.pass_seconds(11)

    assert scene.room is None
    assert scene.engine.core.queue.nominator.nodes.get("big") is None
    assert scene.place("small") == "n"


@pytest.mark.parametrize("what", ["device", "node"])
def test_room_is_chosen_anew_where_what_is_kept_is_gone(what: str) -> None:
    """In time; not when the pods end that it was to wait for."""
    scene = Scene(
        slice_manifest("n", "a"),
        slice_manifest("m", "b"),
        *holding("early", "n/a", 3600),
        *holding("late", "m/b", 7200),
        *wanting("big"),
    )
    before = scene.room
    if what == "device":
        scene.show("resourceslices", slice_manifest("n"))
    else:
        scene.handle(ObjectSet("nodes", make_node("n", unschedulable=True)))
    for _ in range(3):
        scene.pass_seconds(11)

    assert before is not None
    assert scene.room is not None
    assert (before.places, scene.room.places) == ({"big": "n"}, {"big": "m"})


def test_a_nomination_of_an_earlier_scheduler_is_withdrawn_if_the_pod_fits_no_empty_node() -> None:
    big, claim = wanting("big", preemptionPolicy="Never")
    big["status"] = {"nominatedNodeName": "n"}
    scene = Scene(*holding("holder", "m/a"), big, claim)
    scene.pass_seconds(11)

    assert scene.room is None
    assert scene.engine.core.queue.nominator.nodes.get("big") is None


def test_a_gang_has_devices_kept_on_several_nodes() -> None:
    """Its condition says so; a small pod does not get the one that is free."""
    members = [wanting("p"), wanting("q")]
    group, *pods = gang(2, members[0][0], members[1][0])
    scene = Scene(
        slice_manifest("n", "a"),
        slice_manifest("m", "b"),
        *holding("early", "n/a", 60),
        group,
        *pods,
        members[0][1],
        members[1][1],
    )
    scene.come(*wanting("small"))
    scene.pass_seconds()

    assert scene.conditions["g"].endswith(
        f"room is kept on 2 nodes for 2 pods, expected start {text_of(NOW + 60)}"
    )
    assert scene.place("small") == ""
    scene.end("early")
    scene.pass_seconds(60)
    assert {scene.place("p"), scene.place("q")} == {"n", "m"}


def test_a_shared_claim_is_free_once_its_last_pod_has_ended() -> None:
    """One of them has no known end, and runs on another node than the room is kept on."""
    scene = Scene(
        slice_manifest("all", "a", nodeName=None, allNodes=True),
        ending("first", "n", 60, resourceClaims=using("shared")),
        ending("second", "m", resourceClaims=using("shared")),
        {
            **claim_manifest("shared", has=("all/a",), users=("first", "second")),
        },
        *wanting("big", nodeSelector={"kubernetes.io/hostname": "n"}),
    )
    room = scene.room

    assert room is not None
    assert (room.places, room.until, room.unknown) == ({"big": "n"}, 0.0, 1)
    assert scene.message("big").endswith('room is kept on node "n" until 1 pod ends')


def test_room_of_a_pod_with_a_volume_is_where_one_is_detached_first() -> None:
    """Each node holds one volume of the driver."""
    pod = pod_manifest("big", volumes=mounting("own"))
    pod["metadata"]["uid"] = "big"
    scene = Scene(
        limit("n", 1),
        limit("m", 1),
        *disk("x", "n", attached=True),
        *disk("y", "m", attached=True),
        ending("late", "n", 90, volumes=mounting("x")),
        ending("early", "m", 60, volumes=mounting("y")),
        *disk("own"),
        pod,
    )
    room = scene.room

    assert room is not None
    assert (room.places, room.until) == ({"big": "m"}, NOW + 60)


def test_room_of_a_pod_whose_volume_another_one_has_alone_is_anywhere() -> None:
    """It is free once that has ended, on a node that is full until later."""
    pod = pod_manifest("big", volumes=mounting("only"), requests={"cpu": "4"})
    pod["metadata"]["uid"] = "big"
    scene = Scene(
        *disk("only", modes="ReadWriteOncePod"),
        ending("user", "n", 60, volumes=mounting("only"), requests={"cpu": "1"}),
        ending("other", "n", 300, requests={"cpu": "3"}),
        ending("full", "m", 90, requests={"cpu": "4"}),
        pod,
    )
    room = scene.room

    assert room is not None
    assert (room.places, room.until) == ({"big": "m"}, NOW + 90)
