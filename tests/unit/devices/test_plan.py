"""The key by which pods with equal claims share an allocator."""

from scheduler.kernel.devices.plan import key_of
from tests.support.claims import a_claim, exactly


def test_claims_with_equal_requests_have_one_key() -> None:
    """Names do not matter, the number and the order of claims do."""
    one, same = a_claim(exactly(), name="one"), a_claim(exactly(), name="same")
    other = a_claim(exactly(count=2), name="other")

    assert key_of([one]) == key_of([same])
    assert key_of([one, same]) == key_of([one, one])
    assert len({key_of(each) for each in ([], [one], [one, one], [one, other], [other, one])}) == 5


def test_the_key_of_large_claims_is_small() -> None:
    """The names of a claim in a pod take a few bytes each, the claim up to hundreds of KB."""
    selectors = [f'"{"a" * 10_000}" != "{number}"' for number in range(32)]
    claim = a_claim(exactly(selectors=selectors))

    assert len(key_of([claim] * 256)) < 16_384
