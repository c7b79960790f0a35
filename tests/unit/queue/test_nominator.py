"""Nominations, and how they survive updates."""

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.queueing import QueueUnderTest


def nominations(nominator: NominatedPods) -> dict[str, list[str]]:
    """Names of pods by node."""
    assert list(nominator.validate()) == []
    return {
        node: [pod.name for pod in nominator.nominated_pods_for_node(node)] for node in nominator
    }


def pod(name: str = "p", node: str = "", **fields: int) -> PodInfo:
    return make_pod_info(name, nominated_node_name=node, **fields)


@pytest.mark.parametrize(
    ("status", "node_name", "expected"),
    [
        pytest.param("", None, {}, id="nothing known"),
        pytest.param("n1", None, {"n1": ["p"]}, id="the status says so"),
        pytest.param("", "n2", {"n2": ["p"]}, id="preemption says so"),
        pytest.param("n1", "n2", {"n2": ["p"]}, id="preemption wins over the status"),
        pytest.param("n1", "", {}, id="preemption withdraws"),
    ],
)
def test_a_nomination_comes_from_preemption_or_from_the_status(
    status: str, node_name: str | None, expected: dict[str, list[str]]
) -> None:
    """Without an order from preemption the pod's status counts; earlier nominations never do."""
    nominator = NominatedPods()
    nominator.nominate(pod(), "earlier")

    nominator.nominate(pod(node=status), node_name)

    assert nominations(nominator) == expected
    assert len(nominator) == len(expected)


@pytest.mark.parametrize(
    ("ours", "old", "new", "expected"),
    [
        pytest.param("", "", "", "", id="never nominated"),
        pytest.param("n1", "", "", "n1", id="the status has not caught up with ours"),
        pytest.param("n1", "", "n2", "n2", id="nominated by somebody else"),
        pytest.param("n1", "n1", "n2", "n2", id="nominated elsewhere"),
        pytest.param("n1", "n1", "", "", id="nomination withdrawn"),
        pytest.param("n1", "n1", "n1", "n1", id="unchanged"),
        pytest.param("n2", "n1", "n1", "n1", id="a status that is set counts"),
    ],
)
def test_updates_keep_nominations_that_the_server_does_not_know_yet(
    ours: str, old: str, new: str, expected: str
) -> None:
    """Only an update without any nomination leaves ours alone."""
    nominator = NominatedPods()
    nominator.nominate(pod(), ours)
    newer = pod(node=new)

    nominator.update_nominated_pod(pod(node=old), newer)

    found = {node: list(nominator.nominated_pods_for_node(node)) for node in nominator}
    assert found == ({expected: [newer]} if expected else {})


def test_pods_of_a_node_keep_their_order() -> None:
    """Nominated pods are listed in order of their nomination, each once."""
    nominator = NominatedPods()
    for name in ("a", "b", "c", "a"):
        nominator.nominate(pod(name), "n")

    nominator.delete_nominated_pod_if_exists(pod("b").uid)
    nominator.delete_nominated_pod_if_exists("unknown")

    assert nominations(nominator) == {"n": ["c", "a"]}


def test_a_pod_leaves_room_for_its_equals_and_betters() -> None:
    """Nominated pods of lower priority, and the pod itself, are not in its way."""
    nominator = NominatedPods()
    for name, priority, node in (("low", 1, "n1"), ("same", 5, "n1"), ("high", 9, "n2")):
        nominator.nominate(pod(name, priority=priority), node)
    itself = pod("p", priority=5)
    nominator.nominate(itself, "n1")

    snapshot = make_snapshot([make_node("n1"), make_node("n2")])
    before = nominator.before(itself, snapshot)

    assert before is not None
    assert {p.name: p.node_name for p in before.pods_on(snapshot)} == {"same": "n1", "high": "n2"}
    named = [each for node in nominator for each in nominator.nominated_pods_for_node(node)]
    assert {p.name for p in named if nominator.comes_before(p.uid, itself)} == {"same", "high"}
    assert not nominator.comes_before("unknown", itself)


def test_waiting_pods_are_nominated_by_their_status() -> None:
    """A pod that is added or updated with a nomination holds it until it is deleted."""
    under_test = QueueUnderTest()
    nominator = under_test.queue.nominator
    story = []
    first, second, third = pod(node="n1"), pod(node="n2"), pod()

    under_test.queue.add(first)
    story.append(nominations(nominator))
    under_test.queue.update(first, second)
    story.append(nominations(nominator))
    under_test.fail(under_test.pop())
    under_test.queue.update(second, third)
    story.append(nominations(nominator))
    under_test.queue.add_nominated_pod(third, "n3")
    story.append(nominations(nominator))
    under_test.queue.delete(third)
    story.append(nominations(nominator))
    under_test.queue.add_nominated_pod(third, "n3")
    story.append(nominations(nominator))

    assert story == [{"n1": ["p"]}, {"n2": ["p"]}, {}, {"n3": ["p"]}, {}, {}]


def test_the_newest_version_of_a_pod_is_nominated() -> None:
    """A cycle that holds an older version of the pod does not bring it back."""
    under_test = QueueUnderTest()
    old, new = pod(), make_pod_info("p", labels={"a": "1"})
    under_test.queue.add(old)
    under_test.pop()
    under_test.queue.update(old, new)

    under_test.queue.add_nominated_pod(old, "n")

    assert list(under_test.queue.nominator.nominated_pods_for_node("n")) == [new]


def test_a_pod_that_is_gone_keeps_no_place_that_it_had() -> None:
    """Its attempt ended while a node was cleared for it."""
    under_test = QueueUnderTest()
    pod = make_pod_info("p", nominated_node_name="n")
    under_test.queue.add(pod)
    under_test.pop()
    under_test.queue.done(pod.uid)

    under_test.queue.add_nominated_pod(pod, "m")

    assert under_test.queue.nominator.nodes.get(pod.uid) is None
