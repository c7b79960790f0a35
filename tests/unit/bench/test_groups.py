"""Workloads with pod groups: what is created, and what is judged."""

import msgspec
import pytest

from bench import groups, objects
from bench.workload import GroupTemplate, Workload, load_workloads
from e2e.support.objects import Json

GROUPED = [workload for workload in load_workloads().values() if workload.groups is not None]
with_groups = pytest.mark.parametrize("workload", GROUPED, ids=[each.name for each in GROUPED])


def template_of(workload: Workload) -> GroupTemplate:
    assert workload.groups is not None
    return workload.groups


@with_groups
def test_measured_pods_fill_the_groups_that_are_there(workload: Workload) -> None:
    template = template_of(workload)
    factory = objects.PodFactory(workload.pods, ["n"], "pod")
    count = 2 * template.members

    pods = [msgspec.json.decode(factory.waiting(index)) for index in range(count)]

    named = [pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods]
    created = [each["metadata"]["name"] for each in groups.groups_of(template, 0, count)]
    assert created == sorted(set(named))
    assert {named.count(name) for name in created} == {template.members}
    running = objects.PodFactory(workload.running_template, ["n"], "pod").running(
        0, "measured", "n"
    )
    assert "schedulingGroup" not in msgspec.json.decode(running)["spec"]


@with_groups
def test_every_size_has_whole_groups(workload: Workload) -> None:
    template = template_of(workload)
    for name, size in workload.sizes.items():
        assert size.pods % template.members == 0, name
        assert not size.running, "numbers of groups begin at 0"


def test_only_workloads_with_groups_need_gates() -> None:
    for workload in load_workloads().values():
        gates = "".join(groups.scheduler_arguments(workload))
        assert ("GangScheduling" in gates) is (workload.groups is not None)
        assert bool(groups.api_server_arguments(workload)) is (workload.groups is not None)
        topology = workload.groups is not None and bool(workload.groups.topology_key)
        assert ("TopologyAwareWorkloadScheduling" in gates) is topology


def test_a_group_that_is_bound_in_part_is_a_violation() -> None:
    template = GroupTemplate(members=2, topology_key="rack")
    labels = {"a": {"rack": "r1"}, "b": {"rack": "r1"}, "c": {"rack": "r2"}}

    def pods(group: str, *nodes: str) -> list[dict[str, object]]:
        spec = {"schedulingGroup": {"podGroupName": group}}
        return [{"spec": {**spec, "nodeName": node} if node else spec} for node in nodes]

    good = [*pods("whole", "a", "b"), *pods("waits", "", ""), {"spec": {"nodeName": "a"}}]
    assert not list(groups.violations_of(template, good, labels))
    bad = [*pods("half", "a", ""), *pods("apart", "a", "c")]
    assert list(groups.violations_of(template, bad, labels)) == [
        "1 of 2 members of half are bound",
        "apart is in 2 domains of rack",
    ]


def test_the_wall_writes_the_condition_of_each_group_once() -> None:
    """As a scheduler does; pods without a group have none."""
    conditions = groups.GroupConditions()
    pods: list[Json] = [{"spec": {"schedulingGroup": {"podGroupName": name}}} for name in "aab"]

    calls = [call for pod in [*pods, {"spec": {}}] for call in conditions.calls(pod)]

    assert [call.path.split("/")[-3:] for call in calls] == [
        ["podgroups", "a", "status"],
        ["podgroups", "b", "status"],
    ]
