"""Pod groups that preempt as a whole, and groups among the victims that leave whole.

The clusters are those of `groups`, with more that runs: single pods, and pods of groups of either
disruption mode. All start times differ: among units alike in them kube-scheduler's order is chance.
What waits is too important to be a victim, but for groups that leave whole.
"""

from tests.parity.generator.cluster import Cluster, bind, new_pod
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.groups import CPU, GROUP_API, add_racks, make_groups_case
from tests.parity.generator.preemption import DAY_SECONDS, budget

RUNNING = (-10, 0, 0, 1, 5, 5, 50)
GROUPS = (None, 0, 1, 5, 10, 50, 100, 100, 1000)
IMPORTANT = 2000


def make_group_preemption_case(seed: int) -> Object:
    """Make the case of one seed; the same seed always makes the same case."""
    return with_preemption(Draw(f"group-preemption:{seed}"), make_groups_case(seed))


def with_preemption(draw: Draw, case: Object) -> Object:
    """Let more pods and groups run, and let groups that wait preempt them."""
    objects: list[Object] = case["objects"]
    nodes = [each for each in objects if each["kind"] == "Node"]
    for node in nodes:
        node["status"]["allocatable"]["pods"] = draw.pick(("4", "6", "110", "110"))
        node["status"]["capacity"] = dict(node["status"]["allocatable"])
    for each in objects:
        if each["kind"] == "PodGroup":
            shape_group(draw, each)
        elif each["kind"] == "Pod" and "nodeName" not in each["spec"]:
            _shape_waiting(draw, each)
    cluster = Cluster(nodes=nodes)
    for number in range(draw.pick((1, 3, 5, 8, 8, 12))):
        cluster.running.append(_running(draw, f"run-{100 + number}", nodes))
    for number in range(draw.pick((0, 0, 1, 1, 2, 3))):
        _running_group(draw, f"v{number}", cluster)
    for number in range(draw.pick((0, 0, 1, 1, 2, 4))):
        cluster.others.append(budget(draw, f"pdb{number}"))
    running = [each for each in objects if each["kind"] == "Pod" and "nodeName" in each["spec"]]
    for number, pod in enumerate((*running, *cluster.running)):
        _start(pod, number)
    case["objects"] = [*cluster.others, *objects, *cluster.running]
    return case


def make_preemption_in_racks_case(seed: int) -> Object:
    """Make the case of one seed with racks, in one of which some of the groups must run."""
    case = make_group_preemption_case(seed)
    add_racks(Draw(f"group-preemption-in-racks:{seed}"), case["objects"], share=0.4)
    return case


def shape_group(draw: Draw, group: Object) -> None:
    """Give a group a priority and a disruption mode, or neither."""
    spec = group["spec"]
    priority = draw.pick(GROUPS)
    if priority is not None:
        spec["priority"] = priority
    if draw.maybe(0.4):
        spec["disruptionMode"] = draw.pick(("Pod", "PodGroup", "PodGroup"))


def _shape_waiting(draw: Draw, pod: Object) -> None:
    spec = pod["spec"]
    spec["priority"] = IMPORTANT + spec.get("priority", 0)
    if "schedulingGroup" in spec and draw.maybe(0.99):
        spec.pop("preemptionPolicy", None)


def _running(draw: Draw, name: str, nodes: list[Object]) -> Object:
    pod = new_pod(draw, name)
    bind(draw, pod, nodes)
    pod["spec"]["priority"] = draw.pick(RUNNING)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": draw.pick(CPU)}}
    return pod


def _running_group(draw: Draw, name: str, cluster: Cluster) -> None:
    group: Object = {
        "apiVersion": GROUP_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    shape_group(draw, group)
    if draw.maybe(0.9):
        cluster.others.append(group)
    for number in range(draw.randint(1, 4)):
        pod = _running(draw, f"{name}-{number}", cluster.nodes)
        pod["metadata"]["namespace"] = "default"
        pod["spec"]["schedulingGroup"] = {"podGroupName": name}
        cluster.running.append(pod)


def _start(pod: Object, number: int) -> None:
    second = (number + 1) * 7919 % DAY_SECONDS
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    pod["status"]["startTime"] = f"2026-01-01T{clock}Z"
