"""``python -m e2e.waiting``: measures how long pods wait after changes without a queueing hint.

Stowage and kube-scheduler schedule identical pods in one cluster. Five pods of each are rejected,
then a change makes them schedulable and no other event follows. One more pod is created a second
later. The command prints when each pod was bound, in seconds since the change, and takes about six
minutes. It exits with 1 if a pod of Stowage was bound more than five seconds later than
kube-scheduler's, or never.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import click

from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.stowage import start_stowage
from e2e.support.unhinted_changes import EQUAL_PODS, UNHINTED_CHANGES, Trial, settle

OURS: Final = "stowage"
THEIRS: Final = "default-scheduler"
ALLOWED_SECONDS: Final = 5.0
NEW: Final = EQUAL_PODS
"""Number of the pod created after the change."""

Times = dict[tuple[str, str, int], float]
"""Seconds by change, scheduler and number of the pod."""


@click.command()
@click.option("--seconds", default=345, show_default=True, help="Time limit.")
def main(seconds: int) -> None:
    """Time how long pods wait after changes that no queueing hint covers."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ControlPlane() as own,
        Cluster("own", own.kubeconfig, Path(directory), control_plane=own) as cluster,
    ):
        own.start_kube_scheduler()
        stowage = start_stowage(scheduler_kubeconfig(cluster), Path(directory))
        try:
            times = measure(cluster, seconds)
        finally:
            stowage.stop()
    sys.exit(not _report(times))


def measure(cluster: Cluster, seconds: int) -> Times:
    """Run all changes at the same time, and return the binding times."""
    trials = {
        name: Trial(cluster, change, name, (OURS, THEIRS))
        for name, change in UNHINTED_CHANGES.items()
    }
    for trial in trials.values():
        trial.prepare()
    settle()
    start = {}
    for name, trial in trials.items():
        trial.apply()
        start[name] = time.monotonic()
    time.sleep(1.0)
    for trial in trials.values():
        trial.add(NEW)
    times: Times = {}
    expected = len(UNHINTED_CHANGES) * 2 * (EQUAL_PODS + 1)
    while len(times) < expected and time.monotonic() < min(start.values()) + seconds:
        for name, trial in trials.items():
            for scheduler in (OURS, THEIRS):
                for number in trial.bound(scheduler):
                    times.setdefault((name, scheduler, number), time.monotonic() - start[name])
        time.sleep(0.2)
    return times


def _report(times: Times) -> bool:
    is_within_limit = True
    for name, change in UNHINTED_CHANGES.items():
        print(f"{change.description}:")
        for label, numbers in (("first five", range(EQUAL_PODS)), ("sixth", (NEW,))):
            ours, theirs = (
                max(times.get((name, scheduler, number), float("inf")) for number in numbers)
                for scheduler in (OURS, THEIRS)
            )
            print(f"  {label}: stowage {ours:.1f} s, kube-scheduler {theirs:.1f} s")
            is_within_limit &= ours != float("inf") and ours <= theirs + ALLOWED_SECONDS
    return is_within_limit


if __name__ == "__main__":
    main()
