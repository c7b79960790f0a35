"""`stowage shadow` beside somebody who binds pods rightly, and wrongly."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from apistub.storage.kinds import PODS
from scheduler.kernel.answers.orders import AROUND_SECONDS
from tests.scenario.world import LIMIT_SECONDS, Object, World, play
from tests.support.ports import free_port

THEIRS = "default-scheduler"
SERVING = ("--bind-address=127.0.0.1", "--serve-without-authorization")


class Shadowed:
    """A shadow in a process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.port = 0

    async def until_printed(self, text: str) -> str:
        """Wait for a line of the log."""
        assert self._process.stderr is not None
        async with asyncio.timeout(60):
            while line := (await self._process.stderr.readline()).decode():
                if text in line:
                    return line
        raise AssertionError(f"it ended without {text}")

    async def get(self, path: str) -> str:
        """What its port serves."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{self.port}{path}", ssl=False) as response,
        ):
            assert response.status == 200, path
            return await response.text()

    async def until(self, holds: Callable[[Object], object]) -> Object:
        """Wait until something holds of its summary so far."""
        async with asyncio.timeout(LIMIT_SECONDS):
            told = json.loads(await self.get("/debug/shadow"))
            while not holds(told):
                await asyncio.sleep(0.1)
                told = json.loads(await self.get("/debug/shadow"))
        return dict(told)

    async def end(self) -> list[Object]:
        """End it as an operator does; gives its summaries."""
        self._process.terminate()
        async with asyncio.timeout(LIMIT_SECONDS):
            output, _ = await self._process.communicate()
        assert self._process.returncode == 0
        return [json.loads(line) for line in output.splitlines()]


@asynccontextmanager
async def shadowing(world: World, tmp_path: Path, *options: str) -> AsyncIterator[Shadowed]:
    """Run `stowage shadow` and wait until it knows the cluster and hears of its pods."""
    kubeconfig = tmp_path / "kubeconfig"
    world.sandbox.write_kubeconfig(kubeconfig)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scheduler", "shadow"),
        *(f"--kubeconfig={kubeconfig}", "--output=json", *options),
        stdout=PIPE,
        stderr=PIPE,
        limit=1 << 20,
    )
    shadowed = Shadowed(process)
    try:
        if any(option.startswith("--secure-port") for option in options):
            line = await shadowed.until_printed("HTTPS port open")
            shadowed.port = int(line.split("port=")[1].split()[0].strip('"'))
        await shadowed.until_printed("Watching")
        watches = world.sandbox.faults.watches
        await world.until(lambda: any(each.kind is PODS for each in watches), "a watch on pods")
        yield shadowed
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def bind(world: World, name: str, node: str, **options: object) -> None:
    """The other scheduler at work."""
    world.pod(name, scheduler=THEIRS, **options)
    world.sandbox.bind(name, node)


def test_wrong_bindings_are_told_apart_and_explained(tmp_path: Path) -> None:
    """Planted among right ones; nothing is written meanwhile."""

    async def story(world: World) -> None:
        world.node("small", cpu="4", labels={"disk": "ssd"})
        world.node("large", cpu="8")
        world.node("closed", cpu="64", taints=[{"key": "k", "effect": "NoSchedule"}])
        bind(world, "before", "small", cpu="100m")
        options = (f"--secure-port={free_port()}", *SERVING)
        async with shadowing(world, tmp_path, *options) as shadowed:
            bind(world, "good", "large", cpu="1")
            await shadowed.until(lambda told: told["results"]["agreed"])
            # What is judged next must not be a matter of what came first.
            await world.quiet(AROUND_SECONDS + 0.1)
            # A disagreement is told when so much time has passed since.
            bind(world, "tainted", "closed")
            await shadowed.until(lambda told: told["results"]["unfit"])
            bind(world, "worse", "small", cpu="2")
            await shadowed.until(lambda told: told["results"]["lower"])
            world.pod("ours")
            world.sandbox.bind("ours", "small")
            bind(world, "pinned", "small", nodeSelector={"disk": "ssd"})
            world.pod("by-hand", scheduler=THEIRS, nodeName="large")
            await shadowed.until(
                lambda told: told["results"]["only"] and told["unjudged"]["unseen"]
            )
            summary = (await shadowed.end())[-1]

        assert summary["schedulers"] == [THEIRS]
        assert summary["bindings"] == 4
        assert {k: v for k, v in summary["results"].items() if v} == {
            "agreed": 1,
            "only": 1,
            "lower": 1,
            "unfit": 1,
        }
        assert summary["unjudged"] == {"before": 1, "unseen": 1}
        unfit, lower = summary["examples"]
        assert (unfit["pod"], unfit["result"]) == ("default/tainted", "unfit")
        assert unfit["rejection"]["plugin"] == "TaintToleration"
        assert unfit["fitting"] == 2
        assert (lower["pod"], lower["result"]) == ("default/worse", "lower")
        assert (lower["placed"]["node"], lower["placed"]["rank"]) == ("small", 2)
        assert lower["placed"]["next"]["node"] == "large"
        assert lower["placed"]["scores"]["NodeResourcesFit"] < 0
        asked = world.sandbox.requests
        assert asked.count() == asked.count(verb="list") + asked.count(verb="watch")

    play(story)


def test_numbers_are_served_while_it_watches(tmp_path: Path) -> None:
    """Metrics, probes, and the summary so far; each summary has the examples since the last."""

    async def story(world: World) -> None:
        world.node("a")
        world.node("b", cpu="64")
        options = (f"--secure-port={free_port()}", *SERVING, "--every=1", "--examples=1")
        async with shadowing(world, tmp_path, *options) as shadowed:
            bind(world, "p", "a", cpu="1")
            bind(world, "q", "b", cpu="1")
            live = await shadowed.until(lambda told: told["results"]["lower"])
            metrics = await shadowed.get("/metrics")
            assert await shadowed.get("/readyz") == "ok"
            summaries = await shadowed.end()

        assert live["bindings"] == 2
        assert (
            f'stowage_shadow_bindings_total{{result="lower",scheduler="{THEIRS}"}} 1.0' in metrics
        )
        assert summaries[-1]["results"]["lower"] == 1
        assert sum(len(each["examples"]) for each in summaries) == 1

    play(story)


def test_what_was_missed_is_made_up_for(tmp_path: Path) -> None:
    """Who waited before is judged, who came bound meanwhile is not, who went was never seen."""

    async def story(world: World) -> None:
        world.node("a")
        world.pod("waits", scheduler=THEIRS)
        options = (f"--secure-port={free_port()}", *SERVING)
        async with shadowing(world, tmp_path, *options) as shadowed:
            faults = world.sandbox.faults
            away = faults.answer(500, path="/api/v1/pods", times=None)
            world.sandbox.forget_history()
            faults.expire_watches()
            world.sandbox.bind("waits", "a")
            bind(world, "short", "a")
            world.sandbox.delete("pods", "short", grace_seconds=0)
            bind(world, "late", "a")
            await world.until(lambda: away.hits, "the shadow to miss its watch")
            faults.clear()
            await shadowed.until(lambda told: told["unjudged"]["unseen"])
            summary = (await shadowed.end())[-1]

        assert {k: v for k, v in summary["results"].items() if v} == {"only": 1}
        assert summary["unjudged"] == {"before": 0, "unseen": 1}

    play(story)


def test_a_misspelt_scheduler_is_told_once(tmp_path: Path) -> None:
    """With the names that pods have; a correct name beside it is left out."""

    async def story(world: World) -> None:
        world.node("a")
        bind(world, "p", "a")
        names = ("--scheduler-name=default-shceduler", f"--scheduler-name={THEIRS}")
        async with shadowing(world, tmp_path, *names, "--every=1") as shadowed:
            line = await shadowed.until_printed("No pod names this scheduler so far")

        assert f'scheduler=["default-shceduler"] named=["{THEIRS}"]' in line

    play(story)
