"""Adds the defaults of an API server's admission to pods and claims written by hand.

Source: kubernetes plugin/pkg/admission (limitranger, priority, runtimeclass,
defaulttolerationseconds, storage/storageclass/setdefault), pkg/apis/core/v1/defaults.go
(SetDefaults_LimitRangeItem), pkg/apis/scheduling/v1/helpers.go (SystemPriorityClasses) v1.36. These
plugins are on by default.
Differs: no object is refused because of a quota, a minimum or a maximum.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.objects import Toleration
from scheduler.api.wire import ApiStruct
from scheduler.config.walker import did_you_mean
from scheduler.kernel.framework.events import ObjectKind
from scheduler.tools.offline.defaults import completed_spec

_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_UNREADY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_EXECUTE: Final = "NoExecute"
_SECONDS: Final = 300

Raw = Mapping[str, Any]


class _Meta(ApiStruct, frozen=True):
    name: str
    namespace: str = "default"
    creation_timestamp: str | None = None
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _PriorityClass(ApiStruct, frozen=True):
    metadata: _Meta
    value: int
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class _Overhead(ApiStruct, frozen=True):
    pod_fixed: dict[str, Any] = msgspec.field(default_factory=dict)


class _Scheduling(ApiStruct, frozen=True):
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class _RuntimeClass(ApiStruct, frozen=True):
    metadata: _Meta
    overhead: _Overhead | None = None
    scheduling: _Scheduling = _Scheduling()


class _Limits(ApiStruct, frozen=True):
    type: str = ""
    max: dict[str, Any] = msgspec.field(default_factory=dict)
    min: dict[str, Any] = msgspec.field(default_factory=dict)
    default: dict[str, Any] = msgspec.field(default_factory=dict)
    default_request: dict[str, Any] = msgspec.field(default_factory=dict)


class _LimitRangeSpec(ApiStruct, frozen=True):
    limits: tuple[_Limits, ...] = ()


class _LimitRange(ApiStruct, frozen=True):
    metadata: _Meta
    spec: _LimitRangeSpec = _LimitRangeSpec()


class _StorageClass(ApiStruct, frozen=True):
    metadata: _Meta


_TYPES: Final[Mapping[str, type[Any]]] = {
    "PriorityClass": _PriorityClass,
    "RuntimeClass": _RuntimeClass,
    "LimitRange": _LimitRange,
    "StorageClass": _StorageClass,
}
KINDS: Final[Mapping[str, ObjectKind]] = {
    kind: ObjectKind(kind, version, plural)
    for kind, version, plural in (
        ("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses"),
        ("RuntimeClass", "node.k8s.io/v1", "runtimeclasses"),
        ("LimitRange", "v1", "limitranges"),
        ("StorageClass", "storage.k8s.io/v1", "storageclasses"),
    )
}
"""The kinds from which admission takes defaults."""
_BUILT_IN: Final = (
    _PriorityClass(_Meta("system-cluster-critical"), 2_000_000_000),
    _PriorityClass(_Meta("system-node-critical"), 2_000_001_000),
)


class Admission:
    """Keeps the objects that admission takes defaults from, and applies the defaults.

    The two priority classes that every API server creates are always among them.
    """

    def __init__(self, objects: Iterable[Any] = ()) -> None:
        self._objects: dict[tuple[type[Any], str, str], Any] = {}
        for found in (*_BUILT_IN, *objects):
            self._add(found)

    def copy(self) -> "Admission":
        """Return a copy, to which objects can be added."""
        return Admission(self._objects.values())

    def take(self, kind: str, raw: Raw) -> None:
        """Add an object of one of the kinds of `KINDS`.

        Raises:
            ValidationError: a field is of a wrong type or missing.
        """
        self._add(msgspec.convert(raw, _TYPES[kind]))

    def completed(self, raw: Raw, warn: Callable[[str], None]) -> dict[str, Any]:
        """Return a pod or a claim with admission's defaults; `raw` has a namespace.

        Objects from an API server are complete. `warn` gets the reason of a refusal by admission.
        """
        spec = raw.get("spec")
        if not isinstance(spec, Mapping):
            return dict(raw)
        if raw.get("kind") != "Pod":
            return {**raw, "spec": {**spec, **self._claim(raw, spec)}}
        # The API server makes requests of limits first, and LimitRanges do not replace them.
        spec = completed_spec(spec)
        return {**raw, "spec": {**spec, **self._pod(raw, spec, warn)}}

    # --- steps ----------------------------------------------------------------------------------

    def _add(self, found: Any) -> None:
        metadata: _Meta = found.metadata
        namespace = metadata.namespace if isinstance(found, _LimitRange) else ""
        self._objects[type(found), namespace, metadata.name] = found

    def _all(self, type_: type[Any]) -> list[Any]:
        return [found for (each, *_), found in _sorted(self._objects) if each is type_]

    def _named(self, type_: type[Any], name: str, field: str, warn: Callable[[str], None]) -> Any:
        """Return the class that a field names; warn and return None if it does not exist."""
        found = self._objects.get((type_, "", name))
        if found is None:
            kind = next(kind for kind, each in _TYPES.items() if each is type_)
            guess = did_you_mean(name, [each.metadata.name for each in self._all(type_)])
            warn(f'spec.{field}: there is no {kind} "{name}"{guess}')
        return found

    def _pod(self, raw: Raw, spec: Raw, warn: Callable[[str], None]) -> dict[str, Any]:
        added = dict(self._containers(raw, spec))
        added |= self._priority(spec, warn)
        added |= self._runtime(spec, warn)
        added["tolerations"] = _with_unready(added.get("tolerations", spec.get("tolerations")))
        return added

    def _containers(self, raw: Raw, spec: Raw) -> Iterator[tuple[str, list[Any]]]:
        """Yield containers with the limits and requests of the namespace's LimitRanges."""
        namespace = raw["metadata"]["namespace"]
        limits: dict[str, Any] = {}
        requests: dict[str, Any] = {}
        for found in self._all(_LimitRange):
            if found.metadata.namespace == namespace:
                for each in found.spec.limits:
                    if each.type == "Container":
                        default = {**each.max, **each.default}
                        limits |= default
                        requests |= {**each.min, **default, **each.default_request}
        for field in ("containers", "initContainers"):
            containers = spec.get(field)
            if isinstance(containers, list) and (limits or requests):
                yield field, [_with_resources(each, limits, requests) for each in containers]

    def _priority(self, spec: Raw, warn: Callable[[str], None]) -> dict[str, Any]:
        name = spec.get("priorityClassName")
        if name:
            found = self._named(_PriorityClass, str(name), "priorityClassName", warn)
        else:
            defaults = [each for each in self._all(_PriorityClass) if each.global_default]
            found = min(defaults, key=lambda each: int(each.value), default=None)
        if found is None:
            return {}
        added = {"priority": found.value, "preemptionPolicy": found.preemption_policy}
        for field, value in added.items():
            if spec.get(field) not in (None, value):
                warn(
                    f"spec.{field}: expected {value} as in PriorityClass "
                    f'"{found.metadata.name}", got {spec[field]!r}'
                )
        return {**added, **{field: spec[field] for field in added if spec.get(field) is not None}}

    def _runtime(self, spec: Raw, warn: Callable[[str], None]) -> dict[str, Any]:
        name = spec.get("runtimeClassName")
        if not name:
            return {}
        found = self._named(_RuntimeClass, str(name), "runtimeClassName", warn)
        if found is None:
            return {}
        added: dict[str, Any] = {}
        if found.overhead is not None:
            added["overhead"] = found.overhead.pod_fixed
        if found.scheduling.node_selector:
            added["nodeSelector"] = {
                **(spec.get("nodeSelector") or {}),
                **found.scheduling.node_selector,
            }
        if found.scheduling.tolerations:
            theirs = msgspec.to_builtins(found.scheduling.tolerations)
            written = spec.get("tolerations") or []
            added["tolerations"] = [*written, *(each for each in theirs if each not in written)]
        return added

    def _claim(self, raw: Raw, spec: Raw) -> dict[str, Any]:
        annotations = raw["metadata"].get("annotations") or {}
        if spec.get("storageClassName") is not None or _BETA_CLASS in annotations:
            return {}
        defaults = [each for each in self._all(_StorageClass) if _is_default(each.metadata)]
        # The newest default class counts; of equally old ones, the first by name.
        defaults.sort(key=lambda each: each.metadata.name)
        newest = max(
            defaults, key=lambda each: each.metadata.creation_timestamp or "", default=None
        )
        return {} if newest is None else {"storageClassName": newest.metadata.name}


def is_complete(raw: Raw) -> bool:
    """Return whether an API server has stored the object, so that admission has completed it."""
    metadata = raw.get("metadata")
    return isinstance(metadata, Mapping) and bool(metadata.get("uid"))


def _sorted(objects: Mapping[tuple[type[Any], str, str], Any]) -> list[tuple[Any, Any]]:
    """Sort by namespace and name, so that the order of files does not matter."""
    return sorted(objects.items(), key=lambda item: item[0][1:])


def _is_default(metadata: _Meta) -> bool:
    return any(metadata.annotations.get(name) == "true" for name in _DEFAULT_CLASS)


def _with_resources(container: Any, limits: Raw, requests: Raw) -> Any:
    if not isinstance(container, Mapping):
        return container
    resources = container.get("resources") or {}
    if not isinstance(resources, Mapping):
        return container
    merged = {
        **resources,
        "limits": {**limits, **(resources.get("limits") or {})},
        "requests": {**requests, **(resources.get("requests") or {})},
    }
    return {**container, "resources": merged}


def _with_unready(tolerations: Any) -> Any:
    """Add tolerations of not-ready and unreachable nodes for five minutes, unless present."""
    written = tolerations or []
    if not isinstance(written, list):
        return written
    added = [
        {"key": key, "operator": "Exists", "effect": _NO_EXECUTE, "tolerationSeconds": _SECONDS}
        for key in _UNREADY
        if not any(
            isinstance(each, Mapping)
            and each.get("key") in (key, None, "")
            and each.get("effect") in (_NO_EXECUTE, None, "")
            for each in written
        )
    ]
    return [*written, *added]
