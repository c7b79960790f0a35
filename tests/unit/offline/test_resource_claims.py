"""Claims in files: those of templates, and what simulations make of them."""

from typing import Any

import msgspec
import pytest

from scheduler.kernel.answers.model import DeviceTaken, FeasibleNode, PodAnswer
from scheduler.tools.offline.cases import answer_case
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents
from scheduler.tools.offline.recorded import recorded_engine
from scheduler.tools.offline.resource_claims import claims_of_templates
from scheduler.tools.offline.simulate import Placement, simulate
from tests.support.manifests import node_manifest, pod_manifest
from tests.support.recordings import make_header

API = "resource.k8s.io/v1"
GPU = "example.com/gpu"
Object = dict[str, Any]


def resource_slice(node: str, count: int) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{i}"} for i in range(count)]
    spec = {"driver": "d", "nodeName": node, "pool": pool, "devices": devices}
    return {"kind": "ResourceSlice", "apiVersion": API, "metadata": {"name": node}, "spec": spec}


def device_class() -> Object:
    spec = {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": GPU}
    return {"kind": "DeviceClass", "apiVersion": API, "metadata": {"name": "gpu"}, "spec": spec}


SPEC: Object = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE: Object = {
    "kind": "ResourceClaimTemplate",
    "apiVersion": API,
    "metadata": {"name": "one"},
    "spec": {"spec": SPEC},
}
CLAIM: Object = {
    "kind": "ResourceClaim",
    "apiVersion": API,
    "metadata": {"name": "shared"},
    "spec": SPEC,
}


def claiming(name: str, **source: str) -> Object:
    return pod_manifest(name, resourceClaims=[{"name": "c", **source}])


def placements(*objects: Object) -> dict[str, str | None]:
    found = objects_from_documents((f"o{i}", raw) for i, raw in enumerate(objects))
    outcome = simulate(Profiles(None).load(found))
    return {each.pod: each.node for each in outcome.placements if isinstance(each, Placement)}


def test_pods_of_one_template_have_claims_of_their_own() -> None:
    """With one device asked for where nothing is said of how many."""
    pods = [claiming(name, resourceClaimTemplateName="one") for name in ("p", "q", "r")]

    found = placements(node_manifest("n"), resource_slice("n", 2), device_class(), TEMPLATE, *pods)

    assert found == {"default/p": "n", "default/q": "n", "default/r": None}


def test_a_shared_claim_is_there_for_the_second_pod() -> None:
    """On the node of the first, whatever else there is."""
    pods = [claiming(name, resourceClaimName="shared") for name in ("p", "q")]
    nodes = [node_manifest("a"), node_manifest("b")]

    found = placements(*nodes, resource_slice("a", 1), device_class(), CLAIM, *pods)

    assert found == {"default/p": "a", "default/q": "a"}


@pytest.mark.parametrize(
    ("is_leaving", "phase", "made"),
    [
        pytest.param(False, "Pending", ["p-c-claim"], id="a pod that waits"),
        pytest.param(True, "Pending", [], id="a pod that is being deleted"),
        pytest.param(False, "Failed", [], id="a pod that has ended"),
    ],
)
def test_only_pods_that_go_on_get_claims(is_leaving: bool, phase: str, made: list[str]) -> None:
    """The controller makes none for the others: a nominated one stays gated, and holds no room."""
    pod = claiming("p", resourceClaimTemplateName="one")
    pod["metadata"].update(namespace="default", uid="u")
    pod["status"] = {"phase": phase}
    if is_leaving:
        pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"

    _, claims = claims_of_templates(pod, {("default", "one"): TEMPLATE})

    assert [claim["metadata"]["name"] for claim in claims] == made


def test_extended_resources_of_devices_are_used_up() -> None:
    """As those of device plugins are."""
    pods = [pod_manifest(name, requests={GPU: "2"}) for name in ("p", "q")]

    found = placements(node_manifest("n"), resource_slice("n", 3), device_class(), *pods)

    assert found == {"default/p": "n", "default/q": None}


def test_explanations_name_the_devices_of_each_node() -> None:
    """By the names that the pod has for its claims; nothing where nothing is to be allocated."""
    plain = pod_manifest("plain")
    asking = claiming("p", resourceClaimTemplateName="one")
    extended = pod_manifest("x", requests={GPU: "1"})
    objects = [node_manifest("n"), resource_slice("n", 2), device_class(), TEMPLATE]
    answer = answer_case(
        msgspec.json.encode({"objects": [*objects, plain, asking, extended]}).decode()
    )

    def devices(pod: PodAnswer) -> Any:
        [node] = pod.nodes
        assert isinstance(node, FeasibleNode)
        return node.devices or None

    taken = {pod.pod: devices(pod) for pod in answer.pods}
    assert taken["default/p"] == {"c": (DeviceTaken("r", "d", "n", "gpu-0"),)}
    assert taken["default/x"] == {
        "<extended-resources>": (DeviceTaken("container-0-request-0", "d", "n", "gpu-0"),)
    }
    assert taken["default/plain"] is None


def test_a_replay_has_the_time_of_day_of_the_recording() -> None:
    """What objects say of times is compared with it."""
    profiles = Profiles(None)
    recorded_engine(profiles, make_header(started=1_000.0, clock=40.0))

    assert profiles._builder.services.epoch == 960.0
