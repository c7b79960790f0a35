"""Plugins whose reasons are longer than the API server's conditions."""

from typing import Final

import pytest
from typing_extensions import override

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Pod
from scheduler.api.written import MESSAGE_LIMIT
from scheduler.kernel.engine.instructions import PatchStatus
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import NodeFilterPlugin
from scheduler.kernel.framework.status import Status, unschedulable
from scheduler.kernel.framework.types import Failure
from tests.unit.engine.driven import DrivenEngine
from tests.unit.engine.gangs import Gangs

LONG: Final = "ö" * 200_000


class Talks(NodeFilterPlugin):
    """Rejects every node, or raises, at length."""

    NAME = "Talks"

    def __init__(self, *, raises: bool = False) -> None:
        self._raises = raises

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if self._raises:
            raise ValueError(LONG)
        return unschedulable(LONG)


def messages(engine: DrivenEngine) -> list[str]:
    """What was written to pods."""
    written = [patch.condition for patch in engine.all(PatchStatus)]
    return [condition.message for condition in written if condition is not None]


@pytest.mark.parametrize("raises", [False, True], ids=["rejects", "raises"])
def test_a_condition_has_the_beginning(raises: bool) -> None:
    """In 32 KiB of UTF-8, with a mark."""
    engine = DrivenEngine(Talks(raises=raises))
    engine.add("p")
    engine.run()

    [message] = messages(engine)
    assert message.startswith('running Filter plugin "Talks"' if raises else "0/1 nodes are")
    assert message.endswith("ö ...")
    assert MESSAGE_LIMIT - 2 < len(message.encode()) <= MESSAGE_LIMIT


def test_the_condition_of_a_group_is_cut_as_well() -> None:
    """The API server refuses longer ones; an attempt with the same end writes nothing."""
    gangs = Gangs(3, Talks(raises=True))
    gangs.group()
    pods = gangs.members(3)
    gangs.run()
    gangs.tick(60)
    gangs.run()

    [(_, _, message)] = gangs.conditions()
    assert message.endswith("ö ...")
    assert MESSAGE_LIMIT - 2 < len(message.encode()) <= MESSAGE_LIMIT
    assert all(len(gangs.message(pod).encode()) <= MESSAGE_LIMIT for pod in pods)


@pytest.mark.parametrize("text", ["x" * MESSAGE_LIMIT, "ö" * (MESSAGE_LIMIT // 2)], ids=len)
def test_what_fits_is_left_alone(text: str) -> None:
    """Bytes count."""
    assert Failure(text).message == text
    assert Failure(f"{text}x").message.endswith(" ...")
