"""Extenders and Bind plugins that report a binding and make none: the confirmation never comes."""

from typing import Final

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.kernel.engine.binding_cycle import CONFIRM_SECONDS
from scheduler.kernel.engine.events import Bound, Decide, PodRead
from scheduler.kernel.engine.instructions import Bind, ReadPod
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import BindPlugin
from scheduler.kernel.framework.status import Status
from tests.support.builders import make_pod_info
from tests.unit.engine.driven import DrivenEngine, Room
from tests.unit.engine.extenders import BINDS

BACKOFF_SECONDS: Final = 10.0
"""The longest."""
BY_EXTENDER: Final = "extender at URL http://e/b reported the pod as bound, but the pod has no node"


class Claims(BindPlugin):
    """Claims to bind."""

    def __init__(self, name: str = "Claims") -> None:
        self.NAME = name

    @override
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return Status()


def report(engine: DrivenEngine, pod: PodInfo) -> None:
    """The pod is reported as bound, and no watch ever shows it on its node."""
    engine.handle(Decide())
    [*_, bind] = engine.all(Bind)
    engine.handle(Bound(bind.attempt))
    assert engine.stage(pod) == "bound"
    [question] = engine.tick(CONFIRM_SECONDS)
    assert isinstance(question, ReadPod)


def test_an_extender_that_never_binds_is_named_each_time() -> None:
    """In the log, an event and the status; the pod is tried again after back-off, for ever."""
    engine = DrivenEngine(Room(1), extenders=(BINDS,))
    pod = engine.add("p")

    for times in range(1, 4):
        report(engine, pod)
        engine.handle(PodRead(engine.attempt(pod).id, pod))

        assert engine.stage(pod) == "backoff"
        assert engine.used == 0
        logged = [(each.pod, each.problem) for each in engine.reports]
        assert logged == [("default/p", BY_EXTENDER)] * times
        assert engine.told[-2:] == [
            ("event", "p", BY_EXTENDER),
            ("failed", "p", "SchedulerError", BY_EXTENDER, None),
        ]
        engine.tick(BACKOFF_SECONDS)


def test_its_room_is_free_for_others() -> None:
    """They are woken when it is given back."""
    engine = DrivenEngine(Room(1), extenders=(BINDS,))
    pod = engine.add("p")
    engine.handle(Decide())
    other = engine.rejected("q")
    engine.handle(Bound(engine.attempt(pod).id))
    engine.tick(CONFIRM_SECONDS)

    engine.handle(PodRead(engine.attempt(pod).id, pod))

    assert not engine.is_asleep(other)


def test_a_bind_plugin_that_never_binds_is_named() -> None:
    """With the others: only they know which of them bound it."""
    engine = DrivenEngine(Room(1), Claims(), Claims("Other"))
    pod = engine.add("p")
    report(engine, pod)

    engine.handle(PodRead(engine.attempt(pod).id, pod))

    assert engine.notes[-1] == (
        "Bind plugin Claims or Other reported the pod as bound, but the pod has no node"
    )
    assert engine.stage(pod) == "backoff"


def test_the_pod_comes_back_as_it_is_now() -> None:
    """Not as it was when it was popped."""
    engine = DrivenEngine(Room(1), extenders=(BINDS,))
    pod = engine.add("p")
    report(engine, pod)
    newer = make_pod_info("p", scheduler_name="test", labels={"a": "1"}, resource_version="2")

    engine.handle(PodRead(engine.attempt(pod).id, newer))

    assert engine.engine.core.queue.get(pod.uid) is newer


def test_a_pod_of_a_removed_profile_does_not_come_back() -> None:
    """No profile would take it."""
    engine = DrivenEngine(Room(1), extenders=(BINDS,))
    pod = engine.add("p")
    report(engine, pod)
    attempt = engine.attempt(pod).id
    engine.engine.core.frameworks = {}

    engine.handle(PodRead(attempt, pod))

    assert engine.stage(pod) == "nowhere"
    assert engine.reports == []
