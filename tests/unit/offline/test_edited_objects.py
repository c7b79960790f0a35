"""Edits of one node or pod that `what-if` makes: what page "Pod" says would help."""

from collections.abc import Callable
from functools import partial

import pytest

from scheduler.api.objects import Taint, Toleration
from scheduler.api.pods import PodInfo
from scheduler.api.taints import UNSCHEDULABLE_TAINT
from scheduler.tools.offline import edited_objects as edited
from scheduler.tools.offline.reading import ClusterObjects, InputError
from tests.support.builders import make_node, make_pod_info

GPU = Taint("gpu", "h100", "NoSchedule")


def cluster() -> ClusterObjects:
    """A cordoned node, a tainted one, and a pod that waits."""
    objects = ClusterObjects()
    objects.nodes += (
        make_node("closed", labels={"disk": "hdd"}, unschedulable=True),
        make_node("tainted", taints=[GPU]),
    )
    objects.pods += (make_pod_info("p"), make_pod_info("q"))
    return objects


def test_a_node_is_uncordoned() -> None:
    """The others stay as they are."""
    objects = cluster()

    assert edited.uncordon(objects, "closed") == []

    assert [node.spec.unschedulable for node in objects.nodes] == [False, False]
    assert objects.nodes[1].spec.taints == (GPU,)


def test_an_uncordoned_node_loses_the_taint_of_the_control_plane() -> None:
    """It keeps the others."""
    objects = ClusterObjects()
    objects.nodes.append(make_node("n", unschedulable=True, taints=[GPU, UNSCHEDULABLE_TAINT]))

    edited.uncordon(objects, "n")

    assert objects.nodes[0].spec.taints == (GPU,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("closed:disk=ssd", "ssd", id="another value"),
        pytest.param("closed:disk=", "", id="an empty value"),
        pytest.param("closed:disk-", None, id="taken away"),
    ],
)
def test_a_node_is_labelled(text: str, expected: str | None) -> None:
    """As kubectl label writes it, after the node."""
    objects = cluster()

    edited.label(objects, text)

    assert objects.nodes[0].metadata.labels.get("disk") == expected
    assert objects.nodes[0].metadata.labels["kubernetes.io/hostname"] == "closed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("p:gpu", Toleration("gpu", "Exists"), id="any value and effect"),
        pytest.param("default/p:gpu=h100", Toleration("gpu", "Equal", "h100"), id="a value"),
        pytest.param(
            "p:gpu=h100:NoSchedule",
            Toleration("gpu", "Equal", "h100", "NoSchedule"),
            id="an effect",
        ),
    ],
)
def test_a_pod_tolerates_a_taint(text: str, expected: Toleration) -> None:
    """Beside what it tolerates already; other pods do not."""
    objects = cluster()

    edited.tolerate(objects, text)

    tolerations = {pod.name: pod.spec.tolerations for pod in objects.pods}
    assert tolerations == {"p": (expected,), "q": ()}


@pytest.mark.parametrize("text", ["p:gqu", "p:gpu=a100", "p:gpu=h100:NoExecute"])
def test_a_taint_that_no_node_has_is_a_warning(text: str) -> None:
    """It changes nothing; the taints that there are follow."""
    objects = cluster()

    edited.tolerate(objects, text)

    [told] = objects.warnings
    assert told.startswith(f"--tolerate {text}: no node has such a taint; there are ")
    assert "gpu=h100:NoSchedule" in told


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (partial(edited.uncordon, name="ghost"), "--uncordon ghost: there is no node 'ghost'"),
        (partial(edited.uncordon, name="tainted"), "the node is not cordoned"),
        (partial(edited.label, text="closed"), "expected NODE:KEY=VALUE"),
        (partial(edited.label, text="closed:disk"), "expected NODE:KEY=VALUE"),
        (partial(edited.label, text="closed:zone-"), "the node has no label 'zone'"),
        (partial(edited.label, text="ghost:a=b"), "there is no node 'ghost'"),
        (partial(edited.uncordon, name="close"), 'did you mean "closed"?'),
        (partial(edited.label, text="closed:a b=c"), "expected at most 63 letters"),
        (partial(edited.label, text="closed:a=-"), "expected at most 63 letters"),
        (partial(edited.tolerate, text="p:gpu:NoSched"), 'did you mean "NoSchedule"?'),
        (partial(edited.tolerate, text="p"), "expected"),
        (partial(edited.tolerate, text="p:a=b:c:d"), "expected"),
        (partial(edited.tolerate, text="ml/p:gpu"), "ml/p:gpu: there is no such pod"),
        (partial(edited.tolerate, text="defalt/p:gpu"), 'did you mean "default/p"?'),
    ],
)
def test_what_is_not_there_is_said(
    edit: Callable[[ClusterObjects], list[PodInfo]], problem: str
) -> None:
    """With the option as it was given."""
    with pytest.raises(InputError, match=problem):
        edit(cluster())


def test_a_pod_of_several_namespaces_is_named_as_the_option_takes_it() -> None:
    """The message has the form that the option accepts."""
    objects = cluster()
    objects.pods.append(make_pod_info("p", namespace="ml"))

    with pytest.raises(InputError, match=r"in each of default, ml: say NAMESPACE/p$"):
        edited.tolerate(objects, "p:gpu")

    assert edited.tolerate(objects, "ml/p:gpu") == []
