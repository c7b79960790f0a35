"""A metric of the settings of kube-scheduler's feature gates that describe Stowage's behaviour.

Source: kubernetes pkg/features/kube_features.go; k8s.io/component-base/metrics/prometheus/feature
(1.36.3). Gates on which nothing in Stowage depends are left out.
"""

from collections.abc import Collection, Mapping
from typing import Final

from scheduler.observability.instruments import Instruments

GATES: Final[Mapping[str, tuple[str, bool]]] = {
    "SchedulerAsyncPreemption": ("BETA", True),
    "SchedulerPopFromBackoffQ": ("BETA", True),
    "SchedulerQueueingHints": ("", True),
    "NominatedNodeNameForExpectation": ("BETA", True),
    "NodeDeclaredFeatures": ("BETA", True),
    "MutableCSINodeAllocatableCount": ("", True),
    "DynamicResourceAllocation": ("", True),
    "DRAAdminAccess": ("", True),
    "DRAPrioritizedList": ("", True),
    "DRAConsumableCapacity": ("BETA", True),
    "DRADeviceBindingConditions": ("BETA", True),
    "DRADeviceTaints": ("BETA", True),
    "DRAExtendedResource": ("BETA", True),
    "DRAPartitionableDevices": ("BETA", True),
    "DRAResourceClaimDeviceStatus": ("BETA", True),
    "DRADeviceTaintRules": ("BETA", False),
    "CoordinatedLeaderElection": ("BETA", False),
    "OpportunisticBatching": ("BETA", False),
    "SchedulerAsyncAPICalls": ("BETA", False),
    "StorageCapacityScoring": ("ALPHA", False),
    "TaintTolerationComparisonOperators": ("ALPHA", False),
    "VolumeLimitScaling": ("ALPHA", False),
    "GenericWorkload": ("ALPHA", False),
    "GangScheduling": ("ALPHA", False),
    "TopologyAwareWorkloadScheduling": ("ALPHA", False),
    "WorkloadAwarePreemption": ("ALPHA", False),
}
"""Stage (empty for GA), and whether Stowage by default places pods as with the gate on."""


def declare_feature_gates(instruments: Instruments, turned_on: Collection[str] = ()) -> None:
    """Declare the metric, with the gates that are on by default and those in `turned_on`."""
    enabled = instruments.gauge(
        "kubernetes_feature_enabled",
        "1 for a feature gate whose behaviour is there, else 0.",
        "name",
        "stage",
    )
    for name, (stage, is_on) in GATES.items():
        enabled[name, stage].set(int(is_on or name in turned_on))
