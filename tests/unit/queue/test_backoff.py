"""How long pods wait after failures."""

import pytest

from scheduler.kernel.queue import BackoffSettings
from scheduler.kernel.queue.backoff import BackoffQueue
from tests.support.builders import make_pod_info, make_queued_pod_info
from tests.support.clock import FakeClock
from tests.support.queueing import QueueUnderTest


@pytest.mark.parametrize(
    ("settings", "failures", "expected"),
    [
        pytest.param(BackoffSettings(), 0, 0.0, id="no failure, no back-off"),
        pytest.param(BackoffSettings(), 1, 1.0, id="first failure"),
        pytest.param(BackoffSettings(), 2, 2.0, id="second failure doubles"),
        pytest.param(BackoffSettings(), 4, 8.0, id="fourth failure"),
        pytest.param(BackoffSettings(), 5, 10.0, id="never above the maximum"),
        pytest.param(BackoffSettings(), 100_000, 10.0, id="no overflow"),
        pytest.param(BackoffSettings(3, 20), 3, 12.0, id="configured start"),
        pytest.param(BackoffSettings(3, 2), 1, 2.0, id="start above the maximum"),
        pytest.param(BackoffSettings(1, 0), 3, 0.0, id="maximum 0 turns it off"),
    ],
)
@pytest.mark.parametrize("kind", ["unschedulable_count", "consecutive_errors_count"])
def test_backoff_doubles_up_to_the_maximum(
    settings: BackoffSettings, failures: int, expected: float, kind: str
) -> None:
    """Each failure in a row doubles the time."""
    queue = BackoffQueue(settings, FakeClock())
    queued = make_queued_pod_info(timestamp=2000.0)
    setattr(queued, kind, failures)

    expiration = queue.expiration(queued)

    assert expiration == (2000.0 + expected if expected else 0.0)


def test_errors_count_apart_from_rejections() -> None:
    """While errors last, only they determine the time."""
    queue = BackoffQueue(BackoffSettings(), FakeClock())
    queued = make_queued_pod_info(timestamp=2000.0)
    queued.unschedulable_count = 4
    queued.consecutive_errors_count = 1

    assert queue.expiration(queued) == 2001.0


@pytest.mark.parametrize(
    ("failed_at", "now", "waits"),
    [
        pytest.param(1000.0, 1000.9, True, id="before the end"),
        pytest.param(1000.0, 1001.0, True, id="the window in which it ends has begun"),
        pytest.param(1000.0, 1001.999, True, id="that window lasts"),
        pytest.param(1000.0, 1002.0, False, id="that window is over"),
        pytest.param(1000.9, 1001.999, True, id="late in a window, the same window counts"),
        pytest.param(1000.9, 1002.0, False, id="late in a window, released with the others"),
        pytest.param(0.0, 1.0, True, id="at the beginning of time"),
    ],
)
def test_pods_are_released_in_windows_of_a_second(
    failed_at: float, now: float, waits: bool
) -> None:
    """A pod waits until the window is over in which its back-off ends."""
    under_test = QueueUnderTest(now=failed_at)
    under_test.add_rejected(make_pod_info("p"))

    under_test.clock.now = now
    under_test.queue.flush_backoff_completed()

    assert under_test.places() == {"p": "backoff" if waits else "active"}


def test_when_nothing_is_active_rejected_pods_come_early() -> None:
    """Back-off spares other pods' time; without other pods it has no use."""
    under_test = QueueUnderTest({"Fit": ()}, max_in_unschedulable_seconds=0.0)
    under_test.add_rejected(make_pod_info("waiting", priority=9), "Fit")
    under_test.clock.advance(0.1)
    under_test.queue.flush_unschedulable_leftover()
    under_test.queue.add(make_pod_info("active", priority=1))
    assert under_test.places() == {"waiting": "backoff", "active": "active"}

    assert under_test.pop_names() == ["active", "waiting"]


def test_errors_do_not_come_early() -> None:
    """A pod that met an error waits its time in any case."""
    under_test = QueueUnderTest()
    under_test.add_rejected(make_pod_info("failed"))

    assert under_test.queue.pop() is None


def test_what_took_long_does_not_come_early() -> None:
    """It was rejected, and its next attempt would hold others up again; the one after may."""
    under_test = QueueUnderTest({"Fit": ()}, max_in_unschedulable_seconds=0.0)
    under_test.queue.add(make_pod_info("large"))
    for took_long in (True, False):
        queued = under_test.pop()
        queued.waits_out = took_long
        under_test.fail(queued, "Fit")
        under_test.clock.advance(0.1)
        under_test.queue.flush_unschedulable_leftover()
        assert under_test.places() == {"large": "backoff"}
        assert (under_test.queue.pop() is None) is took_long
        under_test.clock.advance(5.0)
        under_test.queue.flush_backoff_completed()


def test_within_a_window_the_more_important_pod_comes_first() -> None:
    """Early pops take the window that ends first, and in it the most important pod."""
    under_test = QueueUnderTest({"Fit": ()}, max_in_unschedulable_seconds=0.0, now=1000.1)
    for name, priority in (("low", 1), ("high", 9)):
        under_test.add_rejected(make_pod_info(name, priority=priority), "Fit")
        under_test.clock.advance(0.1)
    under_test.clock.now = 1001.0
    under_test.add_rejected(make_pod_info("later", priority=99), "Fit")
    under_test.clock.advance(0.1)
    under_test.queue.flush_unschedulable_leftover()
    assert set(under_test.places().values()) == {"backoff"}

    assert under_test.pop_names() == ["high", "low", "later"]
    assert under_test.incoming["active", "PopFromBackoffQ"] == 3
