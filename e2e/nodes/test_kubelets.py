"""Promise: kubelet actions leave no wrong resource count and no pod waiting that could run.

Kubelets reject pods, evict them, run static pods, resize and end them, and withdraw devices. After
each test the daemon compares its cache, queue and snapshot with the API server.
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest
import yaml

from e2e.nodes.devices import CLAIM, allocated_devices, devices, dra_driver
from e2e.nodes.lab import Lab, is_ready
from e2e.nodes.node import Node
from e2e.nodes.test_manifests import labelled, running
from e2e.support.objects import Json
from e2e.support.waiting import wait_for

PAUSE: Final = "registry.k8s.io/pause:3.10"
BOX: Final = "box:1"
_HOSTNAME: Final = "kubernetes.io/hostname"
_STATIC: Final = "/var/lib/kubelet/manifests"
_DEVICE: Final = "e2e.stowage.dev/device"


@pytest.fixture(scope="module", autouse=True)
def stowage(shared_lab: Lab) -> Iterator[None]:
    """Apply the base manifests."""
    with shared_lab.applied("deploy/base"):
        shared_lab.wait_for_rollout("stowage", "stowage")
        wait_for(shared_lab.leader, "a leader")
        yield


@pytest.fixture(autouse=True)
def agrees(lab: Lab, stowage: None) -> Iterator[None]:
    """After each test, compares the leader's cache, queue and snapshot with the API server."""
    yield

    def leader_pod() -> Json:
        """Return the leader's pod; empty while the lease has none, as after an eviction."""
        holder, pods = lab.leader(), lab.pods("stowage")
        return next((each for each in pods if each["metadata"]["name"] == holder), {})

    leader = wait_for(leader_pod, "a leader")
    name = leader["metadata"]["name"]
    before = lab.logs("stowage", name)
    lab.signal(leader, signal.SIGUSR2)

    def comparison() -> str:
        text = lab.logs("stowage", name).removeprefix(before)
        return text if "Cache comparer finished" in text else ""

    assert "Cache mismatch" not in wait_for(comparison, "the comparer", 180)


# --- refused --------------------------------------------------------------------------------------


def test_a_pod_for_which_there_is_no_room_any_more(lab: Lab) -> None:
    """Another scheduler binds first; the kubelet rejects our pod, the next goes elsewhere."""
    node = lab.node("node-1")
    older = pod("older", cpu="1500m", schedulerName="another")
    ours = replicated("ours", cpu="1500m", prefer=node.name)
    with ExitStack() as stack:
        stack.enter_context(lab.applied_text(text(older)))
        stack.enter_context(kubelet_off(node))
        # Kubelets admit pods by creation time, in seconds.
        time.sleep(1.1)
        stack.enter_context(lab.applied_text(text(ours)))
        bound(lab, "app=ours", node.name)
        bind(lab, "older", node.name)
        node.start_kubelet()

        assert "OutOfcpu" in rejection_reason(lab, "app=ours")
        [replaced] = alive(lab, "app=ours")
        assert replaced["spec"]["nodeName"] == "node-2"
        ready(lab, "older")


def test_a_pod_beyond_the_most_that_a_node_takes(lab: Lab) -> None:
    """A restart lowers maxPods; the kubelet rejects our pod, the next goes elsewhere."""
    node = lab.node("node-1")
    running = [
        pod
        for pod in lab.get("pods", "--all-namespaces")["items"]
        if pod["spec"].get("nodeName") == node.name and _phase(pod) in {"Pending", "Running"}
    ]
    with ExitStack() as stack:
        stack.enter_context(kubelet_off(node))
        stack.enter_context(lab.applied_text(text(replicated("ours", prefer=node.name))))
        bound(lab, "app=ours", node.name)
        before = dict(node.kubelet_configuration)
        stack.callback(node.restart_kubelet)
        stack.callback(setattr, node, "kubelet_configuration", before)
        node.kubelet_configuration |= {"maxPods": len(running)}
        node.start_kubelet()

        assert "OutOfpods" in rejection_reason(lab, "app=ours")
        [replaced] = alive(lab, "app=ours")
        assert replaced["spec"]["nodeName"] == "node-2"


def test_a_pod_whose_node_has_changed_its_labels(lab: Lab) -> None:
    """The kubelet rejects the pod (NodeAffinity); the next one goes to the node with the label."""
    node = lab.node("node-1")
    left = text(replicated("left", nodeSelector={"e2e/side": "left"}))
    with labelled(lab, node.name, "e2e/side=left"), kubelet_off(node), lab.applied_text(left):
        bound(lab, "app=left", node.name)
        lab.kubectl("label", "node", node.name, "e2e/side=right", "--overwrite")
        with labelled(lab, "node-2", "e2e/side=left"):
            node.start_kubelet()

            assert "NodeAffinity" in rejection_reason(lab, "app=left")
            [replaced] = alive(lab, "app=left")
            assert replaced["spec"]["nodeName"] == "node-2"


# --- what kubelets bring by themselves ------------------------------------------------------------


def test_static_pods(lab: Lab) -> None:
    """A mirror pod uses resources without a scheduler; they are free again when it is deleted."""
    node = lab.node("node-1")
    manifest = {"apiVersion": "v1", "kind": "Pod", **pod("static", cpu="600m", schedulerName="")}
    del manifest["spec"]["schedulerName"]
    node.run("sh", "-c", f"mkdir -p {_STATIC} && cat >{_STATIC}/one.yaml", stdin=text(manifest))
    node.restart_kubelet(staticPodPath=_STATIC)
    # Pods of the test before may still be there.
    wait_for(
        lambda: any(
            each["metadata"]["name"] == "static-node-1" and is_ready(each)
            for each in lab.pods("default")
        ),
        "the mirror pod to run",
        180,
    )

    with lab.applied_text(text(pod("big", cpu="1400m", nodeSelector={_HOSTNAME: node.name}))):
        wait_for(lambda: "Insufficient cpu" in message(lab, "big"), "the pod to wait")
        node.run("rm", f"{_STATIC}/one.yaml")
        ready(lab, "big")


def test_eviction_under_pressure(lab: Lab) -> None:
    """The kubelet evicts a pod, or rejects its replacement; then another one runs."""
    node = lab.node("node-1")
    with lab.applied_text(text(replicated("pressed", prefer=node.name))):
        bound(lab, "app=pressed", node.name)
        running(lab, "default", 1)
        # A soft threshold: hard thresholds reduce the node's allocatable memory.
        pressure: Json = {
            "evictionSoft": {"memory.available": "99%"},
            "evictionSoftGracePeriod": {"memory.available": "1s"},
            "evictionPressureTransitionPeriod": "1s",
        }
        node.restart_kubelet(**pressure)
        try:
            wait_for(lambda: events_with(lab, "Evicted"), "the pod to be evicted", 180)
            wait_for(lambda: len(alive(lab, "app=pressed")) == 1, "another pod", 180)
        finally:
            for name in pressure:
                del node.kubelet_configuration[name]
            node.restart_kubelet()
        lab.wait_for_nodes()
        wait_for(lambda: all(map(is_ready, alive(lab, "app=pressed"))), "the other pod to run", 180)


# --- pods that change and end ---------------------------------------------------------------------


def test_resize(lab: Lab) -> None:
    """An accepted resize counts; a deferred resize counts with the requested amount."""
    here = {_HOSTNAME: "node-1"}
    with lab.applied_text(text(pod("resized", cpu="100m", nodeSelector=here))):
        ready(lab, "resized")
        resize(lab, "resized", "800m")
        wait_for(lambda: allocated(lab, "resized") == "800m", "the resize", 180)

        with lab.applied_text(text(pod("more", cpu="1", nodeSelector=here))):
            wait_for(lambda: "Insufficient cpu" in message(lab, "more"), "the pod to wait")
            resize(lab, "resized", "300m")
            ready(lab, "more")
            resize(lab, "resized", "1200m")
            wait_for(lambda: "Deferred" in pending_resize(lab, "resized"), "it to be deferred", 180)
            with lab.applied_text(text(pod("third", cpu="200m", nodeSelector=here))):
                wait_for(lambda: "Insufficient cpu" in message(lab, "third"), "the pod to wait")
                lab.kubectl("delete", "pod", "more", "--now")
                ready(lab, "third")


def test_init_containers_sidecars_and_the_end(lab: Lab) -> None:
    """A Job with both uses its peak request while it runs, and nothing afterwards."""
    here = {_HOSTNAME: "node-1"}
    work = pod("work", cpu="100m", nodeSelector=here)
    [main] = work["spec"]["containers"]
    main |= {"image": BOX, "command": ["/bin/sh", "-c", "sleep 2"]}
    sidecar = container("sidecar", "100m") | {"restartPolicy": "Always"}
    first = container("first", "1500m") | {"image": BOX, "command": ["/bin/true"]}
    work["spec"] |= {"initContainers": [first, sidecar], "restartPolicy": "Never"}

    with lab.applied_text(text(work)):
        wait_for(lambda: phase(lab, "work") == "Succeeded", "the pod to end", 180)
        with lab.applied_text(text(pod("after", cpu="1500m", nodeSelector=here))):
            ready(lab, "after")


def test_preemption_with_grace(lab: Lab) -> None:
    """Victims run their preStop hook; the preemptor is bound when they have ended."""
    important = {"metadata": {"name": "important"}, "value": 1000}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **important}
    victims = [pod(f"victim-{node.name}", cpu="1500m", image=BOX) for node in lab.nodes]
    for victim, node in zip(victims, lab.nodes, strict=True):
        victim["spec"] |= {
            "nodeSelector": {_HOSTNAME: node.name},
            "terminationGracePeriodSeconds": 20,
        }
        [main] = victim["spec"]["containers"]
        main["command"] = ["/bin/sleep", "600"]
        main["lifecycle"] = {"preStop": {"exec": {"command": ["/bin/sleep", "4"]}}}

    with lab.applied_text(text(kind, *victims)):
        for victim in victims:
            ready(lab, victim["metadata"]["name"])
        with lab.applied_text(text(pod("urgent", cpu="1500m", priorityClassName="important"))):
            wait_for(lambda: "nominatedNodeName" in status(lab, "urgent"), "a nomination")
            # The nomination and the deletion are requests of their own.
            wait_for(lambda: len(leaving(lab)) == 1, "one victim to be leaving")
            assert phase(lab, "urgent") == "Pending"
            ready(lab, "urgent")
            gone = {victim["metadata"]["name"] for victim in victims}
            left = {each["metadata"]["name"] for each in lab.pods("default")}
            assert len(gone - left) == 1


def test_volumes(lab: Lab) -> None:
    """A local volume determines the node; a missing ConfigMap delays only the start."""
    lab.node("node-2").run("mkdir", "-p", "/var/lib/kubelet/local-volume")
    there = {"key": _HOSTNAME, "operator": "In", "values": ["node-2"]}
    objects: list[Json] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "local"},
            "spec": {
                "storageClassName": "local",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "local": {"path": "/var/lib/kubelet/local-volume"},
                "nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "storageClassName": "local",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    ]
    user = pod("user", cpu="100m")
    sources: dict[str, Json] = {
        "data": {"persistentVolumeClaim": {"claimName": "data"}},
        "host": {"hostPath": {"path": "/var/lib/kubelet", "type": "Directory"}},
        "empty": {"emptyDir": {}},
        "late": {"configMap": {"name": "late"}},
    }
    user["spec"]["volumes"] = [{"name": name, **source} for name, source in sources.items()]
    [main] = user["spec"]["containers"]
    main["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in sources]

    with lab.applied_text(text(*objects, user)):
        bound(lab, "app=user", "node-2")
        assert phase(lab, "user") == "Pending"
        lab.kubectl("create", "configmap", "late")
        try:
            ready(lab, "user")
        finally:
            lab.kubectl("delete", "configmap", "late")


# --- devices --------------------------------------------------------------------------------------


def test_a_device_plugin(lab: Lab) -> None:
    """The resource appears and is used; when it disappears, one pod is rejected and others wait."""
    node = lab.node("node-2")
    asks = {"limits": {_DEVICE: "1"}}
    with lab.applied_text(text(pod("first", resources=asks))):
        wait_for(lambda: f"Insufficient {_DEVICE}" in message(lab, "first"), "the pod to wait")
        node.start_device_plugin(_DEVICE, 2)
        ready(lab, "first")
        assert lab.get("pod", "first")["spec"]["nodeName"] == node.name

        with kubelet_off(node):
            node.programs.pop("device-plugin").stop()
            with lab.applied_text(text(replicated("second", resources=asks))):
                bound(lab, "app=second", node.name)
                node.start_kubelet()
                assert "UnexpectedAdmissionError" in rejection_reason(lab, "app=second")
                # The kubelet may reject further pods before it reports that the devices are gone.
                wait_for(
                    lambda: any(
                        f"Insufficient {_DEVICE}" in message_of(each)
                        for each in alive(lab, "app=second")
                    ),
                    "the next pod to wait",
                    180,
                )


def test_claims(lab: Lab) -> None:
    """Pods from a template get one device each; the next pod waits until one of them ends."""
    ours = replicated("ours", **CLAIM)
    ours["spec"]["replicas"] = 2
    with dra_driver(lab.node("node-2"), lab), lab.applied_text(text(*devices(), ours)):
        wait_for(lambda: len(alive(lab, "app=ours")) == 2, "two pods", 180)
        wait_for(lambda: all(map(is_ready, alive(lab, "app=ours"))), "both to run", 180)
        assert {each["spec"]["nodeName"] for each in alive(lab, "app=ours")} == {"node-2"}
        assert sorted(allocated_devices(lab)) == ["device-0", "device-1"]

        with lab.applied_text(text(pod("next", **CLAIM))):
            wait_for(
                lambda: "cannot allocate all claims" in message(lab, "next"), "it to wait", 180
            )
            lab.kubectl("scale", "deployment/ours", "--replicas=1")
            ready(lab, "next")
            assert sorted(allocated_devices(lab)) == ["device-0", "device-1"]


# --- what tests are made of -----------------------------------------------------------------------


def container(name: str, cpu: str = "", image: str = PAUSE, resources: Json | None = None) -> Json:
    asked = resources or ({"requests": {"cpu": cpu}} if cpu else {})
    return {"name": name, "image": image, "resources": asked}


def pod(
    name: str,
    *,
    cpu: str = "",
    image: str = PAUSE,
    resources: Json | None = None,
    schedulerName: str = "stowage",  # noqa: N803 -- fields of the specification keep their names
    **spec: object,
) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "schedulerName": schedulerName,
            "terminationGracePeriodSeconds": 1,
            "containers": [container("main", cpu, image, resources)],
            **spec,
        },
    }


def replicated(name: str, *, prefer: str = "", **options: object) -> Json:
    """Build a Deployment with one pod and a preferred node."""
    made = pod(name, **options)  # type: ignore[arg-type] # what `pod` takes
    if prefer:
        here = {"key": _HOSTNAME, "operator": "In", "values": [prefer]}
        term = {"weight": 100, "preference": {"matchExpressions": [here]}}
        rule = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
        made["spec"]["affinity"] = {"nodeAffinity": rule}
    labels = made["metadata"]["labels"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": made["spec"]},
        },
    }


def text(*objects: Json) -> str:
    return yaml.safe_dump_all(objects)


@contextmanager
def kubelet_off(node: Node) -> Iterator[None]:
    """Stop the kubelet, and restart it on exit; containers keep running."""
    node.programs.pop("kubelet").stop()
    try:
        yield
    finally:
        if "kubelet" not in node.programs:
            node.start_kubelet()


def bind(lab: Lab, name: str, node: str) -> None:
    """Bind a pod as another scheduler would."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    path = f"/api/v1/namespaces/default/pods/{name}/binding"
    lab.kubectl("create", f"--raw={path}", "--filename=-", stdin=json.dumps(binding))


def events_with(lab: Lab, reason: str) -> list[Json]:
    """Return the events with this reason."""
    found: list[Json] = lab.get("events", f"--field-selector=reason={reason}")["items"]
    return found


def bound(lab: Lab, selector: str, node: str) -> None:
    wait_for(lambda: _is_on(lab.pods("default", selector), node), f"{selector} on {node}", 180)


def _is_on(pods: list[Json], node: str) -> bool:
    return [each["spec"].get("nodeName") for each in pods] == [node]


def rejection_reason(lab: Lab, selector: str) -> str:
    """Return the reason of the kubelet's rejection, once another pod of its kind runs or waits."""

    def reasons() -> str:
        failed = [each for each in lab.pods("default", selector) if _phase(each) == "Failed"]
        return " ".join(str(each["status"].get("reason")) for each in failed)

    found = wait_for(reasons, f"{selector} to be refused", 180)
    wait_for(lambda: alive(lab, selector), f"another pod of {selector}", 180)
    if "Unexpected" not in found:
        wait_for(lambda: all(map(is_ready, alive(lab, selector))), f"{selector} to run", 180)
    return found


def leaving(lab: Lab) -> list[Json]:
    """Return the terminating pods."""
    return [each for each in lab.get("pods")["items"] if "deletionTimestamp" in each["metadata"]]


def alive(lab: Lab, selector: str) -> list[Json]:
    return [each for each in lab.pods("default", selector) if _phase(each) != "Failed"]


def ready(lab: Lab, name: str) -> None:
    wait_for(lambda: is_ready(lab.get("pod", name)), f"{name} to run", 180)


def status(lab: Lab, name: str) -> Json:
    found: Json = lab.get("pod", name)["status"]
    return found


def phase(lab: Lab, name: str) -> str:
    return _phase(lab.get("pod", name))


def _phase(pod: Json) -> str:
    return str(pod["status"].get("phase"))


def message(lab: Lab, name: str) -> str:
    return message_of(lab.get("pod", name))


def message_of(pod: Json) -> str:
    return _of_condition(pod, "PodScheduled", "message")


def pending_resize(lab: Lab, name: str) -> str:
    return _of_condition(lab.get("pod", name), "PodResizePending", "reason")


def _of_condition(pod: Json, kind: str, field: str) -> str:
    conditions = pod["status"].get("conditions", [])
    return " ".join(str(each.get(field, "")) for each in conditions if each["type"] == kind)


def allocated(lab: Lab, name: str) -> str:
    [main] = status(lab, name)["containerStatuses"]
    return str(main.get("resources", {}).get("requests", {}).get("cpu"))


def resize(lab: Lab, name: str, cpu: str) -> None:
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    words = ("--subresource=resize", f"--patch={json.dumps(change)}")
    lab.kubectl("patch", "pod", name, *words)
