"""The list of what Stowage lacks is whole, and nothing on it is there."""

from scheduler.daemon.serving.endpoints import Endpoints
from tests.unit.docs.drawn import BEGIN_NOT_HERE, PARITY
from tests.unit.docs.not_here import ENDPOINTS, GATES, METRICS, missing_gates, table
from tests.unit.docs.test_architecture import drawn_in
from tests.unit.observability.test_metrics import _catalogue, _everything_used


def test_every_gate_that_cannot_be_followed_has_its_reason() -> None:
    """Of those that kube-scheduler reads; a gate that became a switch leaves the list."""
    assert GATES.keys() == missing_gates()


def test_no_metric_on_the_list_is_served() -> None:
    """What is served after work and missing here is checked beside the metrics."""
    served = _catalogue(_everything_used().registry)

    assert {name for name in METRICS if name.removesuffix("_total") in served} == set()


def test_no_endpoint_on_the_list_is_there() -> None:
    """By the source of the routes."""
    paths = [constant for constant in Endpoints.routes.__code__.co_consts if constant]

    assert "/metrics/slis" in paths
    assert ENDPOINTS.keys() & set(map(str, paths)) == set()


def test_the_page_has_the_list() -> None:
    """`make docs` draws it again."""
    assert drawn_in(PARITY.read_text(), BEGIN_NOT_HERE) == table()
