"""Answers about a pod in doubt that come after the watch has shown a newer version of it."""

import pytest

from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.events import PodRead, SetBack
from tests.support.builders import make_pod_info
from tests.unit.engine.driven import ENDED, engine_at

S = AttemptState

in_doubt = pytest.mark.parametrize("state", [S.UNSURE, S.BOUND], ids=lambda s: s.value)


@in_doubt
def test_an_answer_that_the_watch_has_overtaken_changes_no_pod_back(state: AttemptState) -> None:
    """The pod has no node, and no watch shows its newest version again."""
    driven, pod = engine_at(state)
    read = make_pod_info("p", scheduler_name="test", resource_version="2")
    newest = make_pod_info(
        "p", scheduler_name="test", resource_version="3", requests={"cpu": 2}, labels={"a": "1"}
    )

    driven.set(newest)
    driven.handle(PodRead(driven.attempt(pod).id, read))

    assert driven.engine.core.queue.get(pod.uid) is newest
    assert driven.used == 0


@in_doubt
def test_an_overtaken_answer_brings_no_pod_back_that_is_being_deleted(state: AttemptState) -> None:
    """A finalizer keeps it: it is never bound."""
    driven, pod = engine_at(state)
    read = make_pod_info("p", scheduler_name="test", resource_version="2")

    driven.set(
        make_pod_info("p", scheduler_name="test", resource_version="3", deletion_timestamp=ENDED)
    )
    driven.handle(PodRead(driven.attempt(pod).id, read))
    driven.tick(15.0)
    before = len(driven.binds)
    driven.run()

    assert len(driven.binds) == before
    assert driven.used == 0


@in_doubt
def test_after_a_restore_the_pod_is_as_the_watch_showed_it_last(state: AttemptState) -> None:
    """The list has the same version, so no watch shows it again; the binding was lost."""
    driven, pod = engine_at(state)
    watched = make_pod_info(
        "p", scheduler_name="test", resource_version="2", requests={"cpu": 2}, labels={"a": "1"}
    )
    bound = make_pod_info("p", scheduler_name="test", resource_version="3", node_name="n")

    driven.set(watched)
    driven.handle(PodRead(driven.attempt(pod).id, bound))
    driven.handle(SetBack("set back"))

    assert driven.engine.core.queue.get(pod.uid) is watched
