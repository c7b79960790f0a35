"""Asks one plugin about a pod as the runtime would, and spells the answer out by node."""

from typing import Any

import numpy as np

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PreFilterPlugin, PreScorePlugin
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status
from scheduler.kernel.snapshot import Rows, Snapshot

FITS = SUCCESS


def filter_answers(
    plugin: Any, pod: PodInfo, snapshot: Snapshot, rows: Rows | None = None
) -> dict[str, Status] | Status:
    """The plugin's status by node; what PreFilter says when it skips or rejects the pod."""
    state = CycleState()
    if PreFilterPlugin in type(plugin).__mro__:
        _, status = plugin.pre_filter(state, pod, snapshot)
        if not status.is_success:
            return status
    return statuses(plugin, state, pod, snapshot, rows)


def statuses(
    plugin: Any, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows | None = None
) -> dict[str, Status]:
    """What Filter says by node, after PreFilter has written the state."""
    rows = snapshot.table.all_rows if rows is None else rows
    names = _names(snapshot, rows)
    bits = plugin.filter(state, pod, snapshot, rows)
    if bits is None:
        return {name: FITS for name in names if name}
    assert bits.dtype == np.uint64
    assert bits.shape == (len(names),)
    reasons = plugin.reasons(state, pod, snapshot)
    answers = {}
    for name, value in zip(names, bits.tolist(), strict=True):
        hit = [reason for i, reason in enumerate(reasons) if value >> i & 1]
        assert value >> len(reasons) == 0
        if name:
            code = max((reason.code for reason in hit), default=Code.SUCCESS)
            answers[name] = Status(code, tuple(reason.text for reason in hit if reason.text))
    return answers


def score_answers(
    plugin: Any, pod: PodInfo, snapshot: Snapshot, rows: Rows | None = None
) -> dict[str, int] | Status:
    """The plugin's score by node, before normalisation; SKIP when it does not score the pod."""
    rows = snapshot.table.all_rows if rows is None else rows
    state = CycleState()
    if PreScorePlugin in type(plugin).__mro__:
        status = plugin.pre_score(state, pod, snapshot, slice(0, 0))
        if status != SUCCESS:
            return status
    names = _names(snapshot, rows)
    scores = plugin.score(state, pod, snapshot, rows)
    assert scores.dtype == np.float64
    assert scores.shape == (len(names),)
    whole = scores.astype(np.int64)
    assert (whole == scores).all()
    return {name: score for name, score in zip(names, whole.tolist(), strict=True) if name}


def _names(snapshot: Snapshot, rows: Rows) -> list[str]:
    return np.array(snapshot.table.names, object)[rows].tolist()


__all__ = ["FITS", "SKIP", "filter_answers", "score_answers", "statuses"]
