"""Deployments and ReplicaSets with their pods."""

from apistub import Sandbox, Settings
from tests.unit.apistub.support import Client, Object, pod, serve

WORKING = Settings(run_kubelet=True, run_workloads=True)
PODS = "/api/v1/pods?watch=true"


def deployment(replicas: int) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod()["spec"]}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


async def settle(client: Client, path: str, status: Object) -> Object:
    """Waits until an object has a status that says at least this."""
    async with client.watch(f"{path}?watch=true") as watch:
        while True:
            seen = (await watch.next())["object"]
            if status.items() <= seen.get("status", {}).items():
                return seen


def test_a_deployment_gets_scales_and_loses_its_pods() -> None:
    """Pods come through a ReplicaSet, follow the wanted number, and go with the deployment."""
    path = "/apis/apps/v1/namespaces/default/deployments/web"

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(deployment(3))
        await settle(client, path, {"replicas": 3})
        names = [item["metadata"]["name"] for item in sandbox.list("pods")]
        for name in names:
            sandbox.bind(name, "n")
        await settle(client, path, {"readyReplicas": 3, "availableReplicas": 3})

        sandbox.patch("deployments.apps", "web", {"spec": {"replicas": 1}})
        scaled = await settle(client, path, {"replicas": 1, "readyReplicas": 1})
        (left,) = sandbox.list("pods")
        async with client.watch(PODS) as watch:
            sandbox.delete("deployments.apps", "web")
            types = [(await watch.next())["type"] for _ in range(3)]

        assert len(set(names)) == 3
        assert scaled["status"]["observedGeneration"] == 2
        (owner,) = left["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["controller"]) == ("ReplicaSet", True)
        assert types == ["ADDED", "MODIFIED", "DELETED"]
        assert list(sandbox.list("replicasets.apps")) == []

    serve(story, WORKING)


def test_a_new_template_replaces_the_pods() -> None:
    """Another image makes another ReplicaSet; the old one goes to zero."""
    path = "/apis/apps/v1/namespaces/default/deployments/web"

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(deployment(2))
        await settle(client, path, {"replicas": 2})

        containers = [{"name": "c", "image": "app:2"}]
        change = {"spec": {"template": {"spec": {"containers": containers}}}}
        sandbox.patch("deployments.apps", "web", change)
        await settle(client, path, {"replicas": 2, "updatedReplicas": 2, "observedGeneration": 2})

        images = [item["spec"]["containers"][0]["image"] for item in sandbox.list("pods")]
        assert images == ["app:2", "app:2"]
        replicas = sorted(item["spec"]["replicas"] for item in sandbox.list("replicasets.apps"))
        assert replicas == [0, 2]

    serve(story, WORKING)


def test_a_deleted_pod_is_replaced() -> None:
    """A ReplicaSet makes up for what is gone."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        given = deployment(1)
        given["kind"] = "ReplicaSet"
        sandbox.create(given)
        async with client.watch(PODS) as watch:
            first = (await watch.next())["object"]["metadata"]["name"]
            sandbox.delete("pods", first)
            events = [await watch.next() for _ in range(2)]

        assert [event["type"] for event in events] == ["DELETED", "ADDED"]
        assert events[1]["object"]["metadata"]["name"] != first

    serve(story, WORKING)
