"""Finds all reasons why a pod fits nowhere, and changes that would make it fit.

The search runs on the snapshot beside the decisions: it changes no cache, state or metric of them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from typing import Final, TypeAlias, TypeVar
from weakref import ref

from msgspec import UNSET
from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.checks import EveryCheck, checks_of, every_check, nearest_nodes
from scheduler.kernel.answers.class_spelling import class_guesses
from scheduler.kernel.answers.cluster_changes import add_nodes, evict, set_labels, uncordon
from scheduler.kernel.answers.device_changes import (
    MOST_TRIALS as MOST_CLAIM_TRIALS,
    change_claims,
    free_claims,
    loosen_selectors,
    lower_counts,
    lower_extended_resources,
)
from scheduler.kernel.answers.edits import LowerRequest
from scheduler.kernel.answers.foreign import foreign_pods
from scheduler.kernel.answers.hypothetical_devices import HypotheticalDevices, hypothetical_devices
from scheduler.kernel.answers.hypothetical_nodes import HypotheticalNodes
from scheduler.kernel.answers.kept import kept_for
from scheduler.kernel.answers.model import Guess, PodAnswer, SuggestedChange
from scheduler.kernel.answers.requests import amount_of
from scheduler.kernel.answers.smallest import add_tolerations, drop_rules, lower_requests, several
from scheduler.kernel.answers.spelling import guesses
from scheduler.kernel.answers.trials import Trials, TrialsSpentError
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.cluster_copy import ClusterCopy
from scheduler.kernel.framework.runtime import Feasibility, Framework, PluginError
from scheduler.kernel.framework.runtime.nominated_pods import NominatedPods
from scheduler.kernel.framework.steps import Steps, finished
from scheduler.kernel.snapshot import PodRemoved, Snapshot

MOST_TRIALS: Final = 128
"""Filter runs at most for one kind of change."""
_MOST_KNOWN: Final = 256
"""Answers at most that are kept for equal pods."""

_T = TypeVar("_T")
_Kind: TypeAlias = Callable[[EveryCheck, Trials], Iterator[SuggestedChange | None]]
"""Yields changes of one kind, and None where other work may run before the search continues."""
_OF_THE_POD: Final[tuple[_Kind, ...]] = (lower_requests, add_tolerations, drop_rules)
_OF_CLAIMS: Final[tuple[_Kind, ...]] = (
    lower_counts,
    lower_extended_resources,
    loosen_selectors,
    change_claims,
    free_claims,
)
_OF_THE_CLUSTER: Final[tuple[_Kind, ...]] = (uncordon, set_labels, evict, add_nodes)


class Depth(Enum):
    """The depth of the analysis of a pod that fits nowhere."""

    VERDICTS = 0
    """The first plugin that rejects each node."""
    CHECKS = 1
    """Also the other plugins that reject it, and near misses: each filter judges each node."""
    CHANGES = 2
    """Also the changes that would make the pod fit, which takes about ten times as long."""


class Whys:
    """Finds why pods fit nowhere; once for equal pods while the snapshot does not change."""

    def __init__(
        self,
        devices: Callable[[], HypotheticalDevices | None] = lambda: None,
        own_names: Callable[[], Collection[str]] = lambda: (),
        nodes: Callable[[], HypotheticalNodes | None] = lambda: None,
    ) -> None:
        """Begin with an empty cache.

        Args:
            devices: returns the object that replaces devices in trials.
            own_names: returns the names of the profiles of this scheduler.
            nodes: returns the object that gives new nodes drivers and devices in trials.
        """
        self._devices = devices
        self._own_names = own_names
        self._nodes = nodes
        self._state: object = None
        self._known: dict[object, PodAnswer] = {}

    def add(  # noqa: PLR0913, PLR0917 - what a pod is judged on
        self,
        answer: PodAnswer,
        depth: Depth,
        framework: Framework,
        pod: PodInfo,
        found: Feasibility,
        snapshot: Snapshot,
        nominated: NominatedPods,
    ) -> PodAnswer:
        """Extend the answer about a pod that fits nowhere to the requested depth.

        If a plugin fails, the answer is not extended. A failure that affects the verdict is
        reported by the call for the verdict.
        """
        if depth is Depth.VERDICTS:
            return answer
        # A weak reference: while a fork is referenced, a change of the snapshot copies it.
        state = ref(snapshot), snapshot.epoch, nominated, nominated.version
        if self._state != state:
            self._state, self._known = state, {}
        likeness = _likeness(pod, framework, depth, nominated)
        known = self._known.get(likeness)
        if known is None or likeness is None:
            try:
                known = explained(
                    depth,
                    framework,
                    pod,
                    snapshot,
                    nominated,
                    found,
                    self._devices(),
                    own_names=self._own_names(),
                    nodes=self._nodes(),
                )
            except PluginError:
                return answer
            if len(self._known) < _MOST_KNOWN:
                self._known[likeness] = known
        return replace(
            answer,
            checks=known.checks,
            nearest=known.nearest,
            foreign=known.foreign,
            kept=known.kept,
            changes=known.changes,
            untried_nodes=known.untried_nodes,
            guesses=known.guesses,
        )


def explained(  # noqa: PLR0913, PLR0917 - what a pod is judged on, and what is known of it already
    depth: Depth,
    framework: Framework,
    pod: PodInfo,
    snapshot: Snapshot,
    nominated: NominatedPods | None = None,
    found: Feasibility | None = None,
    devices: HypotheticalDevices | None = None,
    *,
    own_names: Collection[str] = (),
    nodes: HypotheticalNodes | None = None,
) -> PodAnswer:
    """Explain why a pod fits nowhere, and find changes that would make it fit.

    Cost: one pass of each filter, and more if PreFilter rejects the pod as a whole. Without `found`
    one filter run more. Each kind of change takes at most `MOST_TRIALS` further filter runs.

    Raises:
        PluginError: a plugin failed.
    """
    every = every_check(framework, pod, snapshot, nominated, found)
    answer = PodAnswer(pod.key, framework.profile_name)
    checks = checks_of(every)
    answer = replace(
        answer,
        checks=checks,
        nearest=nearest_nodes(every),
        foreign=foreign_pods(framework, every, own_names) or UNSET,
        kept=kept_for(framework, pod, snapshot, nominated, devices) or UNSET,
    )
    if depth is not Depth.CHANGES:
        return answer
    trials = Trials(framework, pod, snapshot, nominated, devices, checks, nodes=nodes)
    return finished(_with_changes(answer, every, trials))


def changes_in_steps(engine: Engine, framework: Framework, pod: PodInfo) -> Steps[PodAnswer]:
    """Find changes for a pod that fits nowhere, in short steps between which the engine decides.

    Args:
        engine: the engine with the cluster; the search does not change it.
        framework: the framework of the pod's profile.
        pod: a pending pod, or an assigned one, which is judged as if it had no node.

    Returns:
        An answer with changes and guesses, about the cluster at the first step; without any if the
        pod fits there.

    Raises:
        PluginError: a plugin failed.
    """
    copy, seen = ClusterCopy(engine.core), engine.core.cache.pods.get(pod.uid)
    if seen is not None and seen.node_name in copy.world.table.row_of:
        copy.world.update([PodRemoved(seen)])
    devices = hypothetical_devices(engine, copy.states)
    pod = pod.on_node("") if pod.node_name else pod
    yield
    nodes = HypotheticalNodes(engine.services, copy.states)
    return (yield from copy.steps(_changes_of(framework, pod, copy, devices, nodes)))


def _changes_of(
    framework: Framework,
    pod: PodInfo,
    copy: ClusterCopy,
    devices: HypotheticalDevices | None,
    nodes: HypotheticalNodes,
) -> Steps[PodAnswer]:
    blank = PodAnswer(pod.key, framework.profile_name)
    every = every_check(framework, pod, copy.world, copy.nominated)
    if len(every.found.feasible_rows()):
        return replace(blank, changes=(), guesses=())
    checks = checks_of(every)
    yield
    trials = Trials(framework, pod, copy.world, copy.nominated, devices, checks, nodes=nodes)
    return (yield from _with_changes(blank, every, trials))


def _with_changes(answer: PodAnswer, every: EveryCheck, trials: Trials) -> Steps[PodAnswer]:
    changes = yield from smallest_changes(every, trials)
    found = yield from _guesses(trials)
    return replace(
        answer,
        changes=tuple(changes),
        untried_nodes=trials.untried_nodes or UNSET,
        guesses=tuple(found),
    )


def smallest_changes(every: EveryCheck, trials: Trials) -> Steps[list[SuggestedChange]]:
    """Find changes kind by kind; mixed changes of the pod only if no single kind helps.

    A pod rarely can give up a resource altogether. So a change that drops a request counts as no
    help: mixed changes are searched too, and it comes last.
    """
    of_the_pod = yield from _of_kinds(_OF_THE_POD, every, trials)
    if all(map(_gives_up_a_resource, of_the_pod)):
        mixed = yield from _of_kinds((several,), every, trials)
        of_the_pod += [change for change in mixed if change not in of_the_pod]
    of_claims = yield from _of_kinds(_OF_CLAIMS, every, trials, MOST_CLAIM_TRIALS)
    of_the_cluster = yield from _of_kinds(_OF_THE_CLUSTER, every, trials)
    return [*sorted(of_the_pod, key=_gives_up_a_resource), *of_claims, *of_the_cluster]


def _gives_up_a_resource(change: SuggestedChange) -> bool:
    lowered = (edit for edit in change.edits if isinstance(edit, LowerRequest))
    return any(not amount_of(edit) for edit in lowered)


def _of_kinds(
    kinds: Iterable[_Kind], every: EveryCheck, trials: Trials, most: int = MOST_TRIALS
) -> Steps[list[SuggestedChange]]:
    """Find the changes of some kinds, with at most `most` trials for each kind."""
    found: list[SuggestedChange] = []
    for kind in kinds:
        found += yield from _found(kind(every, trials), trials, most)
        yield
    return found


def _guesses(trials: Trials) -> Steps[list[Guess]]:
    words = yield from _found(guesses(trials), trials, MOST_TRIALS)
    classes = yield from _found(class_guesses(trials), trials, MOST_CLAIM_TRIALS)
    return [*words, *classes]


def _found(search: Iterator[_T | None], trials: Trials, most: int) -> Steps[list[_T]]:
    """Return the results of a search, which may take at most `most` trials."""
    found: list[_T] = []
    trials.left = most
    with suppress(TrialsSpentError):
        for each in search:
            if each is not None:
                found.append(each)
            yield
    return found


def _likeness(pod: PodInfo, framework: Framework, depth: Depth, nominated: NominatedPods) -> object:
    """Return a key that is equal for pods with the same answer; None for an answer of its own.

    Answers for pods with volumes or devices depend on objects that change without a new epoch.
    """
    if pod.needs or nominated.nodes.get(pod.uid) is not None:
        return None
    return framework, depth, pod.kind, pod.pod.status.nominated_node_name
