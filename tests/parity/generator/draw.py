"""Seeded choices, and the few names all generated clusters share.

Clusters are small and their vocabulary is tiny on purpose: random parts must meet each other
(the same label on several nodes, the same port in several pods) or nothing is tested.
"""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

Object = dict[str, Any]
"""A Kubernetes object, or a part of one, as plain JSON data."""

T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
RACK = "rack"

NODE_LABELS: dict[str, tuple[str, ...]] = {
    ZONE: ("z1", "z2", "z3", "z4"),
    REGION: ("r1", "r2"),
    RACK: ("a", "b", "c", ""),
    "disk": ("ssd", "hdd"),
    "rank": ("1", "5", "10", "3", "007", "x", "1_0", "9223372036854775807", "9223372036854775808"),
    "example.com/tier": ("gold", "silver"),
}
"""Label keys of nodes and their values; zone and rack are what most topologies use."""

TOPOLOGY_KEYS = (HOSTNAME, ZONE, ZONE, REGION, RACK, "disk")

POD_LABELS: dict[str, tuple[str, ...]] = {
    "app": ("a", "b", "c"),
    "ver": ("v1", "v2"),
    "tier": ("x", "y"),
}

NAMESPACES = ("default", "team-a", "team-b")
NAMESPACE_LABELS: dict[str, tuple[str, ...]] = {"team": ("a", "b"), "env": ("prod", "test")}


class Draw(random.Random):
    """A seeded source of choices."""

    def maybe(self, probability: float) -> bool:
        """Say yes with the given probability."""
        return self.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Choose one of the items."""
        return self.choice(items)

    def some(self, items: Sequence[T], least: int, most: int) -> list[T]:
        """Choose between `least` and `most` different items, in random order."""
        return self.sample(items, min(len(items), self.randint(least, most)))

    def labels(self, vocabulary: dict[str, tuple[str, ...]], probability: float) -> dict[str, str]:
        """Give each key of the vocabulary one of its values, or leave it out."""
        return {
            key: self.pick(values) for key, values in vocabulary.items() if self.maybe(probability)
        }

    def label_selector(self, vocabulary: dict[str, tuple[str, ...]]) -> Object:
        """Make a LabelSelector over the vocabulary; sometimes the one that matches everything."""
        if self.maybe(0.06):
            return {}
        selector: Object = {}
        if self.maybe(0.7):
            key = self.pick(list(vocabulary))
            selector["matchLabels"] = {key: self.pick(vocabulary[key])}
        if not selector or self.maybe(0.35):
            selector["matchExpressions"] = [
                self._requirement(vocabulary) for _ in range(self.randint(1, 2))
            ]
        return selector

    def _requirement(self, vocabulary: dict[str, tuple[str, ...]]) -> Object:
        key = self.pick([*vocabulary, "unknown"])
        operator = self.pick(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        requirement: Object = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            values = (*vocabulary.get(key, ()), "nowhere")
            requirement["values"] = self.some(values, 1, 2)
        return requirement
