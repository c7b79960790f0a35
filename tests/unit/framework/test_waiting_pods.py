"""Pods that Permit plugins hold: allowed by all, rejected by one, or too late."""

import asyncio
from collections.abc import Callable

import pytest

from scheduler.framework.runtime import WaitingPods
from scheduler.framework.runtime.waiting_pods import WaitingPod
from scheduler.framework.status import SUCCESS, Status, unschedulable
from tests.support.builders import make_pod_info

FOREVER = 1000.0


def decide(timeouts: dict[str, float], *, now: Callable[[WaitingPod], object]) -> Status:
    """What is decided about a pod when something happens before or while it is waited for."""

    async def scenario(*, early: bool) -> Status:
        waiting = WaitingPods().add(make_pod_info("p"), timeouts)
        if early:
            now(waiting)
        task = asyncio.ensure_future(waiting.decision())
        if not early:
            await asyncio.sleep(0)
            now(waiting)
        return await task

    before = asyncio.run(scenario(early=True))
    assert before == asyncio.run(scenario(early=False))
    return before


def test_the_last_plugin_sets_the_pod_free() -> None:
    """All that wait must allow it; allowing twice, or by a stranger, changes nothing."""
    seen = []

    def allow(waiting: WaitingPod) -> None:
        for plugin in ("b", "b", "stranger", "a"):
            seen.append(waiting.pending_plugins)
            waiting.allow(plugin)

    assert decide({"a": FOREVER, "b": FOREVER}, now=allow) == SUCCESS
    assert seen[:4] == [["a", "b"], ["a"], ["a"], ["a"]]


def test_one_plugin_rejects_for_all() -> None:
    """And what comes later does not count."""

    def reject(waiting: WaitingPod) -> None:
        waiting.reject("a", "no")
        waiting.allow("a")
        waiting.allow("b")

    assert decide({"a": FOREVER, "b": FOREVER}, now=reject) == unschedulable("no").by("a")


def test_the_shortest_time_limit_ends_it() -> None:
    """The plugin that waited too long is named."""
    status = decide({"slow": FOREVER, "quick": 0.001}, now=lambda waiting: None)

    assert status == unschedulable("rejected due to timeout after waiting 1ms at plugin quick").by(
        "quick"
    )


def test_the_time_limit_of_a_plugin_that_allowed_the_pod_is_over() -> None:
    """Only those still pending count."""

    async def scenario() -> Status:
        waiting = WaitingPods().add(make_pod_info("p"), {"quick": 0.001, "other": FOREVER})
        waiting.allow("quick")
        task = asyncio.ensure_future(waiting.decision())
        done, _ = await asyncio.wait({task}, timeout=0.01)
        assert not done
        waiting.allow("other")
        return await task

    assert asyncio.run(scenario()) == SUCCESS


def test_held_pods_are_found_until_they_are_removed() -> None:
    """By UID; rejecting one that is not held is told."""
    pods = WaitingPods()
    waiting = pods.add(make_pod_info("p", uid="u"), {"a": FOREVER})

    assert pods.get("u") is waiting
    assert list(pods) == [waiting]
    assert pods.reject("u", "", "gone") is True
    assert pods.reject("other", "", "gone") is False
    pods.remove("u")
    pods.remove("u")
    assert (pods.get("u"), list(pods)) == (None, [])


@pytest.mark.parametrize("plugin", ["", "Mine"])
def test_a_rejection_names_who_rejected(plugin: str) -> None:
    """The scheduler itself rejects in nobody's name."""
    status = decide({"a": FOREVER}, now=lambda waiting: waiting.reject(plugin, "gone"))

    assert (status.plugin, status.reasons) == (plugin, ("gone",))
