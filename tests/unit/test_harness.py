"""What the end-to-end tests rely on while other programs use the same machine and API server."""

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import aiohttp
import pytest

from apistub import Sandbox
from e2e.support import rights
from e2e.support.api import ApiRefusedError
from e2e.support.audit import read_audit_log
from e2e.support.cluster import Cluster
from e2e.support.devices import DRIVER, RESOURCE, Devices
from e2e.support.go_programs import CHECKOUT
from e2e.support.loops import LoopThread
from e2e.support.objects import Json
from e2e.support.storage import SELECTED_NODE, Storage, provisioner
from e2e.support.waiting import wait_for
from e2e.test_rights import RUN_BESIDE, all_others_are_in
from tests.support.ports import free_port

CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
VOLUME_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


class World:
    """A sandbox, and the harness' view of it."""

    def __init__(self, loop: LoopThread, sandbox: Sandbox, directory: Path) -> None:
        self._loop = loop
        self.sandbox = sandbox
        sandbox.write_kubeconfig(directory / "config")
        self.cluster = Cluster("sandbox", directory / "config", directory)

    def change(self, act: Callable[[], object]) -> None:
        """Change the sandbox in its own event loop."""

        async def work() -> None:
            act()

        self._loop.run(work())

    def create(self, path: str, body: Json) -> Json:
        return self.cluster.run(self.cluster.api.post(path, body))

    def patch(self, path: str, body: Json) -> None:
        self.cluster.run(self.cluster.api.patch(path, body))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with LoopThread("sandbox") as loop:
        sandbox = loop.run(Sandbox.start())
        world = World(loop, sandbox, tmp_path)
        yield world
        world.cluster.close()
        loop.run(sandbox.stop())


def test_a_free_port_stays_free_until_its_server_listens() -> None:
    """No other program gets it meanwhile."""
    port = free_port()

    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)) as server:
        assert server.getsockname()[1] == port


@pytest.mark.parametrize("browser", ["none", "required"])
def test_rights_that_no_test_used_are_looked_for(
    browser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the run of `.ci/run` with most files, with and without a browser."""
    monkeypatch.setenv("BROWSER", browser)
    ci = (CHECKOUT / ".ci" / "run").read_text()
    beside = set(re.findall(r"\be2e/(test_\w+\.py)", " ".join(re.findall("waiting.*=.*", ci))))
    files = {path.name for path in (CHECKOUT / "e2e").glob("test_*.py")}
    ran = files - beside - ({"test_console.py"} if browser == "none" else set())

    assert beside == RUN_BESIDE
    assert all_others_are_in(ran)
    assert not all_others_are_in(ran - {"test_devices.py"})


def allocate(world: World, name: str) -> None:
    """Create a claim and allocate the same device to it as to all others."""
    world.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {}}})
    result = {"request": "r", "driver": DRIVER, "pool": "n", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}}
    world.patch(f"{CLAIMS}/{name}/status", {"status": status})


@pytest.mark.parametrize("how", ["reset", "ended", "expired", "forgotten"])
def test_a_broken_watch_of_claims_goes_on(world: World, how: str) -> None:
    """It counts each allocation once, and sees the double one after the break."""
    faults = world.sandbox.faults
    devices = Devices(world.cluster)

    with devices.watched() as watch:
        allocate(world, "one")
        wait_for(lambda: watch.allocations == 1, "the first allocation", 60)
        if how == "expired":
            world.change(lambda: faults.expire_watches("resourceclaims"))
        elif how == "ended":
            world.change(lambda: faults.close_watches("resourceclaims"))
        else:
            refusal = faults.answer(503, verb="watch", times=None)
            world.change(lambda: faults.close_watches("resourceclaims", abort=True))
            wait_for(lambda: refusal.hits, "a watch to be refused", 60)
        allocate(world, "two")
        if how == "forgotten":
            world.change(world.sandbox.forget_history)
        world.change(faults.clear)

    assert watch.allocations == 2
    assert watch.doubles == [f"{DRIVER}/n/gpu-0: one, then two"]


def select(world: World, name: str) -> None:
    """Create a claim of a volume and select a node for it."""
    spec = {
        "storageClassName": "made",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": name, "annotations": {SELECTED_NODE: "n"}}
    world.create(VOLUME_CLAIMS, {"metadata": meta, "spec": spec})


@pytest.mark.parametrize("after_commit", [False, True], ids=["request lost", "answer lost"])
def test_a_provisioner_repeats_what_fails(world: World, after_commit: bool) -> None:
    """Each request of the scheduler counts once, and each claim gets one volume."""
    faults = world.sandbox.faults
    storage = Storage(world.cluster)
    create = {"verb": "create", "path": "*/persistentvolumes"}
    reset = faults.drop(after_commit=after_commit, times=1, **create)
    refusal = faults.answer(500, times=2, **create)
    lists = faults.drop(verb="list", path="*/persistentvolumeclaims", times=1)

    with provisioner(world.cluster, storage, "default") as asked:
        select(world, "data")
        select(world, "more")
        wait_for(lambda: len(asked) == 2, "both requests", 60)
        volumes = "/api/v1/persistentvolumes"
        api = world.cluster.api
        wait_for(lambda: len(world.cluster.run(api.list_items(volumes))) == 2, "both volumes", 60)

    assert asked == ["n", "n"]
    assert (reset.hits, refusal.hits, lists.hits) == (1, 2, 1)


def test_a_provisioner_that_dies_is_reported(world: World) -> None:
    """The test would otherwise wait for its pods in vain, and not say why."""
    meta = {"name": "odd", "annotations": {SELECTED_NODE: "n"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    world.create(VOLUME_CLAIMS, {"metadata": meta, "spec": spec})

    with (
        pytest.raises(KeyError, match="storageClassName"),
        provisioner(world.cluster, Storage(world.cluster), "default") as asked,
    ):
        wait_for(lambda: asked, "the request", 60)


class ForgetfulCluster:
    """An API server whose authorizer knows new roles only after some reviews.

    Attributes:
        requests: resources of the requests, in their order.
        asked: what the last review asked.
    """

    def __init__(self, denials: int) -> None:
        self.api = self
        self.requests: list[str] = []
        self.asked: Json = {}
        self._denials = denials

    def run(self, answer: Json) -> Json:
        return answer

    def post(self, path: str, body: Json) -> Json:
        resource = path.rpartition("/")[2]
        self.requests.append(resource)
        if resource != "subjectaccessreviews":
            return body
        self.asked = body["spec"]
        self._denials -= 1
        return {"status": {"allowed": self._denials < 0}}

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        self.requests.append("token")
        return Path(namespace, name)


def test_a_reader_can_read_at_once() -> None:
    """Its first request comes after the authorizer knows its role."""
    cluster = ForgetfulCluster(denials=2)

    rights.reader(cast("Cluster", cluster), "ns", "asker", "stowage-explain-reader")

    made = ["serviceaccounts", "clusterroles", "clusterrolebindings"]
    assert cluster.requests == [*made, *["subjectaccessreviews"] * 3, "token"]


@pytest.mark.parametrize(
    ("subject", "identity"),
    [
        (rights.group("g"), {"user": "e2e", "groups": ["g"]}),
        (rights.user("u"), {"user": "u"}),
        (rights.service_account("ns", "a"), {"user": "system:serviceaccount:ns:a"}),
    ],
)
def test_a_grant_asks_for_its_own_rule_and_subject(subject: Json, identity: Json) -> None:
    """Any other question may be answered before the role is known, or never."""
    cluster = ForgetfulCluster(denials=0)
    rule = {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]}

    rights.grant(cast("Cluster", cluster), "role", [rule], subject)

    attributes = {"verb": "get", "group": "apps", "resource": "deployments", "subresource": "scale"}
    assert cluster.asked == {"resourceAttributes": attributes, **identity}


def test_a_collection_is_deleted_although_its_answer_is_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server ends a request that lasts too long, before or within its answer."""
    path = "/api/v1/nodes"
    failures = [
        ApiRefusedError("DELETE", path, 504, b""),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError(),
    ]

    async def delete(_: str) -> Json:
        if failures:
            raise failures.pop()
        return {}

    monkeypatch.setattr(world.cluster.api, "delete", delete)

    world.cluster.delete_all(path)

    assert failures == []


def test_an_audit_log_is_read_across_a_kill_of_the_api_server(tmp_path: Path) -> None:
    """It leaves a line cut off, which the server that is started next continues."""
    start = '{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"'
    times = '"requestReceivedTimestamp":"","stageTimestamp":""'
    whole = f'{start},"stage":"ResponseComplete","verb":"VERB","user":{{}},{times}}}\n'
    path = tmp_path / "audit.log"
    lines = [whole.replace("VERB", "get"), start, ',"stage":"Resp', whole.replace("VERB", "list")]
    path.write_text("".join(lines))

    assert [event.verb for event in read_audit_log(path)] == ["get", "list"]
