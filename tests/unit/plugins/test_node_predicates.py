"""What plugins ask of nodes on behalf of a pod."""

from scheduler.api.objects import Taint, Toleration
from scheduler.api.taints import Tolerations
from scheduler.kernel.plugins.node_predicates import (
    RequiredNodeAffinity,
    any_term_matches,
    required_node_affinity_of,
    tolerated_taints,
)
from tests.support.builders import make_node, make_pod_info, make_snapshot

TAINTED = make_node("tainted", labels={"disk": "ssd"}, taints=[Taint("gpu", "", "NoExecute")])
SNAPSHOT = make_snapshot([make_node("plain"), TAINTED])
ROWS = SNAPSHOT.table.all_rows


def test_pods_without_demands_accept_every_node() -> None:
    """None stands for all, so that nobody computes with a column of ones."""
    required = required_node_affinity_of(make_pod_info().spec)

    assert required.is_empty
    assert required.matches(SNAPSHOT, ROWS) is None
    assert required.matches_node(TAINTED)


def test_a_node_selector_is_judged_by_column_and_by_node() -> None:
    """Both ways agree."""
    required = required_node_affinity_of(make_pod_info(node_selector={"disk": "ssd"}).spec)
    matched = required.matches(SNAPSHOT, ROWS)

    assert matched is not None
    assert matched.tolist() == [False, True]
    assert required.matches_node(TAINTED)
    assert not required.matches_node(make_node("plain"))


def test_no_term_at_all_matches_nothing() -> None:
    """A selector without terms is the empty alternative."""
    assert any_term_matches((), SNAPSHOT, ROWS).tolist() == [False, False]
    assert not RequiredNodeAffinity((), ()).matches_node(TAINTED)


def test_taints_that_are_tolerated_everywhere_need_no_column() -> None:
    """None stands for all."""
    mask = tolerated_taints(Tolerations(()), SNAPSHOT, ROWS)

    assert mask is not None
    assert mask.tolist() == [True, False]
    assert tolerated_taints(Tolerations((Toleration("gpu", "Exists"),)), SNAPSHOT, ROWS) is None
