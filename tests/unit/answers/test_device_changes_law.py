"""Each change that is advised for devices makes the pod fit, on as many nodes as it says.

The changes are made to the objects of a file, and a new cluster is made of these.
"""

import copy
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from scheduler.kernel.answers.edits import (
    AddNodes,
    DropDeviceRule,
    Edit,
    EvictPod,
    FreeClaim,
    LoosenSelector,
    LowerCount,
    TolerateDevices,
)
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.model import PodAnswer
from scheduler.kernel.answers.why import Depth
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents
from tests.support.device_manifests import (
    DRIVER,
    Object,
    claim_manifest,
    class_manifest,
    device,
    request,
    slice_manifest,
    using,
)
from tests.support.manifests import node_manifest, pod_manifest

MODEL = f'device.attributes["{DRIVER}"].model'
MEMORY = f'device.capacity["{DRIVER}"].memory'
SELECTORS = (
    f'{MODEL} == "big"',
    f'{MODEL} in ["big", "new"]',
    f'{MEMORY}.isGreaterThan(quantity("40Gi"))',
    f'{MEMORY}.compareTo(quantity("16Gi")) >= 0',
)
KINDS = ("lowerCount", "loosenSelector", "dropDeviceRule", "freeClaim", "addNodes")


def drawn(draw: random.Random) -> dict[str, Object]:
    """Objects by kind and name; the pod p wants devices."""
    objects = [class_manifest(), *(node_manifest(node) for node in "nm")]
    for node in "nm":
        devices = []
        for i in range(draw.randrange(1, 5)):
            taints = draw.choice([(), (), ("bad",), ("bad", "worse")])
            found = device(f"d{i}", *taints, model=draw.choice(["big", "small"]))
            found["capacity"] = {"memory": {"value": draw.choice(["16Gi", "40Gi", "80Gi"])}}
            devices.append(found)
        objects.append(slice_manifest(node, *devices))
        for i in range(draw.randrange(len(devices))):
            users = draw.choice([(), (f"user-{node}{i}",)])
            objects.append(claim_manifest(f"of-{node}{i}", has=(f"{node}/d{i}",), users=users))
            for user in users:
                pod = pod_manifest(user, resourceClaims=using(f"of-{node}{i}"), nodeName=node)
                pod["metadata"]["uid"] = user
                objects.append(pod)
    wanted = [
        request(name, draw.randrange(1, 4), *draw.sample(SELECTORS, draw.randrange(3)))
        for name in draw.choice([("gpu",), ("gpu", "other")])
    ]
    same = {"matchAttribute": f"{DRIVER}/model"}
    constraints = draw.choice([(), ({"requests": ["gpu"], **same},)])
    objects.append(claim_manifest("mine", *wanted, constraints=constraints))
    objects.append(pod_manifest("p", resourceClaims=using("mine")))
    return {f"{each['kind']} {each['metadata']['name']}": each for each in objects}


def answered(objects: dict[str, Object]) -> PodAnswer:
    profiles = Profiles(None)
    cluster = profiles.load(objects_from_documents(objects.items()))
    pod = next(pod for pod in cluster.waiting if pod.name == "p")
    return Explainer(cluster.engine, profiles.framework_of).explain(pod, Depth.CHANGES)


def after(objects: dict[str, Object], edits: Sequence[Edit]) -> dict[str, Object]:
    """The objects once all edits are made."""
    changed = copy.deepcopy(objects)
    spec = changed["ResourceClaim mine"]["spec"]["devices"]
    asks = {each["name"]: each["exactly"] for each in spec["requests"]}
    for edit in edits:
        match edit:
            case LowerCount():
                asks[edit.request]["count"] = edit.at_most
            case TolerateDevices():
                toleration = {"key": edit.key, "operator": "Equal", "value": edit.value}
                asks[edit.request].setdefault("tolerations", []).append(toleration)
            case LoosenSelector():
                selector = asks[edit.request]["selectors"][int(edit.path[-2])]
                selector["cel"]["expression"] = edit.instead
            case DropDeviceRule():
                dropped = asks[edit.request]["selectors"] if edit.request else spec["constraints"]
                # Places stay what they are until the end.
                dropped[int(edit.path[-2])] = None
            case FreeClaim():
                changed[f"ResourceClaim {edit.claim.partition('/')[2]}"]["status"] = {}
                for pod in edit.pods:
                    del changed[f"Pod {pod.partition('/')[2]}"]
            case EvictPod():
                del changed[f"Pod {edit.pod.partition('/')[2]}"]
            case AddNodes():
                changed["Node new"] = node_manifest("new")
                like = changed[f"ResourceSlice {edit.like}"]["spec"]
                changed["ResourceSlice new"] = slice_manifest("new", *like["devices"])
            case _:
                raise AssertionError(edit)
    for ask in asks.values():
        ask["selectors"] = [each for each in ask["selectors"] if each is not None]
    spec["constraints"] = [each for each in spec["constraints"] if each is not None]
    return changed


@pytest.mark.parametrize("part", range(2))
def test_what_is_advised_makes_the_pod_fit(part: int) -> None:
    told: Counter[str] = Counter()
    for seed in range(part * 40, part * 40 + 40):
        objects = drawn(random.Random(seed))
        for change in answered(objects).changes or ():
            told[change.kind] += 1
            found = answered(after(objects, change.edits)).nodes
            fitting = {each.node for each in found if each.feasible}

            assert len(fitting) == change.nodes, (seed, change)
            assert change.node in fitting or change.kind == "addNodes", (seed, change)
    assert all(told[kind] for kind in KINDS), told
