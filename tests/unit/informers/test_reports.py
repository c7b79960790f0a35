"""What an informer says of a problem that lasts."""

from structlog.testing import capture_logs

from scheduler.daemon.informers.reports import Outage, Reports
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


def test_a_server_that_goes_is_told_once_for_all_kinds() -> None:
    """And once that it is back, although quiet kinds hear of it later."""
    clock = FakeClock()
    outage, metrics = Outage(clock), InformerMetrics(Instruments())
    pods, nodes = (Reports(kind, metrics, clock, outage) for kind in ("pods", "nodes"))

    def failing(seconds: int, *kinds: Reports) -> None:
        for _ in range(seconds):
            for each in kinds:
                each.failed("connection refused", pause=1, is_answer=False)
            clock.advance(1)

    with capture_logs() as logs:
        failing(75, pods, nodes)
        pods.all_is_well()
        failing(1, nodes)
        nodes.all_is_well()
        failing(1, nodes)

    assert [each["event"] for each in logs] == [
        "API server does not answer; trying again",
        "API server does not answer; trying again",
        "API server answers again",
        "API server does not answer; trying again",
    ]
    assert logs[2]["after_seconds"] == 75


def test_a_second_outage_is_news_although_a_quiet_kind_has_not_heard_of_the_end() -> None:
    """A watch without events shows only after a while that it works."""
    clock = FakeClock()
    outage, metrics = Outage(clock), InformerMetrics(Instruments())
    pods, quiet = (Reports(kind, metrics, clock, outage) for kind in ("pods", "quiet"))

    with capture_logs() as logs:
        for _ in range(2):
            quiet.failed("refused", pause=1, is_answer=False)
            pods.failed("refused", pause=1, is_answer=False)
            pods.all_is_well()

    assert [each["event"] for each in logs] == [
        "API server does not answer; trying again",
        "API server answers again",
    ] * 2


def test_a_refusal_is_an_answer() -> None:
    """It concerns one kind, and is told of that."""
    reports = Reports("pods", InformerMetrics(Instruments()), FakeClock())

    with capture_logs() as logs:
        reports.failed("refused", pause=1, is_answer=False)
        reports.failed("403 Forbidden", pause=1)
        reports.all_is_well()

    assert [(each["event"], each.get("kind")) for each in logs] == [
        ("API server does not answer; trying again", None),
        ("API server answers again", None),
        ("Cannot list or watch; trying again", "pods"),
        ("Watching again", "pods"),
    ]
