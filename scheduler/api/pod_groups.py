"""Pod groups in the one form that scheduling reads, whichever API they come from.

Each API has an adapter that builds a `PodGroup`; that of `scheduling.k8s.io/v1alpha2` is here. A
pod names its group in `spec.schedulingGroup`. Adapters of APIs that use a label or an annotation
copy the name to that field before `scheduler.api.pods.pod_info`, so all other code reads one field.

Source: k8s.io/api scheduling/v1alpha2 types.go; kubernetes pkg/apis/scheduling/validation v1.36.
"""

from typing import Final

import msgspec

from scheduler.api.objects import ObjectMeta
from scheduler.api.wire import ApiStruct

V1ALPHA2: Final = "scheduling.k8s.io/v1alpha2"
POD_GROUP_SCHEDULED: Final = "PodGroupScheduled"
"""The type of the condition that the scheduler writes."""

MODE_POD: Final = "Pod"
MODE_POD_GROUP: Final = "PodGroup"

_MAX_TOPOLOGIES: Final = 1
_LOWEST_PRIORITY: Final = -(2**31)
_HIGHEST_PRIORITY: Final = 10**9


class InvalidPodGroupError(ValueError):
    """A group whose fields cannot be used; the message begins with the path of the field."""


class GroupCondition(ApiStruct, frozen=True):
    """A condition of a group's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class PodGroup(msgspec.Struct, frozen=True):
    """Pods that are scheduled together.

    Attributes:
        metadata: its name, namespace, UID and generation.
        min_count: the least number of members that run, unless none runs; None for the policy
            `basic`, by which each member is scheduled by itself.
        topology_key: the node label of which all members need the same value; empty for
            constraints without a label, None without constraints.
        disruption_mode: whether preemption evicts single pods (`Pod`) or all (`PodGroup`).
        priority: the priority of the whole group in a preemption; None where it is not set.
        condition: the condition that reports whether it was scheduled; None before it is written.
        api_version: the API that the group is read from, and its status written to.
    """

    metadata: ObjectMeta
    min_count: int | None = None
    topology_key: str | None = None
    disruption_mode: str = MODE_POD
    priority: int | None = None
    condition: GroupCondition | None = None
    api_version: str = V1ALPHA2

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return self.metadata.namespace

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.metadata.name

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return self.metadata.uid

    @property
    def generation(self) -> int:
        """metadata.generation; 0 if the API server sets none."""
        return self.metadata.generation


# --- scheduling.k8s.io/v1alpha2 -------------------------------------------------------------------


class _Gang(ApiStruct, frozen=True):
    min_count: int | None = None


class _Basic(ApiStruct, frozen=True):
    pass


class Policy(ApiStruct, frozen=True):
    """The scheduling policy of a group: one of `basic` and `gang`."""

    basic: _Basic | None = None
    gang: _Gang | None = None


class _Topology(ApiStruct, frozen=True):
    key: str = ""


class Constraints(ApiStruct, frozen=True):
    """The constraints on the members' placement as a whole."""

    topology: tuple[_Topology, ...] = ()


class GroupSpec(ApiStruct, frozen=True):
    """The part of the spec that is the same in all versions of `scheduling.k8s.io`."""

    scheduling_policy: Policy = Policy()
    scheduling_constraints: Constraints | None = None
    priority: int | None = None


class GroupStatus(ApiStruct, frozen=True):
    """The conditions that the scheduler has written for a group."""

    conditions: tuple[GroupCondition, ...] = ()


class UpstreamPodGroup(ApiStruct, frozen=True):
    """The fields of a PodGroup that all versions of `scheduling.k8s.io` share."""

    metadata: ObjectMeta
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()


class _Spec(GroupSpec, frozen=True):
    disruption_mode: str | None = None


class PodGroupV1Alpha2(UpstreamPodGroup, frozen=True):
    """scheduling.k8s.io/v1alpha2 PodGroup."""

    spec: _Spec = _Spec()


def pod_group(group: PodGroupV1Alpha2) -> PodGroup:
    """Convert a group to the form that scheduling reads.

    Raises:
        InvalidPodGroupError: the API server would have refused such a group.
    """
    return pod_group_of(group, _mode(group.spec.disruption_mode), V1ALPHA2, POD_GROUP_SCHEDULED)


def pod_group_of(
    group: UpstreamPodGroup, disruption_mode: str, api_version: str, condition: str
) -> PodGroup:
    """The group in the form that scheduling reads, from any version of `scheduling.k8s.io`.

    Args:
        group: the decoded object.
        disruption_mode: `MODE_POD` or `MODE_POD_GROUP`; its field differs between versions.
        api_version: its API version.
        condition: the type of the condition that reports whether it was scheduled.

    Raises:
        InvalidPodGroupError: the API server would have refused such a group.
    """
    spec, conditions = group.spec, group.status.conditions
    return PodGroup(
        group.metadata,
        _min_count(spec.scheduling_policy),
        _topology_key(spec.scheduling_constraints),
        disruption_mode,
        _priority(spec.priority),
        next((each for each in conditions if each.type == condition), None),
        api_version,
    )


def _topology_key(constraints: Constraints | None) -> str | None:
    if constraints is None:
        return None
    topologies = constraints.topology
    if len(topologies) > _MAX_TOPOLOGIES:
        _refuse("spec.schedulingConstraints.topology", "at most 1 entry", len(topologies))
    if topologies and not topologies[0].key:
        _refuse("spec.schedulingConstraints.topology[0].key", "the key of a node label", "nothing")
    return topologies[0].key if topologies else ""


def _min_count(policy: Policy) -> int | None:
    path = "spec.schedulingPolicy"
    if (policy.basic is None) == (policy.gang is None):
        found = "neither" if policy.gang is None else "both"
        _refuse(path, "exactly one of `basic` and `gang`", found)
    if policy.gang is None:
        return None
    least = policy.gang.min_count
    if least is None or least < 1:
        _refuse(f"{path}.gang.minCount", "1 or more", least)
    return least


def _mode(mode: str | None) -> str:
    if mode not in (None, MODE_POD, MODE_POD_GROUP):
        _refuse("spec.disruptionMode", f"`{MODE_POD}` or `{MODE_POD_GROUP}`", mode)
    return mode or MODE_POD


def _priority(priority: int | None) -> int | None:
    if priority is not None and not _LOWEST_PRIORITY <= priority <= _HIGHEST_PRIORITY:
        _refuse("spec.priority", f"{_LOWEST_PRIORITY} to {_HIGHEST_PRIORITY}", priority)
    return priority


def _refuse(path: str, expected: str, found: object) -> None:
    raise InvalidPodGroupError(f"{path}: expected {expected}, got {found}")
