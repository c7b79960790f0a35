"""An engine of fake plugins, without an API server."""

import asyncio
from random import Random
from typing import Any

from typing_extensions import override

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node, Pod
from scheduler.api.pods import PodInfo
from scheduler.bootstrap.engine import Core, Recorders, Surroundings, build_core
from scheduler.config.load import default_configuration
from scheduler.cycle.recorder import NoRecorder
from scheduler.cycle.status_writer import StatusWriter
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interface import (
    BindPlugin,
    NodeFilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
)
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Status
from scheduler.queue.recorder import NoRecorder as NoQueueRecorder
from scheduler.snapshot import Snapshot
from tests.support.builders import make_node, make_pod_info
from tests.support.clock import FakeClock
from tests.support.fake_plugins import make_calls, make_plugin_set
from tests.support.handles import make_backing


class Written(StatusWriter):
    """What would be told to the API server, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    @override
    def pod_failed(
        self, pod: PodInfo, reason: str, message: str, nominated_node_name: str | None
    ) -> None:
        self.told.append(("failed", pod.name, reason, message, nominated_node_name))

    @override
    def failed_scheduling(self, pod: PodInfo, note: str) -> None:
        self.told.append(("event", pod.name, note))

    @override
    def scheduled(self, pod: PodInfo) -> None:
        self.told.append(("scheduled", pod.name, pod.node_name))


class Everything(
    PreFilterPlugin,
    NodeFilterPlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Keeps a diary; answers at one point, or raises, as it is told.

    Attributes:
        diary: who was asked, in order; may be shared.
        answers: by extension point, a status or an exception.
    """

    def __init__(
        self, name: str = "P", diary: list[str] | None = None, **answers: Status | Exception
    ) -> None:
        self.NAME = name  # type: ignore[misc]
        self.diary = [] if diary is None else diary
        self.answers = answers

    def _answer(self, point: str) -> Status:
        self.diary.append(f"{self.NAME}.{point}")
        answer = self.answers.get(point, Status())
        if isinstance(answer, Exception):
            raise answer
        return answer

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        return None, self._answer("pre_filter")

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return self._answer("filter")

    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return self._answer("reserve")

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer("unreserve")

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return self._answer("permit"), 60.0

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return self._answer("pre_bind")

    @override
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return self._answer("bind")

    @override
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._answer("post_bind")


class EngineUnderTest:
    """A core whose time stands still, with nodes given.

    Attributes:
        core: what is tested.
        written: what it told.
        clock: its time.
    """

    def __init__(self, *plugins: Plugin, nodes: tuple[str | Node, ...] = ("n",)) -> None:
        self.clock = FakeClock()
        self.written = Written()
        framework = Framework(make_plugin_set(plugins), make_calls(now=self.clock.monotonic))
        self.core: Core = build_core(
            default_configuration(),
            {"test": framework},
            Surroundings(
                clock=self.clock,
                random=Random(1),
                writer=self.written,
                recorders=Recorders(NoRecorder(), NoQueueRecorder()),
                on_ready=lambda: None,
            ),
            make_backing(),
        )
        for node in nodes:
            self.core.engine.cache.set_node(make_node(node) if isinstance(node, str) else node)

    def add(self, name: str = "p", **fields: Any) -> PodInfo:
        pod = make_pod_info(name, scheduler_name="test", **fields)
        self.core.engine.queue.add(pod)
        return pod

    def run(self) -> None:
        """Schedule what is ready, and bind until nothing is in flight."""

        async def work() -> None:
            binding = asyncio.create_task(self.core.binding.run())
            await asyncio.sleep(0)
            while self.core.scheduler.schedule_one():
                pass
            async with asyncio.timeout(5):
                await self.core.binding.drain()
            binding.cancel()
            await asyncio.gather(binding, return_exceptions=True)

        asyncio.run(work())

    def places(self) -> dict[str, str]:
        """In which part of the queue each pod is."""
        return {str(entry["pod"]): str(entry["queue"]) for entry in self.core.engine.queue.dump()}
