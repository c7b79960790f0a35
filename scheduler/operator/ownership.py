"""Checks that a Scheduler owns an object: by the operator's label and the owner reference.

The operator changes and deletes no other object of the same name. Pure.
"""

from scheduler.operator.desired import MANAGED_BY
from scheduler.operator.resources import ADOPT, Json, Scheduler


def refusal(found: Json, scheduler: Scheduler, *, may_adopt: bool) -> str:
    """Return the reason why this Scheduler may not change or delete an object; empty if it may.

    A cluster-scoped object cannot have a namespaced owner: its label and its name, which contains a
    colon, identify it.

    Args:
        found: the existing object.
        scheduler: the Scheduler that should own it.
        may_adopt: whether the Scheduler may adopt an object without a controller, if its annotation
            allows it; False for a deletion.
    """
    metadata = found.get("metadata", {})
    owners = metadata.get("ownerReferences") or []
    controller = next((each for each in owners if each.get("controller")), None)
    is_marked = (metadata.get("labels") or {}).items() >= MANAGED_BY.items()
    if controller is not None:
        if controller.get("uid") == scheduler.metadata.uid:
            if is_marked:
                return ""
            [label] = (f"{name}={value}" for name, value in MANAGED_BY.items())
            return f"exists without the label {label}; restore it, or delete the object"
        return f"exists and is controlled by {controller.get('kind')} {controller.get('name')}"
    if is_marked and "namespace" not in metadata:
        return ""
    if may_adopt and scheduler.adopts:
        return ""
    return (
        f"exists and was not made by this Scheduler; delete it, or set the annotation {ADOPT}=true "
        "on the Scheduler"
    )
