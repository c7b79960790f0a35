"""Why a pod fits nowhere, beyond the first rejection of every node, and what would help.

Judged beside the decisions, on the snapshot as it is: nothing is changed, remembered or counted.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec.structs import replace

from scheduler.answers.checks import EveryCheck, checks_of, every_check, nearest_nodes
from scheduler.answers.elsewhere import add_nodes, evict, set_labels, uncordon
from scheduler.answers.model import Change, Guess, PodAnswer
from scheduler.answers.smallest import add_tolerations, drop_rules, lower_requests, several
from scheduler.answers.spelling import guesses
from scheduler.answers.trials import Trials, TrialsSpentError
from scheduler.api.pods import PodInfo
from scheduler.framework.runtime import Framework
from scheduler.framework.runtime.nominated_pods import NominatedPods
from scheduler.snapshot import Snapshot

MOST_TRIALS: Final = 128
"""So often the pod is judged as it might be for one kind of change, whatever it is made of."""

_Kind: TypeAlias = Callable[[EveryCheck, Trials], Iterator[Change]]
_OF_THE_POD: Final[tuple[_Kind, ...]] = (lower_requests, add_tolerations, drop_rules)
_OF_THE_CLUSTER: Final[tuple[_Kind, ...]] = (uncordon, set_labels, evict, add_nodes)


def with_checks(answer: PodAnswer, every: EveryCheck) -> PodAnswer:
    """An answer that also says what each check has against nodes, and which nodes are nearest.

    Raises:
        PluginError: a plugin failed.
    """
    return replace(answer, checks=checks_of(every), nearest=nearest_nodes(every))


def with_changes(
    answer: PodAnswer,
    every: EveryCheck,
    framework: Framework,
    nominated: NominatedPods | None = None,
) -> PodAnswer:
    """An answer that also says what would help a pod that fits nowhere.

    Cost: no more than `MOST_TRIALS` looks at the cluster for each kind of change.
    """
    trials = Trials(framework, every.pod, every.snapshot, nominated)
    changes = smallest_changes(every, trials)
    return replace(answer, changes=tuple(changes), guesses=tuple(_guesses(trials)))


def with_reasons(
    answer: PodAnswer,
    framework: Framework,
    pod: PodInfo,
    snapshot: Snapshot,
    nominated: NominatedPods | None = None,
) -> PodAnswer:
    """An answer about a pod that fits nowhere, with all that this room knows beyond the verdicts.

    Raises:
        PluginError: a plugin failed.
    """
    every = every_check(framework, pod, snapshot, nominated)
    return with_changes(with_checks(answer, every), every, framework, nominated)


def smallest_changes(every: EveryCheck, trials: Trials) -> Iterator[Change]:
    """Kind by kind; what mixes changes of the pod only where no single kind of them would do."""
    found = False
    for kind in _OF_THE_POD:
        for change in _of_kind(kind, every, trials):
            found = True
            yield change
    if not found:
        yield from _of_kind(several, every, trials)
    for kind in _OF_THE_CLUSTER:
        yield from _of_kind(kind, every, trials)


def _of_kind(kind: _Kind, every: EveryCheck, trials: Trials) -> Iterator[Change]:
    trials.left = MOST_TRIALS
    try:
        yield from kind(every, trials)
    except TrialsSpentError:
        return


def _guesses(trials: Trials) -> Iterator[Guess]:
    trials.left = MOST_TRIALS
    return guesses(trials)
