"""Applies hypothetical changes to a cluster, for `what-if`.

Each function changes `ClusterObjects` in place, and raises `InputError` for an object that does not
exist. A pod that its controller would create again becomes pending under its old name. Returned are
the pods that lose their node and that no controller creates again.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from msgspec.structs import replace

from scheduler.api.objects import Node, PodMeta, PodStatus
from scheduler.api.pods import PodInfo
from scheduler.api.taints import UNSCHEDULABLE_TAINT, taint_text
from scheduler.config.walker import did_you_mean
from scheduler.kernel.answers.hypothetical_nodes import tied_pods
from scheduler.kernel.devices.claim_catalog import SLICE
from scheduler.kernel.devices.table import slices_like
from scheduler.tools.offline.copied_claims import (
    Claims,
    Made,
    add_watched,
    claims_in,
    free_claims,
    with_own_claims,
    with_present_claims,
)
from scheduler.tools.offline.reading import ClusterObjects, InputError
from scheduler.tools.offline.replicas import names_of_new_pods, pods_to_delete
from scheduler.tools.offline.workload_names import (
    DAEMON_SET,
    DEPLOYMENT,
    POD,
    check_one_namespace,
    workload_parts,
)

HOSTNAME: Final = "kubernetes.io/hostname"
_NODE: Final = "Node"
"""The controller of static pods, which are on their node as long as it exists."""
_CONDITION_TAINTS: Final = "node.kubernetes.io/"
_HASH: Final = "pod-template-hash"
MAX_ADDED: Final = 100_000
"""Nodes or pods at most that one change adds."""


def drain(objects: ClusterObjects, name: str) -> list[PodInfo]:
    """Cordon a node, and remove the pods that `kubectl drain` would remove.

    Raises:
        InputError: there is no such node.
    """
    node = named_node(objects, name, "--drain")
    put_node(objects, cordoned(node))
    on_it = [pod for pod in objects.pods if pod.node_name == name]
    return _leave(objects, [pod for pod in on_it if not pod.is_tied_to_node])


def cordoned(node: Node, *, is_cordoned: bool = True) -> Node:
    """Return the node, cordoned or not, with the taint that the control plane would set."""
    taints = [taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE_TAINT.key]
    if is_cordoned:
        taints.append(UNSCHEDULABLE_TAINT)
    spec = replace(node.spec, unschedulable=is_cordoned, taints=tuple(taints))
    return replace(node, spec=spec)


def waiting_again(pod: PodInfo) -> PodInfo:
    """Return the pod with which a controller replaces a deleted one; it is the newest pod."""
    metadata = replace(
        pod.pod.metadata,
        uid=f"{pod.uid}-again",
        creation_timestamp=None,
        deletion_timestamp=None,
    )
    return _info(pod, metadata)


def remove_taint(objects: ClusterObjects, taint: str) -> list[PodInfo]:
    """Remove a taint from all nodes: KEY[=VALUE][:EFFECT], as `kubectl taint` writes it.

    Raises:
        InputError: no node has the taint.
    """
    named, _, effect = taint.partition(":")
    key, has_value, value = named.partition("=")
    found = False
    for node in list(objects.nodes):
        kept = tuple(
            each
            for each in node.spec.taints
            if each.key != key
            or (has_value and each.value != value)
            or (effect and each.effect != effect)
        )
        if len(kept) < len(node.spec.taints):
            found = True
            put_node(objects, replace(node, spec=replace(node.spec, taints=kept)))
    if not found:
        raise InputError(f"--remove-taint {taint}: no node has it; {known_taints(objects)}")
    return []


def known_taints(objects: ClusterObjects) -> str:
    """Return the end of a message about a taint that no node has: those that nodes have."""
    known = sorted({taint_text(each) for node in objects.nodes for each in node.spec.taints})
    return f"there are {', '.join(known)}" if known else "no node has any"


def add_nodes(objects: ClusterObjects, count: int, like: str) -> list[PodInfo]:
    """Add ready nodes like another one, with pods of the same DaemonSets and static pods.

    Raises:
        InputError: there is no such node.
    """
    node = named_node(objects, like, "--like")
    taken = {each.metadata.name for each in objects.nodes}
    names = (name for i in range(len(taken) + count) if (name := f"{like}-new-{i}") not in taken)
    drivers = [each for each in objects.watched if each[0].kind == "CSINode"]
    slices = [found for kind, found in objects.watched if kind == SLICE]
    on_it = [pod for pod in objects.pods if pod.node_name == like]
    for name, _ in zip(names, range(count), strict=False):
        added = node_like(node, name)
        objects.nodes.append(added)
        objects.pods += tied_pods(on_it, name)
        for kind, found in drivers:
            if found.metadata.name == like:
                objects.watched.append((kind, found.of(name)))
        objects.watched += ((SLICE, each) for each in slices_like(slices, like, name))
    return []


def node_like(node: Node, name: str) -> Node:
    """Return a node like another one: ready, schedulable, with its own name and hostname."""
    taints = tuple(t for t in node.spec.taints if not t.key.startswith(_CONDITION_TAINTS))
    labels = dict(node.metadata.labels)
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    uid = f"{node.metadata.name}-{name}"
    metadata = replace(node.metadata, name=name, uid=uid, labels=labels)
    return replace(
        node, metadata=metadata, spec=replace(node.spec, unschedulable=False, taints=taints)
    )


def scale(objects: ClusterObjects, workload: str, replicas: int) -> list[PodInfo]:
    """Scale a workload, KIND/[NAMESPACE/]NAME, to a number of pods.

    New pods are like existing ones. Pods are removed in the order of their controller; see
    `pods_to_delete`. Pods that are being deleted do not count.

    Raises:
        InputError: the workload has no pods, or is a DaemonSet.
    """
    about = f"--scale {workload}"
    if workload_parts(workload, about)[0] == DAEMON_SET:
        raise InputError(f"{about}: a DaemonSet has one pod for each node, and no replicas")
    members = _members(objects, workload, about)
    if not members:
        meant = _did_you_mean(objects, workload, about)
        raise InputError(
            f"{about}: it has no pod that others could be like; use --apply FILE{meant}"
        )
    living = [pod for pod in members if not pod.is_terminating]
    if len(living) > replicas:
        _remove_pods(objects, pods_to_delete(living, len(living) - replicas))
        return []
    newest = (living or members)[-1]
    taken = {pod.key for pod in objects.pods}
    free = (
        name
        for name in names_of_new_pods(newest, members)
        if f"{newest.namespace}/{name}" not in taken
    )
    more = islice(free, replicas - len(living))
    _add_pods(objects, [(copy_of(newest, name), newest) for name in more])
    return []


def delete(objects: ClusterObjects, what: str) -> list[PodInfo]:
    """Delete a pod or node, or a workload with its pods: KIND/[NAMESPACE/]NAME.

    A controller creates a pod that is deleted alone again; a static pod never leaves its node.

    Raises:
        InputError: there is no such object.
    """
    about = f"--delete {what}"
    kind, _, name = what.partition("/")
    if kind.lower() in ("node", "no", "nodes"):
        node = named_node(objects, name, about)
        objects.nodes.remove(node)
        on_it = [pod for pod in objects.pods if pod.node_name == name]
        _remove_pods(objects, [pod for pod in on_it if pod.is_tied_to_node])
        return _leave(objects, [pod for pod in on_it if not pod.is_tied_to_node])
    going, named = _members(objects, what, about), workload_parts(what, about)[0]
    if not going:
        meant = _did_you_mean(objects, what, about)
        raise InputError(f"{about}: there is no such {named}, or it has no pods{meant}")
    if named == POD:
        _leave(objects, [pod for pod in going if not _is_static(pod)])
    else:
        _remove_pods(objects, going)
    return []


def apply(objects: ClusterObjects, others: ClusterObjects) -> list[PodInfo]:
    """Add objects, and replace those of the same kind and name.

    An existing pod keeps its node, an existing claim its volume or devices. The pods of an existing
    workload are replaced.
    """
    _remove_pods(
        objects,
        [
            pod
            for pod in objects.pods
            if any(
                namespace == pod.namespace and name in _names_of(kind, pod)
                for kind, namespace, name in others.workloads
            )
        ],
    )
    for node in others.nodes:
        put_node(objects, node)
    places = {pod.key: pod.node_name for pod in objects.pods}
    new = {
        pod.key: pod.on_node(place) if (place := places.get(pod.key)) else pod
        for pod in others.pods
    }
    objects.pods = [pod for pod in objects.pods if pod.key not in new] + list(new.values())
    names = {namespace.metadata.name for namespace in others.namespaces}
    objects.namespaces = [n for n in objects.namespaces if n.metadata.name not in names]
    objects.namespaces += others.namespaces
    add_watched(objects, with_present_claims(others.watched, claims_in(objects)))
    objects.warnings += others.warnings
    return []


def copy_of(pod: PodInfo, name: str) -> PodInfo:
    """Return a pod like another one, with a new name and without a node."""
    metadata = replace(
        pod.pod.metadata,
        name=name,
        uid=f"{pod.namespace}/{name}",
        creation_timestamp=None,
        deletion_timestamp=None,
    )
    return _info(pod, metadata)


def _is_static(pod: PodInfo) -> bool:
    return pod.controller is not None and pod.controller.kind == _NODE


def _leave(objects: ClusterObjects, leaving: list[PodInfo]) -> list[PodInfo]:
    """Delete pods and create those that have a controller again; return the others."""
    lasting = [pod for pod in leaving if not pod.is_terminating]
    again = [pod for pod in lasting if pod.controller is not None]
    claims = claims_in(objects)
    _remove_pods(objects, leaving)
    _add_pods(objects, [(waiting_again(pod), pod) for pod in again], claims)
    return [pod for pod in lasting if pod.controller is None]


def _remove_pods(objects: ClusterObjects, pods: Iterable[PodInfo]) -> None:
    """Remove pods with their own claims, and free their devices."""
    uids = {pod.uid for pod in pods}
    objects.pods = [pod for pod in objects.pods if pod.uid not in uids]
    free_claims(objects, uids)


def _add_pods(
    objects: ClusterObjects,
    pods: Iterable[tuple[PodInfo, PodInfo]],
    claims: Claims | None = None,
) -> None:
    """Add pods, each with its own claims, which are like those of another pod."""
    known = claims_in(objects) if claims is None else claims
    made: list[Made] = []
    for pod, like in pods:
        own, of_pod = with_own_claims(pod, like, known)
        objects.pods.append(own)
        made += of_pod
    add_watched(objects, made)


def _info(pod: PodInfo, metadata: PodMeta) -> PodInfo:
    return pending(PodInfo(replace(pod.pod, metadata=metadata), pod.kind))


def pending(pod: PodInfo) -> PodInfo:
    """Return the pod as it was before it had a node."""
    status = PodStatus(phase="Pending")
    return PodInfo(replace(pod.pod, status=status, node_name="", start_time=None), pod.kind)


def named_node(objects: ClusterObjects, name: str, about: str) -> Node:
    """Return the node of this name.

    Raises:
        InputError: there is no such node; `about` is the place of the name.
    """
    for node in objects.nodes:
        if node.metadata.name == name:
            return node
    meant = did_you_mean(name, [node.metadata.name for node in objects.nodes])
    raise InputError(f"{about}: there is no node {name!r}{meant}")


def put_node(objects: ClusterObjects, node: Node) -> None:
    """Add a node, or replace the one of its name."""
    for index, each in enumerate(objects.nodes):
        if each.metadata.name == node.metadata.name:
            objects.nodes[index] = node
            return
    objects.nodes.append(node)


def _members(objects: ClusterObjects, what: str, about: str) -> list[PodInfo]:
    """Return the pods of a workload by age; for a pod, the pod itself."""
    kind, namespace, name = workload_parts(what, about)
    meant = [pod for pod in _within(objects, namespace) if name in _names_of(kind, pod)]
    found = sorted(meant, key=lambda pod: pod.pod.metadata.creation_timestamp or "~")
    check_one_namespace(found, about, f"{kind}/NAMESPACE/{name}")
    return found


def _within(objects: ClusterObjects, namespace: str) -> list[PodInfo]:
    """Return the pods of a namespace; of all namespaces if it is empty."""
    return [pod for pod in objects.pods if namespace in ("", pod.namespace)]


def _did_you_mean(objects: ClusterObjects, what: str, about: str) -> str:
    """Return the end of a message about a pod or workload that does not exist."""
    kind, namespace, name = workload_parts(what, about)
    pods = _within(objects, namespace)
    return did_you_mean(name, sorted({each for pod in pods for each in _names_of(kind, pod)}))


def _names_of(kind: str, pod: PodInfo) -> tuple[str, ...]:
    """Return the names that the pod's workload of this kind may have; for "Pod", its own name."""
    if kind == POD:
        return (pod.name,)
    owner = pod.controller
    if owner is None or owner.kind != ("ReplicaSet" if kind == DEPLOYMENT else kind):
        return ()
    if kind != DEPLOYMENT:
        return (owner.name,)
    # A Deployment's ReplicaSet has the name of the Deployment and the hash label of its pods.
    return owner.name.removesuffix(f"-{pod.labels.get(_HASH, '')}"), owner.name
