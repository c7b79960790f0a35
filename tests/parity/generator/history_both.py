"""Objects for histories with resource claims and volumes; some pods have both."""

from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.history_claims import has_claims, with_claims
from tests.parity.generator.history_volumes import has_volumes, make_volumes_history_case

BOTH = 0.15
"""How many of the pods with volumes may have resource claims as well."""


def make_both_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects."""
    draw = Draw(f"history with claims and volumes:{seed}")
    return with_claims(
        draw,
        make_volumes_history_case(seed),
        lambda pod: "volumes" not in pod["spec"] or draw.maybe(BOTH),
    )


def has_both(case: Object) -> bool:
    """Whether a case is one of those with both."""
    return has_claims(case) and has_volumes(case)
