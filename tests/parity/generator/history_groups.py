"""Objects for histories with pod groups: gangs and basic groups among single pods."""

import copy

from tests.parity.generator.cluster import new_pod
from tests.parity.generator.draw import HOSTNAME, NAMESPACES, ZONE, Draw, Object
from tests.parity.generator.group_preemption import RUNNING, shape_group
from tests.parity.generator.groups import GROUP_API, MEMBER, RACK, add_racks, sentinel
from tests.parity.generator.histories import CPU, OWN, make_case_of, start_at

PREEMPTING = 0.4
"""The share of cases whose single pods may preempt others; members are victims, too."""
_WHOLE = "whole"
"""The label of a group in the cases whose groups preempt as a whole."""
_UNTOUCHED = 10**6
"""The priority of the pods that stay on their nodes."""


def make_groups_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects."""
    preemption = Draw(f"history with groups and preemption:{seed}")
    may = preemption.maybe(PREEMPTING)
    case = make_case_of(seed, preemption if may else None, nodes=(2, 7))
    return _with_groups(Draw(f"history with groups:{seed}"), case)


def make_racks_history_case(seed: int) -> Object:
    """Make the objects of one seed with racks, in one of which most groups must run."""
    draw = Draw(f"history with racks:{seed}")
    case = _with_groups(draw, make_case_of(seed, None, nodes=(3, 9)))
    add_racks(draw, case["objects"], share=0.8)
    # Cases with racks are known by them.
    next(each for each in case["objects"] if each["kind"] == "Node")["metadata"]["labels"][RACK] = (
        "r1"
    )
    return case


def make_whole_history_case(seed: int) -> Object:
    """Make the objects of one seed whose groups preempt as a whole, and no single pods."""
    draw = Draw(f"history with whole groups:{seed}")
    preemption = Draw(f"history with whole groups and preemption:{seed}")
    case = _with_groups(draw, make_case_of(seed, preemption))
    objects = case["objects"]
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    for each in objects:
        if each["kind"] == "PodGroup":
            shape_group(draw, each)
            each["metadata"]["labels"] = {_WHOLE: ""}
        elif each["kind"] == "Pod":
            each["spec"]["preemptionPolicy"] = "Never"
            if "schedulingGroup" in each["spec"] and draw.maybe(0.99):
                del each["spec"]["preemptionPolicy"]
    for number in range(draw.pick((2, 4, 6, 8))):
        pod = new_pod(draw, f"run-{100 + number}")
        pod["metadata"]["labels"][OWN] = pod["metadata"]["name"]
        pod["spec"] |= {"nodeName": draw.pick(names), "priority": draw.pick(RUNNING)}
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": draw.pick(CPU)}}
        pod["status"]["phase"] = "Running"
        start_at(pod, 20_000 + number)
        objects.insert(0, pod)
    return case


def has_whole_groups(case: Object) -> bool:
    """Whether a case is one of those whose groups preempt as a whole."""
    return any(_WHOLE in each["metadata"].get("labels", ()) for each in case["objects"])


def has_racks(case: Object) -> bool:
    """Whether a case is one of those with racks."""
    nodes = (each for each in case["objects"] if each["kind"] == "Node")
    return any(RACK in each["metadata"].get("labels", ()) for each in nodes)


def has_groups(case: Object) -> bool:
    """Whether a case is one of those with pod groups."""
    return any(each["kind"] == "PodGroup" for each in case["objects"])


def _with_groups(draw: Draw, case: Object) -> Object:
    """Make members of some pods, and let a pod with anti-affinity run on each node.

    Only on such nodes kube-scheduler 1.36 hears of the terms of members that it has placed in the
    same attempt.
    """
    objects = case["objects"]
    pods = [each for each in objects if each["kind"] == "Pod"]
    pending = [each for each in pods if "nodeName" not in each["spec"]]
    running = [each for each in pods if "nodeName" in each["spec"]]
    for pod in pending:
        # The nominated node of a member is another matter for kube-scheduler: see docs/parity.md.
        pod["status"].pop("nominatedNodeName", None)
    groups = []
    for number in range(draw.randint(1, 5)):
        count = draw.pick((1, 2, 2, 3, 3, 4, 5, 6))
        members = [
            pending.pop(draw.randrange(len(pending))) for _ in range(min(count, len(pending)))
        ]
        if running and draw.maybe(0.15):
            members.append(running.pop())
        groups.append(_group(draw, f"g{number}", members))
    stay = [sentinel(each) for each in objects if each["kind"] == "Node"]
    for number, pod in enumerate(stay):
        pod["spec"]["priority"] = _UNTOUCHED
        start_at(pod, 10_000 + number)
    return {**case, "objects": [*groups, *stay, *objects]}


def _group(draw: Draw, name: str, members: list[Object]) -> Object:
    namespace = draw.pick(NAMESPACES) if draw.maybe(0.3) else "default"
    model, is_equal = copy.deepcopy(members[0]) if members else {}, draw.maybe(0.5)
    rule = _rule(draw, name) if draw.maybe(0.25) else None
    for pod in members:
        spec, meta = pod["spec"], pod["metadata"]
        if is_equal and "nodeName" not in spec and "nodeName" not in model["spec"]:
            gates, priority = spec.get("schedulingGates"), spec.get("priority")
            spec = pod["spec"] = copy.deepcopy(model["spec"])
            meta["labels"] = {k: v for k, v in model["metadata"]["labels"].items() if k != OWN}
            spec.pop("schedulingGates", None)
            spec |= {} if gates is None else {"schedulingGates": gates}
            spec |= {} if priority is None or draw.maybe(0.7) else {"priority": priority}
        if rule is not None and draw.maybe(0.85):
            spec.setdefault("affinity", {}).update(copy.deepcopy(rule))
        spec["schedulingGroup"] = {"podGroupName": name}
        spec["preemptionPolicy"] = "Never"
        if draw.maybe(0.93):
            spec.pop("schedulerName", None)
            if "schedulerName" in model["spec"]:
                spec["schedulerName"] = model["spec"]["schedulerName"]
        meta["namespace"] = namespace
        meta["labels"][MEMBER] = name
    return {
        "apiVersion": GROUP_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": new_policy(draw, len(members))},
    }


def new_policy(draw: Draw, count: int) -> Object:
    """A policy for a group of so many members: most are gangs, some of which want one too many."""
    if draw.maybe(0.2):
        return {"basic": {}}
    some = draw.randint(1, max(1, count))
    least = draw.pick((count, count, count, some, some, some, count + 1))
    return {"gang": {"minCount": max(1, least)}}


def _rule(draw: Draw, group: str) -> Object:
    """A required rule between the members of a group."""
    term = {
        "topologyKey": draw.pick((HOSTNAME, HOSTNAME, ZONE)),
        "labelSelector": {"matchLabels": {MEMBER: group}},
    }
    kind = draw.pick(("podAffinity", "podAntiAffinity", "podAntiAffinity"))
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
