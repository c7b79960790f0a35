"""DynamicResources: pods without claims pass, pods with claims wait for a version that can."""

import pytest

from scheduler.api.objects import PodResourceClaim, PodSpec
from scheduler.api.pods import PodInfo, pod_info
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.status import unresolvable
from scheduler.kernel.plugins.dynamic_resources import DynamicResources
from tests.support.builders import make_pod, make_pod_info
from tests.support.fake_plugins import make_framework, make_snapshot

REASON = "pods with resource claims are not supported by this scheduler"


def claiming() -> PodInfo:
    pod = make_pod("p")
    spec = PodSpec(containers=pod.spec.containers, resource_claims=(PodResourceClaim("gpu"),))
    return pod_info(type(pod)(pod.metadata, spec, pod.status))


def test_pods_without_claims_are_not_filtered_and_score_nothing() -> None:
    """As upstream: it is among the scores, as 0."""
    framework = make_framework(DynamicResources())
    snapshot = make_snapshot("a", "b")
    pod = make_pod_info("p")
    found = framework.find_nodes_that_fit(pod, snapshot)

    table = framework.score_table(found, pod, snapshot, found.feasible_rows())

    assert [(name, column.tolist()) for name, _, column in table] == [
        ("DynamicResources", [0.0, 0.0])
    ]


def test_pods_with_claims_are_rejected_as_a_whole() -> None:
    """With one clear reason, also after a pod without claims was judged; nothing wakes them."""
    framework = make_framework(DynamicResources())
    snapshot = make_snapshot("a")
    framework.find_nodes_that_fit(make_pod_info("q"), snapshot)

    found = framework.find_nodes_that_fit(claiming(), snapshot)

    assert found.pre_filter == unresolvable(REASON).by("DynamicResources")
    assert found.diagnosis(snapshot).message() == f"0/1 nodes are available: {REASON}."
    assert make_framework(DynamicResources()).events_to_register() == {"DynamicResources": ()}


@pytest.mark.parametrize("point", ["Filter", "Score"])
def test_without_prefilter_it_fails_as_upstream(point: str) -> None:
    """Where a profile switches PreFilter off and leaves the rest on."""
    framework = make_framework(DynamicResources())
    framework.plugins.pre_filter.clear()
    if point == "Score":
        framework.plugins.filter.clear()
    framework = Framework(framework.plugins)
    pod, snapshot = make_pod_info("p"), make_snapshot("a")

    def attempt() -> None:
        found = framework.find_nodes_that_fit(pod, snapshot)
        framework.totals(found, pod, snapshot, found.feasible_rows())

    with pytest.raises(PluginError, match=rf'running {point} plugin "DynamicRes.*PreFilter'):
        attempt()
