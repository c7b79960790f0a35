"""Pod groups of other APIs than `scheduling.k8s.io/v1alpha2`: one adapter each to `PodGroup`.

The two foreign APIs have no field in the pod: scheduler-plugins names the group in a label, Volcano
in an annotation. `with_group` copies that name into upstream's field.

Source: k8s.io/api scheduling v1beta1, v1alpha3 types.go (1.37); kubernetes-sigs/scheduler-plugins
apis/scheduling/v1alpha1 types.go; volcano.sh/apis pkg/apis/scheduling/v1beta1 types.go, labels.go.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import force_setattr

from scheduler.api.objects import ObjectMeta, Pod, PodAnnotations, PodMeta, PodSchedulingGroup
from scheduler.api.pod_groups import (
    MODE_POD,
    MODE_POD_GROUP,
    POD_GROUP_SCHEDULED,
    V1ALPHA2,
    GroupSpec,
    InvalidPodGroupError,
    PodGroup,
    UpstreamPodGroup,
    pod_group_of,
)
from scheduler.api.wire import ApiStruct

PodT = TypeVar("PodT", bound=Pod)

V1BETA1: Final = "scheduling.k8s.io/v1beta1"
V1ALPHA3: Final = "scheduling.k8s.io/v1alpha3"
SCHEDULER_PLUGINS: Final = "scheduling.x-k8s.io/v1alpha1"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"

POD_GROUP_INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"

CONDITIONS: Final[Mapping[str, str]] = {
    V1ALPHA2: POD_GROUP_SCHEDULED,
    V1ALPHA3: POD_GROUP_INITIALLY_SCHEDULED,
    V1BETA1: POD_GROUP_INITIALLY_SCHEDULED,
}
"""By API, the type of the condition that reports whether a group was scheduled. Groups of other
APIs have none: their `status.phase` belongs to their controllers."""

_MAX_INT32: Final = 2**31 - 1


# --- scheduling.k8s.io of 1.37 --------------------------------------------------------------------


class _Mode(ApiStruct, frozen=True):
    single: dict[str, Any] | None = None
    all: dict[str, Any] | None = None


class _Spec(GroupSpec, frozen=True):
    disruption_mode: _Mode | None = None
    parent_composite_pod_group_name: str = ""


class PodGroup137(UpstreamPodGroup, frozen=True):
    """scheduling.k8s.io PodGroup of 1.37, v1beta1 or v1alpha3: the fields read are the same."""

    spec: _Spec = _Spec()


def pod_group_137(api_version: str) -> Callable[[PodGroup137], PodGroup]:
    """The adapter of v1beta1 or v1alpha3."""

    def adapt(group: PodGroup137) -> PodGroup:
        spec = group.spec
        if spec.parent_composite_pod_group_name:
            # Without support for the whole tree, some of its groups might be bound alone.
            raise InvalidPodGroupError(
                "spec.parentCompositePodGroupName: composite pod groups are not supported by this "
                "scheduler"
            )
        mode = _mode(spec.disruption_mode)
        return pod_group_of(group, mode, api_version, CONDITIONS[api_version])

    return adapt


def _mode(mode: _Mode | None) -> str:
    if mode is None or mode == _Mode():
        return MODE_POD
    if mode.single is not None and mode.all is not None:
        raise InvalidPodGroupError(
            "spec.disruptionMode: expected exactly one of `single` and `all`, got both"
        )
    return MODE_POD if mode.all is None else MODE_POD_GROUP


# --- scheduler-plugins and Volcano ----------------------------------------------------------------


class _MemberSpec(ApiStruct, frozen=True):
    min_member: int = 0


class ForeignPodGroup(ApiStruct, frozen=True):
    """PodGroup of scheduler-plugins or of Volcano; the fields that are read are the same."""

    metadata: ObjectMeta
    spec: _MemberSpec = _MemberSpec()


def foreign_pod_group(api_version: str) -> Callable[[ForeignPodGroup], PodGroup]:
    """The adapter of scheduler-plugins or Volcano; without `minMember` one member is enough."""

    def adapt(group: ForeignPodGroup) -> PodGroup:
        least = group.spec.min_member
        if not 0 <= least <= _MAX_INT32:
            raise InvalidPodGroupError(f"spec.minMember: expected 0 or more, got {least}")
        return PodGroup(group.metadata, max(1, least), api_version=api_version)

    return adapt


GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
GROUP_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


class _Annotations(PodAnnotations, frozen=True):
    """The annotations by which Volcano reads the group of a pod; the first one counts."""

    group_name: str = msgspec.field(name=GROUP_ANNOTATIONS[0], default="")
    own_group_name: str = msgspec.field(name=GROUP_ANNOTATIONS[1], default="")


class _AnnotatedMeta(PodMeta, frozen=True):
    annotations: _Annotations = _Annotations()


class AnnotatedPod(Pod, frozen=True):
    """A pod with the annotations that may name its group."""

    metadata: _AnnotatedMeta


_META: Final = ObjectMeta.__struct_fields__


def without_annotations(pod: AnnotatedPod) -> Pod:
    """Drop unread annotations; set the group that they name unless `schedulingGroup` is set."""
    written = pod.metadata
    read = written.annotations
    kept = PodAnnotations(read.expected_duration, read.expected_end)
    meta = PodMeta(*(*(getattr(written, field) for field in _META), kept))
    name = read.group_name or read.own_group_name
    return with_group(Pod(meta, pod.spec, pod.status), name)


def with_group_of_label(pod: PodT) -> PodT:
    """Set the group that a pod's label names, unless `schedulingGroup` is set; changes the pod."""
    return with_group(pod, pod.metadata.labels.get(GROUP_LABEL, ""))


def with_group(pod: PodT, name: str) -> PodT:
    """Set the group of a freshly decoded pod, unless `schedulingGroup` is set; changes the pod."""
    if name and pod.spec.scheduling_group is None:
        force_setattr(pod.spec, "scheduling_group", PodSchedulingGroup(pod_group_name=name))
    return pod
