"""Scrapes and parses metrics, and runs a workload that changes most of them."""

import json
import ssl
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from e2e.support.cluster import Cluster
from e2e.support.objects import make_node, make_nodes, make_pod, make_pods
from e2e.support.waiting import wait_for

BOUND_PODS = 42
"""Number of pods that ``run_workload`` gets bound."""


@dataclass
class Family:
    """A metric family and its samples.

    Attributes:
        type: counter, gauge, histogram.
        labels: label names, without ``le``.
        bounds: upper bounds of the buckets, as written.
        samples: sample names, such as `..._bucket`.
        values: label name to its values.
    """

    type: str
    labels: set[str] = field(default_factory=set)
    bounds: set[str] = field(default_factory=set)
    samples: set[str] = field(default_factory=set)
    values: dict[str, set[str]] = field(default_factory=dict)


def fetch(url: str, headers: dict[str, str] | None = None) -> str:
    """Return the response body of a local server, without verifying its certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(url, headers=headers or {})  # noqa: S310 - our own loopback
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:  # noqa: S310
        return str(answer.read().decode())


def families(text: str) -> dict[str, Family]:
    """Return the metric families of a scrape by the name in the TYPE line (without `_total`)."""
    found = {}
    for metric in text_string_to_metric_families(text):
        family = found[metric.name] = Family(metric.type)
        for sample in metric.samples:
            family.samples.add(sample.name)
            for name, value in sample.labels.items():
                if name == "le":
                    family.bounds.add(value)
                else:
                    family.labels.add(name)
                    family.values.setdefault(name, set()).add(value)
    return found


def total(text: str, name: str, **labels: str) -> float:
    """Return the sum of all samples with this name and these labels."""
    return sum(
        sample.value
        for metric in text_string_to_metric_families(text)
        for sample in metric.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def run_workload(cluster: Cluster, namespace: str, scheduler_name: str) -> None:
    """Create pods that get bound, gated, rejected and retried; one stays unschedulable."""
    own: dict[str, Any] = {"namespace": namespace, "scheduler_name": scheduler_name}
    late = f"late-{namespace}"
    cluster.create_pods(make_pods(40, requests={"cpu": "10m"}, **own))
    cluster.create_pods(
        [
            make_pod("big", requests={"cpu": "100"}, **own),
            make_pod("gated", schedulingGates=[{"name": "example.com/wait"}], **own),
            make_pod("late", nodeSelector={late: "yes"}, **own),
        ]
    )
    wait_for(
        lambda: len(_failed(cluster, namespace)) >= 2, "two pods to be rejected", every_seconds=0.5
    )
    cluster.wait_until_bound(namespace, scheduler_name=scheduler_name, but=3)
    # Metrics tell a pod that is woken during its backoff of a second from one that is woken later.
    time.sleep(2)
    # The deletion is to wake "big", not the new node. So the scheduler must see the deletion first:
    # on the same watch, it precedes the pod whose gate is removed.
    cluster.delete_pods(namespace, ["pod-00000"])
    cluster.run(
        cluster.api.patch(
            f"/api/v1/namespaces/{namespace}/pods/gated", {"spec": {"schedulingGates": None}}
        )
    )
    cluster.wait_until_bound(namespace, scheduler_name=scheduler_name, but=2)
    cluster.create_nodes([make_node(late, labels={late: "yes"})])
    cluster.wait_until_bound(namespace, scheduler_name=scheduler_name, but=1)


def create_workload_nodes(cluster: Cluster) -> None:
    """Create the nodes that ``run_workload`` needs.

    One of them is large enough for the pod that stays unschedulable, but is cordoned. A pod that no
    node could ever hold waits for node events only, while kube-scheduler also retries it when a pod
    is deleted.
    """
    large = make_node("large", allocatable={"cpu": "128"}, unschedulable=True)
    cluster.create_nodes([*make_nodes(5), large])


def _failed(cluster: Cluster, namespace: str) -> set[str]:
    events = cluster.events(namespace, "FailedScheduling")
    return {json.dumps(event["regarding"].get("name")) for event in events}
