"""What an informer says of a problem that lasts."""

from structlog.testing import capture_logs

from scheduler.daemon.informers.reports import Reports
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock


def test_an_outage_is_told_once_a_minute_and_its_end_once() -> None:
    """However often it is tried, whatever each try says, and however long the pauses are."""
    clock = FakeClock()
    reports = Reports("pods", InformerMetrics(Instruments()), clock)

    with capture_logs() as logs:
        for second in range(75):
            reports.failed(f"refused by port {40_000 + second}", pause=0.1 * second)
            clock.advance(1)
        reports.all_is_well()
        reports.all_is_well()

    assert [each["event"] for each in logs] == [
        "Cannot list or watch; trying again",
        "Cannot list or watch; trying again",
        "Watching again",
    ]
    assert logs[-1]["after_seconds"] == 75


def test_the_next_outage_is_news() -> None:
    """Although the last one was told of a moment ago."""
    reports = Reports("pods", InformerMetrics(Instruments()), FakeClock())

    with capture_logs() as logs:
        for _ in range(2):
            reports.failed("refused", pause=1)
            reports.all_is_well()

    assert len(logs) == 4
