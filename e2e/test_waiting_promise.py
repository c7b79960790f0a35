"""Promise: a new pod is evaluated in the current state, whatever was decided about equal pods.

Other pods are only retried after five minutes, which would take too long here. `python -m
e2e.waiting` compares that with kube-scheduler.
"""

import pytest

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.unhinted_changes import EQUAL_PODS, UNHINTED_CHANGES, Trial, settle
from e2e.support.waiting import wait_for

SOON_SECONDS = 30.0


@pytest.mark.parametrize("change", UNHINTED_CHANGES)
def test_a_new_pod_is_bound_though_its_equals_wait(
    cluster: Cluster, namespace: str, run_stowage: StartStowage, change: str
) -> None:
    run_stowage()
    trial = Trial(cluster, UNHINTED_CHANGES[change], namespace, ["stowage"])
    trial.prepare()
    settle()
    assert trial.bound("stowage") == set()

    trial.apply()
    trial.add(EQUAL_PODS)

    wait_for(lambda: EQUAL_PODS in trial.bound("stowage"), "the new pod to be bound", SOON_SECONDS)
