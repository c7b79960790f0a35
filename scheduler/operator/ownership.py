"""Which objects belong to a Scheduler: those that carry the operator's label and its reference.

Nothing else is changed or deleted, whatever it is called. Pure.
"""

from scheduler.operator.desired import MANAGED_BY
from scheduler.operator.resources import ADOPT, Json, Scheduler


def refusal(found: Json, scheduler: Scheduler, *, may_adopt: bool) -> str:
    """Why an object is not this Scheduler's to change or delete; empty if it is.

    An object without a namespace can have no owner in one. Its label and its name, which holds a
    colon, must suffice.

    Args:
        found: the object that is there.
        scheduler: the Scheduler that should own it.
        may_adopt: whether one that no controller has becomes the Scheduler's, where that asks for
            it; never in order to delete it.
    """
    metadata = found.get("metadata", {})
    owners = metadata.get("ownerReferences") or []
    controller = next((each for each in owners if each.get("controller")), None)
    is_marked = (metadata.get("labels") or {}).items() >= MANAGED_BY.items()
    if controller is not None:
        if is_marked and controller.get("uid") == scheduler.metadata.uid:
            return ""
        return f"exists and is controlled by {controller.get('kind')} {controller.get('name')}"
    if is_marked and "namespace" not in metadata:
        return ""
    if may_adopt and scheduler.adopts:
        return ""
    return (
        f"exists and was not made by this Scheduler; delete it, or set the annotation {ADOPT}=true "
        "on the Scheduler"
    )
