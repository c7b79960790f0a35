"""What kubectl asks for beside plain objects: discovery, tables, OpenAPI, protobuf."""

import base64

import pytest

from apistub import Sandbox
from apistub.http.protobuf import decode
from apistub.storage.kinds import KINDS
from tests.support.clock import FakeClock
from tests.unit.apistub.support import LEASES, NODES, PODS, Client, Object, node, pod, serve

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def printed(table: Object, *, wide: bool = False) -> list[list[object]]:
    """The rows kubectl would print, the header first."""
    shown = [
        index
        for index, column in enumerate(table["columnDefinitions"])
        if wide or not column["priority"]
    ]
    header = [table["columnDefinitions"][index]["name"].upper() for index in shown]
    return [header] + [[row["cells"][index] for index in shown] for row in table["rows"]]


@pytest.mark.parametrize("subresource", ["log", "exec", "attach", "portforward"])
def test_containers_are_refused_with_a_reason(subresource: str) -> None:
    """Nobody has to guess why `kubectl logs` does not work."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p"))

        answer = await client.get(f"{PODS}/p/{subresource}")

        assert answer.status == 404
        assert "is not served by this stand-in" in answer.object["message"]

    serve(story)


def test_pods_are_printed() -> None:
    """The table of pods shows readiness, status, restarts and age, wide also address and node."""
    clock = FakeClock()

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("gated", schedulingGates=[{"name": "g"}]), pod("plain"))
        sandbox.create(pod("going"), pod("done"), pod("crashing"))
        sandbox.bind("going", "n")
        sandbox.delete("pods", "going")
        statuses = {
            "done": {"phase": "Succeeded"},
            "crashing": {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "containerStatuses": [
                    {
                        "name": "c",
                        "image": "a",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    }
                ],
            },
        }
        for name, status in statuses.items():
            sandbox.patch("pods", name, {"status": status}, subresource="status")
        clock.advance(65)

        table = (await client.get(PODS, Accept=TABLE)).object

        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert printed(table) == [
            ["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
            ["crashing", "0/1", "CrashLoopBackOff", "3", "65s"],
            ["done", "0/1", "Succeeded", "0", "65s"],
            ["gated", "0/1", "SchedulingGated", "0", "65s"],
            ["going", "0/1", "Terminating", "0", "65s"],
            ["plain", "0/1", "Pending", "0", "65s"],
        ]
        assert printed(table, wide=True)[1][5:] == ["10.0.0.1", "<none>", "<none>"]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"

    serve(story, clock=clock)


def test_nodes_are_printed() -> None:
    """A cordoned control plane node says both."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        given = node("n", labels={"node-role.kubernetes.io/control-plane": ""}, unschedulable=True)
        given["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        sandbox.create(given, node("silent"))

        table = (await client.get(NODES, Accept=TABLE)).object

        assert [row[:3] for row in printed(table)[1:]] == [
            ["n", "Ready,SchedulingDisabled", "control-plane"],
            ["silent", "Unknown", "<none>"],
        ]

    serve(story)


def test_events_and_leases_are_printed() -> None:
    """Events show what they are about, leases who holds them; other kinds name and age."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        event = {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
            "reason": "Scheduled",
            "type": "Normal",
            "message": "Successfully assigned",
            "lastTimestamp": "2026-01-01T00:16:30Z",
        }
        await client.post("/api/v1/namespaces/default/events", event)
        await client.post(LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
        await client.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}})

        events = (await client.get("/api/v1/events", Accept=TABLE)).object
        leases = (await client.get(LEASES, Accept=TABLE)).object
        others = (await client.get("/api/v1/configmaps", Accept=TABLE)).object

        assert printed(events) == [
            ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"],
            ["10s", "Normal", "Scheduled", "pod/p", "Successfully assigned"],
        ]
        assert printed(leases)[1] == ["l", "me", "0s"]
        assert printed(others) == [["NAME", "AGE"], ["x", "0s"]]

    serve(story)


def test_a_watch_of_tables_names_its_columns_once() -> None:
    """`kubectl get -w` gets a table per event, the columns in the first only."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        client.session.headers["Accept"] = TABLE
        async with client.watch(f"{NODES}?watch=true&includeObject=None") as watch:
            sandbox.create(node("a"), node("b"))
            events = [await watch.next(), await watch.next()]

        assert [event["object"]["rows"][0]["cells"][0] for event in events] == ["a", "b"]
        assert events[0]["object"]["columnDefinitions"][0]["name"] == "Name"
        assert events[1]["object"]["columnDefinitions"] is None
        assert "object" not in events[0]["object"]["rows"][0]

    serve(story)


def test_discovery_tells_all_kinds() -> None:
    """Every kind is listed with its scope; groups and versions are found from the root."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        groups = (await client.get("/apis")).object["groups"]
        versions = [each["groupVersion"] for group in groups for each in group["versions"]]
        paths = {"/api/v1": "", **{f"/apis/{each}": each.partition("/")[0] for each in versions}}
        listed = {
            (group, found["name"], found["kind"], found["namespaced"])
            for path, group in paths.items()
            for found in (await client.get(path)).object["resources"]
        }

        whole = {(kind.group, kind.resource, kind.kind, kind.namespaced) for kind in KINDS}
        parts = {found for found in listed if "/" in found[1]}
        assert listed - parts == whole
        assert ("", "pods/eviction", "Eviction", True) in parts
        assert (await client.get("/apis/apps")).object["preferredVersion"]["version"] == "v1"
        assert (await client.get("/api")).object["versions"] == ["v1"]
        alpha = "/apis/scheduling.k8s.io/v1alpha2/podgroups"
        assert (await client.get(alpha)).status == 200
        assert (await client.get(alpha.replace("v1alpha2", "v1"))).status == 404

    serve(story)


def test_openapi_says_that_the_server_looks_at_fields() -> None:
    """Kubectl then creates and applies without types to check by; each group has its document."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        index = (await client.get("/openapi/v3")).object["paths"]
        documents = {
            path: (await client.get(entry["serverRelativeURL"])).object
            for path, entry in index.items()
        }

        described = {
            tuple(path["patch"]["x-kubernetes-group-version-kind"].values())
            for document in documents.values()
            for path in document["paths"].values()
            if "fieldValidation" in [found["name"] for found in path["patch"]["parameters"]]
        }
        assert described == {(kind.group, kind.version, kind.kind) for kind in KINDS}

    serve(story)


def test_dry_runs_are_refused() -> None:
    """Nothing is done that was only to be tried."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("q"))

        created = await client.post(f"{PODS}?dryRun=All", pod("p"))
        deleted = await client.delete(f"{PODS}/q", {"dryRun": ["All"]})

        assert (created.status, created.message) == (400, "this stand-in does no dry runs")
        assert deleted.status == 400
        assert [one["metadata"]["name"] for one in sandbox.list("pods")] == ["q"]

    serve(story)


def test_health_and_version_answer() -> None:
    """Probes get ok; the version says what this is."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        probes = [await client.get(path) for path in ("/healthz", "/livez", "/readyz?verbose")]
        version = (await client.get("/version")).object

        assert [(probe.status, probe.body) for probe in probes] == [(200, b"ok")] * 3
        assert (version["gitVersion"], version["minor"]) == ("v1.36.3+stowage-apistub", "36")

    serve(story)


# Recorded from kubectl 1.36.3: what it sends for `create configmap`, `create deployment` (with
# image, replicas and port), `create secret generic` and `create pdb`.
CONFIG_MAP = "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEhwKEgoCY20SABoAIgAqADIAOABCABIGCgFhEgFiGgAiAA=="
DEPLOYMENT = (
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErABChsKAWQSABoAIgAqADIAOABCAFoICgNhcHASAWQSggEIAxIKCggK"
    "A2FwcBIBZBpqChoKABIAGgAiACoAMgA4AEIAWggKA2FwcBIBZBJMEi4KBW5naW54EgVuZ2lueCoAMgoKABAAGFAiACoA"
    "QgBqAHIAgAEAiAEAkAEAogEAGgAyAEIASgBSAFgAYABoAIIBAIoBAJoBAMIBACICCgAoADgAGgwIABAAGAAgACgAOAAa"
    "ACIA"
)
OPAQUE = "azhzAAoMCgJ2MRIGU2VjcmV0Eh0KEQoBcxIAGgAiACoAMgA4AEIAEgYKAWESAWIaABoAIgA="
BUDGET = (
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSNwoRCgFwEgAaACIAKgAyADgAQgASFgoGCAAQARoA"
    "EgwKCgoDYXBwEgN3ZWIaCggAGAAgACgAMAAaACIA"
)
JOB = b"k8s\x00\x0a\x0f\x0a\x08batch/v1\x12\x03Job"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def test_protobuf_is_read() -> None:
    """The object in an envelope comes out as the same object in JSON would."""
    config_map = decode(base64.b64decode(CONFIG_MAP))
    secret = decode(base64.b64decode(OPAQUE))
    budget = decode(base64.b64decode(BUDGET))

    assert config_map == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm"},
        "data": {"a": "b"},
    }
    assert secret["data"] == {"a": "Yg=="}
    assert budget["spec"] == {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}


def test_protobuf_objects_are_stored() -> None:
    """A body in protobuf makes the object it stands for; the answer is JSON."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        path = "/apis/apps/v1/namespaces/default/deployments"
        body = base64.b64decode(DEPLOYMENT)

        created = await client.post(path, body, Content_Type=PROTOBUF)

        spec = created.object["spec"]
        assert created.status == 201
        assert (spec["replicas"], spec["selector"]) == (3, {"matchLabels": {"app": "d"}})
        (container,) = spec["template"]["spec"]["containers"]
        assert (container["name"], container["image"]) == ("nginx", "nginx")
        assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]

    serve(story)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}", id="JSON"),
        pytest.param(b"k8s\x00\x0a\x7f", id="cut off"),
        pytest.param(b"k8s\x00\x0f", id="unknown wire type"),
        pytest.param(b"k8s\x00\xff", id="endless number"),
    ],
)
def test_broken_protobuf_is_refused(body: bytes) -> None:
    """What is not protobuf is answered 400."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(PODS, body, Content_Type=PROTOBUF)

        assert answer.status == 400
        assert "protobuf" in answer.message

    serve(story)


def test_other_media_types_are_refused() -> None:
    """A body in a form nobody announced is answered 415, JSON that is no object 400."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        text = await client.post(NODES, b"hello", Content_Type="text/plain")
        broken = await client.post(NODES, b"{")
        scalar = await client.post(NODES, b"7")
        job = await client.post(NODES, JOB, Content_Type=PROTOBUF)

        answers = (text, broken, scalar, job)
        assert [answer.status for answer in answers] == [415, 400, 400, 415]
        assert job.message == "a Job in protobuf is not understood here; send JSON"

    serve(story)
