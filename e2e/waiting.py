"""``python -m e2e.waiting``: how long pods wait after events that no queueing hint takes.

Stowage and kube-scheduler have the same pods in one cluster, a real API server. Five equal pods of
each are rejected, the cluster changes so that they fit, and nothing else happens. Then one more
equal pod comes. What is printed is when each was bound, in seconds since the change; it takes about
six minutes. The exit status is 1 if a pod of Stowage was bound more than five seconds later than
kube-scheduler's, or not at all.
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
from e2e.support.unheard import EQUAL_PODS, WAYS, Trial, settle

OURS: Final = "stowage"
THEIRS: Final = "default-scheduler"
ALLOWED_SECONDS: Final = 5.0
NEW: Final = EQUAL_PODS
"""The number of the pod that comes after the change."""

Times = dict[tuple[str, str, int], float]
"""By way, scheduler and number of the pod."""


@click.command()
@click.option("--seconds", default=345, show_default=True, help="How long to wait at most.")
def main(seconds: int) -> None:
    """Time how long pods wait after events that no queueing hint takes."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ControlPlane() as own,
        Cluster("own", own.kubeconfig, Path(directory), control_plane=own) as cluster,
    ):
        own.start_kube_scheduler()
        stowage = start_stowage(scheduler_kubeconfig(cluster), Path(directory))
        try:
            found = measure(cluster, seconds)
        finally:
            stowage.stop()
    sys.exit(not _tell(found))


def measure(cluster: Cluster, seconds: int) -> Times:
    """Try all ways at once."""
    trials = {name: Trial(cluster, way, name, (OURS, THEIRS)) for name, way in WAYS.items()}
    for trial in trials.values():
        trial.prepare()
    settle()
    start = {}
    for name, trial in trials.items():
        trial.change()
        start[name] = time.monotonic()
    time.sleep(1.0)
    for trial in trials.values():
        trial.add(NEW)
    times: Times = {}
    wanted = len(WAYS) * 2 * (EQUAL_PODS + 1)
    while len(times) < wanted and time.monotonic() < min(start.values()) + seconds:
        for name, trial in trials.items():
            for scheduler in (OURS, THEIRS):
                for number in trial.bound(scheduler):
                    times.setdefault((name, scheduler, number), time.monotonic() - start[name])
        time.sleep(0.2)
    return times


def _tell(times: Times) -> bool:
    is_right = True
    for name, way in WAYS.items():
        print(f"{way.what}:")
        for what, numbers in (("five", range(EQUAL_PODS)), ("the sixth", (NEW,))):
            ours, theirs = (
                max(times.get((name, scheduler, number), float("inf")) for number in numbers)
                for scheduler in (OURS, THEIRS)
            )
            print(f"  {what}: stowage {ours:.1f} s, kube-scheduler {theirs:.1f} s")
            is_right &= ours != float("inf") and ours <= theirs + ALLOWED_SECONDS
    return is_right


if __name__ == "__main__":
    main()
