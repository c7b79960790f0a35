"""Selectors of pods, and the index that finds the terms which match a pod.

Thousands of selectors must not be tried on every pod. Each selector is filed under its namespace
and one label it demands; a pod is tried only on selectors filed under its namespace and labels.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from scheduler.api.affinity import AffinityTerm
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import NOTHING, Operator, Selector

NamespaceLabels: TypeAlias = Mapping[str, Mapping[str, str]]

_BucketKey: TypeAlias = tuple[str | None, tuple[str, str] | None]
"""Namespace and label pair, each None for "any"."""
_Drawer: TypeAlias = tuple[str | None, str | None]
"""Namespace and label key: there are few, and many values in each."""

_ANY: Final = (None, "")
_MAX_NAMESPACES_FILED: Final = 8
"""A selector of more namespaces is filed under "any"."""


K = TypeVar("K")
T = TypeVar("T")


class Buckets(Generic[K, T]):
    """Items by key, in order of arrival; compared by identity.

    There may be as many keys as pods. The only item of a key is stored without a dictionary, which
    would take 200 bytes.
    """

    __slots__ = ("_alone", "_several")

    def __init__(self) -> None:
        self._alone: dict[K, T] = {}
        self._several: dict[K, dict[T, None]] = {}

    def add(self, key: K, item: T) -> None:
        """File an item that is not filed under this key."""
        several = self._several.get(key)
        if several is not None:
            several[item] = None
        elif key in self._alone:
            self._several[key] = dict.fromkeys((self._alone.pop(key), item))
        else:
            self._alone[key] = item

    def discard(self, key: K, item: T) -> None:
        """Remove an item that is filed under this key."""
        several = self._several.get(key)
        if several is None:
            del self._alone[key]
            return
        del several[item]
        if not several:
            del self._several[key]

    def __bool__(self) -> bool:
        return bool(self._alone or self._several)

    def of(self, key: K) -> Collection[T]:
        """The items under a key."""
        several = self._several.get(key)
        if several is not None:
            return several
        found = self._alone.get(key)
        return () if found is None else (found,)


class PodSelector(msgspec.Struct, frozen=True, gc=False):
    """Pods by namespace and labels.

    Attributes:
        namespaces: namespaces by name.
        namespace_selector: further namespaces, by their labels.
        selector: the requirements on the labels of the pod.
        skip_terminating: whether pods that are being deleted do not count.
    """

    namespaces: frozenset[str]
    selector: Selector
    namespace_selector: Selector = NOTHING
    skip_terminating: bool = False

    @property
    def reads_namespace_labels(self) -> bool:
        """Whether the labels of namespaces decide which are selected."""
        return bool(self.namespace_selector.requirements)

    def matches(self, pod: PodInfo, namespaces: NamespaceLabels) -> bool:
        """Whether a pod is selected."""
        return (
            not (self.skip_terminating and pod.is_terminating)
            and self.matches_namespace(pod.namespace, namespaces)
            and self.selector.matches(pod.labels)
        )

    def matches_namespace(self, namespace: str, namespaces: NamespaceLabels) -> bool:
        """Whether pods of the namespace are selected."""
        return namespace in self.namespaces or (
            not self.namespace_selector.nothing
            and self.namespace_selector.matches(namespaces.get(namespace, {}))
        )


def pod_selector_of(term: AffinityTerm, namespace: str) -> PodSelector:
    """The pods that an affinity term of a pod in `namespace` selects."""
    resolved = term.in_namespace(namespace)
    return PodSelector(resolved.namespaces, resolved.selector, resolved.namespace_selector)


class Selecting(Protocol):
    """Something filed by its pod selector."""

    @property
    def pods(self) -> PodSelector:
        """The pods that it selects."""
        ...


S = TypeVar("S", bound=Selecting)


class SelectorIndex(Generic[S]):
    """Finds the items that match a pod, by the pod's own namespace and labels."""

    def __init__(self) -> None:
        self._drawers: dict[_Drawer, Buckets[str, S]] = {}
        self._filed: dict[S, int] = {}
        """By item, the number of its choice of buckets that was taken."""
        self._named: dict[str, Counter[str]] = {}
        """By label key, number of items that name each value; each item also counts once for ""."""

    def add(self, item: S) -> None:
        """File an item, where it has the fewest neighbours."""
        choices = _bucket_keys(item.pods)
        crowds = [sum(len(self._bucket(*key)) for key in keys) for keys in choices]
        choice = self._filed[item] = crowds.index(min(crowds))
        for place, pair in choices[choice]:
            label_key, value = pair or _ANY
            self._drawers.setdefault((place, label_key), Buckets()).add(value, item)
        for requirement in item.pods.selector.requirements:
            self._named.setdefault(requirement.key, Counter()).update(("", *requirement.values))

    def discard(self, item: S) -> None:
        """Remove an item."""
        for place, pair in _bucket_keys(item.pods)[self._filed.pop(item)]:
            label_key, value = pair or _ANY
            drawer = self._drawers[place, label_key]
            drawer.discard(value, item)
            if not drawer:
                del self._drawers[place, label_key]
        for requirement in item.pods.selector.requirements:
            named = self._named[requirement.key]
            for value in ("", *requirement.values):
                named[value] -= 1
                if not named[value]:
                    del named[value]
            if not named:
                del self._named[requirement.key]

    def __len__(self) -> int:
        return len(self._filed)

    def distinction(self, labels: Mapping[str, str]) -> tuple[tuple[str, str | None], ...]:
        """The part of labels that items can tell apart: keys, and the values that an item names.

        Selectors of pods only compare with values that they name, so labels that are equal in this
        part match the same items.
        """
        named = self._named
        return tuple(
            (key, value if value in named[key] else None)
            for key, value in labels.items()
            if key in named
        )

    def matching(
        self, labels: Mapping[str, str], namespace: str, namespaces: NamespaceLabels
    ) -> list[S]:
        """The items that match a pod with these labels in this namespace."""
        return [
            item
            for item in self.candidates(labels, namespace)
            if item.pods.selector.matches(labels)
            and item.pods.matches_namespace(namespace, namespaces)
        ]

    def candidates(self, labels: Mapping[str, str], namespace: str) -> Iterator[S]:
        """Items that may match a pod with these labels; each must still be tried."""
        if not self._filed:
            return
        for place in (namespace, None):
            for pair in (None, *labels.items()):
                yield from self._bucket(place, pair)

    def _bucket(self, place: str | None, pair: tuple[str, str] | None) -> Collection[S]:
        label_key, value = pair or _ANY
        drawer = self._drawers.get((place, label_key))
        return () if drawer is None else drawer.of(value)


def label_choices(selector: Selector) -> list[list[tuple[str, str]]]:
    """Lists of label pairs; of each list a matching pod has exactly one. Best lists first."""
    demands = [r for r in selector.requirements if r.operator is Operator.IN]
    demands.sort(key=lambda requirement: (len(requirement.values), requirement.key))
    return [[(demand.key, value) for value in sorted(demand.values)] for demand in demands]


def _bucket_keys(pods: PodSelector) -> list[list[_BucketKey]]:
    """The buckets in which an item may be filed, as several choices."""
    places: Iterable[str | None] = (None,)
    if pods.namespace_selector.nothing and len(pods.namespaces) <= _MAX_NAMESPACES_FILED:
        places = sorted(pods.namespaces)
    choices: list[list[tuple[str, str] | None]] = [
        [*pairs] for pairs in label_choices(pods.selector)
    ]
    return [[(place, pair) for place in places for pair in pairs] for pairs in choices or [[None]]]
