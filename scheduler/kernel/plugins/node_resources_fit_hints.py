"""Queueing hints of NodeResourcesFit: events that may make a rejected pod fit.

Source: pkg/scheduler/framework/plugins/noderesources/fit.go (isSchedulableAfter...) v1.36.
"""

from collections.abc import Collection

from scheduler.api.devices import DeviceClass
from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.api.resources import PODS, whole_units
from scheduler.kernel.devices.class_names import names_of
from scheduler.kernel.framework.events import QueueingHint
from scheduler.kernel.plugins.resource_columns import is_counted


def is_schedulable_after_pod_event(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> QueueingHint:
    """Queue if a placed pod is gone or frees requested resources, or if the pod itself shrinks."""
    if new is None:
        held_room = old.node_name or old.pod.status.nominated_node_name
        return QueueingHint.QUEUE if held_room else QueueingHint.SKIP
    if new.uid == pod.uid:
        return QueueingHint.QUEUE
    if not new.node_name:
        return QueueingHint.SKIP
    before, after = old.shape.occupied, new.shape.occupied
    frees = any(
        before.get(name, 0) > after.get(name, 0)
        for name, amount in pod.shape.occupied.items()
        if amount and is_counted(name)
    )
    return QueueingHint.QUEUE if frees else QueueingHint.SKIP


def is_schedulable_after_class_change(
    pod: PodInfo, old: DeviceClass | None, new: DeviceClass
) -> QueueingHint:
    """Queue if the class is new, or serves another resource, and the pod requests it."""
    names = set(names_of(new))
    if old is not None:
        names.difference_update(names_of(old))
    helps = not names.isdisjoint(pod.shape.requests)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def is_schedulable_after_node_change(
    pod: PodInfo, old: Node | None, new: Node, of_devices: Collection[str] = ()
) -> QueueingHint:
    """Queue if the pod fits the empty node, and the node is new or offers more.

    A node need not offer the resources that devices may serve.
    """
    requests = {name: a for name, a in pod.shape.requests.items() if a and is_counted(name)}
    now = whole_units(new.status.allocatable)
    served = {name for name in of_devices if name in requests and not now.get(name)}
    if now.get(PODS, 0) < 1 or any(
        a > now.get(name, 0) for name, a in requests.items() if name not in served
    ):
        return QueueingHint.SKIP
    if old is None or served:
        return QueueingHint.QUEUE
    before = whole_units(old.status.allocatable)
    has_more = any(now.get(name, 0) > before.get(name, 0) for name in (PODS, *requests))
    return QueueingHint.QUEUE if has_more else QueueingHint.SKIP
