"""The outcome of a change to a cluster: the pods that move, those left without a node, and why."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.daemon.informers.kinds import watched_kind
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import ObjectSet
from scheduler.kernel.snapshot import Snapshot
from scheduler.tools.offline.cluster import ClusterState, Profiles
from scheduler.tools.offline.copied_claims import claims_known, with_own_claims
from scheduler.tools.offline.hypothetical_changes import waiting_again
from scheduler.tools.offline.progress import Progress, no_progress, part
from scheduler.tools.offline.reading import ClusterObjects
from scheduler.tools.offline.simulate import Placement, simulate
from scheduler.tools.offline.utilisation import UtilisationChange, changed, utilisation_of

HypotheticalChange: TypeAlias = Callable[[ClusterObjects], Iterable[PodInfo]]
"""See `scheduler.tools.offline.hypothetical_changes`."""

NOBODY_MAKES_IT: Final = "no controller makes such a pod again"
OTHER_SCHEDULER: Final = "the scheduler {} places it: no profile here answers to that name"


class Moved(msgspec.Struct, frozen=True, rename={"came_from": "from"}):
    """A pod that finds a node.

    Attributes:
        pod: namespace/name.
        node: its new node.
        came_from: its old node, if any.
        victims: the pods that are evicted for it.
    """

    pod: str
    node: str
    came_from: str | None = None
    victims: tuple[str, ...] = ()


class Homeless(msgspec.Struct, frozen=True, rename={"came_from": "from", "has_waited": "waited"}):
    """A pod that is left without a node.

    Attributes:
        pod: namespace/name.
        message: the reason.
        came_from: its old node, if any.
        has_waited: whether it had no node before either.
    """

    pod: str
    message: str
    came_from: str | None = None
    has_waited: bool = False


class WhatIfResult(msgspec.Struct, frozen=True):
    """The output of `stowage what-if -o json`.

    Attributes:
        placements: pods that find a node, in the order of placement.
        homeless: pods that are left without a node.
        victims: the pods that are evicted for others.
        use: by zone and resource, `all` being the sum of the zones.
        warnings: likely mistakes in the input.
    """

    placements: tuple[Moved, ...]
    homeless: tuple[Homeless, ...]
    victims: tuple[str, ...]
    use: dict[str, dict[str, UtilisationChange]]
    warnings: tuple[str, ...] = ()


def what_if(
    profiles: Profiles,
    objects: ClusterObjects,
    changes: Iterable[HypotheticalChange],
    seed: int = 0,
    *,
    look: Callable[[Snapshot], None] = lambda _: None,
    progress: Progress = no_progress,
) -> WhatIfResult:
    """Change a cluster, and place all pods that wait then.

    `look` is called with the cluster before the change, and after it.

    A victim of preemption that has a controller is created again, and placed as well.
    Extenders are not asked: they know nothing of pods and nodes that do not exist.

    `objects` are changed.

    Raises:
        InputError: a change names an unknown object.
    """
    load_before, load_after, settle = (
        part(progress, *bounds) for bounds in ((0.0, 0.25), (0.25, 0.5), (0.5, 1.0))
    )
    snapshot = (
        profiles.again().load(objects, seed, with_extenders=False, progress=load_before).snapshot
    )
    use_before = utilisation_of(snapshot)
    look(snapshot)
    before = {pod.key: pod for pod in objects.pods}
    lost = [pod for change in changes for pod in change(objects)]
    cluster = profiles.load(objects, seed, with_extenders=False, progress=load_after)
    placements, victims = _settle(cluster, {pod.key: pod for pod in objects.pods}, settle)
    was_on = {key: pod.node_name for key, pod in before.items()}
    moved = [
        Moved(each.pod, each.node, was_on.get(each.pod) or None, each.victims)
        for each in placements
        if each.node
    ]
    homeless = [
        Homeless(
            each.pod,
            each.message,
            was_on.get(each.pod) or None,
            has_waited=was_on.get(each.pod) == "",
        )
        for each in placements
        if not each.node
    ]
    homeless += _left_to_others(cluster, was_on)
    # A victim that waited before is among the placements.
    lost += [before[victim] for victim in victims if was_on.get(victim)]
    homeless += [
        Homeless(pod.key, NOBODY_MAKES_IT, pod.node_name) for pod in lost if pod.controller is None
    ]
    look(cluster.snapshot)
    progress(1.0)
    return WhatIfResult(
        tuple(moved),
        tuple(homeless),
        tuple(victims),
        changed(use_before, utilisation_of(cluster.snapshot)),
        tuple(objects.warnings),
    )


def _settle(
    cluster: ClusterState, known: Mapping[str, PodInfo], progress: Progress
) -> tuple[list[Placement], list[str]]:
    """Simulate until no pod moves: victims that are made again may evict other pods."""
    found: dict[str, Placement] = {}
    victims: list[str] = []
    waiting = cluster.waiting
    while True:
        outcome = simulate(
            ClusterState(cluster.engine, waiting, cluster.others), progress
        ).placements
        for each in outcome:
            earlier = found.pop(each.pod, None)
            kept = earlier.victims if earlier is not None else ()
            found[each.pod] = msgspec.structs.replace(each, victims=(*kept, *each.victims))
        evicted = [victim for each in outcome for victim in each.victims]
        victims += evicted
        again = [
            waiting_again(known[victim])
            for victim in evicted
            if victim in known and known[victim].controller is not None
        ]
        if not again:
            return list(found.values()), victims
        again = [_come_again(cluster.engine, pod, known[pod.key]) for pod in again]
        unplaced = {each.pod for each in outcome if not each.node} - set(evicted)
        waiting = [*again, *(pod for pod in waiting if pod.key in unplaced)]


def _come_again(engine: Engine, pod: PodInfo, like: PodInfo) -> PodInfo:
    """Add the replacement of a pod, with claims of its own."""
    own, made = with_own_claims(pod, like, claims_known(engine))
    claims = (ObjectSet(watched_kind(kind).name, claim) for kind, claim in made)
    for event in (*claims, ObjectSet("pods", own)):
        engine.handle(event, engine.core.now)
    return own


def _left_to_others(cluster: ClusterState, was_on: Mapping[str, str]) -> list[Homeless]:
    """Pods that lose their node and that another scheduler places."""
    return [
        Homeless(pod.key, OTHER_SCHEDULER.format(pod.spec.scheduler_name), was_on[pod.key])
        for pod in cluster.others
        if was_on.get(pod.key)
    ]
