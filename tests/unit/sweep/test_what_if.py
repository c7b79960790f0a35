"""What becomes of the pods that ran on removed nodes."""

import pytest

from scheduler.api.objects import OwnerReference
from scheduler.config.load import default_configuration
from scheduler.daemon.recording.comparison import ReplayPlacements, place_anew
from scheduler.daemon.recording.records import Record
from scheduler.kernel.engine.events import Decide, Event, ObjectGone, ObjectSet, Tick
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.what_if import parse_what_if
from tests.support.builders import make_node, make_pod_info
from tests.unit.plugins.test_dynamic_resources import (
    device_class,
    make_claim,
    pod_of,
    resource_slice,
)


def pod(name: str, node: str = "", owner: str = "", phase: str = "Running") -> ObjectSet:
    owners = (OwnerReference(kind=owner, name="o", controller=True),) if owner else ()
    info = make_pod_info(
        name, uid=name, node_name=node, requests={"cpu": "1"}, owner_references=owners, phase=phase
    )
    return ObjectSet("pods", info)


def placed(change: str, *events: Event) -> ReplayPlacements:
    nodes = [ObjectSet("nodes", make_node(name, allocatable={"cpu": "2"})) for name in "mn"]
    records = [
        Record(float(time), event, b"[]")
        for time, event in enumerate((*nodes, Decide(), *events, Tick(), Tick()))
    ]
    engine = Profiles(default_configuration("stowage")).engine(1)
    return place_anew(parse_what_if(change).applied(iter(records)), engine)


def test_pods_of_a_removed_node_arrive_pending() -> None:
    """They are placed, or wait, whatever is recorded of them later."""
    running = [pod(name, "n") for name in ("a", "b", "c")]

    found = placed("remove=n", *running, Tick(), *running, ObjectGone("pods", "default", "c", "c"))

    assert {uid: summary.node for uid, summary in found.pods.items()} == {
        "a": "m", "b": "m", "c": ""
    }  # fmt: skip
    assert found.pods["c"].is_gone


def test_other_pods_stay_or_go_with_the_node() -> None:
    """Those on other nodes; those of a daemon set, static ones and those that have ended."""
    found = placed(
        "remove=n",
        pod("stays", "m"),
        pod("daemon", "n", "DaemonSet"),
        pod("static", "n", "Node"),
        pod("done", "n", phase="Succeeded"),
        pod("new"),
    )

    assert {uid: summary.node for uid, summary in found.pods.items()} == {"new": "m"}


def test_added_nodes_run_the_pods_of_daemon_sets() -> None:
    """While the node that they are like runs them."""
    daemon = [pod("d1", "n", "DaemonSet"), pod("d2", "n", "DaemonSet"), pod("app", "n", "Job")]
    waiting = [pod(name) for name in ("a", "b")]
    busy = [pod("x", "m"), pod("y", "m")]

    full = placed("add=n:1", *busy, *daemon, *waiting)
    freed = placed(
        "add=n:1", *busy, *daemon, *waiting, ObjectGone("pods", "default", "d1", "d1"), Tick()
    )

    assert {full.pods[name].node for name in "ab"} == {""}
    assert {freed.pods[name].node for name in "ab"} == {"", "n-new-0"}


def test_a_node_may_be_replaced_by_others_like_it() -> None:
    """While it exists; the pods that ran on it go to them."""
    events = [pod("x", "m"), pod("y", "m"), pod("a", "n"), pod("b", "n"), pod("c"), pod("d")]
    gone = [ObjectGone("nodes", "", "n", "n"), pod("e")]

    found = placed("add=n:2,remove=n", *events)
    later = placed("remove=n,add=n:2", *gone, *events)

    assert sorted(found.pods[name].node for name in "abcd") == ["n-new-0"] * 2 + ["n-new-1"] * 2
    assert {later.pods[name].node for name in "abcd"} == {""}


def test_a_node_is_not_added_twice() -> None:
    """Which number counts would be a guess."""
    with pytest.raises(InputError, match=r"^--what-if .*: node n is given twice$"):
        parse_what_if("add=n:1,add=n:2")


def test_a_name_that_is_no_text_is_refused() -> None:
    """No table could have it."""
    for text in ("add=\udcff:1", "remove=\udcff"):
        with pytest.raises(InputError, match=r"expected add=NODE:COUNT or remove=PATTERN, found"):
            parse_what_if(text)


def test_a_pod_that_was_recorded_pending_is_the_same_pod() -> None:
    """Its recorded node does not count."""
    found = placed("remove=n", pod("p"), Tick(), pod("p", "n"))

    assert (found.pods["p"].node, found.recorded) == ("m", {"p": "n"})


def test_added_nodes_have_the_devices_of_the_node_that_they_are_like() -> None:
    """All of them are free; the default profile counts claims."""
    names = ("a", "b", "c")
    events = (
        ObjectSet("deviceclasses", device_class()),
        ObjectSet("resourceslices", resource_slice("n", "gpu-0")),
        *(ObjectSet("resourceclaims", make_claim(name)) for name in names),
        *(ObjectSet("pods", pod_of(name, name=name, schedulerName="stowage")) for name in names),
    )

    found = placed("add=n:1", *events)

    nodes = sorted(summary.node for summary in found.pods.values())
    assert nodes == ["", "n", "n-new-0"]


def test_slices_of_added_nodes_follow_those_of_the_node() -> None:
    """A new generation takes the place of the old one, and a slice that goes takes its copies."""
    old, new = (resource_slice("n", name) for name in ("gpu-0", "gpu-1"))
    other = resource_slice("m", "gpu-0")
    events: tuple[Event, ...] = (
        ObjectSet("nodes", make_node("n")),
        *(ObjectSet("resourceslices", each) for each in (old, other, old, new)),
        ObjectGone("resourceslices", "", old.metadata.name, ""),
    )
    records = [Record(0.0, event, b"[]") for event in events]

    applied = [record.event for record in parse_what_if("add=n:1").applied(iter(records))]

    devices = [
        [device.name for device in each.object.spec.devices]
        for each in applied
        if isinstance(each, ObjectSet) and each.kind == "resourceslices" and each not in events
    ]
    assert devices == [["gpu-0"], ["gpu-1"]]
    gone = [each.name for each in applied if isinstance(each, ObjectGone)]
    assert gone == [old.metadata.name, f"{old.metadata.name}-of-n-new-0"]
