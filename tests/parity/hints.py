"""Compare the queueing hints of our plugins with those of kube-scheduler's own.

    python -m tests.parity.hints --seeds 0:500

Each case is a random cluster with questions: a waiting pod, and a pod, node or storage object that
is new, gone or changed. Compared are the events that the change amounts to, and for each of them
which plugins registered and what they say. Prints counts, every difference with its seed, and exits
1 when there is any.
"""

import argparse
import copy
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.config.load import load_object
from scheduler.kernel.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from scheduler.kernel.framework.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, Profiles
from scheduler.tools.offline.reading import objects_from_documents
from tests.parity.answering import oracle_command, pipelined, running
from tests.parity.generator.device_changes import (
    DEVICE_KINDS,
    change_claim_names,
    change_devices,
)
from tests.parity.generator.draw import POD_LABELS, Draw, Object
from tests.parity.generator.families import make_case
from tests.parity.generator.resources import add_resize_status
from tests.parity.generator.storage_changes import STORAGE_KINDS, change_storage

HINTING: Final = (
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "SchedulingGates",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
)
"""The plugins whose hints are compared: all in effect whose rejections an event can undo."""

FAMILIES: Final = (
    "resources",
    "taints",
    "node-affinity",
    "ports",
    "spread",
    "inter-pod",
    "declared-features",
    "mixed",
    "volumes",
    "devices",
    "devices-extended",
)
ODD_FAMILIES: Final = ("odd", "odd-storage", "odd-devices", "in-tree")
"""Families that are asked about only by name."""
QUESTIONS: Final = 30
PRINTED: Final = 20

Hints = dict[str, dict[str, str]]
"""By event and plugin, `Queue` or `QueueSkip`."""


def hints_command() -> list[str]:
    """Return the command line of the oracle that answers questions about hints."""
    return [*oracle_command(admit=False), "-hints"]


# --- questions ------------------------------------------------------------------------------------


def make_questions(family: str, seed: int) -> Object:
    """Make the case of a seed, with changes that may or may not matter to its waiting pods."""
    case = make_case(family, seed)
    draw = Draw(f"hints:{family}:{seed}")
    if family in ("volumes", "devices-extended"):
        # A profile without some of the plugins has nothing to compare.
        case.pop("config", None)
    pods = [o for o in case["objects"] if o["kind"] == "Pod"]
    nodes = [o for o in case["objects"] if o["kind"] == "Node"]
    storage = [o for o in case["objects"] if o["kind"] in (*STORAGE_KINDS, *DEVICE_KINDS)]
    for pod in pods:
        # The oracle has one default profile here, which is everybody's.
        pod["spec"].pop("schedulerName", None)
    waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]
    for pod in waiting:
        if draw.maybe(0.2):
            gates = draw.some(("example.com/late", "example.com/quota"), 1, 2)
            pod["spec"]["schedulingGates"] = [{"name": name} for name in gates]
    case["questions"] = [_question(draw, waiting, pods, nodes, storage) for _ in range(QUESTIONS)]
    return case


def _question(
    draw: Draw,
    waiting: list[Object],
    pods: list[Object],
    nodes: list[Object],
    storage: list[Object],
) -> Object:
    pod = draw.pick(waiting)
    if storage and draw.maybe(0.6):
        kind = draw.pick(sorted({thing["kind"] for thing in storage}))
        alike = [thing for thing in storage if thing["kind"] == kind]
        change = change_devices if kind in DEVICE_KINDS else change_storage
        old, new = _change(draw, draw.pick(alike), draw.pick(alike), change)
        if kind == "ResourceClaim" and new is None:
            # Stowage wakes pods then, which kube-scheduler does not.
            old, new = None, old
    elif nodes and draw.maybe(0.4):
        old, new = _change(draw, draw.pick(nodes), draw.pick(nodes), change_node)
    elif "resourceClaims" in pod["spec"] and draw.maybe(0.5):
        old, new = pod, copy.deepcopy(pod)
        names = [c["metadata"]["name"] for c in storage if c["kind"] == "ResourceClaim"]
        change_claim_names(draw, new, names)
    elif draw.maybe(0.3):
        old, new = pod, _changed(draw, pod, draw.pick(pods), change_pod)
    else:
        old, new = _change(draw, draw.pick(pods), draw.pick(pods), change_pod)
    return {"pod": pod, "old": old, "new": new}


def _change(draw: Draw, thing: Object, other: Object, change: Any) -> tuple[Object | None, Any]:
    kind = draw.random()
    if kind < 0.2:
        return None, thing
    if kind < 0.4:
        return thing, None
    return thing, _changed(draw, thing, other, change)


def _changed(draw: Draw, thing: Object, other: Object, change: Any) -> Object:
    new = copy.deepcopy(thing)
    for _ in range(draw.pick((1, 1, 1, 2, 3))):
        change(draw, new, copy.deepcopy(other))
    return new


def change_node(draw: Draw, node: Object, other: Object) -> None:
    """Give a node a property of another one."""
    match draw.pick(
        (
            "labels",
            "label",
            "value",
            "taints",
            "effect",
            "cordon",
            "room",
            "room",
            "features",
            "other",
        )
    ):
        case "labels":
            node["metadata"]["labels"] = other["metadata"].get("labels", {})
        case "label":
            labels = node["metadata"].setdefault("labels", {})
            if labels:
                del labels[draw.pick(sorted(labels))]
        case "value":
            labels = node["metadata"].setdefault("labels", {})
            if labels:
                labels[draw.pick(sorted(labels))] = draw.pick(("", "z1", "z9", "5"))
        case "effect":
            taints = [dict(taint) for taint in node["spec"].get("taints", ())][::-1]
            if len(taints) == 1 or draw.maybe(0.5):
                for taint in taints[:1]:
                    taint["effect"] = draw.pick(("NoSchedule", "PreferNoSchedule", "NoExecute"))
            node["spec"]["taints"] = taints
        case "taints":
            node["spec"].pop("taints", None)
            if "taints" in other["spec"] and draw.maybe(0.6):
                node["spec"]["taints"] = other["spec"]["taints"]
        case "cordon":
            node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
        case "room":
            room = other["status"].get("allocatable", {})
            if draw.maybe(0.5):
                room = dict(node["status"].get("allocatable", {}))
                room["pods"] = draw.pick(("1", "110", "111"))
            if draw.maybe(0.3):
                room["cpu"] = draw.pick(("4000m", "16", "250m"))
            node["status"]["allocatable"] = room
        case "features":
            node["status"].pop("declaredFeatures", None)
            if "declaredFeatures" in other["status"]:
                node["status"]["declaredFeatures"] = other["status"]["declaredFeatures"]
        case _:
            node["metadata"]["annotations"] = {"example.com/note": str(draw.randint(1, 3))}
            node["status"]["conditions"] = [
                {"type": "Ready", "status": draw.pick(("True", "False", "Unknown"))}
            ]


def change_pod(draw: Draw, pod: Object, other: Object) -> None:
    """Change what can change while a pod lives."""
    spec, metadata = pod["spec"], pod["metadata"]
    match draw.pick(
        (
            "labels",
            "toleration",
            "requests",
            "status",
            "gates",
            "nomination",
            "features",
            "resize",
            "resize",
            "leaving",
            "selector",
        )
    ):
        case "labels":
            metadata["labels"] = draw.labels(POD_LABELS, 0.7)
        case "toleration":
            spec["tolerations"] = [
                *spec.get("tolerations", ()),
                draw.pick(
                    (
                        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
                        {"key": "dedicated", "value": "blue"},
                        {"operator": "Exists"},
                    )
                ),
            ]
        case "requests":
            for container in spec["containers"]:
                container.pop("resources", None)
            if draw.maybe(0.7):
                spec["containers"][0]["resources"] = other["spec"]["containers"][0].get(
                    "resources", {}
                )
        case "status":
            for key in ("containerStatuses", "initContainerStatuses", "resources", "conditions"):
                pod["status"].pop(key, None)
        case "gates":
            if gates := spec.pop("schedulingGates", None):
                spec["schedulingGates"] = gates[draw.randint(1, 2) :]
        case "resize":
            resize(draw, pod)
        case "leaving":
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            metadata["deletionGracePeriodSeconds"] = 30
        case "selector":
            # Only a gate lets the API server accept it.
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), "disk": "ssd"}
        case "features":
            first = spec["containers"][0]
            for key in ("restartPolicy", "restartPolicyRules"):
                first.pop(key, None)
            theirs = other["spec"]["containers"][0]
            if "restartPolicyRules" in theirs:
                first["restartPolicy"] = theirs.get("restartPolicy", "Always")
                first["restartPolicyRules"] = theirs["restartPolicyRules"]
        case _:
            pod["status"]["nominatedNodeName"] = "n0"
            metadata["annotations"] = {"example.com/note": "changed"}


def resize(draw: Draw, pod: Object) -> None:
    """Let the kubelet report what it granted, on the way to other resources."""
    status = pod["status"]
    if draw.maybe(0.5):
        for key in ("containerStatuses", "initContainerStatuses"):
            for reported in status.get(key, ()):
                if draw.maybe(0.5):
                    reported.pop("allocatedResources", None)
                if draw.maybe(0.5):
                    reported["resources"] = {"requests": {"cpu": "50m"}}
    else:
        for key in ("containerStatuses", "initContainerStatuses", "conditions", "resources"):
            status.pop(key, None)
        add_resize_status(draw, pod)
    if draw.maybe(0.3):
        status["conditions"] = [
            {
                "type": "PodResizePending",
                "status": "True",
                "reason": draw.pick(("Infeasible", "Deferred")),
            }
        ]


# --- our answers ----------------------------------------------------------------------------------


class OwnHints:
    """What our plugins say about changes in one cluster."""

    def __init__(self, admitted: Object) -> None:
        """Load the cluster, so that default constraints know its services and controllers."""
        config = admitted.get("config")
        self._profiles = Profiles(
            None
            if config is None
            else load_object(config, source="config", default_scheduler_name=DEFAULT_PROFILE)
        )
        documents = ((f"objects[{i}]", raw) for i, raw in enumerate(admitted["objects"]))
        self._profiles.load(objects_from_documents(documents))

    def hints(self, question: Object) -> Hints:
        """By event and plugin, whether the pod is to be queued."""
        pod, old, new = (_decoded(question[key]) for key in ("pod", "old", "new"))
        assert isinstance(pod, PodInfo)
        framework = self._profiles.frameworks.get(pod.spec.scheduler_name)
        if framework is None:
            return {}
        registered = {
            name: events
            for name, events in framework.events_to_register().items()
            if name in HINTING
        }
        answers: Hints = {}
        kind = (question["new"] or question["old"])["kind"]
        for event in _events(kind, old, new):
            says = answers.setdefault(event.label, {})
            for plugin, registrations in registered.items():
                for registration in registrations:
                    if registration.event.covers(event):
                        ask = registration.queueing_hint
                        hint = QueueingHint.QUEUE if ask is None else ask(pod, old, new)
                        if says.get(plugin) != QueueingHint.QUEUE.value:
                            says[plugin] = hint.value
        return answers


def _decoded(raw: Object | None) -> Any:
    if raw is None:
        return None
    objects = objects_from_documents([("question", raw)])
    if objects.watched:
        return objects.watched[0][1]
    return objects.pods[0] if raw["kind"] == "Pod" else objects.nodes[0]


def _events(kind: str, old: Any, new: Any) -> tuple[ClusterEvent, ...]:
    if kind in STORAGE_KINDS or kind in DEVICE_KINDS:
        group = "" if kind.startswith("Persistent") else "storage.k8s.io/"
        group = "resource.k8s.io/" if kind in DEVICE_KINDS else group
        action = ActionType.UPDATE
        if old is None or new is None:
            action = ActionType.ADD if old is None else ActionType.DELETE
        return (ClusterEvent(EventResource(f"{group}{kind}"), action),)
    if isinstance(old, PodInfo) and isinstance(new, PodInfo):
        return pod_scheduling_properties_change(old, new)
    if isinstance(old, Node) and isinstance(new, Node):
        return node_scheduling_properties_change(old, new)
    thing = old if new is None else new
    resource = EventResource.NODE
    if isinstance(thing, PodInfo):
        resource = EventResource.ASSIGNED_POD if thing.node_name else EventResource.UNSCHEDULED_POD
    return (ClusterEvent(resource, ActionType.ADD if old is None else ActionType.DELETE),)


# --- comparison -----------------------------------------------------------------------------------


def differences(expected: Hints, actual: Hints) -> list[str]:
    """Say where the hints of compared plugins part."""
    found = []
    for event in sorted(expected.keys() | actual.keys()):
        theirs, ours = expected.get(event), actual.get(event)
        if theirs is None or ours is None:
            found.append(f"{event}: expected {theirs}, got {ours}")
            continue
        found.extend(
            f"{event} {plugin}: expected {theirs.get(plugin)}, got {ours.get(plugin)}"
            for plugin in HINTING
            if theirs.get(plugin) != ours.get(plugin)
        )
    return found


def _ended(question: Object) -> bool:
    """Whether the question is about a pod that has ended, which no scheduler sees."""
    return any(
        (question[key] or {}).get("status", {}).get("phase") in ("Succeeded", "Failed")
        for key in ("pod", "old", "new")
    )


def compared(admitted: Object) -> Iterator[tuple[int, Hints | None, Hints]]:
    """Answers of both, by number of the question; None where the API server refuses an object."""
    if admitted.get("error") or admitted.get("invalid"):
        raise SystemExit(admitted.get("error") or admitted["invalid"][0])
    own = OwnHints(admitted)
    for i, question in enumerate(admitted["questions"] or ()):
        if question.get("invalid"):
            yield i, None, {}
        elif not _ended(question):
            yield i, question["hints"], own.hints(question)


def main() -> int:
    """Ask both about all seeds and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:250", metavar="A:B")
    parser.add_argument("--family", action="append", choices=[*FAMILIES, *ODD_FAMILIES])
    arguments = parser.parse_args()
    first, last = (int(part) for part in arguments.seeds.split(":"))
    hints: Counter[tuple[str, str]] = Counter()
    asked = refused = differing = 0
    with running(hints_command()) as oracle:
        for family in arguments.family or FAMILIES:
            seeds = range(first, last)
            answers = pipelined(oracle, (make_questions(family, seed) for seed in seeds))
            for seed, admitted in zip(seeds, answers, strict=True):
                for i, theirs, ours in compared(admitted):
                    if theirs is None:
                        refused += 1
                        continue
                    asked += 1
                    hints.update((p, h) for says in theirs.values() for p, h in says.items())
                    found = differences(theirs, ours)
                    differing += bool(found)
                    if found and differing <= PRINTED:
                        print(f"{family}:{seed} question {i}: {found[0]}", flush=True)
    print(f"{asked} questions, {refused} about objects the API refuses, {differing} differ")
    for plugin in HINTING:
        print(
            f"    {plugin}: {hints[plugin, 'Queue']} Queue, {hints[plugin, 'QueueSkip']} QueueSkip"
        )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
