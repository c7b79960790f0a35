"""Times what the engine does about the pods of one workload in a cluster in memory."""

import gc
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import process_time_ns, thread_time_ns
from typing import Final, TypeAlias

import msgspec

from bench import devices, objects, storage
from bench.decisions.claims import written_claims
from bench.decisions.storage import bound_storage
from bench.latency import percentile
from bench.results import Decision
from bench.workload import Workload
from e2e.support.objects import Json
from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration
from scheduler.daemon.driver.driver import EventLog
from scheduler.daemon.informers.kinds import KINDS
from scheduler.daemon.recording.records import Header
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine.events import Bound, Decide, Event, ObjectSet, PreBound, Tick
from scheduler.kernel.engine.instructions import Bind, Instruction, RunPreBind
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.kernel.engine.placing import MAX_BATCH
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.tools.offline.cluster import Profiles

Handle: TypeAlias = Callable[[Event, float], Sequence[Instruction]]

_PODS_PER_NODE: Final = 6
_LARGE: Final = ((130_000, 8), (50_000, 10))
"""From so many nodes on, so many pods on each: 1,040,000 and 500,000."""
WARM_UP: Final = 100
"""Decisions that do not count: the first of a class looks at every node."""
TURN: Final = 100
"""Pods that go by in a second, where engines take turns."""
_KINDS: Final = {kind.list_kind.removesuffix("List"): kind for kind in KINDS}
HEADER: Final = Header(
    recording="bench",
    version="",
    configuration={},
    seed=0,
    max_in_unschedulable_seconds=300.0,
    started=1e9,
    clock=0.0,
)
"""Of what is kept of an engine that is timed."""


class Timed:
    """An engine with a cluster where six (eight, ten) pods run on each node, and pods to come.

    The engine is told what a daemon tells it: the pods, Decide, what is written for the claims of
    each, PreBound, Bound, and the pods on their nodes. It waits for nothing, so it is timed by the
    CPU time of this thread: what else the machine does is left out.

    Attributes:
        running: pods that run.
        pods: those to come, in order.
        handle: tells the engine of an event, and the log of it.
    """

    def __init__(
        self,
        workload: Workload,
        node_count: int,
        count: int,
        take_outcome: TakeOutcome | None = None,
        log: EventLog | None = None,
    ) -> None:
        per_node = next((each for nodes, each in _LARGE if node_count >= nodes), _PODS_PER_NODE)
        self.running = running = node_count * per_node
        nodes = objects.nodes_of(workload.nodes, node_count)
        names = [node["metadata"]["name"] for node in nodes]
        before = objects.PodFactory(workload.running_template, names, "pod")
        bodies = chain(
            nodes,
            objects.namespaces_of(workload),
            objects.services_of(workload),
            storage.classes_of(workload),
            storage.volumes_of(workload, names, max(node_count, count)),
            storage.claims_of(workload, running, count),
            devices.objects_of(workload, names, running, count),
            _running(workload, before, nodes, running),
        )
        profiles = Profiles(default_configuration(objects.SCHEDULER_NAME))
        self._engine = engine = profiles.engine(0, take_outcome=take_outcome)
        for body in bodies:
            engine.handle(_told(body), 0.0)
        engine.handle(Tick(), 0.0)
        self.handle = engine.handle if log is None else _logged(engine.handle, log)
        factory = objects.PodFactory(workload.pods, names, "pod")
        # Read beforehand: that is no part of a decision.
        self.pods = iter(list(_waiting_pods(factory, running, count)))

    def schedule(self, pod: PodInfo) -> tuple[float, float] | None:
        """As `schedule_all`, of one pod."""
        return self.schedule_all([pod])

    def schedule_all(self, pods: Sequence[PodInfo]) -> tuple[float, float] | None:
        """Let pods come, and let them be scheduled and bound.

        Returns:
            Microseconds of all `Decide`, and of all other events of the pods, for each pod; None
            when one fits nowhere.
        """
        engine = self._engine
        _, other = self._tell([ObjectSet("pods", pod) for pod in pods])
        start = thread_time_ns()
        told: list[Instruction] = []
        while engine.has_ready:
            told += self.handle(Decide(len(pods)), engine.core.now)
        decided = thread_time_ns() - start
        steps = (each for each in told if isinstance(each, Bind | RunPreBind))
        seen: list[Event] = []
        for pod, step in zip(pods, steps, strict=False):
            if isinstance(step, Bind):
                bind = step
            else:
                [bind], spent = self._tell([*self._written(pod), PreBound(step.attempt)])
                other += spent
            seen += [Bound(bind.attempt), ObjectSet("pods", pod.on_node(bind.node))]
        _, spent = self._tell(seen)
        if len(seen) < 2 * len(pods):
            return None
        return decided / 1000 / len(pods), (other + spent) / 1000 / len(pods)

    def _tell(self, events: Sequence[Event]) -> tuple[Sequence[Bind], int]:
        """Tell of events; gives the bindings that follow, and the nanoseconds it took."""
        handle, now = self.handle, self._engine.core.now
        start = thread_time_ns()
        told = [each for event in events for each in handle(event, now)]
        spent = thread_time_ns() - start
        return [each for each in told if isinstance(each, Bind)], spent

    def _written(self, pod: PodInfo) -> Iterator[Event]:
        """What is seen of the claims of a decided pod until it can be bound."""
        states = self._engine.core.states
        yield from bound_storage(pod, states.shared(VolumeCatalog, ""))
        yield from written_claims(pod, states.shared(ClaimCatalog, ""))

    def turn(self, pods: int) -> float:
        """The next pods, and what a second brings.

        Returns:
            Microseconds of processor time of the whole process for each of the pods.
        """
        start = process_time_ns()
        for _ in range(pods):
            self.schedule(next(self.pods))
        self.handle(Tick(), self._engine.core.now + 1.0)
        return (process_time_ns() - start) / 1000 / pods


def _logged(handle: Handle, log: EventLog) -> Handle:
    def handled(event: Event, now: float) -> Sequence[Instruction]:
        told = handle(event, now)
        log.note(event, now, told)
        return told

    return handled


def time_decisions(
    workload: Workload, node_count: int, decisions: int, batch: int = MAX_BATCH
) -> Decision:
    """Decides about ``decisions`` pods, of which so many wait at a time; see `Timed`."""
    timed = Timed(workload, node_count, WARM_UP + decisions)
    decided: list[float] = []
    rest: list[float] = []
    note = "" if batch == MAX_BATCH else f"{batch} wait at a time"
    # As the daemon does once its caches are filled.
    gc.collect()
    gc.freeze()
    while pods := list(islice(timed.pods, batch)):
        times = timed.schedule_all(pods)
        if times is None:
            note = f"{pods[0].key} or one after it fits nowhere"
            break
        decided += [times[0]] * len(pods)
        rest += [times[1]] * len(pods)
    gc.unfreeze()
    counted, rest = decided[WARM_UP:], rest[WARM_UP:]
    peak_kilobytes = getrusage(RUSAGE_SELF).ru_maxrss
    return Decision(
        workload=workload.name,
        nodes=node_count,
        pods=timed.running,
        decisions=len(counted),
        median_us=median(counted) if counted else 0.0,
        p99_us=percentile(counted, 0.99),
        rest_us=median(rest) if rest else 0.0,
        peak_memory_bytes=1024 * peak_kilobytes,
        note=note,
    )


def _running(
    workload: Workload, factory: objects.PodFactory, nodes: list[Json], count: int
) -> Iterator[Json]:
    for _, body in objects.running_pods(workload, factory, nodes, count):
        yield msgspec.json.decode(body)


def _waiting_pods(factory: objects.PodFactory, first: int, count: int) -> Iterator[PodInfo]:
    for each in range(first, first + count):
        yield _told(msgspec.json.decode(factory.waiting(each))).object


def _told(body: Json) -> ObjectSet:
    """What an engine is told of an object, read from its bytes as an informer reads it."""
    kind, metadata = _KINDS[body["kind"]], body["metadata"]
    uid = f"{metadata.get('namespace', '')}/{metadata['name']}"
    stored = msgspec.json.encode({**body, "metadata": {**metadata, "uid": uid}})
    return ObjectSet(kind.name, kind.decode(stored))
