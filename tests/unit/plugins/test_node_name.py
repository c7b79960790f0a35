"""NodeName binds a pod to the node that it names."""

import numpy as np

from scheduler.kernel.framework.events import NODE_ADD, ClusterEventWithHint
from scheduler.kernel.framework.status import Code, Status
from scheduler.kernel.plugins.node_name import NodeName
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.plugin_answers import FITS, filter_answers

REJECTED = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) didn't match the requested node name",)
)
SNAPSHOT = make_snapshot([make_node("a"), make_node("b"), make_node("c")])


def test_a_pod_that_names_no_node_fits_everywhere() -> None:
    """The usual case."""
    answers = filter_answers(NodeName(), make_pod_info(), SNAPSHOT)

    assert answers == {"a": FITS, "b": FITS, "c": FITS}


def test_a_pod_that_names_a_node_fits_there_only() -> None:
    """All other nodes are hopeless, whatever rows are asked about."""
    pod = make_pod_info(node_name="b")

    assert filter_answers(NodeName(), pod, SNAPSHOT) == {"a": REJECTED, "b": FITS, "c": REJECTED}
    assert filter_answers(NodeName(), pod, SNAPSHOT, np.array([2, 1])) == {
        "c": REJECTED,
        "b": FITS,
    }


def test_a_pod_that_names_an_unknown_node_fits_nowhere() -> None:
    """There is nothing to fall back to."""
    answers = filter_answers(NodeName(), make_pod_info(node_name="gone"), SNAPSHOT)

    assert answers == dict.fromkeys("abc", REJECTED)


def test_pods_that_name_different_nodes_are_different() -> None:
    """The name is what the plugin signs."""
    assert NodeName().sign(make_pod_info()) == ""
    assert NodeName().sign(make_pod_info(node_name="a")) == "a"


def test_a_new_node_wakes_the_pod() -> None:
    """It may be the one."""
    assert NodeName().events_to_register() == (ClusterEventWithHint(NODE_ADD),)
