"""Why a pod fits nowhere, beyond the first rejection of every node, and what would help.

Judged beside the decisions, on the snapshot as it is: nothing is changed, remembered or counted.
"""

from typing import Final

from msgspec.structs import replace

from scheduler.answers.checks import checks_of, every_check, nearest_nodes
from scheduler.answers.elsewhere import cluster_changes
from scheduler.answers.model import PodAnswer
from scheduler.answers.smallest import pod_changes
from scheduler.answers.spelling import guesses
from scheduler.answers.trials import Trials
from scheduler.api.pods import PodInfo
from scheduler.framework.runtime import Framework
from scheduler.framework.runtime.nominated_pods import NominatedPods
from scheduler.snapshot import Snapshot

MOST_TRIALS: Final = 256
"""So often the pod is judged as it might be, whatever it is made of."""


def with_checks(
    answer: PodAnswer,
    framework: Framework,
    pod: PodInfo,
    snapshot: Snapshot,
    nominated: NominatedPods | None = None,
    *,
    most_trials: int = MOST_TRIALS,
) -> PodAnswer:
    """An answer about a pod that fits nowhere, with checks, nearest nodes, changes and guesses.

    Args:
        answer: what is known so far.
        framework: who decides about the pod.
        pod: the pod.
        snapshot: the cluster.
        nominated: pods that wait for a node to be cleared for them.
        most_trials: bounds what looking for changes costs; 0 leaves them out.

    Raises:
        PluginError: a plugin failed.
    """
    every = every_check(framework, pod, snapshot, nominated)
    answer = replace(answer, checks=checks_of(every), nearest=nearest_nodes(every))
    if not most_trials:
        return answer
    trials = Trials(framework, pod, snapshot, nominated, most_trials)
    changes = (*pod_changes(every, trials), *cluster_changes(every, trials))
    return replace(answer, changes=changes, guesses=tuple(guesses(trials)))
