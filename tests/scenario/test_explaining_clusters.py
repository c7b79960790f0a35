"""`stowage explain` without files: a cluster is listed once, and judged as it is."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from apistub.storage.status import StatusError
from scheduler.tools.cli.explain import explain
from scheduler.tools.cli.top.command import top
from scheduler.tools.offline.cluster import Profiles
from tests.scenario.world import Object, World, play
from tests.support.extender import FakeExtender, serving

Ask = Callable[..., Awaitable[Result]]
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: team
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: ImageLocality, weight: 7}]
"""


def asking(
    tmp_path: Path,
    story: Callable[[World, Ask], Awaitable[None]],
    command: click.Command = explain,
) -> None:
    """Tell a story in which a command may ask the cluster, over a kubeconfig and nothing else."""

    async def run(world: World) -> None:
        kubeconfig = tmp_path / "kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": world.sandbox.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "here",
        }
        kubeconfig.write_text(yaml.safe_dump(document))

        async def ask(*arguments: str) -> Result:
            words = [f"--kubeconfig={kubeconfig}", *arguments]
            return await asyncio.to_thread(
                CliRunner().invoke, command, words, catch_exceptions=False
            )

        await story(world, ask)

    play(run)


def answers(result: Result) -> dict[str, Object]:
    assert (result.exit_code, result.stderr) == (0, "")
    return {pod["pod"]: pod for pod in json.loads(result.stdout)["pods"]}


def test_a_cluster_is_asked_for_what_waits(tmp_path: Path) -> None:
    """Waiting pods of both names the default profile answers to; one with a node by its name."""

    async def story(world: World, ask: Ask) -> None:
        world.node("n", cpu="2")
        world.pod("running", cpu="1", scheduler="default-scheduler")
        world.sandbox.bind("running", "n")
        world.pod("fits", cpu="1")
        world.pod("huge", cpu="2", scheduler="default-scheduler")
        world.pod("theirs", scheduler="somebody-else")

        waiting = answers(await ask("-o", "json"))
        named = answers(await ask("running", "theirs", "--context", "here", "-o", "json"))
        text = await ask("-n", "default", "huge")

        assert sorted(waiting) == ["default/fits", "default/huge"]
        assert [node["feasible"] for node in waiting["default/fits"]["nodes"]] == [True]
        assert waiting["default/huge"]["message"].endswith(": 1 Insufficient cpu.")
        assert sorted(named) == ["default/running", "default/theirs"]
        assert named["default/running"]["placed"]["rank"] == 1
        assert "Fits nowhere: 0/1 nodes are available: 1 Insufficient cpu." in text.stdout
        assert world.sandbox.requests.count(verb="patch") == 0

    asking(tmp_path, story)


def test_long_lists_come_in_pages_and_may_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pod counts, also when the list has to be begun anew."""
    monkeypatch.setattr("scheduler.daemon.informers.listing.FIRST", 500)

    async def story(world: World, ask: Ask) -> None:
        world.node("n", cpu="8", pods="5000")
        for number in range(1100):
            world.pod(f"p{number}", cpu="5m")
            world.sandbox.bind(f"p{number}", "n")
        world.pod("one-more", cpu="2501m")
        expired = world.sandbox.faults.answer(410, path="/api/v1/pods", message="expired")
        # With a configuration no instance is looked for, which would list pods first.
        config = tmp_path / "config.yaml"
        config.write_text(CONFIGURATION.replace("schedulerName: team", "schedulerName: stowage"))

        [answer] = answers(await ask("-o", "json", "--config", str(config))).values()

        assert expired.hits == 1
        assert answer["message"].endswith(": 1 Insufficient cpu.")
        assert world.sandbox.requests.count(verb="list", resource="pods", code=200) >= 2

    asking(tmp_path, story)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(403, "does not let you list nodes, which decisions depend on: ", id="403"),
        pytest.param(401, "does not know who you are: ", id="401"),
        pytest.param(500, "does not list nodes: ", id="500"),
    ],
)
def test_what_the_server_refuses_is_one_message(tmp_path: Path, code: int, expected: str) -> None:
    """No answer is made up of what could be read."""

    async def story(world: World, ask: Ask) -> None:
        world.pod("p")
        world.sandbox.faults.answer(code, path="/api/v1/nodes", message="because", times=None)

        result = await ask()

        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"stowage explain: {world.sandbox.url} {expected}because\n"

    asking(tmp_path, story)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    """The others are judged; a cluster without nodes is worth a word."""

    async def story(world: World, ask: Ask) -> None:
        world.pod("p")
        empty = await ask()
        world.node("n")
        world.sandbox.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "odd"},
                "provisioner": ["a list"],
            }
        )

        result = await ask()

        assert empty.stderr.splitlines() == [
            "note: there are no nodes: no pod can have one",
            "note: no running instance was found in the cluster: the default profile decides",
        ]
        assert "no nodes available to schedule pods" in empty.stdout
        assert result.exit_code == 0
        assert result.stderr.startswith("note: storageclasses odd cannot be read: Expected `str`")

    asking(tmp_path, story)


def test_extenders_are_sent_whole_objects(tmp_path: Path) -> None:
    """As the API server has them, also what scheduling does not read."""
    extender = FakeExtender(filter=lambda body: {"Nodes": {"items": body["Nodes"]["items"][:1]}})

    async def story(world: World, ask: Ask) -> None:
        world.node("a")
        world.node("b")
        world.pod("p")
        config = tmp_path / "config.yaml"
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [extender.config("filter", nodeCacheCapable=False)],
        }
        config.write_text(yaml.safe_dump(document))

        waiting = answers(await ask("--config", str(config), "-o", "json"))

        nodes = {node["node"]: node.get("plugin") for node in waiting["default/p"]["nodes"]}
        assert nodes == {"a": None, "b": "Extender"}
        [body] = extender.bodies("filter")
        assert body["Pod"]["spec"]["containers"]
        assert [node["metadata"]["name"] for node in body["Nodes"]["items"]] == ["a", "b"]

    with serving(extender):
        asking(tmp_path, story)


def configured_daemon(
    world: World, namespace: str, configuration: str, *, name: str = "stowage-0", **metadata: Any
) -> None:
    """Create a pod as the manifests make it, with its ConfigMap and namespace."""
    with suppress(StatusError):
        world.sandbox.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
    container = {
        "name": "stowage",
        "image": "stowage",
        "args": ["run", "--config=/etc/stowage/config.yaml"],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/stowage"}],
    }
    labels = {"app.kubernetes.io/component": "scheduler"} | metadata.pop("labels", {})
    for written in (
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels, **metadata},
            "spec": {
                "nodeName": "n",
                "containers": [container],
                "volumes": [{"name": "config", "configMap": {"name": f"{name}-config"}}],
            },
            "status": {"phase": "Running"},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-config", "namespace": namespace},
            "data": {"config.yaml": configuration} if configuration else {},
        },
    ):
        world.sandbox.create(written, keep_status=True)


def test_the_configuration_of_the_running_instance_decides(tmp_path: Path) -> None:
    """It is found by its pod, and named; pods of kube-scheduler are judged by its defaults."""

    async def story(world: World, ask: Ask) -> None:
        world.node("n")
        configured_daemon(world, "stowage", CONFIGURATION)
        world.pod("ours", scheduler="team")
        world.pod("theirs", scheduler="default-scheduler")

        found = answers(await ask("-o", "json"))
        text = await ask("ours")

        scores = {name: list(pod["nodes"][0]["scores"]) for name, pod in found.items()}
        assert scores["default/ours"] == ["ImageLocality"]
        assert "NodeResourcesFit" in scores["default/theirs"]
        assert found["default/ours"]["profile"] == "team"
        used = "team: as in ConfigMap stowage/stowage-0-config of pod stowage/stowage-0"
        assert f"note: {used}\n" in text.stderr

    asking(tmp_path, story)


def test_a_configuration_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    """The default profile decides then, as where no instance runs."""

    async def story(world: World, ask: Ask) -> None:
        world.node("n")
        world.pod("p")

        nobody = await ask("p")
        configured_daemon(world, "stowage", "")
        unread = await ask("p")

        assert "note: no running instance was found in the cluster" in nobody.stderr
        assert "note: the configuration of pod stowage/stowage-0 cannot be used here" in (
            unread.stderr
        )
        assert "default/p  (profile default-scheduler)" in unread.stdout

    asking(tmp_path, story)


def test_a_pod_that_looks_like_an_instance_gets_no_pods_and_decides_nothing(
    tmp_path: Path,
) -> None:
    """Any tenant can run one: extenders that it names are not called, and it has to be named."""
    spy = FakeExtender(filter=lambda body: {"NodeNames": body["NodeNames"]})

    async def story(world: World, ask: Ask) -> None:
        world.node("n")
        world.pod("ours", scheduler="team")
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "team"}],
            "extenders": [spy.config("filter")],
        }
        configured_daemon(world, "aaa-tenant", yaml.safe_dump(document), name="spy")

        alone = await ask("ours")
        configured_daemon(
            world,
            "stowage",
            CONFIGURATION,
            labels={"pod-template-hash": "5f6d"},
            ownerReferences=[
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "stowage-5f6d", "uid": "u"}
            ],
        )
        both = await ask("ours")
        named = await ask("ours", "--instance", "stowage/stowage")
        answer = json.loads((await ask("ours", "--instance=stowage/stowage", "-o", "json")).stdout)
        unknown = await ask("ours", "--instance", "stowage/other")

        assert "as in ConfigMap aaa-tenant/spy-config of pod aaa-tenant/spy" in alone.stderr
        assert "note: Extenders are not asked" in alone.stderr
        assert (both.exit_code, both.stdout) == (2, "")
        assert both.stderr == (
            "stowage explain: several pods run as instances of Stowage: aaa-tenant/spy, "
            "stowage/stowage; name yours with --instance NAMESPACE/NAME, or give --config FILE\n"
        )
        assert "team: as in ConfigMap stowage/stowage-0-config" in named.stderr
        assert list(answer["pods"][0]["nodes"][0]["scores"]) == ["ImageLocality"]
        assert unknown.exit_code == 2
        assert "--instance stowage/other does not run" in unknown.stderr
        assert spy.bodies("filter") == []

    with serving(spy):
        asking(tmp_path, story)


def test_top_shows_the_queue_of_the_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another profile its pods would wait in no queue; of several instances one is named."""
    shown: list[list[str]] = []

    def source(_place: object, profiles: Profiles, _clock: object) -> None:
        shown.append(list(profiles.frameworks))

    monkeypatch.setattr("scheduler.tools.cli.top.command.ClusterSource", source)

    async def story(world: World, ask: Ask) -> None:
        world.node("n")
        configured_daemon(world, "stowage", CONFIGURATION)
        await ask()
        configured_daemon(world, "tenant", CONFIGURATION.replace("team", "theirs"))
        several = await ask()
        await ask("--instance", "tenant/stowage-0")

        assert "several pods run as instances of Stowage" in several.stderr
        assert shown == [["team", "default-scheduler"], ["theirs", "default-scheduler"]]

    asking(tmp_path, story, top)


def test_replicas_of_a_deployment_are_one_instance(tmp_path: Path) -> None:
    """During a rollout the newest pod has the configuration that will stay."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "u"}

    async def story(world: World, ask: Ask) -> None:
        world.node("n")
        world.pod("ours", scheduler="team")
        for revision, text in (("1a", ""), ("0b", CONFIGURATION)):
            configured_daemon(
                world,
                "stowage",
                text,
                name=f"stowage-{revision}",
                labels={"pod-template-hash": revision},
                ownerReferences=[owner | {"name": f"stowage-{revision}"}],
            )
            await asyncio.sleep(1)  # times of creation are in whole seconds

        answer = await ask("ours")

        assert answer.exit_code == 0
        assert "of pod stowage/stowage-0b" in answer.stderr

    asking(tmp_path, story)
