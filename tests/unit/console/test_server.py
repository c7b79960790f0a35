"""The pages' server: what it answers, to which requests, and that it changes nothing."""

import asyncio
import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from aiohttp import ClientError
from click.testing import CliRunner

from scheduler.clock import SystemClock
from scheduler.config.feature_gates import POD_GROUPS
from scheduler.kernel.engine.events import ObjectSet
from scheduler.tools.cli.explain import explain
from scheduler.tools.cli.what_if import what_if
from scheduler.tools.console import server
from scheduler.tools.console.scenes import ClusterScene
from scheduler.tools.offline.cluster import Profiles
from tests.support.builders import make_pod_info
from tests.support.console import JSON, lines, scene_of, serving
from tests.support.device_manifests import class_manifest, slice_manifest
from tests.support.manifests import Manifest, node_manifest, pod_manifest, write_list

NODES = (
    node_manifest("n1", labels={"topology.kubernetes.io/zone": "a"}),
    node_manifest("n2", allocatable={"nvidia.com/gpu": "2"}, unschedulable=True),
)
LARGE = pod_manifest("large", requests={"cpu": "9"}, created="2026-01-31T12:00:00Z")
PLACED = pod_manifest("placed", requests={"cpu": "3"}, nodeName="n1")


def get(path: str, *objects: Manifest, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """Status and JSON of one answer."""

    async def ask() -> tuple[int, Any]:
        async with (
            serving(scene_of(*objects)) as (url, client),
            client.get(f"{url}{path}", headers=headers) as answer,
        ):
            return answer.status, await answer.json()

    return asyncio.run(ask())


def post(
    path: str, body: object, *objects: Manifest, headers: dict[str, str] | None = None
) -> tuple[int, list[Any]]:
    """Status and lines of one answer to JSON."""

    async def ask() -> tuple[int, list[Any]]:
        data = json.dumps(body)
        async with (
            serving(scene_of(*objects)) as (url, client),
            client.post(f"{url}{path}", data=data, headers=headers or JSON) as answer,
        ):
            return answer.status, await lines(answer)

    return asyncio.run(ask())


def test_now_has_the_queue_by_reason_and_the_nodes_by_zone() -> None:
    """Shares are those of what is requested; a node without a resource has none of it."""
    _, now = get("/api/now", *NODES, PLACED, LARGE)

    assert now["queue"] == {"waiting": 1}
    [waiting] = now["waiting"]
    assert (waiting["count"], waiting["pods"]) == (1, ["default/large"])
    assert waiting["oldest"] > 0
    assert "Insufficient cpu" in waiting["message"]
    assert now["heat"] == {
        "names": ["n1", "n2"],
        "zones": ["(no zone)", "a"],
        "zone": [1, 0],
        "closed": [False, True],
        "shares": {
            "cpu": [0.75, 0.0],
            "memory": [0.0, 0.0],
            "nvidia.com/gpu": [None, 0.0],
            "pods": [0.0091, 0.0],
        },
    }


def test_now_has_the_pod_groups() -> None:
    """Those that wait first; a group that no PodGroup describes needs no number of pods."""

    def member(name: str, group: str, **spec: Any) -> Manifest:
        return pod_manifest(name, schedulingGroup={"podGroupName": group}, **spec)

    train = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    pods = [
        member("a", "running", nodeName="n1"),
        member("b", "train", nodeName="n1"),
        member("c", "train"),
    ]

    async def now(gates: frozenset[str]) -> list[Any]:
        scene = scene_of(*NODES, train, *pods, gates=gates)
        async with serving(scene) as (url, client), client.get(f"{url}/api/now") as answer:
            gangs: list[Any] = (await answer.json())["gangs"]
            return gangs

    assert asyncio.run(now(POD_GROUPS)) == [
        {"name": "default/train", "least": 3, "placed": 1, "waiting": 1, "pod": "default/c"},
        {"name": "default/running", "least": None, "placed": 1, "waiting": 0, "pod": ""},
    ]
    assert asyncio.run(now(frozenset())) == []


def test_a_member_of_a_group_waits_for_the_others() -> None:
    """One that would fit says so, and its page names the member that fits nowhere."""
    train = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    of_train = {"schedulingGroup": {"podGroupName": "train"}}
    pods = [pod_manifest("a", **of_train), pod_manifest("b", requests={"cpu": "9"}, **of_train)]

    async def told() -> tuple[list[str], str]:
        scene = scene_of(NODES[0], train, *pods, gates=POD_GROUPS)
        async with serving(scene) as (url, client):
            async with client.get(f"{url}/api/now") as answer:
                rows = [each["message"] for each in (await answer.json())["waiting"]]
            async with client.get(f"{url}/api/explain?pod=default/a") as answer:
                remark = (await answer.json())["words"]["remarks"][0]
            return rows, remark

    rows, remark = asyncio.run(told())
    assert sorted(rows) == [
        "1 Insufficient cpu",
        "a node fits, but the pod's group is placed as a whole, and waits",
    ]
    assert remark == (
        "Member of pod group default/train: at least 2 run, or none. 0 have a node, 2 wait; "
        "1 of these fits nowhere: default/b."
    )


def test_devices_in_use_are_told_by_class() -> None:
    """Of drivers only where there are no classes."""
    _, now = get("/api/now", NODES[0], slice_manifest("n1", "d0", "d1"), class_manifest("gpu"))

    assert now["devices"] == [{"name": "gpu", "devices": 2, "inUse": 0}]
    assert now["pendingClaims"] == 0


def test_what_rejects_all_nodes_at_once_counts_them() -> None:
    """A claim that is missing is no verdict on a node."""
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "none"}}
    _, page = get("/api/explain?pod=p", *NODES, pod_manifest("p", volumes=[volume]))

    assert page["words"]["nodes"] == 2
    assert page["words"]["verdict"].startswith("Rejected by VolumeRestrictions on all 2 nodes")


def test_pods_are_answered_as_explain_prints_them(tmp_path: Path) -> None:
    """Field for field; the words beside are those of the text."""
    file = write_list(tmp_path / "c.json", *NODES, PLACED, LARGE)
    printed = CliRunner().invoke(explain, ["large", "-f", file, "--all-reasons", "-o", "json"])
    text = CliRunner().invoke(explain, ["large", "-f", file])

    _, page = get("/api/explain?pod=default/large", *NODES, PLACED, LARGE)

    assert page["pods"] == json.loads(printed.stdout)["pods"]
    assert page["words"]["verdict"] in " ".join(text.stdout.split())
    assert page["words"]["mood"] == "bad"
    texts = [change["text"] for change in page["words"]["changes"]]
    assert texts
    assert all(change in text.stdout for change in texts)
    assert page["story"][0] == {
        "time": "2026-01-31T12:00:00Z",
        "attempt": 0,
        "what": "created",
        "detail": "",
    }


def test_a_change_of_the_cluster_leads_to_what_if() -> None:
    """With the options that make it; one of the pod itself has none."""
    small = pod_manifest("small", requests={"cpu": "2"})

    _, page = get("/api/explain?pod=small", NODES[0], PLACED, small)

    ways = {change["text"]: change["whatIf"] for change in page["words"]["changes"]}
    assert {"add-nodes": ["1"], "like": ["n1"]} in ways.values()
    assert {} in ways.values()


@pytest.mark.parametrize(
    ("path", "told"),
    [
        pytest.param("/api/explain?pod=ghost", "ghost: there is no such pod", id="no pod"),
        pytest.param("/api/now?at=noon", "at=noon: expected seconds", id="no moment"),
    ],
)
def test_what_cannot_be_answered_is_said(path: str, told: str) -> None:
    """As an error that the page shows."""
    status, answer = get(path, *NODES)

    assert status == 422
    assert told in answer["error"]


def test_a_pod_that_is_being_deleted_is_not_judged() -> None:
    """As the command refuses it: no scheduler places it."""
    going = pod_manifest("going")
    going["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"

    status, answer = get("/api/explain?pod=going", *NODES, going)

    assert (status, answer["error"]) == (422, "going: it is being deleted")


def test_pages_of_a_cluster_that_is_not_known_say_so() -> None:
    """Its first lists are not complete: a pod may be missing, or a node on which it would fit."""
    scene = ClusterScene(Profiles(None), SystemClock())
    scene.submit(ObjectSet("pods", make_pod_info("p", scheduler_name="stowage")))
    told = "The cluster: waiting for everything."

    async def ask() -> tuple[Any, Any, Any]:
        async with serving(scene) as (url, client):
            async with client.get(f"{url}/api/explain?pod=other") as answer:
                missing = await answer.json()
            async with client.get(f"{url}/api/explain?pod=p") as answer:
                page = await answer.json()
            data = json.dumps({"delete": ["pod/p"]})
            async with client.post(f"{url}/api/what-if", data=data, headers=JSON) as answer:
                return missing, page, (await lines(answer))[-1]

    missing, page, what_if = asyncio.run(ask())
    assert missing["error"] == f"other: there is no such pod, or it has ended. {told}"
    assert page["words"]["remarks"][0] == told
    assert told in what_if["result"]["warnings"]


def test_the_end_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for one that is being computed."""
    begun, may_end, has_ended = Event(), Event(), Event()

    def slow(_: object) -> None:
        begun.set()
        may_end.wait(20)
        has_ended.set()

    monkeypatch.setattr(server, "now_of", slow)

    async def ask() -> bool:
        async with serving(scene_of(*NODES)) as (url, client):
            asking = asyncio.create_task(client.get(f"{url}/api/now"))
            await asyncio.to_thread(begun.wait, 20)
        with pytest.raises(ClientError):
            await asking
        return has_ended.is_set()

    assert not asyncio.run(ask())
    may_end.set()


def test_a_name_that_several_pods_have_is_asked_for_in_full() -> None:
    """Each namespace is named."""
    pods = [pod_manifest("same", namespace=namespace) for namespace in ("a", "b")]

    _, answer = get("/api/explain?pod=same", *NODES, *pods)

    assert answer["error"] == "same: there is one in each of a, b: say NAMESPACE/same"


def test_pods_are_found_by_name_and_by_node() -> None:
    """Those that wait come first."""
    _, by_name = get("/api/pods?q=la", *NODES, PLACED, LARGE)
    _, by_node = get("/api/pods?node=n1", *NODES, PLACED, LARGE)

    waits = {"pod": "default/large", "node": ""}
    placed = {"pod": "default/placed", "node": "n1"}
    assert by_name == {"count": 2, "pods": [waits, placed]}
    assert by_node == {"count": 1, "pods": [placed]}


def test_what_if_is_answered_as_the_command_prints_it(tmp_path: Path) -> None:
    """And with the nodes before and after."""
    file = write_list(tmp_path / "c.json", *NODES, PLACED, LARGE)
    extra = node_manifest("n3", allocatable={"cpu": "16"})
    applied = write_list(tmp_path / "extra.json", extra)
    options = ["-f", file, "--drain", "n1", "--apply", applied, "-o", "json"]
    printed = json.loads(CliRunner().invoke(what_if, options).stdout)
    question = {"drain": ["n1"], "apply": [json.dumps(extra)]}

    _, [*_, last] = post("/api/what-if", question, *NODES, PLACED, LARGE)

    heat = last["result"].pop("heat")
    assert last["result"] == printed
    assert heat["before"]["names"] == ["n1", "n2"]
    assert heat["after"]["names"] == ["n1", "n2", "n3"]
    assert heat["after"]["closed"] == [True, True, False]


def test_an_applied_daemon_set_has_its_pods_on_the_changed_nodes() -> None:
    """The objects are applied after the other changes."""
    spec = {"template": {"spec": pod_manifest("x")["spec"]}}
    applied = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}}
    question = {
        "addNodes": [{"count": 1, "like": "n1"}],
        "delete": ["node/n2"],
        "apply": [json.dumps({**applied, "spec": spec})],
    }

    _, [*_, last] = post("/api/what-if", question, *NODES)

    assert [each["node"] for each in last["result"]["placements"]] == ["n1", "n1-new-0"]


def test_a_copy_of_a_pod_may_be_applied() -> None:
    """It is another pod, though it has the UID of the first."""
    copy = {**PLACED, "metadata": {**PLACED["metadata"], "name": "copy", "uid": "default/placed"}}
    question = {"apply": [json.dumps(copy)]}

    _, [*_, last] = post("/api/what-if", question, *NODES, PLACED)

    [warning] = last["result"]["warnings"]
    assert "is that of default/placed as well" in warning


@pytest.mark.parametrize(
    ("question", "told"),
    [
        pytest.param({}, "nothing would change", id="no change"),
        pytest.param({"drain": ["ghost"]}, "there is no node 'ghost'", id="no such node"),
        pytest.param({"scale": ["web"]}, "expected KIND/[NAMESPACE/]NAME=N", id="no number"),
        pytest.param(
            {"addNodes": [{"count": 0, "like": "n1"}]}, "expected 1 to 100000 nodes", id="too few"
        ),
        pytest.param({"drian": ["n1"]}, "drian", id="no such option"),
        pytest.param({"drain": "n1"}, "$.drain", id="not a list"),
        pytest.param({"apply": ["kind: Pod: x"]}, "the objects to apply", id="no YAML"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(question: object, told: str) -> None:
    """In one message, as the command has it."""
    _, [*_, last] = post("/api/what-if", question, *NODES)

    assert told in last["error"]


def test_an_unexpected_error_ends_a_long_answer_with_its_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a plugin of the user may raise one; the log has its traceback."""

    def raises(*_: object) -> None:
        raise KeyError("rack")

    monkeypatch.setattr("scheduler.tools.console.server.answer_what_if", raises)

    status, answered = post("/api/what-if", {"drain": ["n1"]}, *NODES)

    assert (status, answered[-1]) == (200, {"error": "KeyError: 'rack'"})
    [record] = caplog.records
    assert record.exc_info is not None


def test_files_have_no_past_to_compare() -> None:
    """The page says what is needed."""
    _, [answer] = post("/api/compare", {"config": ""}, *NODES)

    assert answer["error"] == "there is no recording here: start with --recording"


# --- who may ask, and what --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("127.0.0.1:{port}", 200, id="the address"),
        pytest.param("localhost:{port}", 200, id="localhost"),
        pytest.param("pages.example", 200, id="a name that is allowed"),
        pytest.param("evil.example:{port}", 403, id="another name for the address"),
        pytest.param("127.0.0.1.evil.example", 403, id="a name that begins like it"),
        pytest.param("", 403, id="none"),
    ],
)
def test_pages_are_served_under_their_own_name_only(host: str, status: int) -> None:
    """A foreign name that leads here (DNS rebinding) reads nothing, neither pages nor answers."""

    async def ask() -> set[int]:
        async with serving(scene_of(*NODES), hosts=("pages.example",)) as (url, client):
            port = url.rpartition(":")[2]
            found = set()
            for path in ("/", "/api/now", "/static/main.js"):
                headers = {"Host": host.format(port=port)}
                async with client.get(f"{url}{path}", headers=headers) as answer:
                    found.add(answer.status)
            return found

    assert asyncio.run(ask()) == {status}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Content-Type": "text/plain"}, id="what a form can send"),
        pytest.param({**JSON, "Origin": "https://evil.example"}, id="of another page"),
        pytest.param({**JSON, "Origin": "null"}, id="of a file"),
    ],
)
def test_what_other_pages_post_is_refused(headers: dict[str, str]) -> None:
    """A browser sends it along with nothing asked."""
    status, [answer] = post("/api/what-if", {"drain": ["n1"]}, *NODES, headers=headers)

    assert status == 403
    assert "result" not in answer


def test_answers_forbid_scripts_frames_and_caches() -> None:
    """Pages, files, answers and refusals alike."""

    async def ask() -> list[dict[str, str]]:
        async with serving(scene_of(*NODES)) as (url, client):
            found = []
            for path in ("/", "/pod", "/what-if", "/replay", "/api/now", "/static/main.js", "/no"):
                async with client.get(f"{url}{path}") as answer:
                    found.append(dict(answer.headers))
            return found

    for headers in asyncio.run(ask()):
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_nothing_can_be_changed(method: str) -> None:
    """No route takes anything but questions."""

    async def ask() -> int:
        async with (
            serving(scene_of(*NODES)) as (url, client),
            client.request(method, f"{url}/api/now", headers=JSON) as answer,
        ):
            return answer.status

    assert asyncio.run(ask()) == 405


@pytest.mark.parametrize("name", ["../shell.py", "%2e%2e/shell.py", "vendor", "none.js"])
def test_only_the_pages_files_are_served(name: str) -> None:
    """Neither others of the package nor folders."""
    status, _ = get(f"/static/{name}", *NODES)

    assert status == 404


def test_the_page_says_when_the_pod_fits() -> None:
    """In the words of `explain`."""
    running = pod_manifest("running", requests={"cpu": "4"}, nodeName="n1")
    running["metadata"]["annotations"] = {"stowage.dev/expected-end": "2126-01-01T00:00:00Z"}
    small = pod_manifest("small", requests={"cpu": "2"})

    _, page = get("/api/explain?pod=small", NODES[0], running, small)

    [text] = [text for text in page["words"]["remarks"] if text.startswith("Fits about")]
    assert text == page["pods"][0]["estimate"]["text"]
    assert "pod default/running (as annotated)" in text
