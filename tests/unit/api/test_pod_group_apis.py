"""Pod groups of 1.37, of scheduler-plugins and of Volcano: read as groups of 1.36 are."""

from typing import Any

import msgspec
import pytest

from scheduler.api.objects import NO_ANNOTATIONS, ObjectMeta, PodMeta, PodSchedulingGroup
from scheduler.api.pod_group_apis import SCHEDULER_PLUGINS, V1ALPHA3, V1BETA1, VOLCANO
from scheduler.api.pod_groups import POD_GROUP_SCHEDULED, GroupCondition, PodGroup
from scheduler.api.pods import PodInfo
from scheduler.daemon.informers.kinds import (
    FOREIGN_POD_GROUPS,
    POD_GROUPS,
    PODS,
    Kind,
    MalformedObjectError,
    pods_kind,
)

PLUGINS, OF_VOLCANO = FOREIGN_POD_GROUPS
META = ObjectMeta(name="train", namespace="ml", uid="u")


def kind_of(api_version: str) -> Kind[PodGroup]:
    kinds = (*POD_GROUPS.places, *FOREIGN_POD_GROUPS.values())
    return next(kind for kind in kinds if kind.declared.api_version == api_version)


def read(api_version: str, spec: dict[str, Any], **status: Any) -> PodGroup:
    metadata = {"name": "train", "namespace": "ml", "uid": "u"}
    raw = {"metadata": metadata, "spec": spec, "status": status}
    return kind_of(api_version).decode(msgspec.json.encode(raw))


@pytest.mark.parametrize("api_version", [V1BETA1, V1ALPHA3])
@pytest.mark.parametrize(
    ("spec", "group"),
    [
        pytest.param({"schedulingPolicy": {"basic": {}}}, PodGroup(META), id="basic"),
        pytest.param(
            {
                "workloadRef": {"workloadName": "w", "templateName": "t"},
                "schedulingPolicy": {"gang": {"minCount": 4}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
                "priority": 7,
            },
            PodGroup(META, 4, "rack", "PodGroup", 7),
            id="everything",
        ),
        pytest.param(
            {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"single": {}}},
            PodGroup(META, 2),
            id="single",
        ),
    ],
)
def test_groups_of_137_are_read(api_version: str, spec: dict[str, Any], group: PodGroup) -> None:
    """v1beta1 and v1alpha3 differ from v1alpha2 in the names of fields only."""
    expected = msgspec.structs.replace(group, api_version=api_version)

    assert read(api_version, spec) == expected


def test_the_condition_of_137_has_another_name() -> None:
    """PodGroupInitiallyScheduled takes the place of PodGroupScheduled."""
    named = [{"type": t, "status": "True"} for t in ("PodGroupInitiallyScheduled", "Other")]
    policy = {"schedulingPolicy": {"basic": {}}}

    found = read(V1BETA1, policy, conditions=named).condition

    assert found == GroupCondition("PodGroupInitiallyScheduled", "True")
    old = [{"type": POD_GROUP_SCHEDULED, "status": "True"}]
    assert read(V1BETA1, policy, conditions=old).condition is None


@pytest.mark.parametrize(
    ("api_version", "spec", "told"),
    [
        pytest.param(
            V1BETA1,
            {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": "top"},
            "spec.parentCompositePodGroupName: composite pod groups are not supported by this "
            "scheduler",
            id="part of a tree",
        ),
        pytest.param(
            V1BETA1,
            {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}, "all": {}}},
            "spec.disruptionMode: expected exactly one of `single` and `all`, got both",
            id="two modes",
        ),
        pytest.param(
            V1ALPHA3,
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            "spec.schedulingPolicy.gang.minCount: expected 1 or more, got 0",
            id="nothing to wait for",
        ),
        pytest.param(
            VOLCANO,
            {"minMember": -1},
            "spec.minMember: expected 0 or more, got -1",
            id="fewer than none",
        ),
    ],
)
def test_a_group_that_cannot_be_followed_is_left_out(
    api_version: str, spec: dict[str, Any], told: str
) -> None:
    """Its members wait for a group: that is better than to run them one by one."""
    with pytest.raises(MalformedObjectError) as caught:
        read(api_version, spec)

    assert str(caught.value) == told


@pytest.mark.parametrize("api_version", [SCHEDULER_PLUGINS, VOLCANO])
@pytest.mark.parametrize(
    ("spec", "least"),
    [
        pytest.param({"minMember": 8, "queue": "q"}, 8, id="said"),
        pytest.param({}, 1, id="not said"),
        pytest.param({"minMember": 0}, 1, id="none"),
    ],
)
def test_foreign_groups_are_gangs(api_version: str, spec: dict[str, Any], least: int) -> None:
    """What `minMember` asks for; one member where nothing is asked for."""
    assert read(api_version, spec) == PodGroup(META, least, api_version=api_version)


def pod(kind: Kind[PodInfo], *, field: str = "", **metadata: dict[str, str]) -> PodInfo:
    raw = {
        "metadata": {"name": "p", "namespace": "ml", "uid": "p", **metadata},
        "spec": {
            "containers": [],
            **({"schedulingGroup": {"podGroupName": field}} if field else {}),
        },
    }
    return kind.decode(msgspec.json.encode(raw))


LABEL = {"labels": {"scheduling.x-k8s.io/pod-group": "labelled", "app": "a"}}
ANNOTATION = {"annotations": {"scheduling.k8s.io/group-name": "annotated", "large": "x"}}
OWN_ANNOTATION = {"annotations": {"scheduling.volcano.sh/group-name": "volcanic"}}


@pytest.mark.parametrize(
    ("apis", "metadata", "group"),
    [
        pytest.param((), {**LABEL, **ANNOTATION}, "", id="no API"),
        pytest.param((PLUGINS,), {**LABEL, **ANNOTATION}, "labelled", id="label"),
        pytest.param((OF_VOLCANO,), {**LABEL, **ANNOTATION}, "annotated", id="annotation"),
        pytest.param((OF_VOLCANO,), OWN_ANNOTATION, "volcanic", id="Volcano's own annotation"),
        pytest.param((OF_VOLCANO,), LABEL, "", id="another API's label"),
        pytest.param((PLUGINS, OF_VOLCANO), ANNOTATION, "annotated", id="both, annotation"),
        pytest.param((PLUGINS, OF_VOLCANO), LABEL, "labelled", id="both, label"),
        pytest.param((PLUGINS,), {}, "", id="no member"),
    ],
)
def test_a_pod_is_a_member_by_the_apis_that_are_read(
    apis: tuple[str, ...], metadata: dict[str, Any], group: str
) -> None:
    """And by no other; it is kept as any pod is."""
    found = pod(pods_kind(apis), **metadata)

    assert found.group_name == group
    assert type(found.pod.metadata) is PodMeta
    assert found.pod.metadata.annotations is NO_ANNOTATIONS
    assert type(found.pod) is type(pod(PODS).pod)


@pytest.mark.parametrize("apis", [(PLUGINS,), (OF_VOLCANO,), (PLUGINS, OF_VOLCANO)])
def test_the_field_of_the_pod_wins(apis: tuple[str, ...]) -> None:
    """Where it names another group than label and annotation."""
    found = pod(pods_kind(apis), field="own", **LABEL, **ANNOTATION)

    assert found.spec.scheduling_group == PodSchedulingGroup("own")


def test_members_are_of_another_kind_than_pods_that_are_none() -> None:
    """What is alike but for the group is not decided about as one."""
    kind = pods_kind((OF_VOLCANO,))

    one, other, same = (
        pod(kind, annotations={"scheduling.k8s.io/group-name": name}) for name in ("a", "b", "a")
    )

    assert one.kind is same.kind is not other.kind


def test_pods_are_pods_without_a_foreign_api() -> None:
    """Nothing is read twice where nothing is asked for."""
    assert pods_kind(()) is PODS
