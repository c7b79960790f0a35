"""Extenders have their say over real HTTP and HTTPS; nobody waits who has nothing to do with it."""

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.testing.validation import validate_engine
from tests.scenario.world import World, play
from tests.support.builders import make_node
from tests.support.extender import (
    Body,
    FakeExtender,
    after,
    agreeing,
    closing,
    failing,
    names_of,
    only,
    scores,
)
from tests.support.pki import Authority

Story = Callable[[World, FakeExtender], Awaitable[None]]

GPU = "example.com/gpu"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "authority")


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    """What an extender shows: a certificate for localhost."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("extender", "extender", server=True))
    return context


def act(story: Story, extender: FakeExtender, nodes: int = 3) -> None:
    """Run a scenario with some nodes and an extender."""

    async def run(world: World) -> None:
        async with extender:
            for number in range(nodes):
                world.node(f"n{number}")
            await story(world, extender)
            for daemon in list(world._running):
                await world.stop_daemon(daemon)

    play(run)


def trusting(authority: Authority) -> Body:
    return {"enableHTTPS": True, "tlsConfig": {"caFile": str(authority.file)}}


# --- each verb over HTTPS -------------------------------------------------------------------------


def test_filter(tls: ssl.SSLContext, authority: Authority) -> None:
    """Only what it lets pass is taken; what it says against the others is told."""

    async def story(world: World, extender: FakeExtender) -> None:
        config = extender.config("filter", **trusting(authority))
        await world.start_daemon({"extenders": [config]})
        world.pod("p")
        assert await world.bound("p") == ["n2"]
        extender.replies["filter"] = only(
            FailedNodes={"n0": "too warm", "n1": "too warm"},
            FailedAndUnresolvableNodes={"n1": "too far"},
        )
        world.pod("q")
        await world.rejected("q")

        assert world.condition("q") == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 1 too far, 1 too warm. "
            "no new claims to deallocate, preemption: 0/3 nodes are available: "
            "1 No preemption victims found for incoming pod, "
            "2 Preemption is not helpful for scheduling.",
        }
        body = extender.bodies("filter")[0]
        assert body["Nodes"] is None
        assert sorted(body["NodeNames"]) == ["n0", "n1", "n2"]
        assert body["Pod"]["metadata"]["name"] == "p"
        assert extender.headers[0]["Content-Type"] == "application/json"
        waiting = world.daemon.driver.engine.core.queue.dump()
        assert waiting[0]["unschedulablePlugins"] == ["Extender"]

    act(story, FakeExtender(tls, filter=only("n2")))


def test_prioritize(tls: ssl.SSLContext, authority: Authority) -> None:
    """Its scores are weighed against the plugins'; ten of them are the best a plugin can give."""

    async def story(world: World, extender: FakeExtender) -> None:
        config = extender.config("prioritize", weight=100, **trusting(authority))
        await world.start_daemon({"extenders": [config]})
        for number in range(5):
            world.pod(f"p{number}", cpu="500m")

        assert await world.bound(*(f"p{n}" for n in range(5))) == ["n1"] * 5

    act(story, FakeExtender(tls, prioritize=scores(n0=3, n1=10, n2=9)))


def test_bind(tls: ssl.SSLContext, authority: Authority) -> None:
    """It binds, and nobody else does; the event is told all the same."""

    async def story(world: World, extender: FakeExtender) -> None:
        def bind(body: Body) -> Body:
            world.sandbox.bind(body["PodName"], body["Node"], namespace=body["PodNamespace"])
            return {"Error": ""}

        extender.replies["bind"] = bind
        config = extender.config("bind", **trusting(authority))
        await world.start_daemon({"extenders": [config]})
        world.pod("p")
        await world.bound("p")
        await world.settled()
        await world.until(lambda: world.events("p", "Scheduled"), "the event")

        pod = world.sandbox.get("pods", "p")
        assert extender.bodies("bind") == [
            {
                "PodName": "p",
                "PodNamespace": "default",
                "PodUID": pod["metadata"]["uid"],
                "Node": pod["spec"]["nodeName"],
            }
        ]
        assert world.bindings(None) == 0

    act(story, FakeExtender(tls))


def test_preempt(tls: ssl.SSLContext, authority: Authority) -> None:
    """It strikes candidates off; who is left is evicted."""

    async def story(world: World, extender: FakeExtender) -> None:
        def but_n0(body: Body) -> Body:
            victims = agreeing(body)["NodeNameToMetaVictims"]
            return {"nodenametometavictims": {"n1": victims["n1"]}}

        extender.replies["preempt"] = but_n0
        config = extender.config("preempt", **trusting(authority))
        await filled(world, 2, {"extenders": [config]})
        preemptor(world, "high")
        await world.until(lambda: nominated(world, "high"), "a nomination")

        assert nominated(world, "high") == "n1"
        given = extender.bodies("preempt")[0]["NodeNameToMetaVictims"]
        assert {node: len(v["Pods"]) for node, v in given.items()} == {"n0": 1, "n1": 1}
        await world.until(lambda: world.events(reason="Preempted"), "the event")
        assert [e["regarding"]["name"] for e in world.events(reason="Preempted")] == ["low1"]

    act(story, FakeExtender(tls), nodes=0)


def test_whole_nodes_and_pods() -> None:
    """One that is not nodeCacheCapable sees everything, but what managers of fields wrote."""

    async def story(world: World, extender: FakeExtender) -> None:
        extender.replies["filter"] = lambda body: {
            "Nodes": {"items": [n for n in body["Nodes"]["items"] if n["metadata"]["name"] == "n1"]}
        }
        config = extender.config("filter", nodeCacheCapable=False)
        await world.start_daemon({"extenders": [config]})
        world.pod("p", hostname="some-host", terminationGracePeriodSeconds=7)
        assert await world.bound("p") == ["n1"]
        world.sandbox.patch("nodes", "n1", {"metadata": {"annotations": {"a": "new"}}})
        known = world.daemon.driver.engine.core.cache.nodes
        await world.until(
            lambda: (known["n1"].node or make_node()).metadata.annotations == {"a": "new"},
            "the change of the node",
        )
        world.pod("q")
        await world.bound("q")

        first, second = extender.bodies("filter")
        assert first["NodeNames"] is None
        assert first["Pod"]["spec"]["hostname"] == "some-host"
        assert first["Pod"]["spec"]["terminationGracePeriodSeconds"] == 7
        assert "kind" not in first["Pod"]
        nodes = {node["metadata"]["name"]: node for node in first["Nodes"]["items"]}
        assert sorted(nodes) == ["n0", "n1", "n2"]
        assert nodes["n0"]["status"]["capacity"]["memory"] == "32Gi"
        assert not any("managedFields" in node["metadata"] for node in nodes.values())
        later = {node["metadata"]["name"]: node for node in second["Nodes"]["items"]}
        assert later["n1"]["metadata"]["annotations"] == {"a": "new"}

    act(story, FakeExtender())


def test_what_is_gone_is_not_kept_for_extenders() -> None:
    """Neither pods that waited nor nodes: or a daemon would grow as long as it runs."""

    async def story(world: World, extender: FakeExtender) -> None:
        await world.start_daemon({"extenders": [extender.config("filter", nodeCacheCapable=False)]})
        world.pod("waits", cpu="100")
        await world.rejected("waits")
        kept = world.daemon._kept
        assert len(kept) == 4

        world.sandbox.delete("pods", "waits", grace_seconds=0)
        world.sandbox.delete("nodes", "n0")

        await world.until(lambda: len(kept) == 2, "them to be let go")

    act(story, FakeExtender())


def test_victims_are_sent_as_a_whole_to_who_wants_it() -> None:
    """Pods that run already, with all their owners wrote."""

    async def story(world: World, extender: FakeExtender) -> None:
        config = extender.config("preempt", nodeCacheCapable=False)
        await filled(world, 1, {"extenders": [config]})
        preemptor(world, "high")
        await world.until(lambda: nominated(world, "high"), "a nomination")

        body = extender.bodies("preempt")[0]
        assert body["NodeNameToMetaVictims"] is None
        [victim] = body["NodeNameToVictims"]["n0"]["Pods"]
        assert victim["spec"]["containers"][0]["image"] == "example.com/app:1"

    act(story, FakeExtender(preempt=agreeing), nodes=0)


# --- whom it concerns -----------------------------------------------------------------------------


def test_only_pods_that_want_its_resources() -> None:
    """Others are placed without it; its resource is ignored by NodeResourcesFit."""

    async def story(world: World, extender: FakeExtender) -> None:
        managed = [{"name": GPU, "ignoredByScheduler": True}]
        config = extender.config("filter", managedResources=managed)
        await world.start_daemon({"extenders": [config]})
        world.pod("plain")
        world.pod("gpu", containers=[gpu_container()])

        await world.bound("plain")
        assert await world.bound("gpu") == ["n1"]
        assert [body["Pod"]["metadata"]["name"] for body in extender.bodies("filter")] == ["gpu"]

    act(story, FakeExtender(filter=only("n1")))


def test_slow_ones_disturb_nobody() -> None:
    """200 pods through an extender that takes its time, 5,000 others beside them.

    Its first answer comes when all the others are bound; from then on it takes 100 ms each.
    """

    async def story(world: World, extender: FakeExtender) -> None:
        go_on = asyncio.Event()

        async def everything(body: Body) -> Body:
            await go_on.wait()
            await asyncio.sleep(0.1)
            return {"NodeNames": names_of(body)}

        extender.replies["filter"] = everything
        for number in range(20):
            world.node(f"big{number}", cpu="1000", pods="1000")
        managed = [{"name": GPU, "ignoredByScheduler": True}]
        config = extender.config("filter", managedResources=managed, httpTimeout="10m")
        await world.start_daemon({"extenders": [config]})
        for number in range(200):
            world.pod(f"gpu{number}", containers=[gpu_container()])
        for number in range(5000):
            world.pod(f"plain{number}")
        await world.until(lambda: world.bindings() == 5000, "the others to be bound", 300)
        line = world.daemon.driver.engine.extender_calls.counts()
        validate_engine(world.daemon.driver.engine)
        go_on.set()
        await world.until(lambda: world.bindings() == 5200, "all to be bound", 60)
        await world.settled()

        assert line == (64, 136)
        assert extender.count("filter") == 200
        assert extender.most == 64
        validate_engine(world.daemon.driver.engine)

    act(story, FakeExtender())


def gpu_container() -> Body:
    return {
        "name": "main",
        "image": "example.com/app:1",
        "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}},
    }


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        pytest.param(
            failing(500), "failed filter with extender at URL {url}/filter, code 500", id="500"
        ),
        pytest.param(
            failing(204), "failed filter with extender at URL {url}/filter, code 204", id="204"
        ),
        pytest.param(lambda _: {"Error": "no idea"}, "no idea", id="it says so"),
        pytest.param(
            lambda _: {"NodeNames": ["other"]},
            'extender "{url}" claims a filtered node "other" which is not found in the input node '
            "list",
            id="a node it was not asked about",
        ),
        pytest.param(
            lambda _: b"",
            "answer to filter of extender at URL {url}/filter cannot be read: the answer is empty",
            id="nothing",
        ),
        pytest.param(
            after(5, only("n1")), 'Post "{url}/filter": no answer within 200ms', id="too late"
        ),
    ],
)
def test_a_failure_fails_the_pod(reply: Any, message: str) -> None:
    """It is an error, not a rejection: tried again after back-off, when all is well."""
    # The others have all the time that a slow machine needs.
    limit = "200ms" if "200ms" in message else "60s"

    async def story(world: World, extender: FakeExtender) -> None:
        config = extender.config("filter", httpTimeout=limit)
        await world.start_daemon({"extenders": [config]})
        world.pod("p")
        await world.rejected("p", reason="SchedulerError")

        condition = world.condition("p")
        assert condition is not None
        assert condition["message"] == message.format(url=extender.url)
        extender.replies["filter"] = only("n1")
        assert await world.bound("p") == ["n1"]

    act(story, FakeExtender(filter=reply))


@pytest.mark.parametrize(
    "reply", [failing(500), closing(), lambda _: b"{"], ids=["500", "closed", "broken"]
)
def test_who_can_be_ignored_is(reply: Any) -> None:
    """As if it were not there."""

    async def story(world: World, extender: FakeExtender) -> None:
        extender.replies.update(filter=reply, preempt=reply, bind=reply)
        config = extender.config("filter", "preempt", "bind", ignorable=True)
        await filled(world, 2, {"extenders": [config]})
        preemptor(world, "high")
        await world.until(lambda: nominated(world, "high"), "a nomination")

        assert world.bindings() == 2
        for verb in ("filter", "preempt", "bind"):
            assert extender.count(verb)

    act(story, FakeExtender(), nodes=0)


def test_one_that_keeps_being_late_is_left_alone() -> None:
    """Three late answers, and nobody waits for it any more."""

    async def story(world: World, extender: FakeExtender) -> None:
        config = extender.config("filter", ignorable=True, httpTimeout="50ms")
        await world.start_daemon({"extenders": [config]})
        for number in range(3):
            world.pod(f"p{number}")
            await world.bound(f"p{number}")
        world.pod("later")
        await world.bound("later")

        assert extender.count("filter") == 3
        counted = world.daemon.metrics.extenders.left_alone[extender.url]
        assert counted.value == 1

    act(story, FakeExtender(filter=after(30, only())))


def test_scores_that_cannot_be_had_do_not_matter() -> None:
    """Also where the extender cannot be ignored."""

    async def story(world: World, extender: FakeExtender) -> None:
        await world.start_daemon({"extenders": [extender.config("prioritize")]})
        world.pod("p")
        await world.bound("p")

        assert extender.count("prioritize") == 1

    act(story, FakeExtender(prioritize=lambda _: b'[{"Host": "n1", "Score": 1.5}]'))


@pytest.mark.parametrize("is_bound", [True, False], ids=["bound all the same", "not bound"])
def test_a_bind_without_a_clear_answer(is_bound: bool) -> None:
    """The API server is asked how the pod is; it is bound once."""

    async def story(world: World, extender: FakeExtender) -> None:
        def bind(body: Body) -> Any:
            if is_bound or extender.count("bind") > 1:
                world.sandbox.bind(body["PodName"], body["Node"], namespace=body["PodNamespace"])
            return failing(500)(body) if extender.count("bind") == 1 else {"Error": ""}

        extender.replies["bind"] = bind
        await world.start_daemon({"extenders": [extender.config("bind")]})
        world.pod("p")
        await world.bound("p")
        await world.settled()

        assert extender.count("bind") == (1 if is_bound else 2)
        assert world.bindings(None) == 0

    act(story, FakeExtender())


def test_a_bind_that_is_denied_after_it_was_done() -> None:
    """The API server is asked before others get the pod's room: the watch may be behind."""

    async def story(world: World, extender: FakeExtender) -> None:
        def bind(body: Body) -> Body:
            world.sandbox.faults.silence_watches("pods")
            world.sandbox.bind(body["PodName"], body["Node"], namespace=body["PodNamespace"])
            return {"Error": "the answer was lost"}

        extender.replies["bind"] = bind
        for name in ("p", "q"):
            world.pod(name, cpu="3")
        await world.start_daemon({"extenders": [extender.config("bind")]})
        await world.until(lambda: extender.count("bind"), "the binding")
        await world.settled()
        # As long as a back-off and more.
        await world.quiet(2)

        assert sorted(map(world.node_of, ("p", "q"))) == ["", "n0"]
        assert extender.count("bind") == 1

    act(story, FakeExtender(), nodes=1)


def test_a_pod_that_is_deleted_meanwhile() -> None:
    """The question is taken back, and the next pod is served."""

    async def story(world: World, extender: FakeExtender) -> None:
        await world.start_daemon({"extenders": [extender.config("filter")]})
        world.pod("p")
        await world.until(lambda: extender.count("filter"), "the question")
        world.sandbox.delete("pods", "p", grace_seconds=0)
        await world.until(lambda: not len(world.daemon.driver.engine.attempts), "the end of it")
        extender.replies["filter"] = only("n1")
        world.pod("q")

        assert await world.bound("q") == ["n1"]
        await world.settled()
        validate_engine(world.daemon.driver.engine)

    act(story, FakeExtender(filter=after(30, only("n1"))))


def test_a_node_that_is_full_when_the_answer_comes() -> None:
    """Other pods went on; the next best node is taken, or the pod waits."""

    async def story(world: World, extender: FakeExtender) -> None:
        config = extender.config(
            "filter",
            "prioritize",
            weight=100,
            managedResources=[{"name": GPU, "ignoredByScheduler": True}],
        )
        asked = asyncio.Event()
        go_on = asyncio.Event()

        async def filter_later(body: Body) -> Body:
            asked.set()
            await go_on.wait()
            return {"NodeNames": names_of(body)}

        extender.replies.update(filter=filter_later, prioritize=scores(n0=10, n1=9, n2=1))
        await world.start_daemon({"extenders": [config]})
        container = gpu_container()
        container["resources"]["requests"]["cpu"] = "3"
        world.pod("gpu", containers=[container])
        await asked.wait()
        world.pod("plain", cpu="3", nodeSelector={"kubernetes.io/hostname": "n0"})
        assert await world.bound("plain") == ["n0"]
        go_on.set()

        assert await world.bound("gpu") == ["n1"]

    act(story, FakeExtender())


# --- TLS ------------------------------------------------------------------------------------------


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_certificates_of_both_sides(authority: Authority) -> None:
    """As files or as data; the extender sees our certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "extender", server=True))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = authority.issue("stowage", "stowage")

    async def story(world: World, extender: FakeExtender) -> None:
        files = {"caFile": str(authority.file), "certFile": str(certificate), "keyFile": str(key)}
        whole = {
            "caData": data(authority.file),
            "certData": data(certificate),
            "keyData": data(key),
            "caFile": "/nowhere",
        }
        for number, tls_config in enumerate((files, whole)):
            config = extender.config("filter", enableHTTPS=True, tlsConfig=tls_config)
            daemon = await world.start_daemon({"extenders": [config]})
            world.pod(f"p{number}")
            assert await world.bound(f"p{number}") == ["n1"]
            await world.stop_daemon(daemon)

    act(story, FakeExtender(context, filter=only("n1")))


@pytest.mark.parametrize(
    ("fields", "is_trusted"),
    [
        pytest.param({"enableHTTPS": True}, True, id="no authority: anybody"),
        pytest.param({"tlsConfig": {"insecure": True}}, True, id="insecure: anybody"),
        pytest.param({}, False, id="the authorities of the system"),
        pytest.param(
            {"tlsConfig": {"caFile": "", "serverName": "other"}, "enableHTTPS": True},
            True,
            id="name",
        ),
    ],
)
def test_whom_it_trusts(tls: ssl.SSLContext, fields: Body, is_trusted: bool) -> None:
    """With enableHTTPS and no authority nothing is verified, as upstream."""

    async def story(world: World, extender: FakeExtender) -> None:
        await world.start_daemon({"extenders": [extender.config("filter", **fields)]})
        world.pod("p")
        if is_trusted:
            assert await world.bound("p") == ["n1"]
            return
        await world.rejected("p", reason="SchedulerError")
        condition = world.condition("p")
        assert condition is not None
        assert "cannot trust localhost" in condition["message"]

    act(story, FakeExtender(tls, filter=only("n1")))


def test_the_name_in_the_certificate_counts(tls: ssl.SSLContext, authority: Authority) -> None:
    """ServerName says which one to expect."""

    async def story(world: World, extender: FakeExtender) -> None:
        config = extender.config("filter", **trusting(authority))
        config["urlPrefix"] = config["urlPrefix"].replace("localhost", "127.0.0.1")
        daemon = await world.start_daemon({"extenders": [config]})
        world.pod("p")
        await world.rejected("p", reason="SchedulerError")
        await world.stop_daemon(daemon)
        config["tlsConfig"]["serverName"] = "localhost"
        await world.start_daemon({"extenders": [config]})

        assert await world.bound("p") == ["n1"]

    act(story, FakeExtender(tls, filter=only("n1")))


# --- helpers --------------------------------------------------------------------------------------


async def filled(world: World, nodes: int, config: Body) -> None:
    """Nodes that are full of less important pods, one each."""
    for value, name in ((1, "low"), (100, "high")):
        world.sandbox.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    for number in range(nodes):
        world.node(f"n{number}", cpu="1")
    await world.start_daemon(config)
    for number in range(nodes):
        world.pod(
            f"low{number}",
            cpu="1",
            priorityClassName="low",
            nodeSelector={"kubernetes.io/hostname": f"n{number}"},
        )
    await world.bound(*(f"low{number}" for number in range(nodes)))
    await world.settled()


def preemptor(world: World, name: str) -> None:
    world.pod(name, cpu="1", priorityClassName="high")


def nominated(world: World, pod: str) -> str:
    status = world.sandbox.get("pods", pod).get("status", {})
    name: str = status.get("nominatedNodeName", "")
    return name
