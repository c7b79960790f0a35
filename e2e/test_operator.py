"""Promise: an instance is one object, each team owns its profile, and the operator applies both.

Pods of instances start on kwok's nodes; the test runs the daemon itself, as their ServiceAccount
and with their ConfigMap.
"""

import asyncio
import itertools
import json
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import StartStowage
from e2e.support.api import ApiRefusedError, Call
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.go_programs import CHECKOUT
from e2e.support.kwok import start_kwok
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.probing import status_of
from e2e.support.processes import Program
from e2e.support.scraping import fetch
from e2e.support.stowage import is_ready
from e2e.support.waiting import wait_for
from e2e.support.wheels import example_wheel
from e2e.test_deployment import kubectl
from e2e.test_helm import by_name, without_hash
from scheduler.config.load import load
from scheduler.operator.configuring import plan
from scheduler.operator.desired import desired
from scheduler.operator.resources import Metadata, Scheduler
from tests.support.pages import blocks, shown
from tests.support.ports import free_port

ACCOUNT = "system:serviceaccount:stowage-operator:stowage-operator"
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "disruption-controller",
    "serviceaccount-controller",
    "garbage-collector-controller",
    "node-lifecycle-controller",
)
API = "/apis/stowage.dev/v1alpha1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OWNED = (
    "/apis/apps/v1/namespaces/{}/deployments",
    *(
        f"/api/v1/namespaces/{{}}/{plural}"
        for plural in ("configmaps", "serviceaccounts", "services")
    ),
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    *(f"{RBAC}/namespaces/{{}}/{plural}" for plural in ("roles", "rolebindings")),
    *(f"{RBAC}/{plural}" for plural in ("clusterroles", "clusterrolebindings")),
)
"""API paths of an instance's objects."""
LEASE_SECONDS = 15

StartOperator = Callable[[], Program]


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane whose controllers create pods of Deployments and collect garbage."""
    options = Options(controller_manager=True, controllers=",".join(CONTROLLERS))
    directory = tmp_path_factory.mktemp("operator")
    with (
        ControlPlane(options) as own,
        start_kwok(own, directory),
        Cluster("own control plane", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        kubectl(cluster, "apply", "-k", "deploy/operator")
        kubectl(cluster, "wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        yield cluster


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Cluster) -> Iterator[None]:
    """Delete all custom resources and leases, so that tests do not affect each other."""
    yield
    for each in cluster.run(cluster.api.list_items(f"{API}/schedulers")):
        place = f"{API}/namespaces/{each['metadata']['namespace']}/schedulers"
        name = each["metadata"]["name"]
        cluster.run(cluster.api.patch(f"{place}/{name}", {"metadata": {"finalizers": None}}))
        cluster.run(cluster.api.delete(f"{place}/{name}"))
    # The test's decoder cannot read some of the profiles.
    kubectl(cluster, "delete", "schedulingprofiles", "--all", "-A")
    kubectl(cluster, "-n", "stowage-operator", "delete", "lease", "--all")


@pytest.fixture
def start_operator(
    cluster: Cluster, nothing_is_left: None, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[StartOperator]:
    """Start `stowage operator` as its ServiceAccount, with the permissions of deploy/operator."""
    account = cluster.service_account_kubeconfig("stowage-operator", "stowage-operator")
    path = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    started: list[Program] = []

    def start() -> Program:
        port = free_port()
        program = Program(
            f"operator-{len(started)}",
            [
                *(sys.executable, "-m", "scheduler", "operator", f"--kubeconfig={account}"),
                *("--image=stowage:1.0", f"--health-port={port}"),
            ],
            tmp_path / f"operator-{len(started)}.log",
            {"PYTHONPATH": path},
            tmp_path,
        )
        program.url = f"http://127.0.0.1:{port}/readyz"
        started.append(program)
        return program

    yield start
    for program in started:
        program.stop()
    if request.session.testsfailed:
        for program in started:
            print(f"--- {program.name}\n{program.tail(60)}")


@pytest.fixture
def operator(start_operator: StartOperator) -> Program:
    """An operator that leads and is ready."""
    program = start_operator()
    program.wait_ready(lambda: "Leading" in program.tail(100))
    program.wait_ready(lambda: status_of(program.url) == 200)
    return program


# --- objects ------------------------------------------------------------------------------------


def apply(cluster: Cluster, kind: str, namespace: str, name: str, spec: Json, **meta: Any) -> None:
    """Create or change a custom resource, as `kubectl apply` would."""
    body = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **meta},
        "spec": spec,
    }
    path = f"{API}/namespaces/{namespace}/{kind.lower()}s/{name}?fieldManager=e2e&force=true"
    call = Call("PATCH", path, body, "application/apply-patch+yaml")
    cluster.run(cluster.api.call(call))


def scheduler(cluster: Cluster, namespace: str, name: str, **spec: Any) -> None:
    apply(cluster, "Scheduler", namespace, name, spec)


def profile(cluster: Cluster, namespace: str, name: str, **spec: Any) -> None:
    apply(cluster, "SchedulingProfile", namespace, name, {"schedulerName": name, **spec})


def read(cluster: Cluster, path: str) -> Json | None:
    try:
        return cluster.run(cluster.api.get(path))
    except ApiRefusedError as error:
        if error.status != 404:
            raise
        return None


def conditions(cluster: Cluster, plural: str, namespace: str, name: str) -> dict[str, str]:
    """Return the reasons of an object's conditions, by type."""
    found = read(cluster, f"{API}/namespaces/{namespace}/{plural}/{name}") or {}
    status = found.get("status", {})
    if status.get("observedGeneration") != found.get("metadata", {}).get("generation"):
        return {}
    return {each["type"]: each["reason"] for each in status.get("conditions", ())}


def wait_for_reason(
    cluster: Cluster, namespace: str, name: str, seconds: float = 120, **reasons: str
) -> None:
    """Wait until the conditions of a Scheduler have these reasons."""
    wait_for(
        lambda: reasons.items() <= conditions(cluster, "schedulers", namespace, name).items(),
        f"{namespace}/{name} to say {reasons}",
        seconds,
        every_seconds=0.2,
    )


def configuration(cluster: Cluster, namespace: str, name: str) -> str:
    found = read(cluster, f"/api/v1/namespaces/{namespace}/configmaps/{name}-config")
    return "" if found is None else found["data"]["config.yaml"]


def served(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """Return the scheduler names in the configuration of an instance."""
    text = configuration(cluster, namespace, name)
    return [each.scheduler_name for each in load(text).profiles] if text else []


def everything(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """Return all objects of an instance, as `kind/name`."""
    selector = f"app.kubernetes.io/name%3D{name},app.kubernetes.io/managed-by%3Dstowage-operator"
    found = []
    for path in OWNED:
        items = cluster.run(
            cluster.api.list_items(f"{path.format(namespace)}?labelSelector={selector}")
        )
        names = [each["metadata"]["name"] for each in items]
        if "{}" not in path:
            names = [each for each in names if f":{namespace}:" in each]
        found += [f"{path.rpartition('/')[2]}/{each}" for each in names]
    return found


# --- the promises -------------------------------------------------------------------------------


def test_the_same_objects_as_kustomize(cluster: Cluster) -> None:
    """An empty Scheduler gives the objects of deploy/base, apart from cluster-wide names."""
    text = kubectl(cluster, "kustomize", "deploy/base")
    metadata = Metadata(name="stowage", namespace="stowage")
    nothing = Scheduler(metadata=metadata)
    configuration = asyncio.run(plan([nothing], [], {}, {})).configurations[nothing.key]

    ours = desired(nothing, configuration, "stowage:dev")

    kustomized = without_hash(by_name(text))
    del kustomized["Namespace", "stowage"]
    assert without_hash(by_name(yaml.safe_dump_all(map(_unmarked, ours)))) == kustomized


def _unmarked(written: Json) -> Json:
    """Remove owner and operator label from an object, and use the names of deploy/base."""
    metadata = written["metadata"]
    assert metadata["labels"].pop("app.kubernetes.io/managed-by") == "stowage-operator"
    metadata.pop("ownerReferences", None)
    text = json.dumps(written).replace("stowage:stowage:stowage:", "stowage-")
    plain: Json = json.loads(text.replace("stowage:stowage:stowage", "stowage"))
    return plain


def test_the_life_of_an_instance(
    cluster: Cluster, operator: Program, namespace: str, run_stowage: StartStowage, tmp_path: Path
) -> None:
    """Install, change, break, repair, upgrade, delete; the daemon follows without a restart."""
    cluster.create_nodes([make_node(f"node-{i}") for i in range(3)])
    own = {"schedulerName": "default-scheduler"}
    scheduler(cluster, namespace, "main", profiles=[own], profileSelector={})
    wait_for_reason(
        cluster, namespace, "main", ConfigurationValid="Valid", Progressing="RollingOut"
    )

    # Install: the instance schedules its own pods, and leads.
    daemon, file = run_instance(cluster, namespace, "main", run_stowage, tmp_path)
    wait_for_reason(
        cluster, namespace, "main", Available="MinimumReplicasAvailable", Progressing="Complete"
    )
    path = f"{API}/namespaces/{namespace}/schedulers/main"
    leader = os.uname().nodename
    wait_for(lambda: (read(cluster, path) or {})["status"]["leader"] == leader, "a leader")

    # Change: a team adds a profile, and its pods are scheduled.
    profile(cluster, namespace, "batch", percentageOfNodesToScore=50)
    wait_for(lambda: served(cluster, namespace, "main") == ["default-scheduler", "batch"], "batch")
    bring(cluster, namespace, "main", file)
    cluster.create_pods([make_pod("first", namespace=namespace, schedulerName="batch")])
    cluster.wait_until_bound(namespace, scheduler_name="batch")
    # The operator writes the status after the configuration.
    wait_for(
        lambda: (
            conditions(cluster, "schedulingprofiles", namespace, "batch") == {"Accepted": "InForce"}
        ),
        "the profile to be in force",
    )

    # Break: the previous configuration stays in force.
    before = configuration(cluster, namespace, "main")
    scheduler(
        cluster, namespace, "main",
        profiles=[own], profileSelector={}, configuration={"podMaxBackoffSeconds": -1},
    )  # fmt: skip
    wait_for_reason(cluster, namespace, "main", ConfigurationValid="Invalid")
    status = (read(cluster, path) or {})["status"]
    assert [each["path"] for each in status["problems"]] == [
        "spec.configuration.podMaxBackoffSeconds"
    ]
    assert configuration(cluster, namespace, "main") == before

    # Repair.
    scheduler(
        cluster, namespace, "main",
        profiles=[own], profileSelector={}, configuration={"podMaxBackoffSeconds": 7},
    )  # fmt: skip
    wait_for_reason(cluster, namespace, "main", ConfigurationValid="Valid")
    wait_for(lambda: "podMaxBackoffSeconds: 7" in configuration(cluster, namespace, "main"), "7")
    bring(cluster, namespace, "main", file)
    wait_for(lambda: "7" in fetch(f"{daemon.url}/configz"), "the daemon to take it over")
    assert daemon.is_running()

    # Upgrade: new pods are created, and the instance stays available.
    scheduler(cluster, namespace, "main", profiles=[own], profileSelector={}, version="2.0")
    wait_for(
        lambda: (
            {
                pod["spec"]["containers"][0]["image"]
                for pod in cluster.pods(namespace)
                if pod["metadata"]["name"].startswith("main-")
            }
            == {"stowage:2.0"}
        ),
        "the pods of the new version",
    )
    wait_for_reason(cluster, namespace, "main", Progressing="Complete")

    # Delete: all objects are deleted; the profile stays and reports that no Scheduler has it.
    kubectl(cluster, "-n", namespace, "delete", "scheduler", "main", "--timeout=150s")
    wait_for(lambda: everything(cluster, namespace, "main") == [], "everything to go")
    wait_for(
        lambda: (
            conditions(cluster, "schedulingprofiles", namespace, "batch")
            == {"Accepted": "NotSelected"}
        ),
        "the profile to say so",
    )
    assert "Traceback" not in operator.tail(500)


def run_instance(
    cluster: Cluster, namespace: str, name: str, run_stowage: StartStowage, tmp_path: Path
) -> tuple[Program, Path]:
    """Start the daemon of an instance, as its ServiceAccount and with its ConfigMap."""
    wait_for(lambda: configuration(cluster, namespace, name), "the configuration")
    account = wait_for(
        lambda: cluster.service_account_kubeconfig(namespace, name), "the ServiceAccount"
    )
    document = yaml.safe_load(configuration(cluster, namespace, name))
    daemon = run_stowage(
        account,
        leader_elect=True,
        configuration=document,
        arguments=["--serve-without-authorization"],
    )
    return daemon, tmp_path / f"{daemon.name}.yaml"


def bring(cluster: Cluster, namespace: str, name: str, file: Path) -> None:
    """Update the mounted file from the ConfigMap, as a kubelet does."""
    document = yaml.safe_load(configuration(cluster, namespace, name))
    document["clientConnection"] = yaml.safe_load(file.read_text())["clientConnection"]
    beside = file.with_suffix(".new")
    beside.write_text(yaml.safe_dump(document))
    beside.replace(file)


WHEEL = {"configMap": "wheels", "key": "cool_racks.whl"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The wheel of the example cool-racks."""
    return example_wheel("cool-racks", tmp_path_factory.mktemp("wheel")).read_bytes()


def hold(cluster: Cluster, namespace: str, **files: bytes) -> None:
    """Replace the files in the ConfigMap `wheels`."""
    binary = {f"{name}.whl": b64encode(content).decode() for name, content in files.items()}
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": WHEEL["configMap"]}}
    path = f"/api/v1/namespaces/{namespace}/configmaps/wheels?fieldManager=e2e"
    body = {**head, "binaryData": binary}
    cluster.run(cluster.api.call(Call("PATCH", path, body, "application/apply-patch+yaml")))


def template(cluster: Cluster, namespace: str, name: str) -> Json:
    """Return the pod template of an instance's Deployment."""
    found = read(cluster, f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    pods: Json = {} if found is None else found["spec"]["template"]
    return pods


def test_a_plugin_from_a_wheel(
    cluster: Cluster, operator: Program, namespace: str, wheel: bytes, tmp_path: Path
) -> None:
    """A missing wheel is reported with its path; another wheel rolls the pods."""
    racks = {"hot-0": 40, "cool": 20, "hot-1": 36}
    cluster.create_nodes(
        [
            make_node(name, labels={"acme.com/rack-celsius": str(celsius)})
            for name, celsius in racks.items()
        ]
    )
    profiles = [{"plugins": {"multiPoint": {"enabled": [{"name": "CoolRacks", "weight": 5}]}}}]
    plugins = [{"name": "cool-racks", "wheel": WHEEL}]
    scheduler(cluster, namespace, "main", profiles=profiles, plugins=plugins)

    def first_problem() -> str:
        path = f"{API}/namespaces/{namespace}/schedulers/main"
        found = ((read(cluster, path) or {}).get("status") or {}).get("problems") or [{}]
        return f"{found[0].get('path')}: {found[0].get('message')}"

    where = "spec.plugins[0].wheel"
    none = f'{where}.configMap: there is no ConfigMap "wheels" in namespace {namespace}'
    wait_for(lambda: first_problem() == none, "the missing ConfigMap to be told")
    hold(cluster, namespace, other=wheel)
    wait_for(lambda: f"{where}.key: " in first_problem(), "the missing key to be told")
    assert template(cluster, namespace, "main") == {}

    hold(cluster, namespace, cool_racks=wheel)
    wait_for_reason(cluster, namespace, "main", ConfigurationValid="Valid")
    before = wait_for(lambda: template(cluster, namespace, "main"), "the Deployment")
    daemon = run_as_deployed(cluster, namespace, "main", tmp_path)
    try:
        pods = [make_pod(f"p{i}", namespace=namespace, schedulerName="main") for i in range(5)]
        cluster.create_pods(pods)
        cluster.wait_until_bound(namespace, scheduler_name="main")
    finally:
        assert daemon.stop() == 0
    placed = {
        pod["metadata"]["name"]: pod["spec"].get("nodeName")
        for pod in cluster.pods(namespace)
        if pod["spec"]["schedulerName"] == "main"
    }
    assert placed == dict.fromkeys((f"p{i}" for i in range(5)), "cool")

    hold(cluster, namespace, cool_racks=wheel + b"\0")
    wait_for(lambda: template(cluster, namespace, "main") != before, "new pods")
    after = template(cluster, namespace, "main")
    assert before["spec"] == after["spec"]
    assert before["metadata"]["annotations"] != after["metadata"]["annotations"]


def run_as_deployed(cluster: Cluster, namespace: str, name: str, root: Path) -> Program:
    """Run the daemon with the arguments, environment and mounts of its Deployment, below a folder.

    Only the kubeconfig and a free port are added.
    """
    pod = template(cluster, namespace, name)["spec"]
    [container] = pod["containers"]
    volumes = {each["name"]: each["configMap"]["name"] for each in pod["volumes"]}
    for mount in container["volumeMounts"]:
        path = f"/api/v1/namespaces/{namespace}/configmaps/{volumes[mount['name']]}"
        found = cluster.run(cluster.api.get(path))
        files = {key: text.encode() for key, text in found.get("data", {}).items()}
        files |= {key: b64decode(text) for key, text in found.get("binaryData", {}).items()}
        place = root / mount["mountPath"][1:]
        if "subPath" in mount:
            files = {place.name: files[mount["subPath"]]}
            place = place.parent
        place.mkdir(parents=True, exist_ok=True)
        for key, content in files.items():
            (place / key).write_bytes(content)
    file = root / "etc/stowage/config.yaml"
    account = cluster.service_account_kubeconfig(namespace, name)
    document = {
        **yaml.safe_load(file.read_text()),
        "clientConnection": {"kubeconfig": str(account)},
    }
    file.write_text(yaml.safe_dump(document))

    def here(text: str) -> str:
        for mount in container["volumeMounts"]:
            text = text.replace(mount["mountPath"], f"{root}{mount['mountPath']}")
        return text

    port = free_port()
    words = [*map(here, container["args"]), f"--secure-port={port}"]
    variables = {each["name"]: here(each["value"]) for each in container["env"]}
    program = Program(
        name,
        # In the checkout, `-m` finds the modules.
        [sys.executable, "-m", "scheduler", *words],
        root / f"{name}.log",
        variables,
        CHECKOUT,
    )
    program.url = f"https://127.0.0.1:{port}"
    program.wait_ready(lambda: is_ready(program))
    return program


def test_a_plugin_from_an_image(cluster: Cluster, operator: Program, namespace: str) -> None:
    """The API server accepts the pods; the kubelet would mount the image."""
    profiles = [{"plugins": {"multiPoint": {"enabled": [{"name": "PackGpus", "weight": 5}]}}}]
    package = {"name": "gpus", "image": "registry.example/gpus:1", "provides": ["PackGpus"]}
    scheduler(cluster, namespace, "main", profiles=profiles, plugins=[package])
    wait_for_reason(cluster, namespace, "main", ConfigurationValid="Valid")

    [pod, *_] = wait_for(lambda: cluster.pods(namespace), "its pods")

    [volume] = [each for each in pod["spec"]["volumes"] if each["name"] == "plugins-gpus"]
    assert volume["image"]["reference"] == "registry.example/gpus:1"
    [container] = pod["spec"]["containers"]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "plugins-gpus"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/plugins/gpus", True)
    assert container["env"] == [{"name": "PYTHONPATH", "value": "/plugins/gpus/plugins"}]


def test_drift_is_put_right(cluster: Cluster, operator: Program, namespace: str) -> None:
    """Objects that were deleted or changed, and added permissions, are restored within a minute."""
    scheduler(cluster, namespace, "main")
    wait_for(lambda: len(everything(cluster, namespace, "main")) == 13, "all objects")
    role = f"stowage:{namespace}:main"

    kubectl(cluster, "-n", namespace, "scale", "deploy/main", "--replicas=0")
    kubectl(cluster, "-n", namespace, "delete", "svc/main-metrics", "cm/main-config", "sa/main")
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    greedy = json.dumps([{"op": "add", "path": "/rules/-", "value": rule}])
    kubectl(cluster, "patch", "clusterrole", role, "--type=json", f"--patch={greedy}")

    def is_right() -> bool:
        replicas = kubectl(
            cluster, "-n", namespace, "get", "deploy/main", "-o", "jsonpath={.spec.replicas}"
        )
        rules = kubectl(cluster, "get", "clusterrole", role, "-o", "jsonpath={.rules}")
        return (
            replicas == "2"
            and '"*"' not in rules
            and len(everything(cluster, namespace, "main")) == 13
        )

    # Half a minute until all objects are read again; a slow machine needs more for the rest.
    wait_for(is_right, "everything to be as it was", 90, every_seconds=1)


def test_killed_in_the_middle(
    cluster: Cluster, start_operator: StartOperator, namespace: str
) -> None:
    """The next operator completes all started changes, including deletions."""
    first = start_operator()
    first.wait_ready(lambda: "Leading" in first.tail(100))
    for i in range(5):
        scheduler(cluster, namespace, f"s{i}")
    wait_for(lambda: everything(cluster, namespace, "s0"), "it to begin", every_seconds=0.01)
    first.kill()
    begun = sum(len(everything(cluster, namespace, f"s{i}")) for i in range(5))
    kubectl(cluster, "-n", namespace, "delete", "scheduler", "s0", "--wait=false")

    start_operator()

    wait_for(lambda: everything(cluster, namespace, "s0") == [], "s0 to go", every_seconds=1)
    for i in range(1, 5):
        wait_for(
            lambda i=i: len(everything(cluster, namespace, f"s{i}")) == 13,  # type: ignore[misc]  # bound at once
            f"s{i} to be whole",
        )
    print(f"{begun} of 65 objects were there when it was killed")


def test_two_operators(cluster: Cluster, start_operator: StartOperator, namespace: str) -> None:
    """The second operator waits, is healthy meanwhile, and acts when the first one ends."""
    first = start_operator()
    first.wait_ready(lambda: "Leading" in first.tail(100))
    second = start_operator()
    second.wait_ready(lambda: "New leader" in second.tail(100))
    second.wait_ready(lambda: status_of(second.url) == 200)
    scheduler(cluster, namespace, "one")
    wait_for(lambda: len(everything(cluster, namespace, "one")) == 13, "the first to act")
    assert "Leading" not in second.tail(100)

    first.kill()
    scheduler(cluster, namespace, "two")
    wait_for(
        lambda: len(everything(cluster, namespace, "two")) == 13,
        "the second to act",
        LEASE_SECONDS + 90,
    )

    # A stopped operator releases the lease.
    third = start_operator()
    third.wait_ready(lambda: "New leader" in third.tail(100))
    assert second.stop() == 0
    third.wait_ready(lambda: "Leading" in third.tail(100), 10)


def test_a_hundred_profiles(cluster: Cluster, operator: Program, namespace: str) -> None:
    """All profiles are in force and report it; broken ones and duplicates affect no other."""
    scheduler(cluster, namespace, "main", profileSelector={})
    names = [f"team-{i:03}" for i in range(100)]
    for name in names:
        profile(cluster, namespace, name)
    profile(cluster, namespace, "twin", schedulerName="team-007")
    for name in ("broken-1", "broken-2"):
        plugins = {"score": {"enabled": [{"name": "Nothing"}]}}
        profile(cluster, namespace, name, plugins=plugins)

    wait_for(
        lambda: len(served(cluster, namespace, "main")) == 101, "all of them", every_seconds=0.5
    )

    def reasons() -> dict[str, str]:
        items = cluster.run(
            cluster.api.list_items(f"{API}/namespaces/{namespace}/schedulingprofiles")
        )
        return {
            each["metadata"]["name"]: each["status"]["conditions"][0]["reason"]
            for each in items
            if each.get("status")
        }

    expected = dict.fromkeys(names, "InForce")
    expected |= {"twin": "Conflict", "broken-1": "Invalid", "broken-2": "Invalid"}
    wait_for(lambda: reasons() == expected, "all to be told", every_seconds=0.5)
    wait_for(
        lambda: "100/103" in kubectl(cluster, "-n", namespace, "get", "scheduler", "main"),
        "the count in the status",
    )

    # A broken profile keeps its old content in force; a deleted one is removed, and its name is
    # free.
    profile(cluster, namespace, "team-001", percentageOfNodesToScore=10)
    wait_for(
        lambda: "percentageOfNodesToScore: 10" in configuration(cluster, namespace, "main"), "10"
    )
    profile(cluster, namespace, "team-001", plugins={"score": {"enabled": [{"name": "No"}]}})
    kubectl(cluster, "-n", namespace, "delete", "schedprof", "team-007")
    wait_for(lambda: reasons()["team-001"] == "Invalid", "the broken one to be told")
    wait_for(lambda: reasons()["twin"] == "InForce", "the twin to have the name")
    wait_for(
        lambda: sorted(served(cluster, namespace, "main")) == sorted(["main", *names]),
        "the same names to be served",
    )
    # Unchanged status is not written again.
    written = [
        each
        for each in cluster.audit_events()
        if each.user.username == ACCOUNT
        and each.resource == "schedulingprofiles/status"
        and each.object_ref.namespace == namespace
    ]
    assert len(written) <= 2 * 103
    assert "percentageOfNodesToScore: 10" in configuration(cluster, namespace, "main")


def test_a_hostile_profile_beside_a_good_one(
    cluster: Cluster, start_operator: StartOperator, namespace: str
) -> None:
    """Undecodable profiles report the reason; the others are served."""
    scheduler(cluster, namespace, "main", profileSelector={})
    deep: Json = {}
    for _ in range(1500):
        deep = {"a": deep}
    text = "x" * 40_000
    hostile: dict[str, Json] = {
        "deep": {"a": deep},
        "long": {"text": text},
        # Nested lists exceed the decoder's depth; managedFields do not repeat them.
        "lists": {"a": json.loads("[" * 900 + "]" * 900)},
    }
    for name, args in hostile.items():
        create_raw(cluster, namespace, name, args)
    profile(cluster, namespace, "good")

    # The profiles exist when the operator starts, and change while it runs.
    operator = start_operator()
    wait_for(lambda: served(cluster, namespace, "main") == ["main", "good"], "the good one")
    for name in hostile:
        kubectl(cluster, "-n", namespace, "label", "schedprof", name, "seen=twice")
    profile(cluster, namespace, "later")
    wait_for(lambda: served(cluster, namespace, "main") == ["main", "good", "later"], "a later one")
    for name, reason in {**dict.fromkeys(hostile, "Invalid"), "good": "InForce"}.items():
        wait_for(
            lambda name=name, reason=reason: reason_of(cluster, namespace, name) == reason,  # type: ignore[misc]  # bound at once
            f"{name} to be told",
        )

    told = {
        name: (reason_of(cluster, namespace, name), message_of(cluster, namespace, name))
        for name in hostile
    }
    assert {reason for reason, _ in told.values()} == {"Invalid"}
    assert "levels of nesting, got 150" in told["deep"][1]
    assert "levels of nesting, got 90" in told["lists"][1]
    assert "expected at most 32768 bytes, got 40" in told["long"][1]
    assert operator.is_running()
    assert "Traceback" not in operator.tail(500)


def test_nothing_foreign_is_touched(cluster: Cluster, operator: Program, namespace: str) -> None:
    """The operator reports foreign objects with an instance's names, and creates nothing."""
    manifests = f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: main-config, namespace: {namespace}}}
data: {{theirs: "yes"}}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: main
  namespace: {namespace}
  labels: {{app.kubernetes.io/managed-by: stowage-operator}}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {{name: main, namespace: {namespace}}}
"""
    monitors = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ServiceMonitor, plural: servicemonitors, singular: servicemonitor}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
    file = cluster.directory / "foreign.yaml"
    file.write_text(monitors)
    kubectl(cluster, "apply", "-f", str(file))
    kubectl(cluster, "wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    # A kind is listed only after its definition is established, and kubectl reads the list.
    monitoring = "/apis/monitoring.coreos.com/v1"
    wait_for(lambda: (read(cluster, monitoring) or {}).get("resources"), "the kind to be listed")
    file.write_text(manifests)
    kubectl(cluster, "apply", "-f", str(file))
    names = ("configmap/main-config", "serviceaccount/main", "servicemonitor/main")

    def versions() -> str:
        path = "jsonpath={.items[*].metadata.resourceVersion}"
        return kubectl(cluster, "-n", namespace, "get", *names, "-o", path)

    before = versions()
    scheduler(cluster, namespace, "main")
    scheduler(cluster, namespace, "beside")
    wait_for_reason(cluster, namespace, "main", Progressing="ApplyFailed")
    wait_for(lambda: len(everything(cluster, namespace, "beside")) == 13, "the other one")

    path = "jsonpath={.status.conditions[*].message}"
    told = kubectl(cluster, "-n", namespace, "get", "stow", "main", "-o", path)
    assert f"ConfigMap {namespace}/main-config: exists and was not made by this Scheduler" in told
    assert f"ServiceAccount {namespace}/main: exists and" in told
    assert everything(cluster, namespace, "main") == []
    assert versions() == before

    # The Scheduler's owner may have the objects adopted; the ServiceMonitor is not adopted.
    kubectl(cluster, "-n", namespace, "annotate", "stow/main", "stowage.dev/adopt=true")
    wait_for(lambda: len(everything(cluster, namespace, "main")) == 13, "all objects")
    wait_for_reason(cluster, namespace, "main", ConfigurationValid="Valid")
    kubectl(cluster, "-n", namespace, "get", "servicemonitor/main")
    kubectl(cluster, "delete", "crd", "servicemonitors.monitoring.coreos.com")


def test_a_team_may_rank_nodes_only(cluster: Cluster, operator: Program, namespace: str) -> None:
    """A profile may only rank nodes, unless the Scheduler permits more; used names are refused."""
    theirs = f"{namespace}-theirs"
    holder = {"holderIdentity": "pod", "leaseDurationSeconds": 15}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": theirs, "namespace": "kube-system"},
        "spec": holder,
    }
    cluster.run(
        cluster.api.call(
            Call("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease)
        )
    )
    scheduler(cluster, namespace, "main", profileSelector={})
    profile(
        cluster, namespace, "greedy",
        plugins={"multiPoint": {"disabled": [{"name": "TaintToleration"}]}},
    )  # fmt: skip
    profile(cluster, namespace, theirs)
    profile(cluster, namespace, "modest", plugins={"score": {"disabled": [{"name": "*"}]}})
    wait_for(lambda: served(cluster, namespace, "main") == ["main", "modest"], "the modest one")
    wait_for(lambda: reason_of(cluster, namespace, "greedy") == "NotPermitted", "it to be told")
    wait_for(lambda: reason_of(cluster, namespace, theirs) == "Conflict", "it to be told")
    assert f"Lease kube-system/{theirs}" in message_of(cluster, namespace, theirs)

    scheduler(cluster, namespace, "main", profileSelector={}, profilePermissions="All")
    wait_for(
        lambda: served(cluster, namespace, "main") == ["main", "greedy", "modest"], "all of them"
    )


def create_raw(cluster: Cluster, namespace: str, name: str, args: Json) -> None:
    """Create a profile with kubectl; deep nesting needs a higher recursion limit."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        body = {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "SchedulingProfile",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"schedulerName": name, "pluginConfig": [{"name": "X", "args": args}]},
        }
        path = cluster.directory / f"{name}.json"
        path.write_text(json.dumps(body))
    finally:
        sys.setrecursionlimit(limit)
    kubectl(cluster, "create", "-f", str(path))


def reason_of(cluster: Cluster, namespace: str, name: str) -> str:
    return profile_status(cluster, namespace, name, "reason")


def message_of(cluster: Cluster, namespace: str, name: str) -> str:
    return profile_status(cluster, namespace, name, "message")


def profile_status(cluster: Cluster, namespace: str, name: str, field: str) -> str:
    """Return a field of the condition Accepted; kubectl can read deeply nested objects."""
    path = f"jsonpath={{.status.conditions[0].{field}}}"
    return kubectl(cluster, "-n", namespace, "get", "schedprof", name, "-o", path)


def test_a_profile_of_another_namespace(
    cluster: Cluster, operator: Program, namespace: str
) -> None:
    """The Scheduler selects it by the labels of its namespace, which the team cannot change."""
    team = f"{namespace}-team"
    cluster.create_namespace(team)
    profile(cluster, team, "theirs")
    selector = {"matchLabels": {"stowage.dev/profiles": "main"}}
    scheduler(cluster, namespace, "main", profileSelector={}, profileNamespaceSelector=selector)
    wait_for_reason(cluster, namespace, "main", ConfigurationValid="Valid")
    assert served(cluster, namespace, "main") == ["main"]

    kubectl(cluster, "label", "namespace", team, "stowage.dev/profiles=main")

    wait_for(lambda: served(cluster, namespace, "main") == ["main", "theirs"], "theirs")


REFUSED = {
    "both image and version": ({"image": "a:1", "version": "2"}, "give image or version"),
    "a profile in the configuration": (
        {"configuration": {"profiles": []}},
        "profiles stand in spec.profiles",
    ),
    "another lease": (
        {"configuration": {"leaderElection": {"resourceName": "x"}}},
        "the lease is named after the Scheduler",
    ),
    "a monitor without a certificate": (
        {"monitoring": {"serviceMonitor": True}},
        "needs serving.secretName",
    ),
    "a flag without dashes": ({"extraArgs": ["v=3"]}, "extraArgs"),
    "no number": ({"replicas": -1}, "replicas"),
    "a plugin from nowhere": ({"plugins": [{"name": "x"}]}, "give image or wheel, and not both"),
    "a plugin from two places": (
        {"plugins": [{"name": "x", "image": "i", "provides": ["X"], "wheel": WHEEL}]},
        "give image or wheel, and not both",
    ),
    "an image of nothing": ({"plugins": [{"name": "x", "image": "i"}]}, "provides says what"),
    "a wheel that says it twice": (
        {"plugins": [{"name": "x", "provides": ["X"], "wheel": WHEEL}]},
        "a wheel says it itself",
    ),
    "a package whose name is no label": (
        {"plugins": [{"name": "X_y", "wheel": WHEEL}]},
        "plugins.0..name",
    ),
    "a name twice": ({"plugins": [{"name": "x", "wheel": WHEEL}] * 2}, "duplicate"),
}


@pytest.mark.parametrize(("spec", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_api_server_refuses(
    cluster: Cluster, namespace: str, spec: Json, expected: str
) -> None:
    """The API server rejects the Scheduler."""
    with pytest.raises(ApiRefusedError, match=expected):
        scheduler(cluster, namespace, "main", **spec)


def test_names_and_profiles_that_the_api_server_refuses(cluster: Cluster, namespace: str) -> None:
    """The API server rejects names that no Service can have, and reserved names and fields."""
    with pytest.raises(ApiRefusedError, match="name: expected at most 50"):
        scheduler(cluster, namespace, "1" * 51)
    with pytest.raises(ApiRefusedError, match="expected another name than default"):
        scheduler(cluster, namespace, "default")
    with pytest.raises(ApiRefusedError, match="default-scheduler is the cluster's own"):
        profile(cluster, namespace, "x", schedulerName="default-scheduler")
    with pytest.raises(ApiRefusedError, match="expected extension points"):
        profile(cluster, namespace, "x", plugins={"scores": {}})


def test_kubectl_knows_the_kinds(cluster: Cluster, namespace: str) -> None:
    """Explanations, short names and columns are served to kubectl."""
    explained = kubectl(cluster, "explain", "scheduler.spec.profileSelector")
    assert "Which SchedulingProfiles are taken in" in explained
    assert "Stop looking after this share" in kubectl(
        cluster, "explain", "schedprof.spec.percentageOfNodesToScore"
    )
    scheduler(cluster, namespace, "main")
    profile(cluster, namespace, "batch")
    wide = kubectl(cluster, "-n", namespace, "get", "stow", "-o", "wide")
    assert wide.split()[:7] == [
        *("NAME", "AVAILABLE", "PROGRESSING", "CONFIG", "PROFILES", "LEADER", "AGE"),
    ]
    listed = kubectl(cluster, "-n", namespace, "get", "stowage")
    assert "scheduler.stowage.dev/main" in listed
    assert "schedulingprofile.stowage.dev/batch" in listed


def test_the_page_is_right(
    cluster: Cluster, operator: Program, wheel: bytes, tmp_path: Path
) -> None:
    """The manifests in docs/operator.md are accepted and in force, and its commands work."""
    page = CHECKOUT / "docs" / "operator.md"
    every = [each for block in blocks(page, "yaml") for each in yaml.safe_load_all(block)]
    # tests/unit/docs/test_operator_page.py reads the kustomization.
    documents = [each for each in every if each["kind"] != "Kustomization"]
    assert {each["kind"] for each in documents} == {"Scheduler", "SchedulingProfile"}
    for each in documents:
        place = each["metadata"]["namespace"]
        cluster.create_namespace(place)
        apply(cluster, each["kind"], place, each["metadata"]["name"], each["spec"],
              labels=each["metadata"].get("labels", {}))  # fmt: skip
    kinds = {"Scheduler": "schedulers", "SchedulingProfile": "schedulingprofiles"}
    wanted = {
        "schedulers": {"ConfigurationValid": "Valid"},
        "schedulingprofiles": {"Accepted": "InForce"},
    }

    for each in documents:
        plural = kinds[each["kind"]]
        place, name = each["metadata"]["namespace"], each["metadata"]["name"]
        wait_for(
            lambda plural=plural, place=place, name=name: (  # type: ignore[misc]  # bound at once
                wanted[plural].items() <= conditions(cluster, plural, place, name).items()
            ),
            f"{place}/{name}",
        )
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "cool_racks-0.1.0-py3-none-any.whl").write_bytes(wheel)
    asked = [each.command for each in shown(page) if "kubectl -n scheduling " in each.command]
    assert len(asked) == 5
    for command in asked:
        words = command.replace("dist/", f"{tmp_path}/dist/").split()
        kubectl(cluster, *words[1:])
    # The garbage collector discovers new kinds every 30 s.
    wait_for(lambda: not everything(cluster, "scheduling", "main"), "everything to go", 120)


def test_its_own_pods_are_admitted(cluster: Cluster) -> None:
    """The operator's namespace enforces the restricted Pod Security Standard."""
    wait_for(lambda: len(cluster.pods("stowage-operator")) == 2, "the pods of the operator")


def test_only_the_rights_that_are_used(cluster: Cluster, own_cluster: ControlPlane) -> None:
    """In all tests of this file, no request was forbidden, and every permission was used."""
    seen = [each for each in cluster.audit_events() if each.user.username == ACCOUNT]
    refused = {(e.verb, e.request_uri) for e in seen if e.code in (401, 403)}
    used = {(e.verb, e.object_ref.api_group, e.resource) for e in seen}

    granted = set()
    for document in yaml.safe_load_all((CHECKOUT / "deploy/operator/rbac.yaml").read_text()):
        for rule in document.get("rules", ()):
            granted |= set(itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"]))
    # Server-side apply is logged as a patch, but needs both verbs. An admission plugin checks the
    # finalizers permission when an owner is set. No Prometheus operator runs here.
    silent = {
        right
        for right in granted
        if (right[0] == "create" and ("patch", *right[1:]) in granted)
        or right[2] == "schedulers/finalizers"
        or right[1] == "monitoring.coreos.com"
    }

    assert refused == set()
    assert {right for right in used if right[2]} <= granted
    assert granted - used - silent == set()
