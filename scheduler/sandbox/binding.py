"""The binding and eviction subresources of pods.

Source: pkg/registry/core/pod/storage/storage.go (BindingREST) and eviction.go (EvictionREST).
"""

from http import HTTPStatus
from typing import Final

from scheduler.sandbox.deletion import DeleteOptions, Deleter
from scheduler.sandbox.kinds import POD_DISRUPTION_BUDGETS, PODS
from scheduler.sandbox.registry import Registry, precondition_failed
from scheduler.sandbox.rules.pod_admission import topology_labels
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.selectors import Operator, Requirement
from scheduler.sandbox.status import StatusError, bad_request, conflict, too_many_requests
from scheduler.sandbox.store import Entry, Key

_BINDING: Final = "pods/binding"
_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def bind(
    registry: Registry,
    key: Key,
    binding: Object,
    *,
    dry_run: bool = False,
    is_legacy: bool = False,
) -> None:
    """Gives a pod its node.

    Args:
        registry: where the pod is.
        key: the pod.
        binding: the Binding object of the request.
        dry_run: whether only to check.
        is_legacy: whether it came without the subresource; admission then adds no labels.

    Raises:
        StatusError: 404 without the pod; 409 when it is bound, gated, being deleted or another
            one of the same name; 400 and 500 for a binding that makes no sense.
    """
    meta = binding.get("metadata") or {}
    if meta.get("name") != key.name:
        raise bad_request("name in URL does not match name in Binding object")
    node_name = _target(binding)
    entry = registry.get(PODS, key)
    for what, wanted, found in (
        ("UID", meta.get("uid"), entry.uid),
        ("ResourceVersion", meta.get("resourceVersion"), str(entry.version)),
    ):
        if wanted and wanted != found:
            why = precondition_failed(what, wanted, found)
            where = f"Key: /registry/pods/{key.namespace}/{key.name}, ResourceVersion: 0"
            raise conflict(
                PODS.resource,
                "",
                key.name,
                f"StorageError: invalid object, Code: 4, {where}, AdditionalErrorMsg: {why}",
            )
    pod = entry.content()
    _check_unbound(key, pod)
    topology = {} if is_legacy else topology_labels(registry, node_name)
    _assign(pod, node_name, meta, topology, registry.now())
    if not dry_run:
        registry.store.put(registry.store.collection(PODS), key, pod)


def _target(binding: Object) -> str:
    target = binding.get("target") or {}
    faults = []
    if target.get("kind", "Node") not in {"", "Node"}:
        faults.append(
            f'target.kind: Unsupported value: "{target["kind"]}": '
            'supported values: "Node", "<empty>"'
        )
    if not target.get("name"):
        faults.append("target.name: Required value")
    if faults:
        # The real server wraps these faults in nothing, which makes them an unknown error.
        text = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        raise StatusError(HTTPStatus.INTERNAL_SERVER_ERROR, "", text)
    name: str = target["name"]
    return name


def _check_unbound(key: Key, pod: Object) -> None:
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {key.name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        why = f'pod {key.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {key.name} has non-empty .spec.schedulingGates"
    else:
        return
    raise conflict(_BINDING, "", key.name, why)


def _assign(pod: Object, node_name: str, meta: Object, topology: dict[str, str], now: str) -> None:
    pod["spec"]["nodeName"] = node_name
    labels = {**(meta.get("labels") or {}), **topology}
    for field, added in (("annotations", meta.get("annotations")), ("labels", labels)):
        if added:
            pod["metadata"].setdefault(field, {}).update(added)
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    others = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("type") != "PodScheduled"
    ]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    status["conditions"] = [*others, scheduled]


def evict(registry: Registry, deleter: Deleter, key: Key, options: DeleteOptions) -> Entry:
    """Deletes a pod unless a disruption budget forbids it.

    Raises:
        StatusError: 429 when a budget has no disruption left, and what a deletion raises.
    """
    pod = registry.get(PODS, key)
    for budget in registry.store.collection(POD_DISRUPTION_BUDGETS).in_namespace(key.namespace):
        content = budget.content()
        if _covers(content, pod) and not content.get("status", {}).get("disruptionsAllowed"):
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            cause = {
                "reason": "DisruptionBudget",
                "message": f"The disruption budget {budget.key.name} needs more healthy pods",
            }
            raise too_many_requests(message, causes=[cause])
    return deleter.delete(PODS, key, options).entry


def _covers(budget: Object, pod: Entry) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return False
    requirements = [
        Requirement(key, Operator.IN, frozenset((value,)))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    requirements += [
        Requirement(
            expression["key"],
            _OPERATORS[expression["operator"]],
            frozenset(expression.get("values") or ()),
        )
        for expression in selector.get("matchExpressions") or ()
    ]
    return all(requirement.matches(pod.labels) for requirement in requirements)
