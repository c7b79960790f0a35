"""Rules for kinds other than pods and nodes."""

from typing import Any

import pytest

from scheduler.sandbox import Sandbox
from scheduler.sandbox.kinds import KINDS
from tests.unit.sandbox.support import Client, Object, causes, pod, serve

APPS = "/apis/apps/v1/namespaces/default"


def named(**content: Any) -> Object:
    return {"metadata": {"name": "x"}, **content}


@pytest.mark.parametrize(
    ("path", "given", "field", "message"),
    [
        pytest.param(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            named(spec={"leaseDurationSeconds": 0}),
            "spec.leaseDurationSeconds",
            "Invalid value: 0: must be greater than 0",
            id="lease without duration",
        ),
        pytest.param(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            named(spec={"minAvailable": 1, "maxUnavailable": 1}),
            "spec",
            "Invalid value: ",
            id="budget of both kinds",
        ),
        pytest.param(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            named(spec={"minAvailable": "half"}),
            "spec.minAvailable",
            'Invalid value: "half": a valid percent string must be',
            id="budget of words",
        ),
        pytest.param(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            named(value=1_000_000_001),
            "value",
            "Forbidden: maximum allowed value of a user defined priority is 1000000000",
            id="priority too high",
        ),
        pytest.param(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "system-mine"}, "value": 1},
            "metadata.name",
            "Forbidden: priority class names with 'system-' prefix are reserved",
            id="reserved class",
        ),
        pytest.param(
            "/api/v1/namespaces/default/persistentvolumeclaims",
            named(spec={"accessModes": ["Often"]}),
            "spec.accessModes",
            'Unsupported value: "Often"',
            id="access mode",
        ),
        pytest.param(
            "/apis/storage.k8s.io/v1/storageclasses",
            named(),
            "provisioner",
            "Required value",
            id="storage class without provisioner",
        ),
        pytest.param(
            "/api/v1/namespaces/default/services",
            named(spec={"selector": {"a": "b"}}),
            "spec.ports",
            "Required value",
            id="service without ports",
        ),
        pytest.param(
            f"{APPS}/deployments",
            named(
                spec={
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}},
                }
            ),
            "spec.template.spec.containers",
            "Required value",
            id="template without containers",
        ),
        pytest.param(
            f"{APPS}/replicasets",
            named(
                spec={"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": pod()["spec"]}}
            ),
            "spec.template.metadata.labels",
            "Invalid value: null: `selector` does not match template `labels`",
            id="selector that misses",
        ),
        pytest.param(
            "/api/v1/namespaces",
            {"metadata": {"name": "a.b"}},
            "metadata.name",
            'Invalid value: "a.b": must not contain dots',
            id="namespace with a dot",
        ),
    ],
)
def test_a_wrong_object_is_refused(path: str, given: Object, field: str, message: str) -> None:
    """The cause names the field, and what was expected."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(path, given)

        assert answer.status == 422
        assert causes(answer)[0][0] == field
        assert causes(answer)[0][1].startswith(message)

    serve(story)


def test_a_priority_class_keeps_its_value() -> None:
    """The value of a class cannot be changed."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await client.post(path, named(value=1))

        answer = await client.patch(f"{path}/x", {"value": 2})

        assert causes(answer) == [("value", "Forbidden: may not be changed in an update.")]

    serve(story)


def test_a_template_is_filled_in_like_a_pod_of_a_template() -> None:
    """A deployment's template gets defaults, but not what only pods get."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}

        held = (await client.post(f"{APPS}/deployments", named(spec=spec))).object["spec"]

        assert held["replicas"] == 1
        assert held["strategy"] == {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
        }
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
            root = f"/apis/{kind.group}/v1" if kind.group else "/api/v1"
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
