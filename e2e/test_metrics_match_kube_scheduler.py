"""Promise: kube-scheduler's dashboards and alerts work unchanged.

The real kube-scheduler and Stowage run the same workload in one cluster; then the test compares
their scrapes.
"""

import re
from fnmatch import fnmatch
from functools import partial

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.processes import Program
from e2e.support.scraping import (
    BOUND_PODS,
    Family,
    create_workload_nodes,
    families,
    fetch,
    run_workload,
    total,
)
from e2e.support.waiting import wait_for
from scheduler.config.feature_gates import DEFAULTS

NOT_HERE = {
    "scheduler_get_node_hint_duration_seconds": "a batch is one step, which looks up no hints",
    "scheduler_store_schedule_results_duration_seconds": "a batch is one step, which keeps nothing",
    "scheduler_preemption_goroutines_*": "shows once somebody is evicted, and nobody is here",
    "scheduler_async_api_*": "no queue of API calls: binds and patches are plain requests",
    "scheduler_pending_async_api_calls": "no queue of API calls",
    "scheduler_volume_binder_cache_requests_total": "kube-scheduler declares and never counts it",
    "rest_client_rate_limiter_duration_seconds": "there when clientConnection.qps is set",
    "rest_client_exec_plugin_*": "client-go's credential plugins",
    "rest_client_transport_*": "client-go's connection cache",
    "rest_client_dns_resolution_duration_seconds": "client-go's dialer",
    "process_network_*_bytes": "the Python client library does not tell it",
    "process_virtual_memory_max_bytes": "the Python client library does not tell it",
}
"""Metrics that only kube-scheduler serves, with the reason; names may contain `*`."""

COMPARED = (
    "scheduler_",
    "leader_election_",
    "rest_client_",
    "process_",
    "kubernetes_",
    "workqueue_",
    "apiserver_delegated_",
)
"""Prefixes of a scheduler's metrics; others belong to the Go runtime (go_) or to the other programs
in the harness' binary."""

SAME_VALUES = {
    "scheduler_schedule_attempts": {"result"},
    "scheduler_pending_pods": {"queue"},
    "scheduler_cache_size": {"type"},
    "scheduler_unschedulable_pods": {"plugin"},
    "scheduler_queue_incoming_pods": {"queue", "event"},
    "scheduler_event_handling_duration_seconds": {"event"},
}
"""Labels whose values must be the same after the same workload."""

NOT_RUN = {"Sign", "PreBind", "PreBindPreFlight", "PostBind"}
"""Extension points without a plugin in this version (Sign is not timed separately)."""


def test_every_metric_is_kube_schedulers(
    cluster: Cluster, own_cluster: ControlPlane, run_stowage: StartStowage
) -> None:
    """Name, type, labels and buckets are equal; missing metrics are listed with a reason."""
    real = own_cluster.start_kube_scheduler({"leaderElection": {"leaderElect": True}})
    ours = run_stowage(leader_elect=True, arguments=["--serve-without-authorization"])
    try:
        create_workload_nodes(cluster)
        run_workload(cluster, "real-work", "default-scheduler")
        run_workload(cluster, "our-work", "stowage")
        # A pod is seen bound before its scheduler counts it.
        for program in (real, ours):
            wait_for(partial(has_counted, program), f"{program.name} to count every pod")
        their_text, our_text = fetch(f"{real.url}/metrics"), fetch(f"{ours.url}/metrics")
    finally:
        own_cluster.stop_program(real)
    theirs = {n: f for n, f in families(their_text).items() if n.startswith(COMPARED)}
    # Go's library omits a metric without values.
    own = {name: family for name, family in families(our_text).items() if family.samples}
    assert len(theirs) > 30
    assert theirs["kubernetes_feature_enabled"].values["name"] == DEFAULTS.keys()
    for name, is_on in DEFAULTS.items():
        assert re.search(
            rf'kubernetes_feature_enabled{{name="{name}",.*}} {int(is_on)}\n', their_text
        )

    missing = {n for n in theirs.keys() - own.keys() if not any(fnmatch(n, m) for m in NOT_HERE)}
    assert missing == set()
    different = {
        name: (theirs[name], own[name])
        for name in theirs.keys() & own.keys()
        if shape(theirs[name]) != shape(own[name])
    }
    assert different == {}
    for name, labels in SAME_VALUES.items():
        for label in labels:
            assert own[name].values[label] == theirs[name].values[label], (name, label)
    point = "scheduler_framework_extension_point_duration_seconds"
    points, their_points = (f[point].values["extension_point"] for f in (own, theirs))
    assert points == their_points - NOT_RUN

    for text in (their_text, our_text):
        bound = total(text, "scheduler_schedule_attempts_total", result="scheduled")
        assert bound == BOUND_PODS
        assert total(text, "scheduler_pod_scheduling_sli_duration_seconds_count") == BOUND_PODS
        assert total(text, "leader_election_master_status") == 1


def has_counted(program: Program) -> bool:
    """Report whether a scheduler has counted every pod that it has bound."""
    text = fetch(f"{program.url}/metrics")
    return (
        min(
            total(text, "scheduler_schedule_attempts_total", result="scheduled"),
            total(text, "scheduler_pod_scheduling_sli_duration_seconds_count"),
        )
        >= BOUND_PODS
    )


def shape(family: Family) -> tuple[str, frozenset[str], frozenset[float]]:
    """Return the properties of a metric on which queries depend."""
    return family.type, frozenset(family.labels), frozenset(map(float, family.bounds))
