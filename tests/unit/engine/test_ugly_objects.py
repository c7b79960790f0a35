"""Whatever objects a cluster has: nothing crashes or goes round in circles, others are scheduled.

What cannot be read is left out at the door; what can be read and makes no sense must not get into
the way of what does. The real profile decides, all kinds that it watches are there.
"""

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.daemon.informers.kinds import KINDS, PODS, Kind, MalformedObjectError
from scheduler.kernel.engine.events import Decide, ObjectGone, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Bind, Instruction, LogError
from scheduler.testing.validation import validate_engine
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, Profiles
from scheduler.tools.offline.driving import Driving
from scheduler.tools.offline.reading import ClusterObjects
from tests.support.ugly import POD_SPEC, UGLY, WHOLE, named, spoilt

BY_NAME = {kind.name: kind for kind in KINDS}
MAX_DECISIONS = 60
"""Until nothing is ready: each waiting pod is tried now and then, none in a hot loop."""
PROFILES = Profiles(None)


class World(Driving):
    """A cluster whose objects come in as bytes.

    Attributes:
        malformed: objects that were left out at the door.
        reports: what was told to have gone wrong, by text.
        bound: nodes by UID of the pod.
    """

    def __init__(self) -> None:
        super().__init__(PROFILES.again().load(ClusterObjects()).engine)
        self.malformed: list[str] = []
        self.reports: Counter[str] = Counter()
        self.bound: dict[str, str] = {}
        self.there: list[tuple[Kind[Any], Any]] = []

    def show(self, kind_name: str, body: dict[str, Any]) -> None:
        kind = BY_NAME[kind_name]
        try:
            obj = kind.decode(msgspec.json.encode(body))
        except MalformedObjectError as problem:
            self.malformed.append(f"{kind_name}: {problem}")
            return
        self.there.append((kind, obj))
        self.handle(ObjectSet(kind_name, obj))

    def rest(self) -> None:
        """Until nothing is ready, and again after some time."""
        for _ in range(3):
            decisions = 0
            while self.engine.has_ready:
                self.handle(Decide())
                decisions += 1
                assert decisions < MAX_DECISIONS, "a hot loop"
            self.now += 15.0
            self.handle(Tick())

    def schedule_good_one(self, number: int) -> None:
        """A plain pod finds the plain node."""
        node = {"spec": {}, "status": WHOLE["nodes"]["status"]}
        self.show("nodes", named("nodes", "good", node))
        spec = {
            "schedulerName": DEFAULT_PROFILE,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}],
            "nodeSelector": {"app": "x"},
            "tolerations": [{"operator": "Exists"}],
            "priority": 2**31 - 1,
        }
        self.show("pods", named("pods", f"good-{number}", {"spec": spec}))
        self.rest()
        assert self.bound.get(f"uid-good-{number}"), self.reports

    def delete_all(self) -> None:
        for kind, obj in self.there:
            meta = kind.meta_of(obj)
            self.handle(ObjectGone(kind.name, meta.namespace, meta.name, meta.uid))
        self.rest()

    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, LogError):
            self.reports[f"{instruction.message} {instruction.pod}: {instruction.problem}"] += 1
        if isinstance(instruction, Bind):
            self.bound[instruction.uid] = instruction.node
        super().carry_out(instruction)


def check(world: World) -> None:
    """The others are scheduled before and after, nothing raised, and nothing is left over."""
    world.rest()
    world.schedule_good_one(1)
    validate_engine(world.engine)
    assert not world.reports
    world.delete_all()
    validate_engine(world.engine)
    assert not world.reports
    assert len(world.engine.core.cache.pods) == 0


def test_every_watched_kind_is_among_them() -> None:
    """A kind that is added is fuzzed as well."""
    assert set(WHOLE) == set(BY_NAME)
    assert {kind for kind, _ in UGLY} == set(BY_NAME)


def test_whole_objects_are_read() -> None:
    """Else nothing that follows would prove anything."""
    world = World()
    for kind in KINDS:
        world.show(kind.name, named(kind.name, "whole", WHOLE[kind.name]))

    assert world.malformed == []
    check(world)


@pytest.mark.parametrize(
    ("kind", "body"), UGLY, ids=[f"{number} {kind}" for number, (kind, _) in enumerate(UGLY)]
)
def test_an_ugly_object_is_in_nobodys_way(kind: str, body: dict[str, Any]) -> None:
    """Beside one of each kind that refers to what is there."""
    world = World()
    for each in KINDS:
        world.show(each.name, named(each.name, "whole", WHOLE[each.name]))
    world.show(kind, named(kind, "ugly", body))
    if kind != "pods":
        world.show("pods", named("pods", "asks", {"spec": POD_SPEC}))

    check(world)


def test_all_ugly_objects_at_once() -> None:
    world = World()
    for number, (kind, body) in enumerate(UGLY):
        world.show(kind, named(kind, f"ugly-{number}", body))

    check(world)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 12))
def test_whatever_is_spoilt_the_others_are_scheduled(seed: int, count: int) -> None:
    """Nonsense in any place of objects of any kind, several at once, also as changes."""
    draw, world = Random(seed), World()
    for number in range(count):
        kind = draw.choice(KINDS)
        name = draw.choice((f"x{number}", "whole", "claim", "volume", "class", "n1"))
        body = spoilt(draw, kind.name, name)
        body["metadata"]["resourceVersion"] = str(number)
        if isinstance(body.get("spec"), dict) and kind is PODS and draw.random() < 0.5:
            body["spec"]["nodeName"] = "n1"
        world.show(kind.name, body)

    check(world)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_a_spoilt_object_is_malformed_or_read_the_same_in_every_way(seed: int) -> None:
    """From a list, and from a line of a watch."""
    draw = Random(seed)
    kind = draw.choice(KINDS)
    body = spoilt(draw, kind.name, "x")
    raw = msgspec.json.encode(body)
    line = msgspec.json.encode({"type": "ADDED", "object": body})
    try:
        decoded = kind.decode(raw)
    except MalformedObjectError:
        with pytest.raises(MalformedObjectError):
            kind.decode_event(line)
    else:
        assert kind.decode_event(line) == ("ADDED", decoded)
        assert kind.meta_of(decoded).name == "x"
