"""DefaultBinder writes the binding."""

import asyncio

import pytest

from scheduler.errors import SchedulerError
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.status import SUCCESS, Status, error
from scheduler.kernel.plugins.default_binder import DefaultBinder
from tests.support.builders import make_pod_info
from tests.support.handles import make_handle


class FakeBinder:
    """Notes bindings, or refuses them."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.bound: list[tuple[str, str, str, str]] = []
        self._problem = problem

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        if self._problem is not None:
            raise self._problem
        self.bound.append((namespace, name, uid, node))


def bind(binder: FakeBinder) -> Status:
    pod = make_pod_info("web-1", namespace="shop", uid="u-1")
    return asyncio.run(
        DefaultBinder(None, make_handle(api=binder)).bind(CycleState(), pod, "node-7")
    )


def test_a_pod_is_bound_by_name_and_uid() -> None:
    """The UID keeps a namesake from being bound."""
    binder = FakeBinder()

    assert bind(binder) == SUCCESS
    assert binder.bound == [("shop", "web-1", "u-1", "node-7")]


def test_a_refusal_is_an_error_status() -> None:
    """The attempt fails and says why."""
    assert bind(FakeBinder(SchedulerError("pod is gone"))) == error("pod is gone")


def test_what_nobody_expected_is_not_hidden() -> None:
    """A defect is no refusal."""
    with pytest.raises(ZeroDivisionError):
        bind(FakeBinder(ZeroDivisionError()))
