"""NodeOwnership: only nodes of this scheduler are taken, and bindings of others are told of."""

from typing import Any

import pytest

from scheduler.api.objects import OwnerReference
from scheduler.api.pods import PodInfo
from scheduler.config.args import NodeOwnershipArgs
from scheduler.config.load import load_object
from scheduler.config.problems import ConfigError
from scheduler.kernel.engine.instructions import RecordEvent
from scheduler.kernel.framework.events import POD_KIND, QueueingHint
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.plugins.node_ownership import (
    FOREIGN_BINDING,
    REMEMBERED,
    ForeignBindings,
    NodeOwnership,
)
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.handles import make_handle
from tests.support.plugin_answers import FITS, filter_answers
from tests.unit.engine.driven import DrivenEngine

OURS = make_node("ours", labels={"team": "ml", "scheduler": "stowage"})
THEIRS = make_node("theirs", labels={"team": "ml"})
ARGS = NodeOwnershipArgs(node_selector={"team": "ml", "scheduler": "stowage"})
DAEMON_SET = OwnerReference(kind="DaemonSet", name="agent", controller=True)


def node_ownership(handle: Handle) -> NodeOwnership:
    return NodeOwnership(ARGS, handle)


class Shared(DrivenEngine):
    """Two nodes, one of them of another scheduler."""

    def __init__(self) -> None:
        super().__init__(node_ownership, nodes=(OURS, THEIRS), kinds=(POD_KIND,))

    def foreign(self, name: str, node: str, scheduler: str = "other", **fields: Any) -> PodInfo:
        """Another scheduler binds a pod that waited."""
        self.set(make_pod_info(name, scheduler_name=scheduler, **fields))
        bound = make_pod_info(name, scheduler_name=scheduler, node_name=node, **fields)
        self.set(bound)
        return bound

    def place(self, name: str) -> PodInfo:
        """A pod of ours comes and is placed."""
        pod = self.add(name)
        self.run()
        return pod

    @property
    def counted(self) -> float:
        family = self.services.metrics.counter(
            "stowage_foreign_bindings_total",
            "Pods that other schedulers bound to nodes of a profile with NodeOwnership.",
            "profile",
        )
        return float(family["test",].value)

    @property
    def told_of(self) -> list[tuple[str, str]]:
        events = [each for each in self.all(RecordEvent) if each.reason == FOREIGN_BINDING]
        return [(each.regarding.name, each.note) for each in events]


def test_only_nodes_with_all_the_labels_are_ours() -> None:
    """Whatever the pod asks for."""
    plugin = NodeOwnership(ARGS, make_handle(watches=(POD_KIND,)))

    answers = filter_answers(plugin, make_pod_info(), make_snapshot([OURS, THEIRS]))

    rejected = Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) belonged to another scheduler",)
    )
    assert answers == {"ours": FITS, "theirs": rejected}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, OURS, QueueingHint.QUEUE, id="a new node of ours"),
        pytest.param(None, THEIRS, QueueingHint.SKIP, id="a new node of others"),
        pytest.param(THEIRS, OURS, QueueingHint.QUEUE, id="handed over to us"),
        pytest.param(OURS, THEIRS, QueueingHint.SKIP, id="handed over to others"),
        pytest.param(OURS, OURS, QueueingHint.SKIP, id="another label changed"),
    ],
)
def test_a_node_that_became_ours_wakes_the_pod(old: Any, new: Any, expected: QueueingHint) -> None:
    """A node is handed over by its labels."""
    plugin = NodeOwnership(ARGS, make_handle(watches=(POD_KIND,)))

    assert plugin.is_schedulable_after_node_change(make_pod_info(), old, new) is expected


def test_a_pod_that_another_scheduler_bound_to_our_node_is_told_of() -> None:
    """With the next pod that is placed here, once; what it takes counts at once."""
    shared = Shared()
    shared.place("first")
    shared.foreign("stranger", "ours")
    shared.foreign("neighbour", "theirs")

    assert shared.told_of == []
    shared.place("second")
    shared.place("third")

    note = (
        'other bound the pod to node "ours", which belongs to test: both may promise the same room'
    )
    assert shared.told_of == [("stranger", note)]
    assert shared.counted == 1


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"owner_references": (DAEMON_SET,)}, id="of a DaemonSet"),
        pytest.param({"scheduler": "test"}, id="of this scheduler, by another replica"),
    ],
)
def test_other_bindings_are_no_news(fields: Any) -> None:
    """Pods of DaemonSets run on every node; a replica that led before had our name."""
    shared = Shared()
    shared.place("first")
    shared.foreign("p", "ours", **fields)

    shared.place("second")

    assert shared.counted == 0


def test_pods_that_are_first_seen_with_a_node_are_no_news() -> None:
    """They may be as old as the cluster, or static; our own pods are confirmed."""
    shared = Shared()
    first = shared.place("first")
    shared.set(make_pod_info("static", scheduler_name="other", node_name="ours"))
    shared.set(make_pod_info("first", scheduler_name="test", node_name="ours"))

    shared.place("second")

    assert first.name == "first"
    assert shared.counted == 0


def test_bindings_before_the_first_placement_are_no_news() -> None:
    """A replica that takes over has watched others for days."""
    shared = Shared()
    shared.foreign("stranger", "ours")

    shared.place("first")

    assert shared.counted == 0


def test_what_is_remembered_is_bounded_and_forks_with_the_cluster() -> None:
    """However many pods others bind between two of ours."""
    bindings = ForeignBindings()
    for i in range(REMEMBERED + 10):
        waiting = make_pod_info(f"p{i}", scheduler_name="other")
        bound = make_pod_info(f"p{i}", scheduler_name="other", node_name="ours")
        bindings.on_event(POD_KIND, waiting, bound)
    fork = bindings.fork()
    fork.reserve(make_pod_info("q", scheduler_name="other"), "ours")

    assert bindings.count == REMEMBERED + 10
    assert len(list(bindings.after(0))) == REMEMBERED
    assert list(fork.after(0)) == []


def test_the_labels_are_checked() -> None:
    """Without any, every node would be ours."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    for selector, problem in (
        ({}, "expected the labels"),
        ({"a b": "c"}, "a b"),
        ({"a": "?"}, "a"),
    ):
        args = {"nodeSelector": selector}
        profile = {"pluginConfig": [{"name": "NodeOwnership", "args": args}]}

        with pytest.raises(ConfigError, match=rf"args\.nodeSelector.*{problem}"):
            load_object({**head, "profiles": [profile]})
