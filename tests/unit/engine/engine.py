"""An engine of fake plugins, driven without an API server."""

import asyncio
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from typing_extensions import override

from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Node, Pod
from scheduler.api.pods import PodInfo
from scheduler.config.types import Extender
from scheduler.daemon.informers.kinds import watched_kind
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.engine import EngineSettings
from scheduler.kernel.engine.engine_state import EngineProfiles, ProfilesOf
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Decide,
    Event,
    ObjectGone,
    ObjectSet,
    PreBound,
)
from scheduler.kernel.engine.instructions import (
    Bind,
    Instruction,
    LogError,
    PatchStatus,
    RecordEvent,
    RunPreBind,
)
from scheduler.kernel.engine.outcome import AttemptOutcome
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.interface import (
    BindPlugin,
    NodeFilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    ReservePlugin,
)
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.kernel.framework.status import Status
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.engine_metrics import EngineMetrics
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments
from tests.support.builders import make_node, make_pod_info
from tests.support.clock import FakeClock
from tests.support.engines import no_other_profiles, validating
from tests.support.fake_plugins import make_plugin_set


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
        self.NAME = name
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
    """An engine whose time stands still, with nodes given, and a driver that does as it is told.

    Attributes:
        engine: what is tested; every invariant is checked after every event.
        clock: its time.
        told: what would be told to the API server, in order.
        binds: bindings that were asked for, in order.
        answer: what the API server says to a binding; None for no answer yet.
        instructions: all of them, in order.
        outcomes: how attempts ended, in order.
        services: what handles of plugins show.
        states: what plugins share and list.
    """

    def __init__(
        self,
        *plugins: Plugin | Callable[[Handle], Plugin],
        nodes: tuple[str | Node, ...] = ("n",),
        answer: Callable[[Bind], Event | None] = lambda bind: Bound(bind.attempt),
        kinds: tuple[ObjectKind, ...] = (),
        seed: int = 1,
        extenders: tuple[Extender, ...] = (),
        rules_of: ProfilesOf = no_other_profiles,
    ) -> None:
        self.clock = FakeClock()
        self.answer = answer
        self.instructions: list[Instruction] = []
        self.outcomes: list[AttemptOutcome] = []
        self.states = SharedStates(FrameworkMetrics(Instruments()))
        self.states.watch(kinds)
        self.services = PluginServices(self.states, Instruments(), self.clock.monotonic)
        handle = Handle(self.services, watches=kinds)
        made = [each(handle) if isinstance(each, FunctionType) else each for each in plugins]
        framework = Framework(
            make_plugin_set(made, profile="test", now=self.clock.monotonic),
            has_extenders=bool(extenders),
        )
        self.engine = validating(
            Engine(
                EngineProfiles({"test": framework}),
                EngineSettings(seed=seed, extenders=extenders),
                services=self.services,
                rules_of=rules_of,
                states=self.states,
                kinds={watched_kind(kind).name: kind for kind in kinds},
                take_outcome=self.outcomes.append,
            )
        )
        for node in nodes:
            self.handle(ObjectSet("nodes", make_node(node) if isinstance(node, str) else node))

    @property
    def metrics(self) -> EngineMetrics:
        """What the engine counted and timed."""
        return self.engine.core.metrics

    @property
    def binds(self) -> list[Bind]:
        return [i for i in self.instructions if isinstance(i, Bind)]

    @property
    def told(self) -> list[tuple[Any, ...]]:
        return [told for i in self.instructions for told in _told(i)]

    @property
    def reports(self) -> list[LogError]:
        return [i for i in self.instructions if isinstance(i, LogError)]

    def handle(self, event: Event) -> list[Instruction]:
        """One event; its instructions are carried out at once."""
        instructions = list(self.engine.handle(event, self.clock.monotonic()))
        self.instructions.extend(instructions)
        for instruction in instructions:
            if isinstance(instruction, RunPreBind):
                self.handle(self._pre_bind(instruction))
            elif isinstance(instruction, Bind):
                self._bind(instruction)
        return instructions

    def add(self, name: str = "p", **fields: Any) -> PodInfo:
        """A waiting pod comes."""
        pod = make_pod_info(name, scheduler_name="test", **fields)
        self.handle(ObjectSet("pods", pod))
        return pod

    def delete(self, pod: PodInfo) -> None:
        """A pod is gone."""
        self.handle(ObjectGone("pods", pod.namespace, pod.name, pod.uid))

    def run(self) -> None:
        """Decide about all that are ready."""
        while self.engine.has_ready:
            self.handle(Decide())

    def places(self) -> dict[str, str]:
        """In which part of the queue each pod is."""
        return {str(entry["pod"]): str(entry["queue"]) for entry in self.engine.core.queue.dump()}

    def _pre_bind(self, instruction: RunPreBind) -> Event:
        attempt = self.engine.attempts.get(instruction.attempt)
        assert attempt is not None
        running = attempt.framework.run_pre_bind_plugins(attempt.cycle_state, attempt.pod)
        try:
            status = asyncio.run(running)
        except PluginError as problem:
            return PreBound(attempt.id, str(problem))
        return PreBound(attempt.id, "" if status.is_success else status.message)

    def _bind(self, bind: Bind) -> None:
        answer = self.answer(bind)
        if bind.by_plugins:
            answer = self._bind_by_plugins(bind)
        if answer is not None:
            self.handle(answer)

    def _bind_by_plugins(self, bind: Bind) -> Event:
        attempt = self.engine.attempts.get(bind.attempt)
        assert attempt is not None
        running = attempt.framework.run_bind_plugins(attempt.cycle_state, attempt.pod)
        try:
            status = asyncio.run(running)
        except PluginError as problem:
            return BindFailed(bind.attempt, str(problem))
        return (
            Bound(bind.attempt) if status.is_success else BindFailed(bind.attempt, status.message)
        )


def is_nomination(instruction: Instruction) -> bool:
    """Whether it only says where a pod is about to go."""
    return (
        isinstance(instruction, PatchStatus)
        and instruction.condition is None
        and bool(instruction.nominated_node_name)
    )


def _told(instruction: Instruction) -> Iterator[tuple[Any, ...]]:
    if isinstance(instruction, RecordEvent):
        name = instruction.regarding.name
        kind = "scheduled" if instruction.reason == "Scheduled" else "event"
        yield kind, name, instruction.note
    elif isinstance(instruction, PatchStatus) and not is_nomination(instruction):
        condition = instruction.condition
        yield (
            "failed",
            instruction.name,
            "" if condition is None else condition.reason,
            "" if condition is None else condition.message,
            instruction.nominated_node_name,
        )
