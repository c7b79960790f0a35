"""True of any cluster: the columns say what the plain rules say, whatever happened before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings, strategies as st

from scheduler.api.devices import AllocationResult, Device, ResourceClaim, ResourceSlice
from scheduler.kernel.devices.allocator import ALLOCATABLE, FAILED, INVALID_POOLS, NOT_ALLOCATABLE
from scheduler.kernel.devices.candidates import AllocationError
from scheduler.kernel.devices.catalog import Devices
from scheduler.kernel.devices.table import slices_like
from scheduler.kernel.snapshot import Snapshot
from tests.support.claims import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_slice,
    chosen,
    cluster,
    nodes_of,
    set_nodes,
)
from tests.unit.devices.reference import (
    EndsAttemptError,
    Got,
    Predicate,
    Reference,
    pools_of,
    state_of,
)

OTHER = "net.example.com"
NODES = ("n0", "n1", "n2")
LABELS = {"n0": {"rack": "a"}, "n1": {"rack": "a"}, "n2": {"rack": "b"}}


def _model(driver: str, device: Device) -> object:
    if driver != DRIVER:
        raise KeyError("model")
    return device.attributes["model"].string_value


EXPRESSIONS: Mapping[str, Predicate] = {
    f'device.driver == "{DRIVER}"': lambda driver, _: driver == DRIVER,
    f'device.driver == "{OTHER}"': lambda driver, _: driver == OTHER,
    f'device.attributes["{DRIVER}"].model == "big"': lambda dr, de: _model(dr, de) == "big",
    f'device.driver != "{DRIVER}" || device.attributes["{DRIVER}"].model == "small"': (
        lambda driver, device: driver != DRIVER or _model(driver, device) == "small"
    ),
    "true": lambda *_: True,
}
CLASSES: Mapping[str, Sequence[str]] = {
    "any": (),
    "gpu": (f'device.driver == "{DRIVER}"',),
    "net": (f'device.driver == "{OTHER}"',),
}

# --- clusters -------------------------------------------------------------------------------------

_BANDWIDTHS: Sequence[Mapping[str, Any]] = (
    {"value": "10"},
    {"value": "10", "requestPolicy": {"default": "2", "validRange": {"min": "2", "step": "3"}}},
    {"value": "12", "requestPolicy": {"default": "1", "validValues": ["1", "4", "6"]}},
    {"value": "9", "requestPolicy": {"default": "3", "validRange": {"min": "1", "max": "5"}}},
)


@st.composite
def devices(draw: st.DrawFn, name: str, *, consumes: bool) -> dict[str, Any]:
    """A device, mostly an ordinary one."""
    fields: dict[str, Any] = {"attributes": {}, "capacity": {}}
    model = draw(st.sampled_from(["big", "small", "small", "small", "big", "big", None]))
    if model:
        fields["attributes"]["model"] = model
    numa = draw(st.sampled_from([0, 0, 1, 1, None]))
    if numa is not None:
        fields["attributes"]["numa"] = numa
    if draw(st.integers(0, 6)) == 0:
        effect = draw(st.sampled_from(["NoSchedule", "NoExecute", "None"]))
        fields["taints"] = [{"key": "bad", "value": draw(st.sampled_from("xy")), "effect": effect}]
    if draw(st.integers(0, 3)) == 0:
        fields["capacity"]["bandwidth"] = draw(st.sampled_from(_BANDWIDTHS))
        fields["allowMultipleAllocations"] = draw(st.booleans())
    if draw(st.integers(0, 9)) == 0:
        fields["bindingConditions"] = ["ready"]
    if consumes and draw(st.booleans()):
        amounts = {"slices": {"value": str(draw(st.integers(1, 4)))}}
        fields["consumesCounters"] = [{"counterSet": "set", "counters": amounts}]
    return a_device(name, **fields)


_PLACES = st.sampled_from(
    [
        *({"nodeName": name} for name in NODES),
        *({"nodeName": name} for name in NODES),
        {"allNodes": True},
        {
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}
                ]
            }
        },
        {"perDeviceNodeSelection": True},
    ]
)
_DEVICE_PLACES = st.sampled_from(
    [
        {"nodeName": "n0"},
        {"nodeName": "n1"},
        {"nodeName": "n1"},
        {"allNodes": True},
    ]
)


@st.composite
def slices(draw: st.DrawFn) -> list[ResourceSlice]:
    """The slices of a pool: mostly whole and right; others are old, in the making or wrong."""
    driver = draw(st.sampled_from([DRIVER, DRIVER, OTHER]))
    pool = draw(st.sampled_from(["p0", "p1", "p2"]))
    has_counters = draw(st.integers(0, 2)) == 0
    parts = draw(st.sampled_from([1, 1, 2])) + has_counters
    fields: dict[str, Any] = {
        "driver": driver,
        "pool": pool,
        "generation": draw(st.sampled_from([1, 1, 1, 1, 2])),
        "count": parts if draw(st.integers(0, 7)) else parts + 1,
    }
    home, found, numbers = dict(draw(_PLACES)), [], iter(range(100))
    for part in range(parts - has_counters):
        place = home if draw(st.integers(0, 3)) else dict(draw(_PLACES))
        listed = []
        for _ in range(draw(st.integers(1, 5))):
            number = next(numbers) if draw(st.integers(0, 40)) else 0
            device = draw(devices(f"d{number}", consumes=has_counters))
            if place.get("perDeviceNodeSelection"):
                device |= draw(_DEVICE_PLACES)
            listed.append(device)
        found.append(a_slice(f"{driver[:3]}-{pool}-{part}", listed, **fields, **place))
    if has_counters:
        counters = {"slices": {"value": str(draw(st.integers(3, 8)))}}
        sets = [{"name": draw(st.sampled_from(["set"] * 9 + ["x"])), "counters": counters}]
        name = f"{driver[:3]}-{pool}-x"
        found.append(a_slice(name, nodeName="n0", sharedCounters=sets, **fields))
    return found if draw(st.integers(0, 9)) else found[1:]


@st.composite
def _requests(draw: st.DrawFn, name: str, *, alternative: bool) -> dict[str, Any]:
    mode = draw(st.sampled_from(["ExactCount"] * 7 + ["All"]))
    asked: dict[str, Any] = {
        "deviceClassName": draw(st.sampled_from(["any", "any", "gpu", "gpu", "net"])),
        "allocationMode": mode,
        "count": draw(st.sampled_from([1, 1, 1, 2, 2, 3, 20])) if mode == "ExactCount" else 0,
        "selectors": [
            {"cel": {"expression": text}}
            for text in draw(st.sampled_from([[], [], *([text] for text in EXPRESSIONS)]))
        ],
    }
    if draw(st.integers(0, 3)) == 0:
        asked["tolerations"] = draw(
            st.sampled_from(
                [
                    [{"operator": "Exists"}],
                    [{"key": "bad", "value": "x"}],
                    [{"key": "bad", "operator": "Exists", "effect": "NoSchedule"}],
                ]
            )
        )
    if draw(st.integers(0, 5)) == 0:
        asked["capacity"] = {"requests": {"bandwidth": str(draw(st.integers(1, 7)))}}
    if alternative:
        return {"name": name, **asked}
    if draw(st.integers(0, 6)) == 0:
        asked["adminAccess"] = True
    return {"name": name, "exactly": asked}


@st.composite
def claims(draw: st.DrawFn, name: str) -> ResourceClaim:
    """A claim of a few requests."""
    requests = []
    for number in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        if draw(st.integers(0, 3)) == 0:
            ways = [
                draw(_requests(f"w{i}", alternative=True)) for i in range(draw(st.integers(1, 3)))
            ]
            requests.append({"name": f"r{number}", "firstAvailable": ways})
        else:
            requests.append(draw(_requests(f"r{number}", alternative=False)))
    constraints = (
        []
        if draw(st.booleans())
        else draw(
            st.lists(
                st.sampled_from(
                    [
                        {"matchAttribute": f"{DRIVER}/numa"},
                        {"matchAttribute": f"{DRIVER}/numa", "requests": ["r0", "r2"]},
                        {"matchAttribute": f"{DRIVER}/model", "requests": ["r1", "r0/w0"]},
                    ]
                ),
                max_size=2,
            )
        )
    )
    return a_claim(*requests, name=name, constraints=constraints)


# --- the two sides --------------------------------------------------------------------------------


@dataclass
class History:
    """A cluster, what was done to it, and what the plain rules know of it."""

    devices: Devices
    snapshot: Snapshot
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    allocations: dict[str, AllocationResult] = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=lambda: dict(LABELS))

    def publish(self, found: Sequence[ResourceSlice]) -> None:
        """Let slices come, or change."""
        for one in found:
            self.slices[one.metadata.name] = one
            self.devices.set_slice(one)

    def fork(self) -> "History":
        """Both sides as they are now."""
        return History(
            self.devices.fork(),
            self.snapshot,
            dict(self.slices),
            dict(self.allocations),
            dict(self.labels),
        )


def a_history() -> History:
    """A cluster of three nodes."""
    classes = [a_class(name, *texts) for name, texts in CLASSES.items()]
    return History(cluster(classes=classes), nodes_of(*NODES, labels=LABELS))


def _expected(history: History, wanted: Sequence[ResourceClaim], node: str) -> Got | int:
    state = state_of(list(history.allocations.values()))
    pools = pools_of(list(history.slices.values()), node, history.labels[node], state)
    classes = {name: [EXPRESSIONS[t] for t in texts] for name, texts in CLASSES.items()}
    try:
        found = Reference(wanted, pools, state, classes, EXPRESSIONS).run()
    except EndsAttemptError:
        return FAILED
    if found is not None:
        return found
    return INVALID_POOLS if any(p.state == "invalid" for p in pools) else NOT_ALLOCATABLE


def check(history: History, wanted: Sequence[ResourceClaim]) -> dict[str, Got | int]:
    """The columns and the plain rules agree on every node; what they say."""
    allocator = history.devices.allocator(wanted, history.snapshot)
    judged = allocator.judge()
    answers: dict[str, Got | int] = {}
    for node, row in history.snapshot.table.row_of.items():
        expected = answers[node] = _expected(history, wanted, node)
        code = int(judged.codes[row])
        assert code == (expected if isinstance(expected, int) else ALLOCATABLE), node
        try:
            found = chosen(allocator.allocate(row, wanted, node, lambda: "share"))
        except AllocationError:
            assert expected == FAILED, node
            continue
        texts = (
            [[f"{r}={d}" for r, d in got] for got in expected]
            if isinstance(expected, list)
            else None
        )
        assert found == texts, node
    return answers


def act(history: History, data: st.DataObject, number: int) -> None:
    """Let something happen."""
    kind = data.draw(
        st.sampled_from(["slice", "slice", "allocate", "allocate", "gone", "free", "node"])
    )
    match kind:
        case "slice":
            history.publish(data.draw(slices()))
        case "gone" if history.slices:
            name = data.draw(st.sampled_from(sorted(history.slices)))
            del history.slices[name]
            history.devices.remove_slice(name)
        case "free" if history.allocations:
            uid = data.draw(st.sampled_from(sorted(history.allocations)))
            del history.allocations[uid]
            history.devices.release(uid)
        case "node":
            name = data.draw(st.sampled_from(NODES))
            history.labels[name] = {"rack": data.draw(st.sampled_from("ab"))}
            set_nodes(history.snapshot, name, labels=history.labels)
        case "allocate":
            wanted = [data.draw(claims(f"c{number}"))]
            node = data.draw(st.sampled_from(NODES))
            if isinstance(check(history, wanted)[node], list):
                row = history.snapshot.table.row_of[node]
                allocator = history.devices.allocator(wanted, history.snapshot)
                found = allocator.allocate(row, wanted, node, lambda: f"share-{number}")
                assert found is not None
                history.allocations[f"c{number}"] = found[0]
                history.devices.allocate(f"c{number}", found[0])
        case _:
            pass


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_columns_say_what_the_plain_rules_say(data: st.DataObject) -> None:
    history = a_history()
    wanted = [data.draw(claims("a"))]
    if data.draw(st.booleans()):
        wanted.append(data.draw(claims("b")))
    for _ in range(data.draw(st.integers(1, 5))):
        history.publish(data.draw(slices()))

    check(history, wanted)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_remembered_never_tells(data: st.DataObject) -> None:
    history = a_history()
    history.publish(data.draw(slices()))
    wanted = [data.draw(claims("a"))]
    for number in range(data.draw(st.integers(2, 8))):
        act(history, data, number)
        check(history, wanted)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_fork_and_its_original_do_not_see_each_other(data: st.DataObject) -> None:
    history = a_history()
    history.publish(data.draw(slices()))
    wanted = [data.draw(claims("a"))]
    for number in range(data.draw(st.integers(1, 4))):
        act(history, data, number)
    check(history, wanted)
    fork = history.fork()
    for number in range(data.draw(st.integers(1, 4))):
        # Nodes change with the snapshot, which has its own forks.
        side = data.draw(st.sampled_from([history, fork]))
        act(side, data, 10 + number)
        fork.labels = history.labels = {**history.labels, **side.labels}
        check(history, wanted)
        check(fork, wanted)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_new_node_sees_what_it_would_see_among_all(data: st.DataObject) -> None:
    """Looked at alone, it has the devices that it would have beside all others."""
    history = a_history()
    for number in range(data.draw(st.integers(2, 6))):
        act(history, data, number)
    like = data.draw(st.sampled_from(NODES))
    labels = {**history.labels, "new": history.labels[like]}
    nodes = nodes_of(*NODES, "new", labels=labels)
    wanted = [data.draw(claims("a"))]
    row = nodes.table.row_of["new"]

    beside_all = history.devices.fork()
    for each in slices_like(history.slices.values(), like, "new"):
        beside_all.set_slice(each)
    expected = int(beside_all.allocator(wanted, nodes).judge().codes[row])
    alone = history.devices.for_new_node(like, "new")

    assert int(alone.allocator(wanted, nodes).judge().codes[row]) == expected
