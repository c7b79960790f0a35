"""Faults of the leader and its node, and the time that pods wait for a node during each.

``python -m e2e.nodes faults --tries 10`` prints the table of docs/reliability.md.
"""

import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

from e2e.nodes.arrivals import Arrivals, Waits
from e2e.nodes.lab import Lab, is_ready
from e2e.support.objects import Json
from e2e.support.waiting import wait_for

_NAMESPACE = "stowage"
_DEPLOYMENT = "deployment/stowage"

Begin = Callable[[Lab, Json], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the leader.

    Args:
        name: name in the table.
        begin: injects the fault into the cluster and the leader's pod; the context's exit repairs
            it.
        most_seconds: limit for the waiting time of pods, with or without the expiry of a lease.
    """

    name: str
    begin: Begin
    most_seconds: float


@contextmanager
def _deleted(lab: Lab, leader: Json) -> Iterator[None]:
    words = [f"--namespace={_NAMESPACE}", "pod", leader["metadata"]["name"], "--wait=false"]
    lab.kubectl("delete", *words)
    yield


@contextmanager
def _killed(lab: Lab, leader: Json) -> Iterator[None]:
    lab.signal(leader, signal.SIGKILL)
    yield


@contextmanager
def _frozen(lab: Lab, leader: Json) -> Iterator[None]:
    lab.signal(leader, signal.SIGSTOP)
    try:
        yield
    finally:
        # The kubelet may have killed it already.
        with suppress(AssertionError, ProcessLookupError, FileNotFoundError):
            lab.signal(leader, signal.SIGCONT)


@contextmanager
def _out_of_memory(lab: Lab, leader: Json) -> Iterator[None]:
    lab.exhaust_memory(leader)
    yield


@contextmanager
def _cut_off(lab: Lab, leader: Json) -> Iterator[None]:
    node = lab.node(leader["spec"]["nodeName"])
    node.cut_network()
    try:
        yield
    finally:
        node.restore_network()


@contextmanager
def _node_stopped(lab: Lab, leader: Json) -> Iterator[None]:
    node = lab.node(leader["spec"]["nodeName"])
    node.stop()
    try:
        yield
    finally:
        node.start()


@contextmanager
def _node_rebooted(lab: Lab, leader: Json) -> Iterator[None]:
    lab.node(leader["spec"]["nodeName"]).reboot()
    yield


@contextmanager
def _restarted(lab: Lab, leader: Json) -> Iterator[None]:
    lab.kubectl("rollout", "restart", f"--namespace={_NAMESPACE}", _DEPLOYMENT)
    lab.wait_for_rollout(_NAMESPACE, "stowage")
    yield


@contextmanager
def _other_image(lab: Lab, leader: Json) -> Iterator[None]:
    now = leader["spec"]["containers"][0]["image"]
    other = "stowage:dev" if now == "stowage:next" else "stowage:next"
    for node in lab.nodes:
        node.tag_image(now, other)
    words = [f"--namespace={_NAMESPACE}", _DEPLOYMENT, f"stowage={other}"]
    lab.kubectl("set", "image", *words)
    lab.wait_for_rollout(_NAMESPACE, "stowage")
    yield


@contextmanager
def _drained(lab: Lab, leader: Json) -> Iterator[None]:
    node = leader["spec"]["nodeName"]
    try:
        lab.kubectl("drain", node, "--timeout=240s")
        yield
    finally:
        lab.kubectl("uncordon", node)


_AT_ONCE = 10.0
"""The leader releases the lease, so another replica acquires it at once: long before it expires."""
_AFTER_LEASE = 45.0
"""The lease (15 s) expires first; replicas check it every 2 s. The rest is for a slow machine."""

FAULTS: Sequence[Fault] = (
    Fault("leader's pod deleted", _deleted, _AT_ONCE),
    Fault("leader killed (SIGKILL)", _killed, _AFTER_LEASE),
    Fault("leader frozen (SIGSTOP)", _frozen, _AFTER_LEASE),
    Fault("leader out of memory (OOM-killed)", _out_of_memory, _AFTER_LEASE),
    Fault("network of the leader's node down", _cut_off, _AFTER_LEASE),
    Fault("leader's node stopped (power cut)", _node_stopped, _AFTER_LEASE),
    Fault("leader's node rebooted", _node_rebooted, _AFTER_LEASE),
    Fault("`kubectl drain` of the leader's node", _drained, _AT_ONCE),
    Fault("`kubectl rollout restart`", _restarted, _AT_ONCE),
    Fault("another image", _other_image, _AT_ONCE),
)


def inflict(lab: Lab, fault: Fault) -> Waits:
    """Inject a fault once into a deployment of two replicas, one on each node."""
    settle(lab)
    holder = wait_for(lab.holder, "a leader")
    leader = lab.pod(_NAMESPACE, lab.leader())
    with Arrivals(lab) as arrivals:
        arrivals.wait_for_more(5)
        with fault.begin(lab, leader):
            wait_for(lambda: lab.holder() not in ("", holder), "another to lead", 240, 0.5)
            arrivals.wait_for_more(5)
        waits = arrivals.finish()
    # The pod's status is outdated until its kubelet reports again.
    wait_for(lambda: _has_ended(lab, leader), "the end of the old leader to be seen", 240)
    return waits


def settle(lab: Lab) -> None:
    """Wait for two replicas that are Ready, on different nodes, and not restarted."""
    lab.wait_for_nodes()

    def is_settled() -> bool:
        pods = lab.get("pods", f"--namespace={_NAMESPACE}")["items"]
        if len(pods) != 2 or not all(map(is_ready, pods)):
            return False
        worn = [each for each in pods if each["status"]["containerStatuses"][0]["restartCount"]]
        if not worn and len({each["spec"]["nodeName"] for each in pods}) == 1:
            worn = pods[:1]
        for pod in worn[:1]:
            lab.kubectl("delete", f"--namespace={_NAMESPACE}", "pod", pod["metadata"]["name"])
        return not worn

    wait_for(is_settled, "a replica on each node", 480, every_seconds=0.5)


def measure(lab: Lab, tries: int, only: Sequence[str]) -> str:
    """Inject every fault this many times, and return the table."""
    lines = [
        "| what happens | tries | longest wait p50 | max | pods | lost |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for fault in FAULTS:
        if only and not any(part in fault.name for part in only):
            continue
        waits = []
        for number in range(tries):
            waits.append(inflict(lab, fault))
            print(f"{fault.name}, try {number + 1}: {waits[-1]}", file=sys.stderr, flush=True)
        longest = [each.longest_seconds for each in waits]
        pods, lost = sum(each.pods for each in waits), sum(each.lost for each in waits)
        times = f"{statistics.median(longest):.1f} s | {max(longest):.1f} s"
        lines.append(f"| {fault.name} | {tries} | {times} | {pods} | {lost} |")
    return "\n".join(lines)


def _has_ended(lab: Lab, pod: Json) -> bool:
    """Report whether a pod is gone, or its container was restarted."""
    now = [
        each for each in lab.pods(_NAMESPACE) if each["metadata"]["uid"] == pod["metadata"]["uid"]
    ]
    return not any(each["status"]["containerStatuses"][0]["restartCount"] == 0 for each in now)


if __name__ == "__main__":
    with Lab() as cluster, cluster.applied("deploy/base"):
        Arrivals.prepare(cluster)
        try:
            print(measure(cluster, int(sys.argv[1]), sys.argv[2:]))
        except Exception:
            print(cluster.report(), file=sys.stderr)
            raise
