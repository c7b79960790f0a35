"""What the log says of plugins that fail."""

from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.daemon.bootstrap.plugin_failures import LOG_AGAIN_SECONDS, PluginFailureLog
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.handle import SharedState
from scheduler.kernel.framework.interface import PreEnqueuePlugin, ReservePlugin
from scheduler.kernel.framework.runtime import PluginError
from tests.support.builders import make_pod_info
from tests.support.clock import FakeClock
from tests.support.fake_plugins import make_framework


class Gate(PreEnqueuePlugin):
    NAME = "Gate"

    def pre_enqueue(self, pod: object) -> None:
        raise ValueError("boom")


def test_a_broken_gate_is_logged_once_a_minute_with_its_pod() -> None:
    """Events retry its pod many times a second; another plugin has a line of its own."""
    clock = FakeClock()
    failures = PluginFailureLog(clock)
    framework = make_framework(Gate(), on_failed=failures.note)
    pod = make_pod_info("p")

    with capture_logs() as logs:
        for _ in range(100):
            framework.run_pre_enqueue_plugins(pod)
        failures.note(PluginError("Other", "QueueSort", "boom"))
        clock.now += LOG_AGAIN_SECONDS
        framework.run_pre_enqueue_plugins(pod)

    traces = [each.pop("trace", "") for each in logs]
    assert all('raise ValueError("boom")' in trace for trace in (traces[0], traces[2]))
    gate = {
        "module": "daemon.bootstrap.plugin_failures",
        "event": "Plugin failed",
        "log_level": "error",
        "pod": "default/p",
        "err": 'running PreEnqueue plugin "Gate": ValueError: boom',
    }
    assert [each for each in logs if "Gate" in each["err"]] == [
        {**gate, "others": 0},
        {**gate, "others": 99},
    ]
    assert len(logs) == 3


class Broken(ReservePlugin):
    """Fails the attempt."""

    NAME = "Broken"

    def __init__(self, answer: Exception | None) -> None:
        self._answer = answer

    def reserve(self, *_: object) -> Any:
        if self._answer is not None:
            raise self._answer

    def unreserve(self, *_: object) -> None:
        """Never called."""


def logged(answer: Exception | None) -> list[Any]:
    """What the log says of a plugin that fails many attempts, and one more a minute later."""
    clock = FakeClock()
    framework = make_framework(Broken(answer), on_failed=PluginFailureLog(clock).note)
    with capture_logs() as logs:
        for seconds in (*[0.0] * 99, LOG_AGAIN_SECONDS):
            clock.now += seconds
            with pytest.raises(PluginError):
                framework.run_reserve_plugins(CycleState(), make_pod_info("p").on_node("n"))
    return logs


def test_what_raises_in_an_attempt_is_logged_with_its_traceback_once_a_minute() -> None:
    """The line of the failed attempt has none."""
    logs = logged(ValueError("boom"))

    assert [(each["event"], each["err"], each["others"]) for each in logs] == [
        ("Plugin failed", 'running Reserve plugin "Broken": ValueError: boom', others)
        for others in (0, 98)
    ]
    assert all("in reserve\n    raise self._answer" in each["trace"] for each in logs)


@pytest.mark.parametrize("answer", [None, SchedulerError("no disk")], ids=["answer", "explained"])
def test_what_its_message_explains_is_logged_with_the_attempt_only(
    answer: Exception | None,
) -> None:
    """No frame would say more."""
    assert logged(answer) == []


class BrokenState(SharedState):
    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        raise ValueError("boom")

    @override
    def fork(self) -> "BrokenState":
        return BrokenState()


def test_a_state_that_fails_is_logged_with_its_traceback_once_a_minute() -> None:
    """It fails no attempt; every pod may make it fail."""
    clock = FakeClock()
    builder = FrameworkBuilder(clock.monotonic, on_failed=PluginFailureLog(clock).note)
    builder.states.shared(BrokenState, "P")

    with capture_logs() as logs:
        for seconds in (*[0.0] * 99, LOG_AGAIN_SECONDS):
            clock.now += seconds
            builder.states.reserved(make_pod_info("p", node_name="n"))

    assert [(each["event"], each["pod"], each["err"], each["others"]) for each in logs] == [
        (
            "Plugin failed",
            "default/p",
            'running SharedState plugin "P": ValueError: boom',
            others,
        )
        for others in (0, 98)
    ]
    assert all('raise ValueError("boom")' in each["trace"] for each in logs)


def test_a_copy_of_a_state_reports_nothing() -> None:
    """Hypothetical questions would fill the log."""
    failed: list[PluginError] = []
    builder = FrameworkBuilder(lambda: 0.0, on_failed=failed.append)
    builder.states.shared(BrokenState, "P")

    builder.states.fork().reserved(make_pod_info("p", node_name="n"))

    assert failed == []
