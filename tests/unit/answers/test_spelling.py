"""Misspelt words are recognised, and what was meant is tried."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from scheduler.api.objects import (
    Affinity,
    LabelSelector,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinitySpec,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from scheduler.kernel.answers import spelling
from scheduler.kernel.answers.model import Guess
from scheduler.kernel.answers.spelling import guesses, is_close, nearest_word
from scheduler.kernel.answers.trials import Trials
from tests.support.builders import ZONE, make_node, make_pod_info, make_snapshot
from tests.unit.answers.worlds import FRAMEWORK

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def guessed(**fields: Any) -> list[Guess]:
    """What is guessed of a pod on three nodes."""
    snapshot = make_snapshot(
        [
            make_node("a", zone="1", labels={"disk": "ssd", "Tier": "gold"}),
            make_node("b", zone="1", labels={"disk": "ssd"}, allocatable={"example.com/gpu": 1}),
            make_node("c", zone="2", labels={"disk": "hdd"}, allocatable={"example.com/gpu": 4}),
        ]
    )
    trials = Trials(FRAMEWORK, make_pod_info("p", **fields), snapshot, None)
    trials.left = 100
    return [guess for guess in guesses(trials) if guess is not None]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("ssd", "sssd", True),
        ("ssd", "sd", True),
        ("ssd", "sdd", True),
        ("zone", "zoen", True),
        ("zone", "enoz", False),
        ("disk", "disks", True),
        ("tier", "Tier", True),
        ("TIER", "tire", True),
        ("ab", "ac", False),
        ("ssd", "hdd", False),
        ("", "abc", False),
        ("topology.kubernetes.io/zones", "topology.kubernetes.io/zone", True),
    ],
)
def test_words_one_edit_apart(one: str, other: str, *, expected: bool) -> None:
    """A letter more, less or other, or two neighbours exchanged; both ways."""
    assert is_close(one, other) is expected
    assert is_close(other, one) is expected


def test_the_most_frequent_word_is_meant() -> None:
    """And never the word itself."""
    assert nearest_word("sdd", {"hdd": 1, "ssd": 5, "sdd": 9}) == "ssd"
    assert nearest_word("nvme", {"hdd": 1}) is None


def test_values_of_a_node_selector() -> None:
    """Tried with the value that nodes have."""
    assert guessed(node_selector={"disk": "sssd"}) == [
        Guess("spec.nodeSelector[disk]", "sssd", "ssd", nodes=2, fits=2)
    ]


def test_keys_of_a_node_selector() -> None:
    """Capital letters count for nothing; what would not fit for other reasons is guessed too."""
    assert guessed(node_selector={"tier": "gold"}, requests={"cpu": "64"}) == [
        Guess("spec.nodeSelector[tier]", "tier", "Tier", nodes=1, fits=0)
    ]


def test_words_of_node_affinity() -> None:
    """Keys, and values of In; a value that must not be there may well be nowhere."""
    terms = (
        NodeSelectorTerm(
            (
                NodeSelectorRequirement("disc", "Exists"),
                NodeSelectorRequirement("disk", "In", ("hddd", "ssd")),
                NodeSelectorRequirement("disk", "NotIn", ("ssdd",)),
            )
        ),
    )
    at = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions"

    assert guessed(affinity=Affinity(NodeAffinitySpec(NodeSelector(terms)))) == [
        Guess(f"{at}[0].key", "disc", "disk", nodes=3, fits=2),
        Guess(f"{at}[1].values", "hddd", "hdd", nodes=1, fits=0),
    ]


def test_topology_keys() -> None:
    """Of spread constraints that must be kept, and of required terms."""
    wrong = ZONE + "s"
    selector = LabelSelector({"app": "web"})
    anti = PodAffinitySpec((PodAffinityTerm(wrong, selector),))
    hard = TopologySpreadConstraint(1, wrong, "DoNotSchedule", selector)
    soft = TopologySpreadConstraint(1, wrong, "ScheduleAnyway", selector)

    found = guessed(
        affinity=Affinity(pod_anti_affinity=anti), topology_spread_constraints=[soft, hard]
    )

    assert found == [
        Guess(f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey", wrong, ZONE, 3, 3),
        Guess("spec.topologySpreadConstraints[1].topologyKey", wrong, ZONE, 3, 3),
    ]


def test_resources() -> None:
    """By the number of nodes that offer the one that is meant."""
    found = guessed(requests={"example.com/gpus": 2, "cpu": 1})

    path = "spec.containers[0].resources.requests[example.com/gpus]"
    assert found == [Guess(path, "example.com/gpus", "example.com/gpu", nodes=2, fits=1)]


def test_what_is_there_is_not_guessed_at() -> None:
    """Nor what is like nothing at all."""
    assert not guessed(
        node_selector={"disk": "hdd", "unlike": "anything"}, requests={"vendor.example/x": 1}
    )


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that have been compared with the known ones."""
    words: list[str] = []
    nearest = spelling.nearest_word

    def counted(written: str, known: Mapping[str, int]) -> str | None:
        words.append(written)
        return nearest(written, known)

    monkeypatch.setattr(spelling, "nearest_word", counted)
    return words


def test_a_step_compares_one_word_and_the_words_are_limited(compared: list[str]) -> None:
    """However many values the pod writes; the last one would be a guess."""
    values = (*(f"unlike-{i}" for i in range(1000)), "sssd")
    rule = NodeSelectorRequirement("disk", "In", values)
    terms = (NodeSelectorTerm((rule,)),)
    pod = make_pod_info("p", affinity=Affinity(NodeAffinitySpec(NodeSelector(terms))))
    trials = Trials(FRAMEWORK, pod, make_snapshot([make_node("a", labels={"disk": "ssd"})]), None)
    trials.left = 100
    counts = [len(compared) for _ in guesses(trials)]

    assert all(after - before <= 1 for before, after in pairwise(counts))
    assert len(compared) == 64


def test_no_word_is_compared_after_the_last_guess(compared: list[str]) -> None:
    """The answer has at most eight guesses."""
    found = guessed(requests={f"example.com/gpu{i}": 1 for i in range(10)})

    assert len(found) == len(compared) == 8
