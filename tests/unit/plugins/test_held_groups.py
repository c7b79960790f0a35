"""GangScheduling: single pods pass, members of pod groups wait for a version that places groups."""

from scheduler.api.objects import PodSchedulingGroup, PodSpec
from scheduler.api.pods import pod_info
from scheduler.kernel.framework.status import unresolvable
from scheduler.kernel.plugins.held_groups import REASON, HeldGroups
from tests.support.builders import make_pod, make_pod_info
from tests.support.fake_plugins import make_framework, make_snapshot


def test_members_are_rejected_as_a_whole_and_others_pass() -> None:
    framework, snapshot = make_framework(HeldGroups()), make_snapshot("a")
    pod = make_pod("member")
    group = PodSchedulingGroup("train")
    spec = PodSpec(containers=pod.spec.containers, scheduling_group=group)
    member = pod_info(type(pod)(pod.metadata, spec, pod.status))

    single = framework.filtering.find_nodes_that_fit(make_pod_info("single"), snapshot)
    found = framework.filtering.find_nodes_that_fit(member, snapshot)

    assert [*single.feasible_rows()] == [0]
    assert found.pre_filter == unresolvable(REASON).by("GangScheduling")
    assert found.diagnosis(snapshot).message() == f"0/1 nodes are available: {REASON}."
    assert framework.events_to_register() == {"GangScheduling": ()}
