"""The binding and eviction subresources of pods.

Source: pkg/registry/core/pod/storage/storage.go (BindingREST) and eviction.go (EvictionREST).
"""

from apistub.rules.deletion import DeleteOptions, Deleter
from apistub.rules.pods import topology_labels
from apistub.rules.registry import Registry
from apistub.storage.kinds import NODES, POD_DISRUPTION_BUDGETS, PODS, Object
from apistub.storage.selectors import selects
from apistub.storage.status import StatusError, bad_request, conflict
from apistub.storage.store import Key


def bind(registry: Registry, key: Key, binding: Object) -> None:
    """Gives a pod its node.

    Raises:
        StatusError: 404 without the pod; 409 when it is bound, gated, being deleted or another
            one of the same name; 400 for a binding that makes no sense.
    """
    meta, target = binding.get("metadata") or {}, binding.get("target") or {}
    if (
        meta.get("name") != key.name
        or target.get("kind", "Node") != "Node"
        or not target.get("name")
    ):
        raise bad_request(f"expected a binding of {key.name} to a node")
    entry = registry.get(PODS, key)
    if meta.get("uid") and meta["uid"] != entry.uid:
        raise conflict(PODS, key.name, f"its uid is {entry.uid}, not {meta['uid']}")
    pod = entry.content()
    spec, status = pod["spec"], pod.setdefault("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        raise conflict(PODS, key.name, "it is being deleted")
    if spec.get("nodeName"):
        raise conflict(PODS, key.name, f"it is on node {spec['nodeName']}")
    if spec.get("schedulingGates"):
        raise conflict(PODS, key.name, "it has a scheduling gate")
    spec["nodeName"] = target["name"]
    labels = {
        **(meta.get("labels") or {}),
        **topology_labels(registry.store.find(NODES, target["name"])),
    }
    for field, added in (("annotations", meta.get("annotations")), ("labels", labels)):
        if added:
            pod["metadata"].setdefault(field, {}).update(added)
    status.pop("nominatedNodeName", None)
    others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": registry.now()}
    status["conditions"] = [*others, scheduled]
    registry.store.put(registry.store.collection(PODS), key, pod)


def evict(registry: Registry, deleter: Deleter, key: Key, options: DeleteOptions) -> None:
    """Deletes a pod unless a disruption budget forbids it.

    Raises:
        StatusError: 429 when a budget has no disruption left, and what a deletion raises.
    """
    pod = registry.get(PODS, key)
    for budget in registry.store.collection(POD_DISRUPTION_BUDGETS).in_namespace(key.namespace):
        content = budget.content()
        selector = (content.get("spec") or {}).get("selector")
        if selects(selector, pod.labels) and not content["status"].get("disruptionsAllowed"):
            raise StatusError(429, f"disruption budget {budget.key.name} does not allow it")
    deleter.delete(PODS, key, options)
