"""Pod groups whose members have volumes: bound, waiting, shared by members, and limited on nodes.

What an attempt takes stays taken in memory for the next one. No claim is ReadWriteOncePod: only
claims of pods that ran before the attempt are in use for kube-scheduler 1.36.
"""

from collections.abc import Callable

from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.group_preemption import with_preemption
from tests.parity.generator.groups import (
    IN_RACKS,
    add_racks,
    features_of_groups,
    make_case_with,
)
from tests.parity.generator.history_volumes import LivingStorage
from tests.parity.generator.storage import ONCE_POD


def make_volumes_case(seed: int) -> Object:
    """Make the case of one seed in which pods and members have volumes."""
    return _case(Draw(f"volumes:{seed}"), lambda _: 0)


def make_volumes_topology_case(seed: int) -> Object:
    """Make the case of one seed with volumes and racks."""
    draw = Draw(f"volumes-topology:{seed}")
    case = _case(draw, lambda draw: draw.pick(IN_RACKS))
    add_racks(draw, case["objects"], share=0.85)
    return case


def make_volumes_preemption_case(seed: int) -> Object:
    """Make the case of one seed with volumes, of waiting pods and of victims, and preemption."""
    draw = Draw(f"volumes-preemption:{seed}")
    case = with_preemption(draw, _case(draw, lambda _: 0))
    objects: list[Object] = case["objects"]
    claims = [each["metadata"] for each in objects if each["kind"] == "PersistentVolumeClaim"]
    for each in objects:
        if each["kind"] == "Pod" and "priority" in each["spec"] and draw.maybe(0.5):
            near = [c["name"] for c in claims if c["namespace"] == each["metadata"]["namespace"]]
            if "nodeName" in each["spec"] and "volumes" not in each["spec"] and near:
                claim = {"claimName": draw.pick(near)}
                each["spec"]["volumes"] = [{"name": "held", "persistentVolumeClaim": claim}]
    return case


def _case(draw: Draw, count: Callable[[Draw], int]) -> Object:
    storage = LivingStorage(draw.pick((0.5, 0.9)))
    case = make_case_with(draw, count(draw), [*features_of_groups(draw), storage])
    objects: list[Object] = case["objects"]
    for each in objects:
        if each["kind"] == "Pod" and "schedulingGroup" in each["spec"]:
            # Equal members would have none of the claims of their ephemeral volumes.
            volumes = each["spec"].get("volumes", ())
            each["spec"]["volumes"] = [one for one in volumes if "ephemeral" not in one]
        elif each["kind"] == "PersistentVolumeClaim" and ONCE_POD in each["spec"]["accessModes"]:
            each["spec"]["accessModes"] = ["ReadWriteOnce"]
    # The claim of the first member's ephemeral volume was made twice.
    named = {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]): o for o in objects}
    return {**case, "objects": list(named.values())}
