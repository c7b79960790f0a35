"""Sums are exact whatever the pods ask for."""

import random
from collections import Counter

import numpy as np
import pytest

from scheduler.kernel.snapshot import PodAdded, PodRelabelled, PodRemoved, PodUpdated
from scheduler.kernel.snapshot.changes import RowLog
from scheduler.kernel.snapshot.resource_sums import Amounts
from tests.support.builders import make_node, make_pod_info, make_snapshot

SIZES = (1, 3, 2**31, 2**52 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**62 + 3, 2**63 - 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_rows_sums_are_those_of_its_pods(seed: int) -> None:
    """2**53 and 2**63 included, added and removed in any order, for offered resources or not."""
    draw = random.Random(seed)
    snapshot = make_snapshot([make_node("n", allocatable={"a.b/offered": 2**63 - 1})])
    running = {}
    for i in range(300):
        if running and draw.random() < 0.45:
            snapshot.update([PodRemoved(running.pop(draw.choice(list(running))))])
        else:
            names = draw.sample(("memory", "ephemeral-storage", "a.b/offered", "a.b/other"), 2)
            requests = {name: draw.choice(SIZES) for name in names}
            pod = running[i] = make_pod_info(f"p{i}", node_name="n", requests=requests)
            snapshot.update([PodAdded(pod)])
        expected: Counter[str] = Counter()
        for pod in running.values():
            expected.update(pod.shape.occupied)
        taken, non_zero, count = snapshot.table.sums.of_row(0)
        assert taken == {name: amount for name, amount in expected.items() if amount}
        assert non_zero[1] == sum(p.shape.non_zero_occupied[1] for p in running.values())
        assert count == len(running)


@pytest.mark.parametrize("largest", [2**31, 2**52, 2**63 - 1])
def test_pods_that_come_together_sum_up_as_one_by_one(largest: int) -> None:
    """Whatever they ask for, offered or not, on rows that hold something already.

    What is told of them again in between changes no sum.
    """
    draw = random.Random(largest)
    sizes = [size for size in SIZES if size <= largest]
    nodes = [make_node(f"n{i}", allocatable={"a.b/offered": 2**63 - 1}) for i in range(4)]
    together, one_by_one = make_snapshot(nodes), make_snapshot(nodes)

    for batch in range(3):
        pods = []
        for i in range(60):
            names = draw.sample(("memory", "ephemeral-storage", "a.b/offered", "a.b/other"), 2)
            requests = {name: draw.choice(sizes) for name in names}
            node = f"n{draw.randrange(3)}"
            pods.append(make_pod_info(f"p{batch}-{i}", node_name=node, requests=requests))
        told = [[PodAdded(pod), PodUpdated(pod), PodRelabelled(pod, pod)] for pod in pods]
        together.update(change for changes in told for change in changes[: draw.randint(1, 3)])
        for pod in pods:
            one_by_one.update([PodAdded(pod)])

    rows = range(4)
    assert [together.table.sums.of_row(row) for row in rows] == [
        one_by_one.table.sums.of_row(row) for row in rows
    ]
    assert together.table.sums.of_row(3) == ({}, (0, 0), 0)
    assert set(together.sum_log.since(0)) == set(one_by_one.sum_log.since(0)) == {0, 1, 2, 3}


def test_small_pods_come_together_to_a_sum_that_float64_just_holds() -> None:
    """Each adds a byte, which float64 would round away."""
    snapshot = make_snapshot([make_node("n")])
    large = make_pod_info("large", node_name="n", requests={"memory": 2**53 - 1})
    snapshot.update([PodAdded(large)])

    small = [make_pod_info(f"p{i}", node_name="n", requests={"memory": 1}) for i in range(50)]
    snapshot.update(map(PodAdded, small))

    taken, (_, non_zero), count = snapshot.table.sums.of_row(0)
    assert (taken["memory"], non_zero, count) == (2**53 + 49, 2**53 + 49, 51)


def test_numbers_stay_exact_on_either_side_of_what_float64_holds() -> None:
    """What is rounded in the array is kept beside it, and only that."""
    amounts = Amounts(np.zeros((1, 4)))

    for amount in (2**53 - 1, 1, 1, 2**63, -(2**63), -2):
        amounts.add(0, 2, amount)

    assert amounts.at(0, 2) == 2**53 - 1
    assert amounts.oversized == {}
    amounts.add(0, 2, 2)
    assert amounts.oversized == {(0, 2): 2**53 + 1}
    amounts.keep_lines([0], 3)
    assert amounts.at(0, 2) == 2**53 + 1
    amounts.add(0, 2, -(2**53) - 1)
    assert (amounts.at(0, 2), amounts.oversized) == (0, {})


@pytest.mark.parametrize("amount", [0, 1, 2**53 - 1, 2**53, 2**53 + 1, 2**63])
def test_a_number_is_kept_whatever_its_size_and_sign(amount: int) -> None:
    """It is set, or added to one that is there."""
    amounts = Amounts(np.zeros((1, 2)))
    for signed in (amount, -amount):
        amounts.set(0, 0, signed)
        amounts.add(0, 1, signed - amounts.at(0, 1))

        assert (amounts.at(0, 0), amounts.at(0, 1)) == (signed, signed)
        assert bool(amounts.oversized) is (amount >= 2**53)


def test_a_log_that_was_trimmed_says_so() -> None:
    """Whoever asks from before the trim must look at everything; all others get every row."""
    log = RowLog()
    positions = {}
    for change in range(30_000):
        positions[change] = log.position
        log.append(change % 5000, 64)
    positions.update((change, log.position + change - 30_000) for change in range(30_000, 40_000))
    log.extend([change % 5000 for change in range(30_000, 40_000)], 64)

    told = [log.since(positions[change]) for change in range(40_000)]

    assert told[0] is None
    first = next(i for i, rows in enumerate(told) if rows is not None)
    assert 40_000 - first >= 4096
    for change in range(first, 40_000, 97):
        rows = told[change]
        assert rows is not None
        assert set(rows.tolist()) == {i % 5000 for i in range(change, 40_000)}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_contents_of_rows_are_the_content_of_each(count: int) -> None:
    """Also of a single row, as one that is judged alone with one more pod on it."""
    nodes = [make_node(f"n{i}", allocatable={"cpu": i + 1}) for i in range(5)]
    sums = make_snapshot(nodes).table.sums
    pod = make_pod_info("p", requests={"cpu": 1})

    picked = sums.picked(np.arange(count), pod.shape, np.ones(count))

    assert picked is not None
    assert picked.contents() == [
        sums.content(row, sums.load_of(pod.shape, 1)) for row in range(count)
    ]
