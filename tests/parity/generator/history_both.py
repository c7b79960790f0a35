"""Objects for histories with devices and volumes; some pods have both."""

from collections.abc import Callable

from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.history_claims import has_claims, with_claims
from tests.parity.generator.history_devices import with_devices
from tests.parity.generator.history_volumes import has_volumes, make_volumes_history_case

BOTH = 0.15
"""How many of the pods with volumes may have devices as well."""


def make_both_history_case(seed: int) -> Object:
    """Make the objects of one seed, with resource claims; the same seed makes the same objects."""
    draw = Draw(f"history with claims and volumes:{seed}")
    return with_claims(draw, make_volumes_history_case(seed), _may_have(draw))


def make_all_history_case(seed: int) -> Object:
    """The same with all sorts of devices."""
    draw = Draw(f"history with devices and volumes:{seed}")
    return with_devices(seed, make_volumes_history_case(seed), _may_have(draw))


def _may_have(draw: Draw) -> Callable[[Object], bool]:
    return lambda pod: "volumes" not in pod["spec"] or draw.maybe(BOTH)


def has_both(case: Object) -> bool:
    """Whether a case is one of those with both."""
    return has_claims(case) and has_volumes(case)
