"""What the log says of plugins whose failures fail no attempt."""

from structlog.testing import capture_logs

from scheduler.daemon.bootstrap.plugin_failures import LOG_AGAIN_SECONDS, PluginFailureLog
from scheduler.kernel.framework.interface import PreEnqueuePlugin
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
