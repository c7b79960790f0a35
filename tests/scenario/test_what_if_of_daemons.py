"""`stowage what-if` and `stowage capacity` ask a running daemon what it knows, once."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.scenario.test_recording import MARKER
from tests.scenario.world import World, play
from tests.support.forked import VARIABLES, Outcome, outcomes, words_of
from tests.support.pki import Authority
from tests.support.ports import free_port

JSON = ("-o", "json")


async def ask(*commands: tuple[str | Path, ...]) -> list[Outcome]:
    """Run commands, one after the other and each in a process, while the daemon goes on."""
    starts = {str(number): [*map(str, words)] for number, words in enumerate(commands)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words_of(starts), stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **VARIABLES},
    )  # fmt: skip
    async with asyncio.timeout(60 * len(starts)):
        printed, _ = await process.communicate()
    return list(outcomes(printed).values())


def answer_of(ended: Outcome) -> Any:
    """What a command has printed as JSON."""
    assert (ended.status, ended.err) == (0, "")
    return json.loads(ended.out)


def kubeconfig(world: World, directory: Path) -> Path:
    """Of somebody with a token, which daemons that ask nobody do not look at."""
    path = directory / "kubeconfig"
    context = {"cluster": "c", "user": "u"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": world.sandbox.url}}],
        "contexts": [{"name": "c", "context": context}],
        "users": [{"name": "u", "user": {"token": MARKER}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def busy(world: World, **options: Any) -> str:
    """A daemon with pods on three nodes and one that waits; gives the URL of its port."""
    for index in range(3):
        world.node(f"n{index}", cpu="4", zone=f"z{index}")
    port = free_port()
    await world.start_daemon(secure_port=port, **options)
    for index in range(6):
        world.pod(f"p{index}", cpu="1500m")
    await world.bound(*(f"p{index}" for index in range(6)))
    world.pod("waits", cpu="2")
    await world.rejected("waits")
    await world.settled()
    return f"https://127.0.0.1:{port}"


def test_the_daemon_says_what_the_cluster_says(tmp_path: Path) -> None:
    """The same question to the daemon and to the API server, the same answer; nothing is done."""

    async def story(world: World) -> None:
        url = await busy(world)
        config = kubeconfig(world, tmp_path)
        bindings = world.bindings()
        daemon = ("--kubeconfig", config, "--daemon", url, "--insecure-skip-tls-verify")
        change = ("--delete", "node/n0", "--add-nodes", "2", "--like", "n1")

        live, cluster, fits = map(
            answer_of,
            await ask(
                ("what-if", *daemon, *change, *JSON),
                ("what-if", "--kubeconfig", config, *change, *JSON),
                ("capacity", *daemon, "--like", "waits", *JSON),
            ),
        )

        assert {p["pod"] for p in live["placements"]} >= {"default/waits"}
        assert places(live) == places(cluster)
        assert live["use"] == cluster["use"]
        assert live["homeless"] == cluster["homeless"]
        assert fits["fits"] == 0
        assert world.bindings() == bindings

    play(story)


def test_explain_asks_a_daemon_by_its_own_profiles(tmp_path: Path) -> None:
    """Which the default profile would judge otherwise."""

    async def story(world: World) -> None:
        score = {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality", "weight": 7}]}
        profile = {"schedulerName": "stowage", "plugins": {"score": score}}
        url = await busy(world, config={"profiles": [profile]})
        config = kubeconfig(world, tmp_path)
        daemon = ("--kubeconfig", config, "--daemon", url, "--insecure-skip-tls-verify")

        [ended] = await ask(("explain", *daemon, "p0", *JSON))
        [pod_answer] = answer_of(ended)["pods"]

        assert pod_answer["profile"] == "stowage"
        scores = [node["scores"] for node in pod_answer["nodes"] if node["feasible"]]
        assert scores
        assert all(list(each) == ["ImageLocality"] for each in scores)

    play(story)


def places(answer: Any) -> dict[str, str]:
    return {each["pod"]: each["node"] for each in answer["placements"]}


def test_its_own_profiles_decide(tmp_path: Path) -> None:
    """Those of its configuration, which the command is not told."""

    async def story(world: World) -> None:
        profile = {
            "schedulerName": "stowage",
            "plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}},
        }
        for index in range(2):
            world.node(f"n{index}", cpu="1")
        port = free_port()
        await world.start_daemon({"profiles": [profile]}, secure_port=port)
        world.pod("large", cpu="7")
        await world.bound("large")
        node = world.node_of("large")
        daemon = ("--daemon", f"https://127.0.0.1:{port}", "--insecure-skip-tls-verify")
        config = ("--kubeconfig", kubeconfig(world, tmp_path))
        again = tmp_path / "again.json"
        pod = {**world.sandbox.get("pods", "large"), "spec": {"schedulerName": "stowage"}}
        pod["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "7"}}}]
        pod["metadata"] = {"name": "larger", "namespace": "default"}
        again.write_text(json.dumps(pod))

        change = ("--delete", f"node/{node}", "--apply", again)
        [ended] = await ask(("what-if", *daemon, *config, *change, *JSON))

        assert places(answer_of(ended)) == {"default/larger": "n1" if node == "n0" else "n0"}

    play(story)


def test_its_certificate_is_checked(tmp_path: Path) -> None:
    """By its own authority; without one a message says what to do, and no token has been sent."""
    authority = Authority(tmp_path, "ca")

    async def story(world: World) -> None:
        url = await busy(world, certificate=authority.issue("server", "stowage", server=True))
        daemon = ("--daemon", url.replace("127.0.0.1", "localhost"))
        config = ("--kubeconfig", kubeconfig(world, tmp_path))

        trusting = ("--certificate-authority", authority.file)
        refused, fits = await ask(
            ("what-if", *config, *daemon, "--drain", "n0"),
            ("capacity", *config, *daemon, *trusting, "--like", "waits", *JSON),
        )

        status, out, err = refused
        assert (status, out, len(err.splitlines())) == (2, "", 1), err
        assert "--insecure-skip-tls-verify" in err
        assert answer_of(fits)["fits"] == 0

    play(story)


def test_a_recording_is_asked_as_of_a_moment(tmp_path: Path) -> None:
    """What would have happened then: when the first pod had come, and at the end.

    Another configuration can be given: here one in which the waiting pod is nobody's concern.
    """
    directory = tmp_path / "recorded"
    other = tmp_path / "other.yaml"
    other.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: another}]\n"
    )

    async def story(world: World) -> None:
        await busy(world, record=str(directory))
        await world.stop_daemon()
        asked = ("what-if", "--recording", directory)
        added = ("--add-nodes", "1", "--like", "n0")
        *answered, refused = await ask(
            (*asked, *added, *JSON),
            (*asked, "--at", "0", "--apply", new, *JSON),
            (*asked, *added, "--config", other, *JSON),
            (*asked, "-f", new, "--drain", "n0"),
        )

        end, start, theirs = map(answer_of, answered)
        assert (theirs["placements"], theirs["homeless"]) == ([], [])
        assert places(end) == {"default/waits": "n0-new-0"}
        assert start["placements"] == []
        assert (refused.status, "give one" in refused.err) == (2, True), refused.err

    new = tmp_path / "new.json"
    new.write_text(
        json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}})
    )
    play(story)
