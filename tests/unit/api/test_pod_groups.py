"""Pod groups: what is read of `scheduling.k8s.io/v1alpha2`, and what is refused with its path."""

from typing import Any

import msgspec
import pytest

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import (
    GroupCondition,
    InvalidPodGroupError,
    PodGroup,
    PodGroupV1Alpha2,
    pod_group,
)
from scheduler.daemon.informers.kinds import watched_kind
from scheduler.kernel.framework.events import POD_GROUP_KIND
from tests.support.builders import make_pod_info


def manifest(policy: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "train", "namespace": "ml", "uid": "u", "generation": 2},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def read(raw: dict[str, Any]) -> PodGroup:
    return pod_group(msgspec.convert(raw, PodGroupV1Alpha2))


META = ObjectMeta(name="train", namespace="ml", uid="u", generation=2)


@pytest.mark.parametrize(
    ("raw", "group"),
    [
        pytest.param(manifest({"basic": {}}), PodGroup(META), id="basic"),
        pytest.param(manifest({"gang": {"minCount": 4}}), PodGroup(META, 4), id="gang"),
        pytest.param(
            manifest({"basic": {}}, schedulingConstraints={}),
            PodGroup(META, topology_key=""),
            id="constraints without a label",
        ),
        pytest.param(
            manifest(
                {"gang": {"minCount": 4}},
                schedulingConstraints={"topology": [{"key": "rack"}]},
                disruptionMode="PodGroup",
                priority=7,
            ),
            PodGroup(META, 4, "rack", "PodGroup", 7),
            id="everything",
        ),
    ],
)
def test_a_group_is_read_in_one_form(raw: dict[str, Any], group: PodGroup) -> None:
    """Policy, topology, mode and priority, with what its metadata says."""
    found = read(raw)

    assert found == group
    assert (found.namespace, found.name, found.uid, found.generation) == ("ml", "train", "u", 2)


def test_the_condition_of_the_scheduler_is_read() -> None:
    """Other conditions are not."""
    conditions = [
        {"type": "DisruptionTarget", "status": "True"},
        {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "message": "m"},
    ]

    found = read(manifest({"basic": {}}) | {"status": {"conditions": conditions}})

    assert found.condition == GroupCondition("PodGroupScheduled", "False", "Unschedulable", "m")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        pytest.param(
            manifest({}),
            "spec.schedulingPolicy: expected exactly one of `basic` and `gang`, got neither",
            id="no policy",
        ),
        pytest.param(
            manifest({"basic": {}, "gang": {"minCount": 1}}),
            "spec.schedulingPolicy: expected exactly one of `basic` and `gang`, got both",
            id="two policies",
        ),
        pytest.param(
            manifest({"gang": {}}),
            "spec.schedulingPolicy.gang.minCount: expected 1 or more, got None",
            id="no minCount",
        ),
        pytest.param(
            manifest({"gang": {"minCount": 0}}),
            "spec.schedulingPolicy.gang.minCount: expected 1 or more, got 0",
            id="minCount 0",
        ),
        pytest.param(
            manifest(
                {"basic": {}}, schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}
            ),
            "spec.schedulingConstraints.topology: expected at most 1 entry, got 2",
            id="two topologies",
        ),
        pytest.param(
            manifest({"basic": {}}, schedulingConstraints={"topology": [{}]}),
            "spec.schedulingConstraints.topology[0].key: expected the key of a node label, got "
            "nothing",
            id="no key",
        ),
        pytest.param(
            manifest({"basic": {}}, disruptionMode="Both"),
            "spec.disruptionMode: expected `Pod` or `PodGroup`, got Both",
            id="unknown mode",
        ),
        pytest.param(
            manifest({"basic": {}}, priority=2**30),
            "spec.priority: expected -2147483648 to 1000000000, got 1073741824",
            id="priority",
        ),
    ],
)
def test_what_no_api_server_would_take_is_refused(raw: dict[str, Any], problem: str) -> None:
    """The message begins with the path of the field."""
    with pytest.raises(InvalidPodGroupError) as refused:
        read(raw)

    assert str(refused.value) == problem


def test_the_kind_is_known_and_may_be_absent() -> None:
    """An API server serves it only where its administrator says so."""
    kind = watched_kind(POD_GROUP_KIND)

    assert (kind.path, kind.may_be_absent) == ("/apis/scheduling.k8s.io/v1alpha2/podgroups", True)
    assert kind.convert(manifest({"basic": {}})) == PodGroup(META)


def test_a_pod_names_its_group() -> None:
    """Pods without a group name none."""
    member = make_pod_info("p", group="train")

    assert (member.group_name, make_pod_info("q").group_name) == ("train", "")
