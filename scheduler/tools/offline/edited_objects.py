"""Edits one node or one pending pod, for `what-if`: the changes that the page "Pod" suggests.

Each function changes `ClusterObjects` in place, as those in `hypothetical_changes`.
"""

from msgspec.structs import replace

from scheduler.api.objects import Toleration
from scheduler.api.pods import PodInfo, pod_info
from scheduler.api.taints import EFFECTS, is_tolerated
from scheduler.config.names import label_key_error, label_value_error
from scheduler.config.walker import not_among
from scheduler.tools.offline.hypothetical_changes import (
    cordoned,
    known_taints,
    named_node,
    put_node,
)
from scheduler.tools.offline.reading import ClusterObjects, InputError
from scheduler.tools.offline.workload_names import pod_called


def uncordon(objects: ClusterObjects, name: str) -> list[PodInfo]:
    """Uncordon a node.

    Raises:
        InputError: there is no such node, or it is not cordoned.
    """
    about = f"--uncordon {name}"
    node = named_node(objects, name, about)
    if not node.spec.unschedulable:
        raise InputError(f"{about}: the node is not cordoned")
    put_node(objects, cordoned(node, is_cordoned=False))
    return []


def label(objects: ClusterObjects, text: str) -> list[PodInfo]:
    """Set a label of a node, NODE:KEY=VALUE, or remove one, NODE:KEY-.

    Raises:
        InputError: the text cannot be parsed, or there is no such node or label.
    """
    about = f"--label {text}"
    name, _, written = text.partition(":")
    key, has_value, value = written.partition("=")
    takes_away = not has_value and key.endswith("-")
    key = key.removesuffix("-") if takes_away else key
    if not key or not (has_value or takes_away):
        raise InputError(f"{about}: expected NODE:KEY=VALUE, or NODE:KEY- to take the label away")
    node = named_node(objects, name, about)
    labels = dict(node.metadata.labels)
    if takes_away and key not in labels:
        raise InputError(f"{about}: the node has no label {key!r}")
    labels.pop(key, None)
    if has_value:
        problem = label_key_error(key) or label_value_error(value)
        if problem is not None:
            raise InputError(f"{about}: {problem}")
        labels[key] = value
    put_node(objects, replace(node, metadata=replace(node.metadata, labels=labels)))
    return []


def tolerate(objects: ClusterObjects, text: str) -> list[PodInfo]:
    """Add a toleration to a pod: [NAMESPACE/]POD:KEY[=VALUE][:EFFECT], without VALUE of any value.

    Adds a warning if no node has a taint that it tolerates.

    Raises:
        InputError: the text cannot be parsed, or there is no such pod.
    """
    about = f"--tolerate {text}"
    named, *rest = text.split(":")
    key, has_value, value = (rest or [""])[0].partition("=")
    if not named or not key or len(rest) > 2:  # noqa: PLR2004 - the key, and the effect
        raise InputError(f"{about}: expected [NAMESPACE/]POD:KEY[=VALUE][:EFFECT]")
    effect = rest[1] if len(rest) > 1 else ""
    if effect and effect not in EFFECTS:
        raise InputError(f"{about}: effect: {not_among(effect, EFFECTS)}")
    added = Toleration(key, "Equal" if has_value else "Exists", value, effect)
    pod = pod_called(named, objects.pods, about)
    spec = replace(pod.spec, tolerations=(*pod.spec.tolerations, added))
    objects.pods[objects.pods.index(pod)] = pod_info(replace(pod.pod, spec=spec))
    if not any(is_tolerated(t, (added,)) for node in objects.nodes for t in node.spec.taints):
        objects.warnings.append(f"{about}: no node has such a taint; {known_taints(objects)}")
    return []
