"""Finds room that a pod cannot use because it is kept for nominated pods."""

from contextlib import nullcontext

import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.hypothetical_devices import HypotheticalDevices
from scheduler.kernel.answers.model import KeptFor
from scheduler.kernel.ends.times import text_of
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.snapshot import Snapshot


def kept_for(
    framework: Framework,
    pod: PodInfo,
    snapshot: Snapshot,
    nominated: NominatedPods | None,
    devices: HypotheticalDevices | None = None,
) -> tuple[KeptFor, ...]:
    """Return the nominated pods and groups without which this pod would fit, most nodes first.

    Cost: one filter run if pods are nominated with precedence over this pod, and O(these pods).

    Raises:
        PluginError: a plugin failed.
    """
    before = None if nominated is None else nominated.before(pod, snapshot)
    if before is None or nominated is None:
        return ()
    with nullcontext() if devices is None else devices.nothing_kept(snapshot):
        alone = framework.filtering.find_nodes_that_fit(pod, snapshot)
    in_the_way = np.isin(before.rows, alone.feasible_rows())
    about: dict[str, list[PodInfo]] = {}
    for other in before.of(in_the_way).pods_on(snapshot):
        group = f"pod group {other.namespace}/{other.group_name}"
        about.setdefault(group if other.group_name else f"pod {other.key}", []).append(other)
    by_waiter = [_kept_for(name, pods, nominated) for name, pods in about.items()]
    return tuple(sorted(by_waiter, key=lambda each: -each.nodes))


def _kept_for(name: str, pods: list[PodInfo], nominated: NominatedPods) -> KeptFor:
    times = {nominated.needed_at(pod.uid) for pod in pods}
    until = text_of(max(times)) if all(times) else ""
    return KeptFor(name, len(pods), len({pod.node_name for pod in pods}), until)
