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
- A preemptor backs off if an eviction fails: here it is tried at once.
- A preemptor is gated until the watch shows its victims leaving: the answer to an eviction and what
  the watch shows are one step.
  If the last victim has gone before the others, the answer comes first.
- The gate of a preemptor opens by itself: in the judge, too.
- The last victim stays if its preemptor is gone or loses its place: no such thing happens to a
  preemptor, and no more important pod is tried, while its victims are evicted.
- A victim is evicted once for several preemptors: the judge counts it once, and the eviction is not
  refused.
- A preemptor is tried again if the binding of its victim fails: no such binding is refused.
- The failed binding of a deleted pod wakes no pod again, although a gate was closed before: all
  victims but the last are bound before they are deleted.
- The engine decides without a break: nothing happens within the attempts of pods that may preempt.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import msgspec

from scheduler.api.written import Condition
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Event,
    Evicted,
    EvictFailed,
    ObjectGone,
    ObjectSet,
    PreBound,
)
from scheduler.kernel.engine.instructions import (
    Bind,
    Evict,
    Instruction,
    LogError,
    PatchStatus,
    RecordEvent,
    RunPreBind,
)
from scheduler.kernel.engine.scheduling_failure import SCHEDULING_FAILED
from scheduler.kernel.framework.events import ClusterEvent, EventResource
from scheduler.tools.offline.cases import load_case
from tests.parity.first_of_equal import FirstOfEqual
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.histories import may_preempt
from tests.parity.history_state import BEGINNING, UNITS, state_of
from tests.parity.world import World, decoded, is_leaving, key_of, kinds_of_steps, leave, node_of

QUIET: Final = "SchedulerError"
"""The reason of failures whose texts are Stowage's own."""
PLURAL: Final = {
    "Namespace": "namespaces",
    "Node": "nodes",
    "Pod": "pods",
    "PodGroup": "podgroups",
    "DeviceClass": "deviceclasses",
    "ResourceSlice": "resourceslices",
    "ResourceClaim": "resourceclaims",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PersistentVolume": "persistentvolumes",
    "StorageClass": "storageclasses",
    "CSINode": "csinodes",
    "CSIDriver": "csidrivers",
    "CSIStorageCapacity": "csistoragecapacities",
    "VolumeAttachment": "volumeattachments",
    "Service": "services",
    "ReplicationController": "replicationcontrollers",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "PodDisruptionBudget": "poddisruptionbudgets",
}
REFUSED: Final = "the API server refuses"
_REFUSED: Final = f'running Bind plugin "DefaultBinder": {REFUSED}'
_EVICTION_FAILED: Final = "Eviction failed"
_SKIPPED: Final = "skip schedule deleting pod"


class Living:
    """Our engine, the API server, and the steps so far."""

    GATES: ClassVar[Sequence[str]] = ()
    """The feature gates that are on."""

    def __init__(self, case: Object, seed: int) -> None:
        self.draw = Draw(f"steps:{seed}")
        self.world = World(case)
        self.pace = self.draw.pick((15, 30, 60, 100))
        """How often the next pod is tried."""
        self._refuses = self.draw.pick((0.1, 0.2, 0.6))
        self.preempts = may_preempt(case)
        """Whether pods may preempt others; nothing happens within an attempt then."""
        self._keeps = Draw(f"evictions:{seed}").pick((0.0, 0.1, 0.4))
        """How often the API server refuses an eviction."""
        self._evicts_at_once = Draw(f"evictions at once:{seed}").maybe(0.5)
        self.steps: list[Object] = []
        self.answers: list[Object] = []
        self.bindings: dict[str, Bind] = {}
        """Bindings without an answer, by the key of the pod."""
        self.evictions: dict[str, Evict] = {}
        """Evictions without an answer, by the key of the victim."""
        kinds = kinds_of_steps(case)
        self._others = [raw for raw in case["objects"] if raw["kind"] not in kinds]
        self.profiles, cluster = load_case({**case, "objects": self._others}, self.GATES)
        self.engine = cluster.engine
        percentage = self.profiles.config.percentage_of_nodes_to_score
        self.engine.core.algorithm = FirstOfEqual(self.meanwhile, percentage)
        self.units = 0
        self.tried: Object | None = None
        self.during: list[Object] | None = None
        self._then: list[Object] | None = None
        """What follows from a step, and is a part of it."""
        self._after: list[Callable[[], None]] = []
        """What is to follow from the present step."""
        self._evicted: Object = {}
        """The conditions of the victims whose evictions were requested in the present step."""
        self._displaced: list[str] = []
        """Pods that lost their nomination to the one that was tried."""
        self._unbound: list[str] = []
        """Pods that were evicted while their binding was under way."""
        self._frees_nothing = False
        self._renominated = ""
        """The pod whose nomination was changed in the present step."""
        self.owed: dict[str, None] = {}
        """Pods whose newest version the scheduler has not seen."""
        self._quieten()

    def _quieten(self) -> None:
        """Keep out the differences of the queue that are meant; see above."""
        queue = self.engine.core.queue
        pop, found_place, free = queue.pop, queue.found_place, queue.free_nomination
        add = queue.add_unschedulable_if_not_present
        move = queue.move_all_to_active_or_backoff_queue
        executor = self.engine.preemption_executor
        evict = executor.evict

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
            if self.wakes(event, *args):
                move(event, *args, **kwargs)

        def evicted(preemptor: Any, chosen: Sequence[Any]) -> None:
            if any(map(executor._has_to_leave, chosen)):
                self._note(victims=sorted(victim.key for victim in chosen))
            evict(preemptor, chosen)

        replaced = {
            "try_again": lambda uid: queue.activate((uid,)),
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
        executor.evict = evicted  # type: ignore[method-assign]

    def wakes(self, event: ClusterEvent, old: Any = None, new: Any = None) -> bool:
        """Whether an event wakes pods with the judge, too."""
        del old, new
        return event.resource is not EventResource.NAMESPACE

    def meanwhile(self) -> None:
        """Called between the decision about a pod that fits nowhere and its return."""

    # --- changes ----------------------------------------------------------------------------------

    def show(self, raw: Object) -> None:
        """Deliver an object that is new or has changed to the scheduler."""
        key = key_of(raw)
        self.owed.pop(key, None)
        self.world.shown[raw["kind"]][key] = raw
        event = ObjectSet(PLURAL[raw["kind"]], decoded(raw))
        if is_leaving(raw):
            self._answer_with(key)
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
            PLURAL[raw["kind"]], meta.get("namespace", ""), meta["name"], shown["metadata"]["uid"]
        )
        self._answer_with(key)
        self.step({"do": "delete", "object": copy.deepcopy(raw)}, lambda: self.handle(gone))
        if key in self.bindings and self._then is not None:
            self._unbound.append(key)
        elif key in self.bindings and self.during is None:
            self.answer(key)

    def _answer_with(self, key: str) -> None:
        """Answer the eviction of a victim that others delete, if there is any."""
        if key in self.evictions:
            self._after.append(lambda: self.answer_eviction(key))

    def answer(self, key: str) -> None:
        """The API server carries out a binding, or refuses it."""
        bind = self.bindings.pop(key)
        raw = self.world.held["Pod"].get(key)
        is_there = raw is not None and raw["metadata"]["uid"] == bind.uid and not is_leaving(raw)
        is_free = raw is not None and is_there and not node_of(raw)
        is_victim = bind.uid in self.engine.preemption_executor._wanted
        if is_free and (is_victim or not self.draw.maybe(self._refuses)):
            raw = copy.deepcopy(raw)
            raw["spec"]["nodeName"] = bind.node
            self.world.write(raw)
            self.owed[key] = None
            answer: Event = Bound(bind.attempt)
            self.step({"do": "bound", "pod": key}, lambda: self.handle(answer))
        else:
            failure = BindFailed(bind.attempt, _REFUSED)
            self.step({"do": "unbound", "pod": key}, lambda: self.handle(failure))

    def answer_eviction(self, key: str) -> None:
        """The API server deletes a victim, gracefully or at once, or refuses it.

        The answer and what the watch shows come together, in any order.
        """
        evict, executor = self.evictions[key], self.engine.preemption_executor
        run = executor._runs.get(evict.preemptor)
        if key in self.bindings and run is not None and run.first:
            self.answer(key)
        del self.evictions[key]
        raw = copy.deepcopy(self.world.held["Pod"].get(key))
        is_shared = len(executor._wanted.get(evict.uid, ())) > 1
        if raw is None or raw["metadata"]["uid"] != evict.uid or is_leaving(raw):
            self._end_eviction(key, Evicted(evict.uid, was_there=raw is not None))
        elif self.draw.maybe(self._keeps) and not is_shared:
            self._end_eviction(key, EvictFailed(evict.uid, "the API server refuses"))
        else:
            if key in self.owed:
                self.show(self.world.held["Pod"][key])
            ways = [
                lambda: self._end_eviction(key, Evicted(evict.uid)),
                lambda: self._end_victim(raw, evict),
            ]
            if not self.opens_gate(evict.uid):
                self.draw.shuffle(ways)
            self._after.append(ways[1])
            ways[0]()

    def opens_gate(self, uid: str) -> bool:
        """Whether a preemptor waits only for this victim, and not as the last one."""
        runs = self.engine.preemption_executor._runs.values()
        return any(run.first == {uid} and run.is_last_leaving for run in runs)

    def _end_eviction(self, key: str, answer: Evicted | EvictFailed) -> None:
        do = "evicted" if isinstance(answer, Evicted) else "unevicted"
        self.step({"do": do, "pod": key}, lambda: self.handle(answer))

    def _end_victim(self, raw: Object, evict: Evict) -> None:
        if evict.condition is not None:
            raw["status"].setdefault("conditions", []).append(noted_condition(evict.condition))
        if not node_of(raw) or self.draw.maybe(0.2):
            self.delete(raw)
        else:
            leave(raw)
            self.show(self.world.write(raw))

    def _follow_up(self) -> list[Object]:
        """What follows from a step at once, before its end is looked at."""
        self._then = []
        while self._after or self._displaced or (self._evicts_at_once and self.evictions):
            if self._after:
                self._after.pop(0)()
            elif self._displaced:
                self.show(self.world.held["Pod"][self._displaced.pop()])
            else:
                self.answer_eviction(self.draw.pick(sorted(self.evictions)))
        then, self._then = self._then, None
        return then

    def step(self, step: Object, do: Callable[[], None]) -> None:
        """Take a step, and write down what it has led to; one within an attempt is a part of it."""
        self.units += self.draw.randint(1, 40)
        step["at"] = self.units
        whole = self._then if self.during is None else self.during
        if whole is not None:
            whole.append(step)
            do()
            return
        self.steps.append(step)
        self.tried, self._evicted = None, {}
        do()
        if self.during is not None:
            step["during"], self.during = self.during, None
            step["until"] = self.units
        if then := self._follow_up():
            step["then"] = then
        state = {**state_of(self.engine.core), **self.written(step)}
        self.answers.append({"tried": self.tried, "evictions": self._evicted, **state})
        key, self._renominated = self._renominated, ""
        if key in self.owed:
            self.show(self.world.held["Pod"][key])
        while self._unbound:
            self.answer(self._unbound.pop())

    def written(self, step: Object) -> Object:
        """What is compared besides after a step, which learns how it was answered."""
        del step
        return {}

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
        elif isinstance(instruction, Evict):
            self._evict(instruction)
        elif isinstance(instruction, RecordEvent):
            if instruction.reason != "FailedScheduling" or instruction.note.startswith(_SKIPPED):
                return
            if self.tried is None:
                name = instruction.regarding
                self.tried = {"pod": f"{name.namespace}/{name.name}"}
            self.tried.setdefault("reason", "Unschedulable")
            self._note(message=instruction.note)
        elif isinstance(instruction, LogError):
            if instruction.message == _EVICTION_FAILED:
                return
            if instruction.message != SCHEDULING_FAILED:
                raise AssertionError(instruction)
            if self.tried is None:
                self.tried = {"pod": instruction.pod}
            self._note(reason=QUIET)
        elif isinstance(instruction, PatchStatus):
            self._patch(instruction)

    def _evict(self, evict: Evict) -> None:
        key = f"{evict.namespace}/{evict.name}"
        self.evictions[key] = evict
        self._evicted[key] = evict.condition and noted_condition(evict.condition)

    def _note(self, **noted: Any) -> None:
        assert self.tried is not None
        self.tried.update(noted)

    def _patch(self, patch: PatchStatus) -> None:
        key = f"{patch.namespace}/{patch.name}"
        raw = self.world.held["Pod"].get(key)
        condition = patch.condition
        if condition is not None:
            noted = noted_condition(condition)
            self._note(condition=noted)
            noted = {**noted, "lastTransitionTime": "2026-01-02T03:04:05Z"}
        tried = self.tried or {"pod": key}
        is_displaced = condition is None and tried["pod"] != key
        if is_displaced:
            self._note(displaced=sorted([*tried.get("displaced", ()), key]))
        elif patch.nominated_node_name is not None:
            self._note(nomination=patch.nominated_node_name)
        if raw is None or raw["metadata"]["uid"] != patch.uid:
            return
        raw = copy.deepcopy(raw)
        status = raw["status"]
        if condition is not None:
            others = [c for c in status.get("conditions", ()) if c["type"] != noted["type"]]
            status["conditions"] = [*others, noted]
        if patch.nominated_node_name:
            status["nominatedNodeName"] = patch.nominated_node_name
        elif patch.nominated_node_name is not None:
            status.pop("nominatedNodeName", None)
        self.world.write(raw)
        self.owed[key] = None
        if is_displaced:
            self._displaced.append(key)
        elif patch.nominated_node_name is not None:
            self._renominated = key


def noted_condition(written: Condition) -> Object:
    """A condition as it is compared."""
    fields = ("type", "status", "reason", "message")
    noted = {field: getattr(written, field) for field in fields}
    return {**noted, "observedGeneration": written.observed_generation}
