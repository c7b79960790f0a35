"""Our engine lives through a history: objects change, time passes, and pods are tried.

Of equally good nodes both sides take the first. Time flows as in the daemon: both sides look at
their clocks when the step `flush` says so. These differences are meant, and are kept out:

- Of equal pods one is tried first: no two pods are equal (`generator.histories`).
- Pops are fair where most attempts are in vain (`queue.active`): never here.
- A pod whose request exceeds every node waits for nodes only (`Failure.excess`): never here.
- A pod that gets another node than its nominated one wakes others: not here, and no pod with a
  nomination is bound by others.
- A change of a namespace's labels wakes pods: not here.
- A pod whose nomination changes is not woken itself: it is here.
- A pod that is being deleted, or is bound by others, while its binding is under way frees its room
  once the API server answers, and wakes others: no such pod is deleted gracefully or bound.
- A nomination that was withdrawn stays so, although the watch shows it: the watch shows it at once.
- A nominated pod that is being deleted loses its nomination when its turn comes, and wakes others:
  no pod is both.
- A host port that two pods of a node use is free for the judge once one of them is gone: no pod
  with host ports is bound by others.
- The end of an attempt whose pod is gone is not reported: only the judge's state counts there.
- Plugins that want new nodes are woken by every change of a taint: not in the judge.
"""

import copy
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import msgspec
from typing_extensions import override

from scheduler.kernel.engine.algorithm import ScheduleResult, SchedulingAlgorithm
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
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
from scheduler.kernel.engine.scheduling_failure import SCHEDULING_FAILED
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import EventResource
from scheduler.kernel.framework.runtime import Feasibility
from scheduler.kernel.framework.runtime.scoring import Best
from scheduler.kernel.snapshot import Snapshot
from scheduler.tools.offline.cases import load_case
from scheduler.tools.offline.reading import objects_from_documents
from tests.parity.generator.draw import Draw, Object

UNITS: Final = 512
"""Units of time per second: exact in nanoseconds and in floats."""
BEGINNING: Final = 1000.0
"""The time of the beginning, in seconds: a whole one, as backoff is counted in those."""
STEP_KINDS: Final = ("Namespace", "Node", "Pod")
"""The kinds of objects that steps are about."""
QUIET: Final = "SchedulerError"
"""The reason of failures whose texts are Stowage's own."""
_PLURAL: Final = {"Namespace": "namespaces", "Node": "nodes", "Pod": "pods"}
_REFUSED: Final = 'running Bind plugin "DefaultBinder": the API server refuses'
_SKIPPED: Final = "skip schedule deleting pod"


class _FirstOfEqual(SchedulingAlgorithm):
    """Takes the first of equally good nodes; events come while an attempt that fails is made."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__(Random(0))
        self._meanwhile = meanwhile

    @override
    def schedule_pod(self, *args: Any, **kwargs: Any) -> Any:
        found = super().schedule_pod(*args, **kwargs)
        if not isinstance(found, ScheduleResult):
            self._meanwhile()
        return found

    @override
    def _pick(
        self, state: CycleState, best: Best, snapshot: Snapshot, found: Feasibility
    ) -> ScheduleResult:
        names = snapshot.table.names
        row = min(range(len(best.rows)), key=lambda at: names[best.rows.item(at)])
        return super()._pick(
            state, msgspec.structs.replace(best, rows=best.rows[row : row + 1]), snapshot, found
        )


class World:
    """The API server: the objects that it holds, as raw objects by kind and key."""

    def __init__(self, case: Object) -> None:
        self.held: dict[str, dict[str, Object]] = {kind: {} for kind in STEP_KINDS}
        self.shown: dict[str, dict[str, Object]] = {kind: {} for kind in STEP_KINDS}
        """The objects as the scheduler has seen them."""
        self.to_come: dict[str, list[Object]] = {kind: [] for kind in STEP_KINDS}
        self._version = 0
        for raw in case["objects"]:
            if raw["kind"] in STEP_KINDS:
                self.to_come[raw["kind"]].append(raw)

    def write(self, raw: Object) -> Object:
        """Hold a new version of an object."""
        self._version += 1
        raw = copy.deepcopy(raw)
        before = self.held[raw["kind"]].get(key_of(raw), raw)
        if before.get("spec") != raw.get("spec"):
            raw["metadata"]["generation"] = raw["metadata"].get("generation", 0) + 1
        raw["metadata"]["resourceVersion"] = str(self._version)
        self.held[raw["kind"]][key_of(raw)] = raw
        return raw

    def pods(self, *, assigned: bool) -> list[Object]:
        """The pods that have a node, or those that have none."""
        return [raw for raw in self.held["Pod"].values() if bool(node_of(raw)) == assigned]


class Living:
    """Our engine, the API server, and the steps so far."""

    def __init__(self, case: Object, seed: int) -> None:
        self.draw = Draw(f"steps:{seed}")
        self.world = World(case)
        self.pace = self.draw.pick((15, 30, 60, 100))
        """How often the next pod is tried."""
        self._refuses = self.draw.pick((0.1, 0.2, 0.6))
        self.steps: list[Object] = []
        self.answers: list[Object] = []
        self.bindings: dict[str, Bind] = {}
        """Bindings without an answer, by the key of the pod."""
        self._others = [raw for raw in case["objects"] if raw["kind"] not in STEP_KINDS]
        _, cluster = load_case({**case, "objects": self._others})
        self.engine = cluster.engine
        self.engine.core.algorithm = _FirstOfEqual(self.meanwhile)
        self.units = 0
        self.tried: Object | None = None
        self.during: list[Object] | None = None
        self._frees_nothing = False
        self._renominated = ""
        """The pod whose nomination was changed in the present step."""
        self.owed: dict[str, None] = {}
        """Pods whose newest version the scheduler has not seen."""
        self._quieten()

    def _quieten(self) -> None:
        """Keep out the differences of the queue that are meant; see above."""
        queue = self.engine.core.queue
        pop, found_place = queue.pop, queue.found_place
        add, move = (
            queue.add_unschedulable_if_not_present,
            queue.move_all_to_active_or_backoff_queue,
        )
        free = queue.free_nomination

        def popped() -> Any:
            queued = pop()
            if queued is not None:
                self.tried = {"pod": queued.pod_info.key}
            return queued

        def placed(uid: str, node: str) -> None:
            self._frees_nothing = True
            found_place(uid, node)
            self._frees_nothing = False

        def freed(pod: Any, but: str = "") -> None:
            if not self._frees_nothing:
                free(pod)

        def moved(event: Any, *args: Any, **kwargs: Any) -> None:
            if event.resource is not EventResource.NAMESPACE:
                move(event, *args, **kwargs)

        replaced = {
            "pop": popped,
            "found_place": placed,
            "add_unschedulable_if_not_present": lambda queued, failure: add(
                queued, msgspec.structs.replace(failure, excess=None)
            ),
            "move_all_to_active_or_backoff_queue": moved,
            "free_nomination": freed,
        }
        for name, method in replaced.items():
            setattr(queue, name, method)

    def meanwhile(self) -> None:
        """Called between the decision about a pod that fits nowhere and its return."""

    # --- changes ----------------------------------------------------------------------------------

    def show(self, raw: Object) -> None:
        """Deliver an object that is new or has changed to the scheduler."""
        key = key_of(raw)
        self.owed.pop(key, None)
        self.world.shown[raw["kind"]][key] = raw
        event = ObjectSet(_PLURAL[raw["kind"]], decoded(raw))
        step = {"do": "set", "object": copy.deepcopy(raw)}
        self.step(step, lambda: self.handle(event))

    def delete(self, raw: Object) -> None:
        """Delete an object at the scheduler too; the binding of a pod has an answer at once."""
        key, meta = key_of(raw), raw["metadata"]
        if key in self.owed:
            self.show(self.world.held["Pod"][key])
        del self.world.held[raw["kind"]][key]
        shown = self.world.shown[raw["kind"]].pop(key)
        gone = ObjectGone(
            _PLURAL[raw["kind"]], meta.get("namespace", ""), meta["name"], shown["metadata"]["uid"]
        )
        self.step({"do": "delete", "object": copy.deepcopy(raw)}, lambda: self.handle(gone))
        if key in self.bindings and self.during is None:
            self.answer(key)

    def answer(self, key: str) -> None:
        """The API server carries out a binding, or refuses it."""
        bind = self.bindings.pop(key)
        raw = self.world.held["Pod"].get(key)
        is_there = raw is not None and raw["metadata"]["uid"] == bind.uid and not is_leaving(raw)
        if raw is not None and is_there and not node_of(raw) and not self.draw.maybe(self._refuses):
            raw = copy.deepcopy(raw)
            raw["spec"]["nodeName"] = bind.node
            self.world.write(raw)
            self.owed[key] = None
            answer: Event = Bound(bind.attempt)
            self.step({"do": "bound", "pod": key}, lambda: self.handle(answer))
        else:
            failure = BindFailed(bind.attempt, _REFUSED)
            self.step({"do": "unbound", "pod": key}, lambda: self.handle(failure))

    def step(self, step: Object, do: Callable[[], None]) -> None:
        """Take a step, and write down what it has led to; one within an attempt is a part of it."""
        self.units += self.draw.randint(1, 40)
        step["at"] = self.units
        if self.during is not None:
            self.during.append(step)
            do()
            return
        self.steps.append(step)
        self.tried = None
        do()
        if self.during is not None:
            step["during"], self.during = self.during, None
            step["until"] = self.units
        self.answers.append({"tried": self.tried, **self._state()})
        key, self._renominated = self._renominated, ""
        if key in self.owed:
            self.show(self.world.held["Pod"][key])

    def handle(self, event: Event) -> None:
        """Pass an event to the engine, and leave nothing that follows from it for the next one."""
        engine, now = self.engine, BEGINNING + self.units / UNITS
        if self.during is not None:
            engine.core.time.now = now
            engine._call(engine._handlers[type(event)], event)
        else:
            for instruction in engine.handle(event, now):
                self._carry_out(instruction)
        queue = engine.core.queue
        queue._active._wasting_since = None
        waking = queue._waking
        while waking.has_more:
            waking.some()

    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, RunPreBind):
            self.handle(PreBound(instruction.attempt))
        elif isinstance(instruction, Bind):
            self.bindings[f"{instruction.namespace}/{instruction.name}"] = instruction
            self._note(host=instruction.node)
        elif isinstance(instruction, RecordEvent):
            if instruction.reason != "FailedScheduling" or instruction.note.startswith(_SKIPPED):
                return
            if self.tried is None:
                name = instruction.regarding
                self.tried = {"pod": f"{name.namespace}/{name.name}"}
            self.tried.setdefault("reason", "Unschedulable")
            self._note(message=instruction.note)
        elif isinstance(instruction, LogError):
            if instruction.message != SCHEDULING_FAILED:
                raise AssertionError(instruction)
            if self.tried is None:
                self.tried = {"pod": instruction.pod}
            self._note(reason=QUIET)
        elif isinstance(instruction, PatchStatus):
            self._patch(instruction)

    def _note(self, **said: Any) -> None:
        assert self.tried is not None
        self.tried.update(said)

    def _patch(self, patch: PatchStatus) -> None:
        key = f"{patch.namespace}/{patch.name}"
        raw = self.world.held["Pod"].get(key)
        condition = patch.condition
        if condition is not None:
            fields = ("type", "status", "reason", "message")
            said = {field: getattr(condition, field) for field in fields}
            said["observedGeneration"] = condition.observed_generation
            self._note(condition=said)
            said = {**said, "lastTransitionTime": "2026-01-02T03:04:05Z"}
        if patch.nominated_node_name is not None:
            self._note(nomination=patch.nominated_node_name)
        if raw is None or raw["metadata"]["uid"] != patch.uid:
            return
        raw = copy.deepcopy(raw)
        status = raw["status"]
        if condition is not None:
            others = [each for each in status.get("conditions", ()) if each["type"] != said["type"]]
            status["conditions"] = [*others, said]
        if patch.nominated_node_name:
            status["nominatedNodeName"] = patch.nominated_node_name
        elif patch.nominated_node_name is not None:
            status.pop("nominatedNodeName", None)
        self.world.write(raw)
        self.owed[key] = None
        if patch.nominated_node_name is not None:
            self._renominated = key

    # --- what has come of it ----------------------------------------------------------------------

    def _state(self) -> Object:
        core = self.engine.core
        core.queue.validate()
        rows = list(core.queue.rows())
        pods: Object = {}
        for row in rows:
            place = core.queue.place_of(str(row["uid"]))
            assert place is not None
            if place.name != "inFlight":
                pods[str(row["pod"])] = _queued(place.name, place.queued)
        early = (row for row in rows if row["queue"] == "backoff" and _is_rejected(row))
        following = [*(row for row in rows if row["queue"] == "active"), *early]
        nodes: dict[str, list[str]] = {
            name: [] for name, info in core.cache.nodes.items() if info.node is not None
        }
        for pod in core.cache.pods.values():
            if pod.node_name in nodes:
                nodes[pod.node_name].append(pod.key)
        nominator = core.queue.nominator
        return {
            "pods": pods,
            "next": [row["pod"] for row in following],
            "nodes": {name: sorted(found) for name, found in nodes.items()},
            "nominated": {
                name: sorted(pod.key for pod in nominator.nominated_pods_for_node(name))
                for name in nominator
            },
        }


def _queued(place: str, queued: Any) -> Object:
    return {
        "place": place,
        "since": units_of(queued.timestamp),
        "until": units_of(queued.backoff_expiration) if place == "backoff" else 0,
        "attempts": queued.attempts,
        "rejections": queued.unschedulable_count,
        "errors": queued.consecutive_errors_count,
        "unschedulable": sorted(queued.unschedulable_plugins),
        "pending": sorted(queued.pending_plugins),
        "gate": queued.gating_plugin,
    }


def units_of(seconds: float) -> int:
    return round((seconds - BEGINNING) * UNITS)


def _is_rejected(row: Mapping[str, object]) -> bool:
    return bool(row["unschedulablePlugins"] or row["pendingPlugins"])


def key_of(raw: Object) -> str:
    """Namespace and name of an object, or its name."""
    meta = raw["metadata"]
    namespace = meta.get("namespace", "")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def node_of(raw: Object) -> str:
    return str(raw["spec"].get("nodeName", ""))


def is_leaving(raw: Object) -> bool:
    return "deletionTimestamp" in raw["metadata"]


def decoded(raw: Object) -> Any:
    """An object as the engine takes it."""
    objects = objects_from_documents([("step", copy.deepcopy(raw))], is_whole=False)
    [found] = [*objects.nodes, *objects.pods, *objects.namespaces]
    return found
