"""Rules for kinds other than pods and nodes."""

from typing import Any

import pytest

from apistub import Sandbox
from apistub.storage.kinds import KINDS
from tests.unit.apistub.support import Client, Object, causes, pod, serve

APPS = "/apis/apps/v1/namespaces/default"


def named(**content: Any) -> Object:
    return {"metadata": {"name": "x"}, **content}


def test_a_priority_class_keeps_its_value() -> None:
    """The value of a class cannot be changed."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await client.post(path, named(value=1))

        answer = await client.patch(f"{path}/x", {"value": 2})

        assert causes(answer) == [("value", "cannot be changed")]

    serve(story)


def test_a_template_is_filled_in_like_a_pod_of_a_template() -> None:
    """A deployment's template gets defaults, but not what only pods get."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}

        held = (await client.post(f"{APPS}/deployments", named(spec=spec))).object["spec"]

        assert held["replicas"] == 1
        assert held["template"]["spec"]["schedulerName"] == "default-scheduler"
        assert {"priority", "tolerations"} & set(held["template"]["spec"]) == set()

    serve(story)


def test_every_kind_can_be_stored_and_listed() -> None:
    """Each kind of the table takes a minimal object and gives it back, alone and in a list."""
    metadata = {"name": "x"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    workload = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    contents: dict[str, Object] = {
        "pods": {"spec": pod()["spec"]},
        "services": {"spec": {"ports": [{"port": 80}]}},
        "persistentvolumeclaims": {"spec": claim},
        "persistentvolumes": {
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
        },
        "events.events.k8s.io": {
            "metadata": {"name": "y"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "c",
            "reportingInstance": "i",
            "action": "a",
            "reason": "r",
            "type": "Normal",
        },
        "storageclasses.storage.k8s.io": {"provisioner": "p"},
        **{
            f"{name}.apps": {"spec": workload}
            for name in ("deployments", "replicasets", "statefulsets", "daemonsets")
        },
        "jobs.batch": {"spec": {"template": {"spec": pod()["spec"]}}},
    }

    async def story(_sandbox: Sandbox, client: Client) -> None:
        for kind in KINDS:
            root = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
            scope = "/namespaces/default" if kind.namespaced else ""
            given = {"metadata": metadata, **contents.get(kind.key, {})}
            name = given["metadata"]["name"]

            created = await client.post(f"{root}{scope}/{kind.resource}", given)
            read = await client.get(f"{root}{scope}/{kind.resource}/{name}")
            listed = await client.get(f"{root}/{kind.resource}")

            assert created.status == 201, (kind.key, created.body)
            assert (read.object["kind"], read.object["apiVersion"]) == (kind.kind, kind.api_version)
            assert name in [item["metadata"]["name"] for item in listed.object["items"]]

    serve(story)


@pytest.mark.parametrize(
    ("path", "given", "field"),
    [
        pytest.param(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "system-mine"}, "value": 1},
            "metadata.name",
            id="a class of the system",
        ),
        pytest.param(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            named(value=1_000_000_001),
            "value",
            id="a class above all",
        ),
        pytest.param(
            f"{APPS}/deployments",
            named(
                spec={
                    "selector": {"matchLabels": {"a": "c"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]},
                }
            ),
            "spec.selector",
            id="a template that is not selected",
        ),
        pytest.param(
            "/api/v1/nodes",
            named(spec={"taints": [{"key": "k", "effect": "Maybe"}]}),
            "spec.taints[0].effect",
            id="a taint without effect",
        ),
        pytest.param(
            "/api/v1/nodes",
            named(status={"capacity": {"cpu": "many"}}),
            "status.capacity.cpu",
            id="a capacity that is no quantity",
        ),
    ],
)
def test_a_wrong_object_is_refused(path: str, given: Object, field: str) -> None:
    """The answer names the field, in a sentence of its own."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(path, given)

        assert answer.status == 422
        assert field in [where for where, _ in causes(answer)]

    serve(story)


@pytest.mark.parametrize(
    ("path", "given", "expected"),
    [
        pytest.param("/apis/batch/v1/namespaces/default/jobs", named(), "no controller", id="job"),
        pytest.param(
            f"{APPS}/statefulsets",
            named(
                spec={
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]},
                }
            ),
            "no controller",
            id="stateful set",
        ),
        pytest.param(
            "/api/v1/namespaces/default/resourcequotas", named(), "no controller", id="quota"
        ),
        pytest.param(
            "/api/v1/nodes",
            named(spec={"taints": [{"key": "k", "effect": "NoExecute"}]}),
            "NoExecute ends no pod here",
            id="taint",
        ),
    ],
)
def test_what_nobody_looks_after_is_said(path: str, given: Object, expected: str) -> None:
    """A real cluster would act on these objects; a warning says that this one does not."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(path, given)
        plain = await client.post("/api/v1/nodes", {"metadata": {"name": "plain"}})

        assert answer.status == 201
        assert expected in answer.headers["Warning"]
        assert "Warning" not in plain.headers

    serve(story)
