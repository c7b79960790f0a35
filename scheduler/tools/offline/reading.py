"""Reads Kubernetes objects from files: YAML or JSON, single, List, or many documents.

Objects are completed as by an API server, as far as scheduling reads them. Defaults are always
added, and the additions of admission and controllers for submitted objects.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.nulls import without_nulls
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import POD_GROUP_KIND, ObjectKind
from scheduler.tools.offline import input_errors
from scheduler.tools.offline.admission import Admission, is_complete
from scheduler.tools.offline.decoding import (
    CLAIM,
    ClusterObjects,
    ObjectDecoder,
    Written,
    api_version,
    wrong_version,
)
from scheduler.tools.offline.defaults import completed, completed_pod, in_namespace
from scheduler.tools.offline.documents import InputError, documents_from_text, items_of
from scheduler.tools.offline.resource_claims import claims_of_templates
from scheduler.tools.offline.strictness import (
    is_core,
    missing_nodes,
    unknown_fields,
    unknown_kind,
)
from scheduler.tools.offline.volume_claims import claims_of_ephemeral_volumes
from scheduler.tools.offline.workloads import (
    WorkloadError,
    is_workload,
    pods_of,
)

__all__ = [
    "ClusterObjects",
    "InputError",
    "Written",
    "documents_from_text",
    "objects_beside",
    "objects_from_documents",
]

CLUSTER_WIDE: Final = frozenset(
    {
        "Node",
        "Namespace",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "VolumeAttachment",
        "PriorityClass",
        "RuntimeClass",
        "DeviceClass",
        "DeviceTaintRule",
        "ResourceSlice",
    }
)
"""Kinds without namespaces."""
_VOLUME_CLAIM: Final = "PersistentVolumeClaim"
_ADMITTED: Final = frozenset({"Pod", _VOLUME_CLAIM})
"""Kinds that admission completes by other objects, so that they are read last."""


class _Collector:
    """Takes objects one by one: completes them, warns of likely mistakes, and has them decoded.

    Args:
        admission: completes submitted objects, and collects further defaults; None if objects
            come from an API server. With it workloads are read as the pods that they would create.
        known: existing nodes, besides those that are read.
        pods: existing pods, besides those that are read.
        watched: the kinds that plugins watch; those that only plugins know stay plain values.
    """

    def __init__(
        self,
        admission: Admission | None,
        known: Iterable[Node],
        pods: Iterable[PodInfo],
        watched: Iterable[ObjectKind],
    ) -> None:
        self._admission = admission
        self._of_plugins = {(kind.kind, kind.api_version): kind for kind in watched if kind.plural}
        self._decoder = ObjectDecoder(admission)
        self._uids = {pod.uid: pod.key for pod in pods}
        self._known_nodes = {node.metadata.name: node for node in known}
        self._admitted: list[tuple[Mapping[str, Any], str, str]] = []
        self._workloads: list[tuple[Mapping[str, Any], str]] = []
        self._places: dict[tuple[str, str, str], str] = {}
        self._warnings: dict[str, None] = {}
        self._left_out: dict[str, str] = {}

    def take(self, raw: Mapping[str, Any], place: str) -> None:
        """Add one object; kinds that scheduling does not read are left out, unknown ones reported.

        Raises:
            InputError: the object cannot be read.
        """
        kind = raw.get("kind")
        if not isinstance(kind, str):
            raise InputError(f"{place}: kind: expected the kind of a Kubernetes object")
        version = str(raw.get("apiVersion", api_version(kind)))
        of_plugins = self._of_plugins.get((kind, version))
        is_read = self._is_read(kind, version)
        has_pods = self._admission is not None and is_workload(raw)
        if is_read or has_pods:
            problem = wrong_version(kind, version)
        else:
            problem = unknown_kind(kind, is_core=is_core(version))
        if of_plugins is not None:
            self._decoder.take_of_plugins(of_plugins, raw, place)
        elif problem is not None:
            self._leave_out(place, problem)
        if problem is None and (is_read or has_pods):
            raw = without_nulls(raw)
            at = self._named(raw, kind, place)
            if has_pods:
                self._workloads.append((in_namespace(raw), at))
            if is_read:
                self._take(raw, kind, at)

    def _is_read(self, kind: str, version: str) -> bool:
        """Return whether scheduling reads the kind; other API groups have a PodGroup too."""
        if kind == POD_GROUP_KIND.kind and not is_core(version):
            return False
        return self._decoder.reads(kind)

    def _named(self, raw: Mapping[str, Any], kind: str, place: str) -> str:
        """Return the place and the name of an object; warn of unknown fields."""
        metadata = raw.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
        at = f"{place}: {kind} {name}".rstrip()
        if not name:
            raise InputError(f"{at}: metadata.name: required")
        for problem in unknown_fields(raw, kind):
            self._warn(at, problem)
        self._note_place(raw, kind, place)
        return at

    def _take(self, raw: Mapping[str, Any], kind: str, place: str) -> None:
        if kind not in CLUSTER_WIDE:
            raw = in_namespace(raw)
        raw = completed(raw, kind)
        if kind in _ADMITTED:
            self._admitted.append((raw, kind, place))
        else:
            self._decoder.take(raw, kind, place)

    def _admit(self, raw: Mapping[str, Any], kind: str, place: str) -> None:
        """Add a pod or a claim, completed by admission with the other objects."""
        if kind == "Pod":
            raw = self._without_uid_of_others(raw, place)
        if self._admission is not None and not is_complete(raw):
            named = {**raw, "kind": kind}
            raw = self._admission.completed(named, lambda problem: self._warn(place, problem))
            if kind == "Pod":
                self._admit_claims_of(raw, place)
        if kind == "Pod" and self._decoder.templates:
            raw, made = claims_of_templates(completed_pod(raw), self._decoder.templates)
            for claim in made:
                self._decoder.take(claim, CLAIM, place)
        self._decoder.take(raw, kind, place)

    def _without_uid_of_others(self, pod: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        """Return the pod without its UID if another pod has it: the pod is a renamed copy then."""
        metadata = pod["metadata"]
        uid, key = str(metadata.get("uid") or ""), f"{metadata['namespace']}/{metadata['name']}"
        other = self._uids.setdefault(uid, key) if uid else key
        if other == key:
            return pod
        self._warn(place, f"metadata.uid: is that of {other} as well; it counts for {other} only")
        left = {name: value for name, value in metadata.items() if name != "uid"}
        return {**pod, "metadata": left}

    def _admit_claims_of(self, pod: Mapping[str, Any], place: str) -> None:
        """Add the claims of a pod's ephemeral volumes that do not exist yet."""
        for claim in claims_of_ephemeral_volumes(completed_pod(pod)):
            key = (_VOLUME_CLAIM, claim["metadata"]["namespace"], claim["metadata"]["name"])
            if key not in self._places:
                self._admit(claim, _VOLUME_CLAIM, place)

    def result(self) -> ClusterObjects:
        """Return the objects in the order in which an API server lists them.

        Raises:
            InputError: the pods of a workload cannot be built.
        """
        for raw, place in self._workloads:
            self._make_pods(raw, place)
        for admitted in self._admitted:
            self._admit(*admitted)
        objects = self._decoder.result()
        objects.workloads = {
            (raw["kind"], str(raw["metadata"]["namespace"]), str(raw["metadata"]["name"]))
            for raw, _ in self._workloads
        }
        objects.warnings = list(self._warnings)
        objects.left_out = [f"{place}: {problem}" for problem, place in self._left_out.items()]
        objects.admission = self._admission or objects.admission
        return objects

    def _leave_out(self, place: str, problem: str) -> None:
        """Warn of the first of many objects that are not read for the same reason."""
        if problem not in self._left_out:
            self._left_out[problem] = place
            self._warn(place, problem)

    def _warn(self, place: str, problem: str) -> None:
        self._warnings[f"{place}: {problem}"] = None

    def _note_place(self, raw: Mapping[str, Any], kind: str, place: str) -> None:
        metadata = (raw if kind in CLUSTER_WIDE else in_namespace(raw))["metadata"]
        namespace = "" if kind in CLUSTER_WIDE else str(metadata["namespace"])
        key = (kind, namespace, str(metadata["name"]))
        before = self._places.get(key)
        if before is not None:
            called = f"{kind} {namespace}/{key[2]}" if namespace else f"{kind} {key[2]}"
            self._warn(place, f"{called}: is in {before} as well; what comes last counts")
        self._places[key] = place

    def _make_pods(self, raw: Mapping[str, Any], place: str) -> None:
        """Take the objects that a workload's controller would make; claims only where none is."""
        try:
            nodes = {**self._known_nodes, **self._decoder.nodes}
            for made in pods_of(raw, [node for _, node in sorted(nodes.items())]):
                metadata = made["metadata"]
                key = (made["kind"], metadata.get("namespace", ""), metadata["name"])
                if key not in self._places:
                    self._take(without_nulls(made), made["kind"], f"{place}: its {made['kind']}")
        except WorkloadError as problem:
            raise InputError(f"{place}: {problem}") from problem
        except msgspec.ValidationError as problem:
            told = input_errors.of_type(problem, raw)
            raise InputError(f"{place}: spec.template.spec: {told}") from problem


def objects_from_documents(
    documents: Iterable[tuple[str, Any]],
    *,
    admission: Admission | None = None,
    nodes: Iterable[Node] = (),
    pods: Iterable[PodInfo] = (),
    watched: Iterable[ObjectKind] = (),
    is_whole: bool = True,
) -> ClusterObjects:
    """The objects in parsed documents, each with the place it comes from.

    Args:
        documents: place and content of each.
        admission: given where people have submitted the objects: they are completed by it, and
            workloads are taken as the pods that they would make. None where the objects are as an
            API server holds them.
        nodes: that there are beside the documents; DaemonSets have pods on them.
        pods: that there are beside the documents.
        watched: the kinds that plugins watch, see `Profiles.watched`.
        is_whole: whether it is to be a whole cluster, so that a lack of nodes is worth a word.

    Raises:
        InputError: a document cannot be read.
    """
    collector = _Collector(None if admission is None else admission.copy(), nodes, pods, watched)
    for place, document in documents:
        for item_place, raw in items_of(document, place):
            collector.take(raw, item_place)
    objects = collector.result()
    if is_whole:
        objects.warnings += missing_nodes(objects.nodes, objects.pods)
    return objects


def objects_beside(
    cluster: ClusterObjects,
    documents: Iterable[tuple[str, Any]],
    admission: Admission,
    watched: Iterable[ObjectKind],
) -> ClusterObjects:
    """Return the submitted objects in documents; DaemonSets have pods on the cluster's nodes.

    Raises:
        InputError: a document cannot be read.
    """
    return objects_from_documents(
        documents,
        admission=admission,
        nodes=cluster.nodes,
        pods=cluster.pods,
        watched=watched,
        is_whole=False,
    )
