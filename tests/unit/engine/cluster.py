"""A cluster in miniature for an engine: a truth, a watch that lags, answers that get lost.

Everything is drawn from one seed. What the engine must know follows from what it was told, and is
checked after every event.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from scheduler.api.objects import Node, ObjectMeta, PodCondition, Taint
from scheduler.api.pods import PodInfo
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.errors import SchedulerError
from scheduler.kernel.cache import PodState
from scheduler.kernel.engine import AttemptState, Engine
from scheduler.kernel.engine.events import (
    Activate,
    Allowed,
    Answered,
    BindFailed,
    Bound,
    Decide,
    Event,
    Evicted,
    EvictFailed,
    ObjectGone,
    ObjectSet,
    PodRead,
    PreBound,
    ReadFailed,
    Rejected,
    SetBack,
    SlowDecision,
    Tick,
)
from scheduler.kernel.engine.instructions import (
    Ask,
    Bind,
    Cancel,
    Evict,
    Instruction,
    LogError,
    PatchStatus,
    ReadPod,
    RunPreBind,
)
from scheduler.kernel.engine.pending_extender_calls import LEFT_ALONE, SKIPPED
from scheduler.kernel.engine.placing import MAX_BATCH
from scheduler.kernel.engine.preemption_executor import UNSEEN_SECONDS
from scheduler.kernel.extender import (
    Answer,
    Filtered,
    MetaVictims,
    NoAnswer,
    Preempted,
    Prioritized,
    Verb,
)
from tests.support.builders import make_node, make_pod_info
from tests.support.rogues import NODES

APPS = ("web", "db", "cache")
HARMLESS = (
    "Error scheduling pod; retrying",
    "PostBind failed",
    "Unreserve failed",
    "Plugin failed",
    "Eviction failed",
    SKIPPED,
    LEFT_ALONE,
)
"""Reports of plugins and bindings that fail; every other one tells an error of the engine."""


class Cluster:
    """What an engine is told, at random, and what it must make of it.

    Attributes:
        engine: it is told.
        profile: the scheduler name of its pods.
        pods: the truth, by UID.
        known: what the engine was told last of each pod.
        by_us: the node of every pod that we have bound, by UID, as long as it exists; empty once
            the engine has forgotten it, because the API server was set back.
        bound: every pod that anybody has ever bound.
        evicted: every pod that was ever deleted to make room, and when.
        history: all events, each with its time.
        instructions: all that came of them.
    """

    def __init__(self, engine: Engine, profile: str, draw: Random) -> None:
        self.engine = engine
        self.profile = profile
        self.draw = draw
        self.now = 1000.0
        self.pods: dict[str, PodInfo] = {}
        self.known: dict[str, PodInfo] = {}
        self.by_us: dict[str, str] = {}
        self.bound: set[str] = set()
        self.evicted: dict[str, float] = {}
        self.history: list[tuple[Event, float]] = []
        self.instructions: list[Instruction] = []
        self.outside: deque[Event] = deque()
        self._fields: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, Node] = {}
        self._watch: deque[Event] = deque()
        self._shown: dict[str, PodInfo] = {}
        """What the watch has shown last of each pod."""
        self._todo: list[Bind | Ask | RunPreBind | ReadPod | Evict] = []
        self._serial = 0
        engine.from_outside = self.outside.append

    # --- what happens ---------------------------------------------------------------------------

    def step(self) -> None:
        """Something, at random."""
        ways: tuple[tuple[int, Callable[[], None]], ...] = (
            (30, self._tell),
            (36, lambda: self.handle(Decide(self.draw.choice((1, 1, 2, MAX_BATCH))))),
            (16, self._answer),
            (10, self._new_pod),
            (4, self._change_pod),
            (6, self._delete_pod),
            (1, self._end_pod),
            (1, self._bind_by_others),
            (3, self._set_node),
            (1, self._remove_node),
            (2, self._change_service),
            (10, self._pass_time),
            (6, self._release),
            (2, self._ask),
        )
        [way] = self.draw.choices([way for _, way in ways], [weight for weight, _ in ways])
        way()
        while self.outside and self.draw.random() < 0.5:
            self.handle(self.outside.popleft())

    def settle(self) -> None:
        """Everything comes that was under way, and nothing new."""
        for _ in range(400):
            self._drain()
            self._pass_time()
            if not self.engine.has_ready:
                break
            self.handle(Decide())
        self._drain()

    def _drain(self) -> None:
        while self._watch or self._todo or self.outside:
            self._tell()
            self._answer()
            if self.outside:
                self.handle(self.outside.popleft())

    def handle(self, event: Event) -> None:
        """Tell the engine, do as it says in time, and check that it is right."""
        self.history.append((event, self.now))
        for instruction in self.engine.handle(event, self.now):
            self.instructions.append(instruction)
            if isinstance(instruction, Bind | Ask | RunPreBind | ReadPod | Evict):
                self._todo.append(instruction)
            elif isinstance(instruction, PatchStatus):
                self._patch(instruction)
            elif isinstance(instruction, LogError):
                assert instruction.message in HARMLESS, instruction
            elif isinstance(instruction, Cancel) and self.draw.random() < 0.5:
                # A cancelled PreBind ends all the same.
                self._todo = [
                    do
                    for do in self._todo
                    if isinstance(do, Evict | RunPreBind) or do.attempt != instruction.attempt
                ]

    def _new_pod(self) -> None:
        draw = self.draw
        name = f"p{self._next()}"
        self._fields[f"default/{name}"] = {
            "name": name,
            "scheduler_name": draw.choice((self.profile,) * 9 + ("other",)),
            "labels": {"app": draw.choice(APPS)},
            "priority": draw.choice((0, 0, 0, 10)),
            "requests": {"cpu": draw.choice(("100m", "1"))},
            "gates": draw.choice(((),) * 8 + (("gate",),)),
        }
        self._write(f"default/{name}")

    def _change_pod(self) -> None:
        uid = self._any()
        if uid:
            self._write(uid, labels={"app": self.draw.choice(APPS)}, gates=())

    def _end_pod(self) -> None:
        uid = self._any()
        if uid:
            self._write(uid, deletion_timestamp="2026-01-01T00:00:00Z")

    def _delete_pod(self) -> None:
        uid = self._any()
        if uid:
            self._delete(uid)

    def _delete(self, uid: str) -> None:
        pod = self.pods.pop(uid)
        self.by_us.pop(uid, None)
        self._watch.append(ObjectGone("pods", pod.namespace, pod.name, uid))

    def _bind_by_others(self) -> None:
        uid = self._any()
        if uid and not self.pods[uid].node_name:
            self.bound.add(uid)
            self._write(uid, node_name=self.draw.choice(NODES))

    def _patch(self, patch: PatchStatus) -> None:
        """No status is written for a pod that runs by our own doing."""
        assert not self.by_us.get(patch.uid), patch
        if patch.uid in self.pods and self.draw.random() < 0.7:
            fields: dict[str, Any] = {}
            if patch.condition is not None:
                it = patch.condition
                condition = PodCondition(
                    it.type, it.status, it.reason, it.message, it.observed_generation
                )
                fields["conditions"] = (condition,)
            if patch.nominated_node_name is not None:
                fields["nominated_node_name"] = patch.nominated_node_name
            self._write(patch.uid, **fields)

    def _set_node(self) -> None:
        draw = self.draw
        name = draw.choice(NODES)
        node = make_node(
            name,
            zone=draw.choice(("x", "y")),
            allocatable={"pods": draw.choice((5, 110, 110)), "cpu": draw.choice(("8", "8", "64"))},
            taints=draw.choice(((),) * 5 + ((Taint("a", "b", "NoSchedule"),),)),
            unschedulable=draw.random() < 0.1,
            resource_version=str(self._next()),
        )
        self._nodes[name] = node
        self._watch.append(ObjectSet("nodes", node))

    def _remove_node(self) -> None:
        name = self.draw.choice(NODES)
        if self._nodes.pop(name, None) is not None:
            self._watch.append(ObjectGone("nodes", "", name, f"uid-of-{name}"))

    def _change_service(self) -> None:
        if self.draw.random() < 0.5:
            meta = ObjectMeta(name="s", namespace="default")
            spec = ServiceSpec({"app": self.draw.choice(APPS)})
            self._watch.append(ObjectSet("services", Service(meta, spec)))
        else:
            self._watch.append(ObjectGone("services", "default", "s", ""))

    def _pass_time(self) -> None:
        self.now += self.draw.choice((0.1, 1.0, 1.0, 6.0, 40.0))
        self.handle(Tick())

    def _release(self) -> None:
        held = [waiting.pod.uid for waiting in self.engine.core.waiting]
        if held:
            uid, plugin = self.draw.choice(held), self.draw.choice(("Rows", "Cluster", "Nodes"))
            self.handle(
                Allowed(uid, plugin) if self.draw.random() < 0.8 else Rejected(uid, plugin, "no")
            )

    def _ask(self) -> None:
        """What comes too late, or for nobody."""
        attempt = self.draw.randint(0, 1 + len(self.history) // 5)
        is_open = self.engine.attempts.get(attempt) is not None
        uid = self._any() or "nobody"
        late = (BindFailed(attempt, "late"), PreBound(attempt), Bound(attempt), PodRead(attempt))
        events = (
            Activate((uid,)),
            SlowDecision(self.engine.scheduler.decided, 2.0),
            ReadFailed(attempt),
            SetBack("set back"),
            *(() if is_open else late),
        )
        event = self.draw.choice(events)
        if isinstance(event, SetBack):
            self._forget_reads()
        self.handle(event)

    # --- the watch and the answers --------------------------------------------------------------

    def _tell(self) -> None:
        """The watch brings some of what it owes."""
        for _ in range(min(len(self._watch), self.draw.randint(1, 4))):
            event = self._watch.popleft()
            if isinstance(event, ObjectSet) and isinstance(event.object, PodInfo):
                self._shown[event.object.uid] = event.object
                self._learn(event.object)
            elif isinstance(event, ObjectGone) and event.kind == "pods":
                self._shown.pop(event.uid, None)
                self.known.pop(event.uid, None)
            self.handle(event)
            self.check()

    def _forget_reads(self) -> None:
        """Only what the watch has shown counts: a pod that was only read to be bound waits."""
        for uid, pod in self._shown.items():
            if uid in self.by_us and not pod.node_name and self.known[uid].node_name:
                self.by_us[uid] = ""
        self.known = self._shown.copy()

    def _learn(self, pod: PodInfo) -> None:
        """What was read before is newer than what the watch brings late."""
        known = self.known.get(pod.uid)
        if known is None or int(known.pod.metadata.resource_version) <= int(
            pod.pod.metadata.resource_version
        ):
            self.known[pod.uid] = pod

    def _answer(self) -> None:
        if self._todo:
            todo = self._todo.pop(self.draw.randrange(len(self._todo)))
            if isinstance(todo, Bind):
                self.handle(self._bound(todo))
            elif isinstance(todo, RunPreBind):
                self.handle(self._prepared(todo))
            elif isinstance(todo, Ask):
                self.handle(Answered(todo.question, self._extender_says(todo)))
            elif isinstance(todo, Evict):
                self.handle(self._evicted(todo))
            else:
                self._read(todo)
            self.check()

    def _bound(self, bind: Bind) -> Event:
        pod = self.pods.get(bind.uid)
        if pod is None or pod.node_name:
            # An extender may have bound it before, and have said that it failed.
            is_certain = self.draw.random() < 0.8 and bind.uid not in self.by_us
            return BindFailed(bind.attempt, "conflict", is_certain=is_certain)
        problem = self._asked_plugins(bind) if bind.by_plugins else ""
        luck = self.draw.random()
        if problem or luck < 0.15:
            return BindFailed(bind.attempt, problem or "refused")
        if luck < 0.25:
            return BindFailed(bind.attempt, "time-out", is_certain=False)
        self.by_us[bind.uid] = bind.node
        self.bound.add(bind.uid)
        self._write(bind.uid, node_name=bind.node)
        if luck < 0.4:
            return BindFailed(bind.attempt, "time-out", is_certain=False)
        return Bound(bind.attempt)

    def _extender_says(self, ask: Ask) -> Answer:
        """Mostly what makes sense."""
        draw, found = self.draw, self.engine.extender_calls.question(ask.question)
        if found is None or draw.random() < 0.15:
            return NoAnswer("no", is_late=draw.random() < 0.5)
        question = found[0]
        assert ask.count == len(question.nodes or question.candidates)
        nodes = tuple(name for name in question.nodes if draw.random() < 0.7)
        if question.verb is Verb.PRIORITIZE:
            return Prioritized(tuple((name, draw.randint(-5, 15)) for name in nodes))
        if question.verb is Verb.FILTER:
            others = [name for name in question.nodes if name not in nodes]
            reasons = {name: "no" for name in others if draw.random() < 0.5}
            nodes += draw.choice(((), (), (), (), (), ("nowhere",)))
            return Filtered(nodes, reasons, {"nowhere": "no", **draw.choice(({}, reasons))})
        victims = {
            each.node_name: MetaVictims(
                tuple(victim.uid for victim in each.victims if draw.random() < 0.9),
                each.pdb_violations,
            )
            for each in question.candidates
            if draw.random() < 0.8
        }
        return Preempted(victims)

    def _asked_plugins(self, bind: Bind) -> str:
        attempt = self.engine.attempts.get(bind.attempt)
        if attempt is None:
            return "over"
        return self._problem(attempt.framework.run_bind_plugins, attempt)

    def _prepared(self, todo: RunPreBind) -> Event:
        attempt = self.engine.attempts.get(todo.attempt)
        if attempt is None:
            return PreBound(todo.attempt)
        run = attempt.framework.run_pre_bind_plugins
        return PreBound(todo.attempt, self._problem(run, attempt))

    @staticmethod
    def _problem(run: Callable[..., Any], attempt: Any) -> str:
        async def asked() -> str:
            try:
                status = await run(attempt.cycle_state, attempt.pod)
            except SchedulerError as problem:
                return str(problem)
            except asyncio.CancelledError:
                return "cancelled"
            return "" if status.is_success else status.message or "no"

        return asyncio.run(asked())

    def _evicted(self, evict: Evict) -> Event:
        unseen = self.now - self.evicted.get(evict.uid, -UNSEEN_SECONDS)
        assert unseen >= UNSEEN_SECONDS, f"{evict.uid} is evicted twice"
        if self.draw.random() < 0.15:
            return EvictFailed(evict.uid, "refused")
        if evict.uid not in self.pods:
            return Evicted(evict.uid, was_there=False)
        self.evicted[evict.uid] = self.now
        how = self.draw.random()
        if how < 0.05:
            pass  # The API server is restored from a backup right after its answer.
        elif how < 0.5:
            self._write(evict.uid, deletion_timestamp="2026-01-01T00:00:00Z")
        else:
            self._delete(evict.uid)
        return Evicted(evict.uid)

    def _read(self, read: ReadPod) -> None:
        if self.draw.random() < 0.3:
            self.handle(ReadFailed(read.attempt))
            return
        pod = self.pods.get(read.uid)
        doubts = AttemptState.UNSURE, AttemptState.BOUND
        if self.engine.attempts.in_state(read.attempt, *doubts) is not None:
            if pod is None:
                self.known.pop(read.uid, None)
            else:
                self.known[read.uid] = pod
        self.handle(PodRead(read.attempt, pod))

    # --- what must be true ----------------------------------------------------------------------

    def check(self) -> None:
        """The engine knows exactly what it was told, and no pod is lost or in two places."""
        core, attempts = self.engine.core, self.engine.attempts
        cached = core.cache.pods
        ending = {each.pod.uid for each in attempts if each.state is AttemptState.CANCELLED}
        for uid in ending:
            assert core.cache.state_of(uid) is PodState.ASSUMED, f"{uid} may write without room"
        for uid, pod in self.known.items():
            if uid in ending:
                continue
            waits = core.queue.get(uid) is not None
            if pod.node_name:
                assert not waits, f"{uid} runs and waits"
                assert attempts.of(uid) is None, f"{uid} runs and is being scheduled"
                state = core.cache.state_of(uid)
                assert state is PodState.ADDED, f"{uid} runs and is only assumed"
                assert cached[uid].node_name == pod.node_name
            elif pod.spec.scheduler_name == self.profile and not pod.is_terminating:
                assert waits or attempts.of(uid) is not None, f"{uid} is lost"
        placed = {pod.uid for pod in attempts.assumed()}
        running = {uid for uid, pod in self.known.items() if pod.node_name and uid not in ending}
        assert set(cached) == placed | running, "room is leaked"
        queued = {pod.uid for pod in core.queue.pending_pods()}
        assert queued <= self.known.keys() | ending, "pods wait that are gone"
        nominator = core.queue.nominator
        nominated = {
            pod.uid for node in nominator for pod in nominator.nominated_pods_for_node(node)
        }
        assert nominated <= (self.known.keys() | ending) - running, (
            "room is kept for pods that need none"
        )

    def check_columns(self) -> None:
        """The snapshot counts what the cache has."""
        core = self.engine.core
        core.cache.update_snapshot(core.snapshot)
        table = core.snapshot.table
        counts = {name: int(table.pod_count[row]) for name, row in table.row_of.items()}
        nodes = core.cache.nodes.values()
        assert counts == {info.name: len(info.pods) for info in nodes if info.node is not None}

    # --- helpers --------------------------------------------------------------------------------

    def _write(self, uid: str, **changes: Any) -> None:
        self._fields[uid].update(changes, resource_version=str(self._next()))
        pod = self.pods[uid] = make_pod_info(**self._fields[uid])
        self._watch.append(ObjectSet("pods", pod))

    def _any(self) -> str:
        return self.draw.choice(list(self.pods)) if self.pods else ""

    def _next(self) -> int:
        self._serial += 1
        return self._serial


def encoded(instructions: list[Instruction]) -> bytes:
    """Instructions as bytes, to be compared."""
    return msgspec.json.encode(instructions)
