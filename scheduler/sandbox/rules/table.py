"""Which kind follows which rules. A kind that is not listed is stored as it comes."""

from collections.abc import Mapping
from typing import Final

from scheduler.sandbox.kinds import Kind
from scheduler.sandbox.rules import events, nodes, others, pods
from scheduler.sandbox.rules.contract import Rules

_RULES: Final[Mapping[str, Rules]] = {
    "pods": pods.RULES,
    "nodes": nodes.RULES,
    "events": events.CORE_RULES,
    "events.events.k8s.io": events.MODERN_RULES,
    "namespaces": others.NAMESPACE_RULES,
    "services": others.SERVICE_RULES,
    "replicationcontrollers": others.REPLICATION_CONTROLLER_RULES,
    "persistentvolumeclaims": others.CLAIM_RULES,
    "persistentvolumes": others.VOLUME_RULES,
    "deployments.apps": others.DEPLOYMENT_RULES,
    "replicasets.apps": others.REPLICATED_RULES,
    "statefulsets.apps": others.REPLICATED_RULES,
    "daemonsets.apps": others.DAEMON_SET_RULES,
    "jobs.batch": others.JOB_RULES,
    "poddisruptionbudgets.policy": others.PDB_RULES,
    "priorityclasses.scheduling.k8s.io": others.PRIORITY_CLASS_RULES,
    "leases.coordination.k8s.io": others.LEASE_RULES,
    "storageclasses.storage.k8s.io": others.STORAGE_CLASS_RULES,
    "csidrivers.storage.k8s.io": others.CSI_DRIVER_RULES,
}
_NO_RULES: Final = Rules()


def rules_of(kind: Kind) -> Rules:
    """What happens to a kind's objects on the way into the store."""
    return _RULES.get(kind.key, _NO_RULES)
