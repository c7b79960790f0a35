"""Builds the data of the pages from a scene, as structs that are encoded as JSON."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.scheduling_state import group_standing
from scheduler.kernel.answers.waiting_model import GroupStanding, StoryEntry
from scheduler.kernel.answers.why import Depth
from scheduler.kernel.groups import GroupMembers
from scheduler.tools.cli.explaining import served_names, unserved_name
from scheduler.tools.cli.pod_page import PodPage, page_report, pod_page, seconds_since
from scheduler.tools.cli.top.view import SOON, WaitingRow, view_of
from scheduler.tools.console.scenes import Scene, Series
from scheduler.tools.offline.heat import Heat, heat_of
from scheduler.tools.offline.reading import InputError
from scheduler.tools.offline.workload_names import pod_called

_NAMED: Final = 4
_LISTED: Final = 50
_AGES: Final = (10.0, 60.0, 600.0, 3600.0, 86400.0)
"""The bounds between classes of ages, in seconds."""
_TEMPLATE_HASH: Final = "pod-template-hash"


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Common settings."""


class PendingPods(_Wire, frozen=True):
    """Pods that wait for the same reason.

    Attributes:
        message: the reason.
        count: number of these pods.
        pods: the oldest of these pods.
        oldest: seconds for which the oldest one waits; None if none has a time of creation.
        ages: number of pods that wait less than 10 s, 1 min, 10 min, 1 h, 1 d, and longer.
    """

    message: str
    count: int
    pods: tuple[str, ...]
    oldest: float | None
    ages: tuple[int, ...]


class Gang(_Wire, frozen=True):
    """A pod group.

    Attributes:
        name: namespace and name.
        least: minimum of members that run together; None without a PodGroup, or if it has no
            minimum.
        placed: number of members with a node.
        waiting: number of members without a node.
        pod: the first member without a node; empty if there is none.
    """

    name: str
    least: int | None
    placed: int
    waiting: int
    pod: str


class DevicesInUse(_Wire, frozen=True):
    """The number of devices of a class or a driver, and the number that claims hold."""

    name: str
    devices: int
    in_use: int


class Now(_Wire, frozen=True):
    """The page "Now"; see `cli.top.view.View`.

    Attributes:
        missing: a notice about kinds that are not listed yet, or not watched.
        is_live: whether the page should refresh.
        queue: number of pods by part of the scheduler's queue; for files, of all pending pods.
        binds: bound pods per second; None if the scene has only one time.
        arrivals: new pods, per second.
        series: arrivals and placements over time.
        heat: the use of the nodes.
        waiting: pods without a node by reason.
        gangs: pod groups with members, those that wait first; at most 50.
        devices: number of devices in use by class, or else by driver.
        pending_claims: number of claims without devices.
    """

    missing: str
    is_live: bool
    pods: int
    queue: dict[str, int]
    assumed: int
    binds: float | None
    arrivals: float | None
    series: Series
    heat: Heat
    waiting: tuple[PendingPods, ...]
    gangs: tuple[Gang, ...]
    devices: tuple[DevicesInUse, ...]
    pending_claims: int


class FoundPod(_Wire, frozen=True):
    """A pod in a list."""

    pod: str
    node: str


class FoundPods(_Wire, frozen=True):
    """The first pods found by a search, and the number of all."""

    count: int
    pods: tuple[FoundPod, ...]


class Names(_Wire, frozen=True):
    """The names that a change can refer to, to choose from."""

    nodes: list[str]
    taints: list[str]
    workloads: list[str]
    things: list[str]
    waiting: list[str]


def now_of(scene: Scene) -> Now:
    """Build the page "Now" of a scene."""
    view = view_of(scene.engine, scene.profiles, scene.rates, scene.now, decides=scene.decides)
    time = scene.time()
    return Now(
        scene.missing,
        scene.is_live,
        view.pods,
        view.queue if scene.has_time else {"waiting": sum(view.queue.values())},
        view.assumed,
        view.binds if scene.has_time else None,
        view.arrivals if scene.has_time else None,
        scene.series,
        heat_of(scene.engine.core.snapshot),
        tuple(_waiting(each, time) for each in sorted(view.waiting, key=_needs_no_help)),
        _gangs(scene),
        tuple(DevicesInUse(each.name, each.devices, each.in_use) for each in view.by_class),
        view.pending_claims,
    )


def _gangs(scene: Scene) -> tuple[Gang, ...]:
    """Return the groups in the engine; none without their feature gates."""
    known = scene.engine.core.groups
    found = [
        _gang(f"{namespace}/{name}", members)
        for (namespace, name), members in (() if known is None else known.all())
        if members.pending or members.assigned
    ]
    return tuple(sorted(found, key=lambda each: (not each.waiting, each.name))[:_LISTED])


def _gang(name: str, members: GroupMembers) -> Gang:
    waiting = [members.pending[uid] for uid in members.waiting]
    return Gang(
        name,
        None if members.group is None else members.group.min_count,
        members.scheduled,
        len(waiting),
        waiting[0].key if waiting else "",
    )


def _needs_no_help(waiting: WaitingRow) -> bool:
    """Return whether the pods only wait for an attempt; these come last."""
    return waiting.message == SOON


def _waiting(waiting: WaitingRow, now: datetime) -> PendingPods:
    ages = [seconds_since(pod.pod.metadata.creation_timestamp, now) for pod in waiting.pods]
    by_age = sorted(zip(ages, waiting.pods, strict=True), key=lambda each: -(each[0] or 0.0))
    counts = [0] * (len(_AGES) + 1)
    for age in ages:
        if age is not None:
            counts[sum(age >= end for end in _AGES)] += 1
    known = [age for age in ages if age is not None]
    names = tuple(pod.key for _, pod in by_age[:_NAMED])
    oldest = max(known) if known else None
    return PendingPods(waiting.message, len(ages), names, oldest, tuple(counts))


def pods_of(scene: Scene, text: str, node: str) -> FoundPods:
    """Return pods whose name contains a text, or that are on a node; pending pods come first."""
    found = [pod for pod in scene.pods() if text in pod.key and (not node or pod.node_name == node)]
    found.sort(key=lambda pod: bool(pod.node_name))
    first = (FoundPod(pod.key, pod.node_name) for pod in found[:_LISTED])
    return FoundPods(len(found), tuple(first))


def pod_of(scene: Scene, name: str) -> tuple[PodInfo, PodPage]:
    """Build the page of one pod, given as namespace/name, or as a unique name.

    Raises:
        InputError: there is no such pod, or it is being deleted.
    """
    pods = list(scene.pods())
    try:
        pod = pod_called(name, pods, name)
    except InputError as problem:
        raise InputError(f"{problem}. {scene.missing}" if scene.missing else str(problem)) from None
    if pod.is_terminating:
        raise InputError(f"{name}: it is being deleted")
    unserved = partial(unserved_name, served_names(pods, scene.profiles))
    explainer = Explainer(
        scene.engine,
        scene.profiles.framework_of,
        all_reasons=True,
        unserved=unserved,
        wall=lambda: scene.time().timestamp(),
    )
    judgement = explainer.judge(pod, Depth.CHANGES)
    report = page_report(
        pod,
        judgement,
        scene.profiles.framework_of(pod),
        scene.engine.core.snapshot.table.count,
        _group_of(scene, explainer, pod),
    )
    page = pod_page(report, judgement, scene.time(), state=scene.state(pod))
    return pod, page.with_remark(scene.missing) if scene.missing else page


def _group_of(scene: Scene, explainer: Explainer, pod: PodInfo) -> GroupStanding | None:
    """Return the progress of a group; before its first attempt, the members that fit nowhere."""
    engine = scene.engine
    standing = group_standing(pod, engine)
    known = engine.core.group_of(pod)
    if standing is None or known is None or standing.text:
        return standing
    waiting = [known.pending[uid] for uid in known.waiting][:_LISTED]
    lacking = [each.key for each in waiting if not explainer.judge(each).feasible]
    needs = "each member counts by itself"
    if standing.min_count is not None:
        needs = f"at least {standing.min_count} run, or none"
    text = f"{needs}. {standing.running} have a node, {len(waiting)} wait"
    if lacking:
        fit = "fits" if len(lacking) == 1 else "fit"
        more = ", ..." if len(lacking) > _NAMED else ""
        text += f"; {len(lacking)} of these {fit} nowhere: {', '.join(lacking[:_NAMED])}{more}"
    return msgspec.structs.replace(standing, text=f"{text}.")


def with_past(page: PodPage, past: Iterable[StoryEntry], notes: tuple[str, ...]) -> PodPage:
    """Return the page with more entries of the pod's history, by time."""
    story = sorted((*page.story, *past), key=lambda entry: entry.time)
    return msgspec.structs.replace(page, story=tuple(story), notes=(*page.notes, *notes))


def names_of(scene: Scene) -> Names:
    """Return the names in the cluster to which a change could refer."""
    objects = scene.objects()
    nodes = [node.metadata.name for node in objects.nodes]
    taints = sorted({taint.key for node in objects.nodes for taint in node.spec.taints})
    workloads = sorted({name for pod in objects.pods for name in _workload(pod)})
    things = [*workloads, *(f"node/{name}" for name in nodes)]
    waiting = [pod.key for pod in objects.pods if not pod.node_name]
    return Names(nodes, taints, workloads, things, waiting)


def _workload(pod: PodInfo) -> Iterator[str]:
    """Yield the workload of a pod, in the notation of `what-if`."""
    owner = pod.controller
    if owner is None:
        return
    suffix = f"-{pod.labels.get(_TEMPLATE_HASH)}"
    if owner.kind == "ReplicaSet" and owner.name.endswith(suffix):
        yield f"deployment/{pod.namespace}/{owner.name.removesuffix(suffix)}"
    elif owner.kind != "Node":
        yield f"{owner.kind.lower()}/{pod.namespace}/{owner.name}"
