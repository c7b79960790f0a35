"""Pod groups as the engine and its plugins see them: their members, and the state of each."""

from scheduler.kernel.groups.pod_groups import (
    GroupAttempt as GroupAttempt,
    GroupKey as GroupKey,
    GroupMembers as GroupMembers,
    PodGroups as PodGroups,
    WrittenCondition as WrittenCondition,
)
