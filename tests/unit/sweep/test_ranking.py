"""The front: candidates that no other one beats in waiting, nodes and placed pods at once."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from scheduler.tools.sweep.picture import write_pictures
from scheduler.tools.sweep.ranking import Standing, meanings, ranked
from scheduler.tools.sweep.run import Row


def row(
    config: str, wait: float | None, nodes: float, *, pods: int = 10, placed: int = 10, **more: str
) -> Row:
    names = {"recording": "r", "what_if": "", "workload": "", **more}
    return Row(
        config=config, pods=pods, placed=placed, moves=1, victims=2,
        wait_p50=wait, wait_p99=wait, nodes=nodes, cpu=0.5, free_cpu_unusable=0.1, **names,
    )  # fmt: skip


def test_who_is_beaten_is_not_on_the_front() -> None:
    """Less waiting for more nodes is a choice; more of both is none."""
    found = ranked([row("slow", 9, 3), row("wide", 1, 9), row("worse", 9, 10), row("mid", 4, 5)])

    assert [(s.config, s.is_on_front) for s in found] == [
        ("wide", True),
        ("mid", True),
        ("slow", True),
        ("worse", False),
    ]


@pytest.mark.parametrize("name", ["$5", "a$b$", r"$\frac{$", "$_^$"])
def test_a_picture_shows_names_as_they_are(tmp_path: Path, name: str) -> None:
    """They are no formulas."""
    write_pictures(ranked([row(name, 1, 1, what_if=name)]), tmp_path, "recorded")

    page = (tmp_path / "front.html").read_text()
    assert page.count(f"<!-- {name} -->") == 2


def test_equal_results_make_equal_pictures(tmp_path: Path) -> None:
    """So two sweeps can be compared by their files."""
    ranking = ranked([row("a", 1, 9), row("b", 9, 1)])
    first, second = [
        [file.read_bytes() for file in write_pictures(ranking, tmp_path, "a")] for _ in range(2)
    ]

    assert first == second


def test_a_candidate_that_leaves_pods_pending_is_no_bargain() -> None:
    """Few nodes are easy for those that place little."""
    [first, second] = ranked([row("lazy", 1, 1, placed=5), row("good", 1, 3)])

    assert (first.config, first.pending) == ("good", 0)
    assert (second.config, second.pending, second.is_on_front) == ("lazy", 5, True)


def test_evictions_make_no_room_for_free() -> None:
    """A pod that is placed and evicted needs no node later: that is no merit."""
    gentle, harsh = row("gentle", 1, 3), replace(row("harsh", 1, 2), victims=5)

    [first, second] = ranked([harsh, gentle])

    assert (first.config, second.config) == ("gentle", "harsh")
    assert first.costs < second.costs


def test_recordings_count_by_their_pods() -> None:
    """Waits and shares are means; pods, victims and moves are sums."""
    [found] = ranked(
        [row("a", 1, 2, recording="x", pods=30, placed=30), row("a", 5, 6, recording="y")]
    )

    assert (found.wait_p99, found.nodes, found.victims, found.moves) == (2, 3, 4, 2)


def test_nothing_placed_is_no_wait() -> None:
    """And rows of workloads do not count beside those of all pods."""
    [found] = ranked([row("a", None, 0, placed=0), row("a", 1, 1, workload="ns/Job/j")])

    assert (found.wait_p50, found.wait_p99) == (None, None)
    assert found.pending == 10
    assert found.wait_texts == ("none placed", "none placed")
    assert meanings([found]) == ["none placed: in a recording, no pod found a node"]


def test_what_places_nothing_is_last() -> None:
    """It takes no nodes, and is no bargain; what places nothing of one recording has no mean."""
    found = ranked(
        [
            row("nothing", None, 0, placed=0),
            row("half", 1, 1, pods=5, placed=5, recording="x"),
            row("half", None, 0, pods=5, placed=0, recording="y"),
            row("good", 1, 3),
            row("worse", 2, 4),
        ]
    )

    assert [(s.config, s.is_on_front, s.wait_p99) for s in found] == [
        ("good", True, 1),
        ("worse", False, 2),
        ("half", False, None),
        ("nothing", False, None),
    ]


def test_a_candidate_with_fewer_pods_is_last() -> None:
    """It leaves pods to no profile, or a run failed; it neither wins nor beats others."""
    found = ranked(
        [
            row("partial", 1, 1, pods=8, placed=8),
            row("good", 2, 3, placed=8),
            row("worse", 3, 4, placed=8),
            row("nothing", None, 0, pods=20, placed=0),
            row("alone", 5, 5, pods=4, placed=4, what_if="remove=n0"),
        ]
    )

    assert [(s.config, s.is_on_front, s.left_out) for s in found] == [
        ("good", True, ""),
        ("worse", False, ""),
        ("partial", False, "fewer pods"),
        ("nothing", False, "none placed"),
        ("alone", True, ""),
    ]
    assert [s.wait_texts[1] for s in found[:3]] == ["2.000 s", "3.000 s", "fewer pods"]
    assert meanings(found)[1:] == ["fewer pods: no profile serves the others, or a run failed"]


def test_a_recording_without_pods_says_nothing_of_waits() -> None:
    """Those of the others count."""
    [found] = ranked([row("a", None, 0, pods=0, placed=0), row("a", 2, 1, recording="y")])

    assert found.wait_p99 == 2


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1))
def test_the_front_is_what_is_beaten_by_nothing(costs: list[tuple[int, int, int]]) -> None:
    """By the plain definition: each that is off it is beaten by one on it."""
    rows = [
        row(f"c{i}", wait, nodes, placed=10 - pending)
        for i, (pending, wait, nodes) in enumerate(costs)
    ]

    found = ranked(rows)

    def beats(one: Standing, other: Standing) -> bool:
        pairs = list(zip(one.costs, other.costs, strict=True))
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

    front = [s for s in found if s.is_on_front]
    for standing in found:
        beaten = any(beats(other, standing) for other in found)
        assert standing.is_on_front == (not beaten)
        assert standing.is_on_front or any(beats(other, standing) for other in front)
