"""No step is long, however much there is: on a small scale, by comparison with half as much.

Machines differ and are shared, so a step is compared with what the same case took when there was a
quarter of everything: a step that grows with what there is takes four times as long or more.
"""

import gc
from collections.abc import Iterator
from math import inf

import pytest

from bench.steps import CASES

GROWTH = 3.0
"""What grows with its size takes four times as long."""
NOISE_MS = 8.0
"""Below this no step is long."""
TRIES = 30
SMALL: dict[str, tuple[int, ...]] = {
    "a group is given back": (600, 400),
    "a group runs out of patience": (600, 400),
    "a group is let go": (600, 400),
    "a pod group of unlike members": (800,),
    "a pod group that needs victims": (40,),
    "a pod group in one of many racks": (240, 2),
    "victims of a whole pod group": (4, 80),
    "room for a pod group": (16, 80),
    "a budget for each app": (800,),
    "budgets that no label files": (1_600, 1_200),
    "a namespace's labels change": (400, 100),
    "new label sets beside selectors": (8_400, 400),
    "terms of bound pods": (400,),
    "/debug/queue": (400,),
    "/debug/cache": (400, 4_000),
    "/debug/explain": (400, 40),
    "/debug/explain of a pod with devices": (40,),
    "/debug/recording": (1_000, 4_000),
    "/metrics": (40,),
    "/metrics/resources": (4_000,),
    "recordings": (2_000,),
    "profiles": (1, 800),
}


@pytest.fixture(autouse=True)
def _without_collections() -> Iterator[None]:
    """A collection is as long as what all other tests have left."""
    gc.disable()
    yield
    gc.enable()


def test_every_case_has_a_small_scale() -> None:
    """None is left out here."""
    assert SMALL.keys() == CASES.keys()


@pytest.mark.parametrize("name", SMALL)
def test_no_step_is_long(name: str) -> None:
    """Four times as much of everything makes none as much longer."""
    case, sizes = CASES[name][0], SMALL[name]
    fewer = tuple(max(1, size // 4) for size in sizes)

    few = many = inf
    for _ in range(TRIES):
        # The luckiest tries are compared: other processes only ever make a step longer.
        few, many = min(few, max(case(*fewer))), min(many, max(case(*sizes)))
        if many <= max(NOISE_MS, GROWTH * few):
            break

    assert many <= max(NOISE_MS, GROWTH * few), f"{few:.1f} ms, then {many:.1f} ms"
