"""How many requests at a time: laws over servers that are a few numbers."""

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from scheduler.daemon.driver.concurrency import FEWEST, LOOK_SECONDS, MOST, ConcurrencyLimit
from tests.unit.driver.modelled_servers import (
    Refusing,
    Seats,
    Server,
    Stations,
    Thrashing,
    World,
)

SHARE = 0.9
"""Of what the best fixed number brings."""
FIXED = (4, 8, 16, 32, 64, 128)
SETTLED_SECONDS = 20
"""After a start, or a change, the share is held."""
MEASURED_SECONDS = 40
SLOWLY_SECONDS = 120
"""The same where so little is answered that each look takes seconds."""

SERVERS: dict[str, Callable[[], Server]] = {
    "one that has eight seats": lambda: Seats(8, 0.016, 0.008),
    "one with a processor for two": lambda: Seats(2, 0.004, 0.001),
    "one that is far away": lambda: Seats(64, 0.020, 0.100),
    "one that thrashes early": lambda: Thrashing(0.008, 6),
    "one that thrashes late": lambda: Thrashing(0.040, 45),
    "one without a knee": lambda: Stations(3, 0.002),
    "one whose work is uneven": lambda: Seats(8, 0.016, 0.008, unevenness=1.5),
    "one that hangs now and then": lambda: Seats(8, 0.016, 0.008, hanging=0.002),
    "one that refuses who finds no seat": lambda: Seats(10, 0.020, 0.004, line=0),
    "one that lets few wait": lambda: Seats(10, 0.020, 0.004, line=16),
}


def best_of(make: Callable[[], Server], settled: int, measured: int) -> float:
    """What the best fixed number brings, in answers per second."""
    worlds = [World(make(), fixed) for fixed in FIXED]
    for world in worlds:
        world.run(settled + measured)
    return max(world.rate(settled, settled + measured) for world in worlds)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in SERVERS.items()])
def test_nearly_as_much_is_answered_as_with_the_best_number(make: Callable[[], Server]) -> None:
    """Whichever that is; the server is not known before."""
    best = best_of(make, SETTLED_SECONDS // 2, MEASURED_SECONDS // 4)

    for seed in (1, 2):
        world = World(make(), seed=seed)
        world.run(SETTLED_SECONDS + MEASURED_SECONDS)

        rate = world.rate(SETTLED_SECONDS, SETTLED_SECONDS + MEASURED_SECONDS)
        assert rate >= SHARE * best


@pytest.mark.parametrize("rate", [20, 50])
def test_refusals_by_rate_are_met_with_more_at_a_time(rate: int) -> None:
    """Each that is refused waits for a second or more: only others can come in time."""

    def make() -> Server:
        return Refusing(rate, 0.02)

    best = best_of(make, SETTLED_SECONDS, SLOWLY_SECONDS)

    for seed in (1, 2):
        world = World(make(), seed=seed)
        world.run(2 * SLOWLY_SECONDS)

        assert world.rate(SLOWLY_SECONDS, 2 * SLOWLY_SECONDS) >= SHARE * best


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            lambda: Seats(16, 0.01, 0.01), lambda: Seats(16, 0.01, 0.1), id="ten times as far"
        ),
        pytest.param(
            lambda: Seats(16, 0.01, 0.1), lambda: Seats(16, 0.01, 0.01), id="a tenth as far"
        ),
        pytest.param(
            lambda: Seats(32, 0.02, 0.01), lambda: Seats(32, 0.2, 0.01), id="ten times as slow"
        ),
        pytest.param(
            lambda: Seats(64, 0.04, 0.04), lambda: Thrashing(0.008, 6), id="it begins to thrash"
        ),
        pytest.param(
            lambda: Thrashing(0.008, 6), lambda: Seats(64, 0.04, 0.04), id="it thrashes no more"
        ),
    ],
)
def test_a_server_that_changes_is_found_out_about(
    before: Callable[[], Server], after: Callable[[], Server]
) -> None:
    """Within twenty seconds nearly as much is answered again as with the best number."""
    best = best_of(after, SETTLED_SECONDS // 2, MEASURED_SECONDS // 4)
    world = World(before())
    world.run(SETTLED_SECONDS)

    world.replace(after())
    world.run(SETTLED_SECONDS + MEASURED_SECONDS)

    end = 2 * SETTLED_SECONDS + MEASURED_SECONDS
    assert world.rate(2 * SETTLED_SECONDS, end) >= SHARE * best


def test_where_less_brings_as_much_more_is_asked() -> None:
    """What a few per cent bring shows in no window; one that is on trial may be half."""
    world = World(Seats(2, 0.004, 0.001))

    world.run(MEASURED_SECONDS)

    assert world.limit.limit >= MOST // 2


def test_of_one_that_thrashes_less_is_asked() -> None:
    """As long as it does."""
    world = World(Thrashing(0.008, 6))

    world.run(MEASURED_SECONDS)

    assert world.limit.limit <= 16


@given(st.lists(st.tuples(st.integers(0, 3000), st.floats(0.0, 10.0), st.booleans())))
def test_the_limit_is_always_a_sensible_number(windows: list[tuple[int, float, bool]]) -> None:
    """Whatever is answered, and however late the look: the machine may have stood still."""
    limit, now = ConcurrencyLimit(MOST), 0.0
    for answered, seconds, ran_dry in windows:
        limit.answered += answered
        limit.ran_dry |= ran_dry
        now += seconds
        before = limit.limit
        limit.look(now)

        assert FEWEST <= limit.limit <= MOST
        assert limit.limit == before or not ran_dry


def test_nothing_is_learned_while_nothing_waits() -> None:
    """What is answered then says how much there was to do."""
    limit = ConcurrencyLimit(MOST)

    for number in range(1000):
        limit.ran_dry = True
        limit.answered += 1000 + number
        limit.look(number * LOOK_SECONDS)

    assert limit.limit == MOST
