"""The law of waiting while pods themselves change: resized, relabelled, nominated by others, ...

When all changes of pods and nodes have come to rest, no pod that fits is waiting, and the room that
is kept for nominated pods is the room that their statuses name.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from typing_extensions import override

from scheduler.api.objects import (
    ContainerStatus,
    PodCondition,
    ResourceAmounts,
    Taint,
    Toleration,
)
from scheduler.api.pods import pod_info
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Decide,
    Evicted,
    ObjectGone,
    ObjectSet,
    Tick,
)
from scheduler.kernel.engine.instructions import Bind, Evict, Instruction, PatchStatus
from scheduler.testing.validation import validate_engine
from scheduler.tools.offline.cluster import DEFAULT_PROFILE
from tests.support.builders import make_node, make_pod
from tests.unit.engine.answered import AnsweredCluster
from tests.unit.engine.driven import ENDED
from tests.unit.engine.test_nobody_is_forgotten import KINDS, NODES, RELATED

STEPS = 250
CPU = ("500m", "1", "2", "3")
DRAWN = (
    *("pod", "pod", "pod", "end", "end", "begin_to_end", "replace", "node", "node", "node_gone"),
    *("cordon", "resize", "resize", "shrink", "nominate", "nominate", "withdraw", "relabel"),
    *("tolerate", "open_gate", "answer", "tick", "tick", "decide", "decide", "decide"),
)


class Lives(AnsweredCluster):
    """Pods and nodes whose every field changes at random; an API server that answers.

    Attributes:
        fields: of the pods that there are, by UID.
        owed: nominations that the API server has not carried out yet.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.draw = Random(seed)
        self.kinds = (*KINDS, *RELATED) if seed % 2 else KINDS
        self.is_slow = seed % 3 == 0
        self.fields: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.owed: list[PatchStatus] = []
        self.serial = 0

    @override
    def carry_out(self, told: Instruction) -> None:
        fields = self.fields.get(getattr(told, "uid", ""))
        if isinstance(told, Bind) and fields is None:
            self.handle(BindFailed(told.attempt, "not found", is_certain=True))
        elif isinstance(told, Bind):
            self.handle(Bound(told.attempt))
            self.change(told.uid, node_name=told.node, nominated_node_name="")
        elif isinstance(told, Evict):
            self.handle(Evicted(told.uid, was_there=fields is not None))
            if fields is not None:
                self.change(told.uid, deletion_timestamp=ENDED)
        elif isinstance(told, PatchStatus) and told.nominated_node_name is not None:
            self.owed.append(told)
            if not self.is_slow:
                self.answer()

    def change(self, uid: str, **fields: Any) -> None:
        """A pod has other fields now."""
        self.fields[uid] |= fields
        given = dict(self.fields[uid])
        granted = given.pop("granted", "")
        self.serial += 1
        pod = make_pod(uid=uid, resource_version=str(self.serial), **given)
        if granted:
            reported = ContainerStatus("main", ResourceAmounts(requests={"cpu": granted}))
            pod = replace(pod, status=replace(pod.status, container_statuses=(reported,)))
        self.set(pod_info(pod))

    def show(self, name: str, **fields: Any) -> None:
        """A node has other fields now."""
        self.nodes[name] = self.nodes.get(name, {}) | fields
        self.handle(ObjectSet("nodes", make_node(name, **self.nodes[name])))

    def any_pod(self, is_wanted: Callable[[dict[str, Any]], Any] = lambda _: True) -> str:
        """UID of a pod, or empty."""
        found = [uid for uid, fields in self.fields.items() if is_wanted(fields)]
        return self.draw.choice(found) if found else ""

    def step(self) -> None:
        """Something happens."""
        what = self.draw.choice(DRAWN)
        if what in ("end", "begin_to_end", "replace", "relabel"):
            uid = self.any_pod()
        elif what == "resize":
            uid = self.any_pod(_has_node)
        else:
            uid = self.any_pod(lambda fields: not _has_node(fields))
        if uid:
            self._to_pod(what, uid)
        self._to_cluster(what)

    def _to_pod(self, what: str, uid: str) -> None:
        draw, fields = self.draw, self.fields[uid]
        match what:
            case "end":
                self.end(uid)
            case "begin_to_end":
                self.change(uid, deletion_timestamp=ENDED)
            case "replace":
                self.end(uid)
                self.serial += 1
                self.fields[f"u{self.serial}"] = {
                    **fields,
                    "node_name": "",
                    "nominated_node_name": "",
                    "granted": "",
                    "conditions": (),
                    "deletion_timestamp": None,
                }
                self.change(f"u{self.serial}")
            case "relabel":
                self.change(uid, labels={"app": draw.choice("xyz")})
            case "resize":
                reason = draw.choice(("", "Infeasible", "Deferred"))
                pending = PodCondition(type="PodResizePending", status="True", reason=reason)
                self.change(
                    uid,
                    requests={"cpu": draw.choice(CPU)},
                    granted=draw.choice(("", *CPU)),
                    conditions=(pending,) if reason else (),
                )
            case "shrink":
                self.change(uid, requests={"cpu": draw.choice(("1", "2", "5", "9"))})
            case "nominate":
                self.change(uid, nominated_node_name=draw.choice(NODES))
            case "withdraw":
                self.change(uid, nominated_node_name="")
            case "tolerate":
                key = draw.choice(("t", "node.kubernetes.io/unschedulable"))
                known = fields.get("tolerations", ())
                self.change(uid, tolerations=(*known, Toleration(key=key, operator="Exists")))
            case "open_gate" if fields.get("gates"):
                self.change(
                    uid, gates=fields["gates"][1:], node_selector={"zone": draw.choice("xy")}
                )
            case _:
                pass

    def _to_cluster(self, what: str) -> None:
        draw, node = self.draw, self.draw.choice(NODES)
        match what:
            case "pod":
                kind = draw.choice(self.kinds)
                for _ in range(draw.choice((1, 1, 4))):
                    self.serial += 1
                    gates = draw.choice(((), (), (), (), ("one", "two")))
                    own = {"name": f"p{self.serial}", "scheduler_name": DEFAULT_PROFILE}
                    self.fields[f"u{self.serial}"] = {**kind, **own, "gates": gates}
                    self.change(f"u{self.serial}")
            case "node":
                self.show(
                    node,
                    labels={"zone": draw.choice("xy")},
                    allocatable={"cpu": draw.choice(("2", "4", "4", "8")), "pods": "20"},
                    taints=draw.choice(((), (), (Taint("t", "v", "NoSchedule"),))),
                )
            case "node_gone" if node in self.nodes and draw.random() < 0.4:
                del self.nodes[node]
                self.handle(ObjectGone("nodes", "", node, "u"))
            case "cordon" if node in self.nodes:
                self.show(node, unschedulable=not self.nodes[node].get("unschedulable", False))
            case "answer":
                self.answer()
            case "tick":
                self.now += draw.choice((1.0, 1.0, 12.0, 40.0))
                self.handle(Tick())
            case "decide":
                self.handle(Decide())
            case _:
                pass

    @override
    def end(self, uid: str) -> None:
        del self.fields[uid]
        super().end(uid)

    def answer(self) -> None:
        """The API server carries out what it was asked."""
        while self.owed:
            told = self.owed.pop(0)
            fields = self.fields.get(told.uid)
            if fields is not None and not _has_node(fields):
                self.change(told.uid, nominated_node_name=told.nominated_node_name)

    def rest(self) -> None:
        """Nothing happens until nothing changes any more."""
        self.run()
        for seconds in (0, 30, 15):
            self.pass_time(seconds)
            self.answer()
            self.run()

    @override
    def forgotten(self) -> Iterator[str]:
        for name in super().forgotten():
            fields = next(each for each in self.fields.values() if each["name"] == name)
            if not (fields.get("deletion_timestamp") or fields.get("gates")):
                yield name

    def nominations(self) -> dict[str, str]:
        """The node of each nominated pod, as the engine keeps it."""
        nominator = self.engine.core.queue.nominator
        return {
            pod.uid: node for node in nominator for pod in nominator.nominated_pods_for_node(node)
        }

    def stated(self) -> dict[str, str]:
        """The node of each nominated pod, as the statuses have it."""
        return {
            uid: fields["nominated_node_name"]
            for uid, fields in self.fields.items()
            if fields.get("nominated_node_name") and not _has_node(fields)
        }


def _has_node(fields: dict[str, Any]) -> bool:
    return bool(fields.get("node_name"))


@pytest.mark.parametrize("seed", range(16))
def test_no_pod_that_fits_waits_when_pods_change(seed: int) -> None:
    """The place of a nominated pod is that of its status, unless it is gated or being deleted."""
    cluster = Lives(seed)
    waited = 0
    for number in range(STEPS):
        cluster.step()
        validate_engine(cluster.engine)
        if number % 50 == 49:
            cluster.rest()
            waited += len(cluster.waiting())
            assert list(cluster.forgotten()) == []
            kept, stated = cluster.nominations(), cluster.stated()
            assert kept.items() <= stated.items()
            lost = (cluster.fields[uid] for uid in stated.keys() - kept.keys())
            assert all(pod.get("gates") or pod.get("deletion_timestamp") for pod in lost)

    assert waited
