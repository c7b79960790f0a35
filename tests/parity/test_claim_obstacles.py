"""Obstacles of single volumes are where filters reject a pod that has only that volume."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.verdicts import DEAD, FEASIBLE
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.volumes import obstacles
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.tools.offline.cases import load_case
from tests.parity.record import recorded_cases


@pytest.mark.parity
@pytest.mark.parametrize("family", ["volumes", "in-tree", "odd-storage"])
def test_obstacles_are_where_filters_reject(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims and disks in every state, of the recorded clusters.

    Left out are pods for which a filter fails, and profiles in which only VolumeZone rejects claims
    without volumes.
    """
    monkeypatch.setattr(obstacles, "MAX_NODES", 1_000)
    compared = 0

    for case in recorded_cases(family):
        profiles, cluster = load_case(case)
        core = cluster.engine.core
        core.catch_up()
        catalog = core.states.known(VolumeCatalog)
        for pod in cluster.waiting:
            framework = profiles.framework_of(pod)
            filters = frozenset(each.name for each in framework.plugins.filter)
            if "VolumeZone" in filters and "VolumeBinding" not in filters:
                continue
            for alone in _with_one_volume(pod):
                rejected = _rejected(framework, alone, core.snapshot)
                if rejected is not None:
                    found = obstacles.claim_obstacles(alone, catalog, core.snapshot, filters)
                    told = {node for each in found for node in each.examples}
                    assert told == rejected, f"{case['seed']} {pod.key} {alone.pod.volumes} {found}"
                    compared += 1

    assert compared > 100


def _with_one_volume(pod: PodInfo) -> Iterator[PodInfo]:
    for volume in pod.pod.volumes:
        yield replace(pod, pod=replace(pod.pod, volumes=(volume,)))


def _rejected(framework: Framework, pod: PodInfo, snapshot: Snapshot) -> set[str] | None:
    """The nodes that plugins about volumes reject; None if another rejects all, or one fails."""
    names: Any = np.array(snapshot.table.names)
    try:
        found = framework.filtering.find_nodes_that_fit(pod, snapshot)
        if not found.pre_filter.is_success:
            everywhere = set(names[snapshot.table.alive].tolist())
            return everywhere if found.pre_filter.plugin in obstacles.VOLUME_PLUGINS else None
        every = framework.filtering.every_verdict(found, pod, snapshot)
    except SchedulerError:
        return None
    rejected: set[str] = set()
    for verdicts in every:
        assert verdicts.attempt is not None
        if verdicts.attempt.filters[0].name in obstacles.VOLUME_PLUGINS:
            hit = (verdicts.first != FEASIBLE) & (verdicts.first != DEAD)
            rejected.update(names[hit].tolist())
    return rejected
