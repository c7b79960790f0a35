"""Items are found under their key in the order they came, however many share it."""

from random import Random

import pytest

from scheduler.kernel.snapshot.pod_selectors import Buckets


@pytest.mark.parametrize("seed", range(20))
def test_buckets_are_dictionaries_of_dictionaries(seed: int) -> None:
    """Whatever is added and taken out, each key has what it would have in one of those."""
    random = Random(seed)
    buckets: Buckets[int, object] = Buckets()
    expected: dict[int, list[object]] = {}

    for _ in range(300):
        key = random.randrange(4)
        items = expected.setdefault(key, [])
        if items and random.random() < 0.5:
            item = items.pop(random.randrange(len(items)))
            buckets.discard(key, item)
        else:
            items.append(object())
            buckets.add(key, items[-1])

        assert all(list(buckets.of(each)) == expected.get(each, []) for each in range(4))
        assert bool(buckets) == any(expected.values())
