"""What the demo makes of the events it sees, how it shows them, and how it judges."""

import io

import msgspec
import pytest
from rich.console import Console

from apistub.demo.cluster import Cluster
from apistub.demo.load import (
    EVICTABLE,
    FOREIGN,
    FOREIGN_SCHEDULER,
    GIANT,
    URGENT,
    Load,
    make_load,
)
from apistub.demo.screen import LineScreen, LiveScreen
from apistub.demo.verdict import judge, speed
from scheduler.api.objects import Node, Pod


def node(name: str, cpu: str = "4", *, unschedulable: bool = False) -> Node:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    labels = {"topology.kubernetes.io/zone": "z"}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": unschedulable},
            "status": {"allocatable": allocatable},
        },
        Node,
    )


def pod(
    name: str,
    on: str = "",
    *,
    cpu: str = "1",
    scheduler: str = "stowage",
    reason: str = "",
    message: str = "no room",
    gated: bool = False,
) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "spec": {
                "schedulerName": scheduler,
                "nodeName": on,
                "containers": [{"resources": {"requests": {"cpu": cpu}}}],
                "schedulingGates": [{"name": "g"}] if gated else [],
            },
            "status": {"conditions": [condition] if reason else []},
        },
        Pod,
    )


def cluster_of(*pods: Pod, nodes: int = 2) -> Cluster:
    cluster = Cluster()
    for index in range(nodes):
        cluster.node_changed(node(f"n{index}"))
    for index, each in enumerate(pods):
        cluster.pod_changed(each, float(index))
    return cluster


def test_pods_are_counted_by_what_they_wait_for() -> None:
    """Ours only: bound, gated, rejected, or not looked at yet."""
    cluster = cluster_of(
        pod("a", "n0"),
        pod("b"),
        pod("c", reason="Unschedulable"),
        pod("d", gated=True, reason="SchedulingGated"),
        pod("e", scheduler="other"),
    )

    counts = cluster.counts()

    assert (counts.bound, counts.waiting, counts.rejected, counts.gated) == (1, 1, 1, 1)
    assert [view.name for view in cluster.pending()] == ["c", "d"]


def test_nodes_fill_up_and_empty() -> None:
    """A bound pod takes its requests, a deleted one gives them back."""
    cluster = cluster_of(pod("a", "n0"), pod("b", "n0", cpu="500m"))
    assert (cluster.nodes["n0"].used_cpu_milli, cluster.nodes["n0"].pods) == (1500, 2)

    cluster.pod_gone("a")

    assert (cluster.nodes["n0"].used_cpu_milli, cluster.nodes["n0"].pods) == (500, 1)


def test_the_rate_is_that_of_the_last_second() -> None:
    """Old decisions do not count."""
    cluster = cluster_of(pod("a", "n0"), pod("b", "n0"), pod("c", "n1"))

    assert cluster.pods_per_second(2.5) == 1
    assert cluster.pods_per_second(9.0) == 0


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        pytest.param([pod("a", "n0"), pod("a", "n1")], "moved", id="bound twice"),
        pytest.param([pod("a", "n0", scheduler="other")], "of other was bound", id="foreign"),
        pytest.param([pod("a", "n9")], "does not exist", id="unknown node"),
        pytest.param([pod("a", "n0", cpu="5")], "promised more than it has", id="overcommitted"),
    ],
)
def test_what_must_not_happen_is_noticed(events: list[Pod], complaint: str) -> None:
    """A wrong binding is written down as soon as it is seen."""
    cluster = cluster_of(*events)

    assert len(cluster.broken) == 1
    assert complaint in cluster.broken[0]


def finished(load: Load) -> Cluster:
    """A cluster in which everything went well."""
    cluster = Cluster()
    for given in (*load.nodes, *load.late_nodes):
        cluster.node_changed(node(given["metadata"]["name"], cpu="1000"))
        cluster.nodes[given["metadata"]["name"]].pod_limit = 1000
    for name in sorted(load.expected):
        cluster.pod_changed(pod(name, load.nodes[0]["metadata"]["name"], cpu="1m"), 1.0)
    cluster.pod_gone(f"{EVICTABLE}-0000")
    cluster.pod_changed(pod(URGENT, load.licensed, cpu="1m"), 1.0)
    cluster.pod_changed(pod(GIANT, reason="Unschedulable"), 1.0)
    cluster.pod_changed(pod(FOREIGN, scheduler=FOREIGN_SCHEDULER), 1.0)
    return cluster


def test_a_good_run_keeps_every_promise() -> None:
    """Nothing to complain about when all is as it should be."""
    load = make_load(12, 120, seed=1)

    assert [
        promise.text for promise in judge(finished(load), load, {}) if not promise.is_kept
    ] == []


def test_each_broken_promise_is_named() -> None:
    """Every way to go wrong is seen by exactly one promise."""
    load = make_load(12, 120, seed=1)
    first = load.nodes[0]["metadata"]["name"]
    all_but_one = frozenset(load.expected - {"web-0000"})

    unbound, spared, greedy, giant, foreign, broken = (finished(load) for _ in range(6))
    unbound.pods["web-0000"].node = ""
    spared.pods[URGENT].node = ""
    greedy.pod_gone("web-0001")
    giant.pods[GIANT].message = ""
    foreign.pods[FOREIGN].message = "looked at"
    broken.broken.append("pod x moved")

    def kept(cluster: Cluster, cordoned: dict[str, frozenset[str]]) -> list[bool]:
        return [promise.is_kept for promise in judge(cluster, load, cordoned)]

    assert kept(unbound, {}) == all_but(0)
    assert kept(spared, {}) == all_but(1)
    assert kept(greedy, {}) == all_but(1)
    assert kept(giant, {}) == all_but(2)
    assert kept(foreign, {}) == all_but(3)
    assert kept(finished(load), {first: load.expected}) == [True] * 6
    assert kept(finished(load), {first: all_but_one}) == all_but(4)
    assert kept(broken, {}) == all_but(5)


def all_but(broken: int) -> list[bool]:
    return [number != broken for number in range(6)]


def test_the_speed_is_told_in_a_sentence() -> None:
    """Rate and waiting times, or only the number when there is no rate."""
    two = cluster_of(pod("a", "n0"), pod("b", "n0"))

    assert speed(two).startswith("2 pods bound within 1.0s, 2 pods/s at the pace of the demo; ")
    assert speed(cluster_of(pod("a", "n0"))) == "1 pods bound"


def test_waiting_on_purpose_is_not_counted_as_slow() -> None:
    """Pods that came before the daemon, or were gated or rejected, have no say in the median."""
    cluster = cluster_of(pod("early"), pod("early", "n0"))
    for name, start in (("prompt-0", 2.0), ("prompt-1", 2.0)):
        cluster.pod_changed(pod(name), start)
        cluster.pod_changed(pod(name, "n1"), start + 0.25)
    for held in (pod("held", gated=True), pod("held", reason="Unschedulable"), pod("held", "n0")):
        cluster.pod_changed(held, 3.0 if not held.spec.node_name else 60.0)

    assert cluster.pods["held"].was_held
    assert speed(cluster).endswith(
        "; 2 pods that fit at once had a node after 0.25s (median), 95 of 100 within 0.25s"
    )


def test_without_a_terminal_there_are_lines() -> None:
    """One line a second at most, a line per act, and each reason once."""
    seconds = [0.0]
    output = io.StringIO()
    cluster = cluster_of(pod("a", "n0"), pod("b-1", reason="Unschedulable"))
    screen = LineScreen(Console(file=output), cluster, 2, lambda: seconds[0])

    with screen:
        screen.tell("cordoned n1")
        for moment in (0.0, 0.5, 1.5):
            seconds[0] = moment
            screen.show()

    lines = output.getvalue().splitlines()
    assert lines[0] == "  0.0s * cordoned n1"
    assert lines[1].startswith("  0.0s   1/2 bound, ")
    assert lines[2] == "  0.0s   pending b: no room"
    assert [line[:7] for line in lines[3:]] == ["  1.5s ", "  1.5s "]
    assert not any("pending" in line for line in lines[3:])


def test_on_a_terminal_everything_is_at_a_glance() -> None:
    """Zones with bars, decisions, pending pods with reasons, and what was done."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120, height=40)
    cluster = cluster_of(pod("a", "n0"), pod("c", "n1"), pod("b-1", reason="Unschedulable"))
    screen = LiveScreen(console, cluster, 3, lambda: 7.0)

    with screen:
        screen.tell("cordoned n1")
        screen.show()

    shown = output.getvalue()
    for part in ("2/3 bound", "z", "2 nodes, 2 pods", "25% full", "a → n0", "no room", "cordoned"):
        assert part in shown


def test_what_stands_in_brackets_is_shown() -> None:
    """Gates are named so, and brackets mean styles to whoever draws."""
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=40)
    text = "waiting for scheduling gates: [example.com/quota]"
    waiting = pod("b-1", reason="SchedulingGated", message=text, gated=True)
    screen = LiveScreen(console, cluster_of(waiting), 1, lambda: 7.0)

    lines = console.render_lines(screen.picture(), pad=False)

    shown = "\n".join("".join(segment.text for segment in line) for line in lines)
    assert "gates: [example.com/quota]" in shown


def test_it_fits_a_small_terminal() -> None:
    """24 lines of 80 columns, however long the names and sentences are."""
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    pods = [pod(f"a-rather-long-name-{index}", "n0") for index in range(20)]
    waiting = [pod(f"b{index}-1", reason="no room " * 30) for index in range(8)]
    screen = LiveScreen(console, cluster_of(*pods, *waiting), 598, lambda: 7.0)
    for _ in range(9):
        screen.tell("something happened that takes many words to tell " * 3)

    lines = console.render_lines(screen.picture(), pad=False)

    assert len(lines) < 24
    assert all(sum(segment.cell_length for segment in line) <= 80 for line in lines)
