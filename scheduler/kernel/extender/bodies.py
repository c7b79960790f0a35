"""Bodies of requests to extenders, as Go writes them: outer fields by Go names, none left out.

Source: staging/src/k8s.io/kube-scheduler/extender/v1/types.go (v0.36).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.kernel.framework.results import Candidate

_TYPE_META: Final = ("kind", "apiVersion")

_encode: Final = msgspec.json.Encoder().encode


def object_body(written: bytes | Mapping[str, Any]) -> bytes:
    """An object without its type, which upstream does not send, and without managed fields.

    Differs: upstream drops the latter from pods only; of nodes it is half of the bytes.
    """
    found = msgspec.json.decode(written) if isinstance(written, bytes) else dict(written)
    for field in _TYPE_META:
        found.pop(field, None)
    metadata = found.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        found["metadata"] = {k: v for k, v in metadata.items() if k != "managedFields"}
    return _encode(found)


def names_args(pod: bytes, names: Sequence[str]) -> bytes:
    """ExtenderArgs for an extender that caches the nodes (nodeCacheCapable)."""
    return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, _encode(names))


def nodes_args(pod: bytes, nodes: Iterable[bytes]) -> bytes:
    """ExtenderArgs for an extender that needs full node objects."""
    items = b",".join(nodes)
    return b'{"Pod":%b,"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % (pod, items)


def preemption_args(
    pod: bytes, candidates: Sequence[Candidate], victims: Mapping[str, bytes] | None
) -> bytes:
    """ExtenderPreemptionArgs.

    `victims` are all victims by UID, as bodies; None for an extender that is nodeCacheCapable.
    """
    parts = []
    for each in candidates:
        if victims is None:
            pods = _encode([{"UID": victim.uid} for victim in each.victims])
        else:
            pods = b"[%b]" % b",".join(victims[victim.uid] for victim in each.victims)
        name = _encode(each.node_name)
        parts.append(b'%b:{"Pods":%b,"NumPDBViolations":%d}' % (name, pods, each.pdb_violations))
    given = b"{%b}" % b",".join(parts)
    whole, meta = (b"null", given) if victims is None else (given, b"null")
    return b'{"Pod":%b,"NodeNameToVictims":%b,"NodeNameToMetaVictims":%b}' % (pod, whole, meta)


def binding_args(namespace: str, name: str, uid: str, node: str) -> bytes:
    """ExtenderBindingArgs."""
    return _encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})
