"""Promise: features behind feature gates work in pods on real nodes, with the shipped manifests."""

import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from e2e.conftest import REPORTERS
from e2e.nodes.devices import CLAIM, DRIVER, devices, dra_driver
from e2e.nodes.lab import Lab, is_ready
from e2e.nodes.test_kubelets import message, pod, ready, text
from e2e.nodes.test_manifests import released
from e2e.support.controlplane import Options
from e2e.support.objects import Json
from e2e.support.pod_groups import API
from e2e.support.waiting import wait_for

COMPONENTS = (
    "deploy/components/pod-groups",
    "deploy/components/coordinated-election",
    "deploy/components/api-priority",
)
RULES = "resource.k8s.io/v1beta2"
CANDIDATES = "coordination.k8s.io/v1beta1"
GATES = "--feature-gates=GenericWorkload=true,DRADeviceTaintRules=true"
OPTIONS = Options(
    api_server_arguments=(
        f"{GATES},CoordinatedLeaderElection=true",
        f"--runtime-config={API}=true,{RULES}=true,{CANDIDATES}=true",
    ),
    controller_manager_arguments=(GATES,),
)
GROUP: Json = {
    "apiVersion": API,
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
}


OWNER = "example.com/scheduler"
OWN_PROFILE: Json = {
    "schedulerName": "own",
    "plugins": {"multiPoint": {"enabled": [{"name": "NodeOwnership"}]}},
    "pluginConfig": [{"name": "NodeOwnership", "args": {"nodeSelector": {OWNER: "own"}}}],
}
READER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: stowage}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: resources-reader}
rules: [{nonResourceURLs: [/metrics/resources], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: resources-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: resources-reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: stowage}]
"""


@pytest.fixture(scope="module")
def lab_with_gates() -> Iterator[Lab]:
    """A cluster with the feature gates enabled and two real nodes."""
    with Lab(options=OPTIONS) as lab:
        yield lab


@pytest.fixture
def lab(lab_with_gates: Lab, request: pytest.FixtureRequest) -> Lab:
    """The cluster with feature gates; tests delete the objects that they create."""
    request.node.stash.setdefault(REPORTERS, []).append(lab_with_gates.report)
    return lab_with_gates


@pytest.fixture(scope="class")
def with_components(lab_with_gates: Lab) -> Iterator[None]:
    """Deploy two replicas with two profiles and the components for the feature gates."""
    lab = lab_with_gates
    manifests = list(yaml.safe_load_all(lab.rendered("deploy/base", components=COMPONENTS)))
    [config] = [each for each in manifests if each["kind"] == "ConfigMap"]
    document = yaml.safe_load(config["data"]["config.yaml"])
    document["profiles"].append(OWN_PROFILE)
    config["data"]["config.yaml"] = yaml.safe_dump(document)
    with lab.applied_text(yaml.safe_dump_all(manifests)):
        lab.wait_for_rollout("stowage", "stowage")
        yield


def a_pod(name: str, scheduler: str = "stowage", **spec: object) -> Json:
    """Build a pod for Stowage."""
    spec |= {"schedulerName": scheduler, "terminationGracePeriodSeconds": 1}
    resources = {"requests": {"cpu": "10m"}}
    image = "registry.k8s.io/pause:3.10"
    spec["containers"] = [{"name": "main", "image": image, "resources": resources}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def member(name: str) -> Json:
    """Build a pod of the group."""
    return a_pod(name, schedulingGroup={"podGroupName": "train"})


def _pod_of(candidate: str) -> str:
    """Return the pod of a LeaseCandidate, which is named by the pod and a UUID."""
    return "-".join(candidate.split("-")[:-5])


@pytest.mark.usefixtures("with_components")
class TestWithComponents:
    """Features that the components of deploy/components enable."""

    def test_a_gang_runs_whole(self, lab: Lab) -> None:
        """Two of three members wait while another pod runs; with the third, all three run."""
        with lab.applied_text(yaml.safe_dump_all([GROUP, member("a"), member("b")])):
            with lab.applied_text(yaml.safe_dump(a_pod("single"))):
                wait_for(lambda: running(lab) == ["single"], "the pod without a group to run", 180)
            assert [pod["spec"].get("nodeName") for pod in lab.pods("default")] == [None, None]

            with lab.applied_text(yaml.safe_dump(member("c"))):
                wait_for(lambda: running(lab) == ["a", "b", "c"], "all members to run", 180)
                group = lab.get("podgroups.scheduling.k8s.io", "--namespace=default", "train")

        [condition] = group["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodGroupScheduled", "True")

    def test_members_of_a_gang_share_one_claim(self, lab: Lab) -> None:
        """All members run on the node whose driver has the device."""
        [device_class, template] = devices()
        metadata = {"name": "shared", "namespace": "default"}
        claim = {**template, "kind": "ResourceClaim", "metadata": metadata}
        claim["spec"] = template["spec"]["spec"]
        named = [{"name": "device", "resourceClaimName": "shared"}]
        members = [member(name) for name in ("a", "b", "c")]
        for each in members:
            each["spec"]["resourceClaims"] = named
            [main] = each["spec"]["containers"]
            main["resources"] |= CLAIM["resources"]
        manifests = yaml.safe_dump_all([device_class, claim, GROUP, *members])
        with dra_driver(lab.node("node-2"), lab), lab.applied_text(manifests):
            wait_for(lambda: running(lab) == ["a", "b", "c"], "all members to run", 300)
            [found] = lab.get("resourceclaims", "--namespace=default")["items"]
            assert {pod["spec"]["nodeName"] for pod in lab.pods("default")} == {"node-2"}

        assert len(found["status"]["reservedFor"]) == len(members)
        assert len(found["status"]["allocation"]["devices"]["results"]) == 1

    def test_the_api_server_chooses_the_leader(self, lab: Lab) -> None:
        """Both replicas are candidates; if the leader's pod is deleted, another is elected."""

        def candidates() -> set[str]:
            found = lab.get("leasecandidates.coordination.k8s.io", "--namespace=stowage")
            return {each["metadata"]["name"] for each in found["items"]}

        def chosen(*others: str) -> str:
            """Return the leader if it is a candidate and not among the excluded ones."""
            holder = lab.holder()
            return holder if holder not in others and holder in candidates() else ""

        # A restarted container is a new candidate, so the lease must expire first.
        holder = wait_for(chosen, "a leader", 300)
        [lease] = lab.get("leases.coordination.k8s.io", "--namespace=stowage")["items"]
        assert lease["spec"]["strategy"] == "OldestEmulationVersion"
        names = {each["metadata"]["name"] for each in lab.pods("stowage")}
        wait_for(lambda: len(names & {_pod_of(each) for each in candidates()}) == 2, "both", 180)

        leader = _pod_of(holder)
        lab.kubectl("delete", "pod", "--namespace=stowage", leader)
        wait_for(lambda: chosen(holder), "another leader", 300)
        lab.wait_for_rollout("stowage", "stowage")
        with lab.applied_text(yaml.safe_dump(a_pod("after"))):
            wait_for(lambda: running(lab) == ["after"], "a pod to run", 180)

    def test_a_profile_places_pods_on_nodes_of_its_own(self, lab: Lab) -> None:
        """Pods of the profile wait for a node with the label; the other profile is unaffected."""
        reason = "node(s) belonged to another scheduler"
        pods = [a_pod("mine", "own"), a_pod("anywhere")]
        with lab.applied_text(yaml.safe_dump_all(pods)):
            wait_for(lambda: reason in message(lab, "mine"), "a reason", 180)
            wait_for(lambda: running(lab) == ["anywhere"], "the other profile's pod to run", 180)
            lab.kubectl("label", "node", "node-2", f"{OWNER}=own")
            wait_for(lambda: running(lab) == ["anywhere", "mine"], "its own pod to run", 180)
            where = lab.pod("default", "mine")["spec"]["nodeName"]
        lab.kubectl("label", "node", "node-2", f"{OWNER}-")

        assert where == "node-2"

    def test_what_pods_request_is_served(self, lab: Lab) -> None:
        """The leader alone serves the pods' resource requests, to authorized callers only."""
        with lab.applied_text(READER), lab.applied_text(yaml.safe_dump(a_pod("counted"))):
            wait_for(lambda: running(lab) == ["counted"], "a pod to run", 180)
            token = lab.token("stowage", "reader")
            pods = lab.pods("stowage")
            answers = {pod["metadata"]["name"]: ask(pod, token) for pod in pods}
            leader = _pod_of(lab.holder())
            refused = [ask(pod, lab.token("stowage", "stowage"))[0] for pod in pods]

        assert len(pods) == 2
        assert refused == [403, 403]
        status, body = answers.pop(leader)
        assert status == 200
        [line] = [each for each in body.splitlines() if 'pod="counted"' in each]
        assert line.startswith("kube_pod_resource_request{")
        assert float(line.rpartition(" ")[2]) == 0.01
        assert [*answers.values()] == [(200, "")]


def test_a_rule_that_taints_devices(lab: Lab) -> None:
    """With the chart's flag and the page's RBAC rules, a pod waits until the rule is deleted."""
    rule = {
        "apiVersion": RULES,
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": DRIVER},
            "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
        },
    }
    flag = "--feature-gates=DRADeviceTaintRules=true"
    with (
        granted(lab),
        released(lab, {"image": {"tag": "dev"}, "extraArgs": [flag]}),
        dra_driver(lab.node("node-2"), lab),
        lab.applied_text(text(*devices())),
        lab.applied_text(text(pod("first", **CLAIM))),
    ):
        ready(lab, "first")
        with lab.applied_text(text(rule)), lab.applied_text(text(pod("second", **CLAIM))):
            wait_for(lambda: "cannot allocate" in message(lab, "second"), "it to wait", 180)
            lab.kubectl("delete", "devicetaintrule", "broken")
            ready(lab, "second")


@contextmanager
def granted(lab: Lab) -> Iterator[None]:
    """Grant the RBAC rules of docs/devices.md."""
    name = "stowage-taint-rules"
    what = ("--verb=list,watch", "--resource=devicetaintrules.resource.k8s.io")
    lab.kubectl("create", "clusterrole", name, *what)
    whom = (f"--clusterrole={name}", "--serviceaccount=stowage:stowage")
    lab.kubectl("create", "clusterrolebinding", name, *whom)
    yield
    lab.kubectl("delete", f"clusterrole/{name}", f"clusterrolebinding/{name}")


def running(lab: Lab) -> list[str]:
    """Return the names of the Ready pods."""
    return sorted(pod["metadata"]["name"] for pod in lab.pods("default") if is_ready(pod))


def ask(pod: Json, token: str) -> tuple[int, str]:
    """Send a request to a pod; return status and body."""
    context = ssl._create_unverified_context()  # noqa: S323 - self-signed, in memory
    address = pod["status"]["podIP"]
    connection = http.client.HTTPSConnection(address, 10259, timeout=30, context=context)
    connection.request("GET", "/metrics/resources", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text
