"""Claims of pods: made from templates, freed and deleted with the pods that use them."""

from typing import Any

from apistub import Sandbox, Settings
from tests.unit.apistub.support import Client, Object, pod, serve

WORKING = Settings(run_kubelet=True, run_workloads=True)
API = "resource.k8s.io/v1"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
SPEC: Object = {"devices": {"requests": [REQUEST]}}
TEMPLATE: Object = {
    "apiVersion": API,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one"},
    "spec": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC},
}


def claiming(name: str = "p", **source: str) -> Object:
    return pod(name, resourceClaims=[{"name": "c", **source}])


async def until_watched(client: Client, path: str, holds: Any) -> Object:
    """The first state of anything under a path of which something holds."""
    async with client.watch(f"{path}?watch=true") as watch:
        while True:
            event = await watch.next()
            if holds(event):
                return event["object"]


def test_a_template_becomes_a_claim_of_the_pod() -> None:
    """The claim carries what the template says of it, and the pod's status names it."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(claiming(resourceClaimTemplateName="one"), TEMPLATE)
        path = "/api/v1/namespaces/default/pods"
        seen = await until_watched(
            client, path, lambda e: "resourceClaimStatuses" in e["object"]["status"]
        )

        (told,) = seen["status"]["resourceClaimStatuses"]
        claim = sandbox.get("resourceclaims.resource.k8s.io", told["resourceClaimName"])
        meta = claim["metadata"]
        assert told["name"] == "c"
        assert claim["spec"] == SPEC
        assert meta["name"].startswith("p-c-")
        assert (meta["labels"], meta["annotations"]) == (
            {"a": "b"},
            {"resource.kubernetes.io/pod-claim-name": "c"},
        )
        (owner,) = meta["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", seen["metadata"]["uid"])

    serve(story, WORKING)


def test_a_claim_goes_with_its_pod() -> None:
    """First the reservation, then the allocation, then the finalizer, then the claim."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(TEMPLATE, claiming(resourceClaimTemplateName="one"))
        claim = await until_watched(client, CLAIMS, lambda e: e["type"] == "ADDED")
        name, uid = claim["metadata"]["name"], sandbox.get("pods", "p")["metadata"]["uid"]
        reserve(sandbox, name, "p", uid)

        async with client.watch(f"{CLAIMS}?watch=true") as watch:
            sandbox.delete("pods", "p", grace_seconds=0)
            seen = [await watch.next()]
            while seen[-1]["type"] != "DELETED":
                seen.append(await watch.next())

        was_allocated = ["allocation" in each["object"].get("status", {}) for each in seen]
        was_held = [bool(each["object"]["metadata"].get("finalizers")) for each in seen]
        assert was_allocated[0]
        assert not was_allocated[-1]
        assert was_held[was_allocated.index(False)]

    serve(story, WORKING)


def test_a_shared_claim_stays_allocated_while_a_pod_uses_it() -> None:
    """The pod that is gone is forgotten; a claim of no pod's own is kept when the last one goes."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        claim = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": "s"}}
        sandbox.create({**claim, "spec": SPEC})
        for name in ("p", "q"):
            sandbox.create(claiming(name, resourceClaimName="s"))
            reserve(sandbox, "s", name, sandbox.get("pods", name)["metadata"]["uid"])

        sandbox.delete("pods", "p")
        left = await until_watched(
            client, CLAIMS, lambda e: len(e["object"]["status"]["reservedFor"]) == 1
        )
        sandbox.delete("pods", "q")
        freed = await until_watched(
            client, CLAIMS, lambda e: not e["object"]["metadata"].get("finalizers")
        )

        assert left["status"]["reservedFor"][0]["name"] == "q"
        assert "allocation" in left["status"]
        assert freed["status"] == {}

    serve(story, WORKING)


def reserve(sandbox: Sandbox, claim: str, pod: str, uid: str) -> None:
    """Allocate a claim for a pod, as a scheduler does."""
    kind = "resourceclaims.resource.k8s.io"
    finalizers = {"finalizers": ["resource.kubernetes.io/delete-protection"]}
    found = sandbox.patch(kind, claim, {"metadata": finalizers})
    reserved = found.get("status", {}).get("reservedFor", [])
    user = {"resource": "pods", "name": pod, "uid": uid}
    status = {"allocation": {"devices": {}}, "reservedFor": [*reserved, user]}
    sandbox.patch(kind, claim, {"status": status}, subresource="status")
