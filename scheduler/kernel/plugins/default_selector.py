"""The default selector of a pod, deduced from the objects that own or serve it.

Pods without spread constraints get default ones, over the pods that the same Services and the same
controller select. Thousands of pods of one workload have the same selector, so selectors are
cached until something in their namespace changes.

Source: kubernetes pkg/scheduler/framework/plugins/helper/spread.go (v1.36) DefaultSelector,
GetPodServices.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, TypeAlias
from weakref import WeakKeyDictionary

from typing_extensions import override

from scheduler.api.pods import PodInfo, PodKind
from scheduler.api.selectors import (
    NOTHING,
    Selector,
    SelectorError,
    selector_from_label_selector,
    selector_from_labels,
)
from scheduler.api.workloads import Service, Workload
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.handle import SharedState

SERVICE: Final = ObjectKind("Service")
REPLICATION_CONTROLLER: Final = ObjectKind("ReplicationController")
REPLICA_SET: Final = ObjectKind("ReplicaSet", "apps/v1")
STATEFUL_SET: Final = ObjectKind("StatefulSet", "apps/v1")

_OWNER_KINDS: Final[Mapping[tuple[str, str], ObjectKind]] = {
    (kind.api_version, kind.kind): kind
    for kind in (REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)
}

_Owner: TypeAlias = tuple[ObjectKind, str]
"""Kind and name."""


class _Services:
    """The Services of one namespace, indexed by one label of each selector."""

    def __init__(self) -> None:
        self._selectors: dict[str, dict[str, str]] = {}
        self._by_label: dict[tuple[str, str], dict[str, dict[str, str]]] = {}

    def set(self, name: str, selector: dict[str, str]) -> bool:
        """Store a selector; an empty one selects no pods. Returns whether anything changed."""
        if self._selectors.get(name, {}) == selector:
            return False
        self.remove(name)
        if selector:
            self._selectors[name] = selector
            self._by_label.setdefault(_first_label(selector), {})[name] = selector
        return True

    def remove(self, name: str) -> bool:
        """Remove a Service. Returns whether it was known."""
        selector = self._selectors.pop(name, None)
        if selector is None:
            return False
        label = _first_label(selector)
        del self._by_label[label][name]
        if not self._by_label[label]:
            del self._by_label[label]
        return True

    def matching(self, labels: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """The selectors that pods with these labels satisfy."""
        for label in labels.items():
            for selector in self._by_label.get(label, {}).values():
                if all(labels.get(key) == value for key, value in selector.items()):
                    yield selector

    def copy(self) -> "_Services":
        """An independent copy."""
        copy = _Services()
        copy._selectors = self._selectors.copy()
        copy._by_label = {label: named.copy() for label, named in self._by_label.items()}
        return copy

    def __len__(self) -> int:
        return len(self._selectors)


class _Namespace:
    """The Services and controllers of one namespace.

    Attributes:
        remembered: selectors by pod kind; forks that share the namespace share this cache.
    """

    def __init__(self, services: _Services, controllers: dict[_Owner, Selector]) -> None:
        self.services = services
        self.controllers = controllers
        self.remembered: WeakKeyDictionary[PodKind, Selector] = WeakKeyDictionary()

    @property
    def is_empty(self) -> bool:
        """Whether it has neither Services nor controllers."""
        return not self.services and not self.controllers


class Workloads(SharedState):
    """The Services, ReplicationControllers, ReplicaSets and StatefulSets of the cluster.

    Forks share the namespaces that neither of them has changed since.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (
        SERVICE,
        REPLICATION_CONTROLLER,
        REPLICA_SET,
        STATEFUL_SET,
    )

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}
        self._owned: set[str] = set()

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        if new is None:
            self._remove(kind, old)
        else:
            self._set(kind, new)

    @override
    def fork(self) -> "Workloads":
        copy = Workloads()
        copy._namespaces = self._namespaces.copy()
        self._owned.clear()
        return copy

    def selector_of(self, pod: PodInfo) -> Selector:
        """The selector of a pod's Services and controller; selects everything if it has none."""
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            return Selector()
        selector = namespace.remembered.get(pod.kind)
        if selector is None:
            selector = namespace.remembered[pod.kind] = _combined_selector(namespace, pod.kind)
        return selector

    def _set(self, kind: ObjectKind, workload: Service | Workload) -> None:
        metadata = workload.metadata
        namespace = self._own(metadata.namespace)
        if isinstance(workload, Service) and kind == SERVICE:
            changed = namespace.services.set(metadata.name, workload.spec.selector)
        else:
            owner, selector = (kind, metadata.name), _selector_of(workload)
            changed = namespace.controllers.get(owner) != selector
            namespace.controllers[owner] = selector
        if changed:
            namespace.remembered.clear()

    def _remove(self, kind: ObjectKind, workload: Service | Workload) -> None:
        metadata = workload.metadata
        if metadata.namespace not in self._namespaces:
            return
        namespace = self._own(metadata.namespace)
        if kind == SERVICE:
            changed = namespace.services.remove(metadata.name)
        else:
            changed = namespace.controllers.pop((kind, metadata.name), None) is not None
        is_empty = not namespace.services and not namespace.controllers
        if changed or is_empty:
            namespace.remembered.clear()
        if is_empty:
            del self._namespaces[metadata.namespace]
            self._owned.discard(metadata.namespace)

    def _own(self, name: str) -> _Namespace:
        """A namespace that no fork shares."""
        namespace = self._namespaces.get(name)
        if namespace is None:
            namespace = self._namespaces[name] = _Namespace(_Services(), {})
        elif name not in self._owned:
            namespace = _Namespace(namespace.services.copy(), namespace.controllers.copy())
            self._namespaces[name] = namespace
        self._owned.add(name)
        return namespace


def _combined_selector(namespace: _Namespace, kind: PodKind) -> Selector:
    labels: dict[str, str] = {}
    for selector in namespace.services.matching(kind.labels):
        labels.update(selector)
    owner = _controller_of(kind)
    controller = namespace.controllers.get(owner, NOTHING) if owner is not None else NOTHING
    if controller.nothing:
        return selector_from_labels(labels)
    if owner is not None and owner[0] == REPLICATION_CONTROLLER:
        # Upstream merges both as labels: the controller's value of a key replaces the Service's.
        overridden = {requirement.key for requirement in controller.requirements}
        labels = {key: value for key, value in labels.items() if key not in overridden}
    return selector_from_labels(labels).with_requirements(controller.requirements)


def _controller_of(kind: PodKind) -> _Owner | None:
    """The controller that owns the pods, if it is of a kind that selects pods."""
    for reference in kind.owners:
        if reference.controller:
            owner = _OWNER_KINDS.get((reference.api_version, reference.kind))
            return None if owner is None else (owner, reference.name)
    return None


def _selector_of(workload: Service | Workload) -> Selector:
    """The selector of a controller; a missing or unreadable one selects nothing."""
    if isinstance(workload, Service):
        return selector_from_labels(workload.spec.selector)
    try:
        return selector_from_label_selector(workload.spec.selector)
    except SelectorError:
        return NOTHING


def _first_label(selector: Mapping[str, str]) -> tuple[str, str]:
    return next(iter(selector.items()))
