"""The claim that is made for a pod's extended resources: however its binding ends, one is left."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from apistub import Sandbox
from tests.scenario.test_devices import (
    CLAIMS,
    CONTROLLED,
    device_class,
    devices_of,
    given,
    resource_slice,
)
from tests.scenario.world import BINDINGS, Object, World, play
from tests.support.commands import stowage

GPU: Final = "example.com/gpu"
CLAIM: Final = "*/resourceclaims/*"


def extended(world: World, name: str = "p") -> None:
    """A pod that asks for a GPU as an extended resource."""
    resources = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    container = {"name": "main", "image": "example.com/app:1", "resources": resources}
    world.pod(name, containers=[container])


async def begin(world: World, *, is_behind: bool = False, record: str = "") -> None:
    """A daemon, and a node with a device; its watch of claims may show nothing for now."""
    world.node("a")
    world.sandbox.create(resource_slice("a", "gpu-0"), device_class(extendedResourceName=GPU))
    await world.start_daemon(record=record)
    if is_behind:
        watches = world.sandbox.requests.count
        await world.until(lambda: watches(verb="watch", resource="resourceclaims"), "the watch")
        world.sandbox.faults.silence_watches("resourceclaims")


def catch_up(world: World) -> None:
    """The daemon watches claims again, and is shown what it has missed."""
    world.sandbox.faults.close_watches("resourceclaims", abort=True)


def made(world: World) -> list[Object]:
    return world.sandbox.list(CLAIMS)


async def only_one_is_left(world: World, pod: str = "p") -> None:
    """The pod is bound with the claim that its status names; no other has devices or is there."""
    [node] = await world.bound(pod)
    await world.settled()
    await world.until(lambda: len(made(world)) == 1, "the others to be deleted")
    [claim] = made(world)
    status = world.sandbox.get("pods", pod)["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == claim["metadata"]["name"]
    assert devices_of(claim) == [f"{node}/gpu-0"]
    assert "deletionTimestamp" not in claim["metadata"]


@pytest.mark.parametrize(
    "refuse",
    [
        pytest.param(lambda s: s.faults.answer(409, path=BINDINGS), id="409"),
        pytest.param(lambda s: s.faults.answer(500, path=BINDINGS), id="500"),
        pytest.param(lambda s: s.faults.drop(path=BINDINGS), id="outage"),
    ],
)
@pytest.mark.parametrize("is_behind", [False, True], ids=["shown", "behind"])
def test_a_binding_that_is_refused(refuse: Callable[[Sandbox], object], *, is_behind: bool) -> None:
    """It is not sent before the watch shows the claim, so that Unreserve can delete it."""

    async def story(world: World) -> None:
        await begin(world, is_behind=is_behind)
        refuse(world.sandbox)
        extended(world)
        if is_behind:
            await world.until(lambda: given(world), "the devices to be written")
            await world.quiet()
            assert not world.bindings(None)
            catch_up(world)

        await only_one_is_left(world)

    play(story, CONTROLLED)


def test_writes_that_fail_while_the_watch_is_behind() -> None:
    """The claim cannot be deleted either: the failure names it, and the next attempt deletes it."""

    async def story(world: World) -> None:
        await begin(world, is_behind=True)
        for verb in ("patch", "delete"):
            world.sandbox.faults.answer(500, verb=verb, path=CLAIM, times=None)
        extended(world)
        await world.rejected("p", reason="SchedulerError")
        [left] = made(world)
        condition = world.condition("p")
        assert condition is not None
        name = left["metadata"]["name"]
        assert f"claim default/{name} for extended resources is left: delete: " in str(condition)
        world.sandbox.faults.clear()
        # The next attempt knows of none, and makes another.
        await world.until(lambda: given(world), "the devices to be written")
        assert len(made(world)) > 1
        catch_up(world)

        await only_one_is_left(world)

    play(story, CONTROLLED)


@pytest.mark.parametrize("is_behind", [False, True], ids=["shown", "behind"])
def test_an_answer_about_the_new_claim_is_lost(*, is_behind: bool) -> None:
    """Its name is unknown. As upstream, an attempt that sees it deletes it and begins anew."""

    async def story(world: World) -> None:
        await begin(world, is_behind=is_behind)
        world.sandbox.faults.drop(after_commit=True, verb="create", path="*/resourceclaims")
        extended(world)
        if is_behind:
            await world.until(lambda: given(world), "another attempt")
            assert len(made(world)) == 2
            catch_up(world)

        await only_one_is_left(world)

    play(story, CONTROLLED)


@pytest.mark.parametrize("is_behind", [False, True], ids=["shown", "behind"])
def test_an_attempt_that_is_cancelled_after_the_claim_was_made(*, is_behind: bool) -> None:
    """Its node goes. The next attempt, on another node, begins with a claim of its own."""

    async def story(world: World) -> None:
        await begin(world, is_behind=is_behind)
        status = world.sandbox.faults.hang(verb="patch", path="*/pods/p/status")
        extended(world)
        await world.until(lambda: status.hits, "the claim to be written")
        assert given(world) == ["a/gpu-0"]
        world.sandbox.delete("nodes", "a")
        world.node("b")
        world.sandbox.create(resource_slice("b", "gpu-0"))
        if is_behind:
            await world.until(lambda: "b/gpu-0" in given(world), "another attempt")
            catch_up(world)

        await only_one_is_left(world)
        assert world.node_of("p") == "b"

    play(story, CONTROLLED)


@pytest.mark.parametrize("is_behind", [False, True], ids=["shown", "behind"])
def test_a_pod_that_is_deleted_takes_its_claim_along(*, is_behind: bool) -> None:
    """It owns it. The scheduler need not know of it: the next pod gets the device."""

    async def story(world: World) -> None:
        await begin(world, is_behind=is_behind)
        status = world.sandbox.faults.hang(verb="patch", path="*/pods/p/status")
        extended(world)
        await world.until(lambda: status.hits, "the claim to be written")
        world.sandbox.delete("pods", "p", grace_seconds=0)
        await world.until(lambda: not made(world), "the claim to go")
        if is_behind:
            catch_up(world)
        extended(world, "q")

        await only_one_is_left(world, "q")

    play(story, CONTROLLED)


@pytest.mark.parametrize("is_behind", [False, True], ids=["shown", "behind"])
def test_a_pod_that_is_deleted_gives_no_device_away_before_the_answer(*, is_behind: bool) -> None:
    """Its allocation is under way, and carried out after the pod is gone."""

    async def story(world: World) -> None:
        await begin(world, is_behind=is_behind)
        write = world.sandbox.faults.delay(3.0, verb="patch", path="*/resourceclaims/*/status")
        extended(world)
        await world.until(lambda: write.hits, "the allocation to be under way")
        world.sandbox.delete("pods", "p", grace_seconds=0)
        extended(world, "q")
        await world.rejected("q")
        assert given(world) == []
        if is_behind:
            await world.quiet(3.5)
            catch_up(world)

        await only_one_is_left(world, "q")

    play(story, CONTROLLED)


def test_a_pod_that_another_client_binds_keeps_its_claim() -> None:
    """It may run with the claim; the API server refuses the binding of this scheduler."""

    async def story(world: World) -> None:
        await begin(world)
        world.node("b")
        faults = world.sandbox.faults
        faults.before(lambda: world.sandbox.bind("p", "b"), path=BINDINGS)
        extended(world)

        await world.until(lambda: world.bindings(409), "the refusal")
        await world.quiet(0.5)
        await world.settled()
        [claim] = made(world)
        assert devices_of(claim) == ["a/gpu-0"]
        assert "deletionTimestamp" not in claim["metadata"]

    play(story, CONTROLLED)


@pytest.mark.parametrize("is_behind", [False, True], ids=["shown", "behind"])
def test_the_next_daemon_deletes_what_the_last_one_left(*, is_behind: bool) -> None:
    """One that leads no more may not write: nothing is cleaned up at its end."""

    async def story(world: World) -> None:
        await begin(world, is_behind=is_behind)
        fault = world.sandbox.faults.hang(verb="patch", path="*/pods/p/status")
        extended(world)
        await world.until(lambda: fault.hits, "the claim to be written")
        await world.kill_daemon()
        [left] = made(world)
        await world.start_daemon()

        await only_one_is_left(world)
        assert made(world)[0]["metadata"]["name"] != left["metadata"]["name"]

    play(story, CONTROLLED)


def test_what_is_left_and_deleted_is_replayed(tmp_path: Path) -> None:
    """No answer to a write of PreBind decides: only what the watch shows does."""

    async def story(world: World) -> None:
        await begin(world, is_behind=True, record=str(tmp_path))
        faults = world.sandbox.faults
        faults.drop(after_commit=True, verb="create", path="*/resourceclaims")
        faults.answer(500, path=BINDINGS)
        extended(world)
        await world.until(lambda: given(world), "another attempt")
        catch_up(world)
        await only_one_is_left(world)
        assert world.bindings(500) == 1
        await world.stop_daemon()

    play(story, CONTROLLED)
    done = stowage("replay", *tmp_path.iterdir())

    assert (done.exit_code, done.output.endswith(" events: identical\n")) == (0, True), done.output
