"""Tells which pods get the same verdict, so that one of them is judged for all."""

from collections.abc import Hashable

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine import Engine
from scheduler.tools.offline.resource_claims import what_claims_are


def likeness_of(engine: Engine, pod: PodInfo) -> Hashable:
    """Return a key of the values, besides its name, that decide about a pod.

    A pod with a node has a key of its own: its verdict is about that node. So has a pod with
    ephemeral volumes, whose claims have its name.
    """
    if pod.node_name:
        return pod.uid
    volumes = pod.pod.volumes
    own = pod.name if any(each.ephemeral is not None for each in volumes) else ""
    return pod.kind, pod.pod.status.nominated_node_name, volumes, own, what_claims_are(engine, pod)
