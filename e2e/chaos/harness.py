"""Injects faults one after another, waits for recovery after each, and checks the invariants."""

import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGUSR2
from typing import Final

from typing_extensions import override

from e2e.chaos.checker import Violation, Window, checked
from e2e.chaos.faults import CATALOGUE, DiskFull, Fault, mount_small, unmount
from e2e.chaos.gang_judge import judge_gangs
from e2e.chaos.recordings import PROMISE as IDENTICAL, Replayed, replay_all
from e2e.chaos.replicas import Kind, Replica
from e2e.chaos.world import Size, World
from e2e.support.audit import read_audit_log
from e2e.support.objects import Json
from e2e.support.waiting import WaitTimeoutError, wait_for
from scheduler.daemon.driver.lanes import CONCURRENCY

RECOVERY_SECONDS: Final = 15.0
IN_TIME: Final = "every pod bound within 15 s after the last fault"
_PATIENCE_SECONDS: Final = 90.0
"""Time after which an unbound pod counts as lost."""
_CLAIMS_SECONDS: Final = 90.0
"""The garbage collector may resync before it deletes objects without an owner."""
_POLL_SECONDS: Final = 0.1
_COMBINED_SHARE: Final = 0.25
_REQUESTS_PER_SECOND: Final = 200
"""Limit of connections and unanswered requests of a replica per second while requests fail. Each
of about a hundred requests may need a connection of its own."""
_MEMORY_FACTOR: Final = 1.5
_FILES_MORE: Final = CONCURRENCY + 8
"""Allowed increase in open files: a new leader may have a connection for each concurrent
request."""
_TASKS_MORE: Final = 10
_RECORDINGS_MEBIBYTES: Final = 16

_COMPARED: Final = "Cache comparer finished"
_MISMATCH: Final = "Cache mismatch"
_REBUILT: Final = "Snapshot rebuilt"
"""Log message of a daemon that corrected a mismatch between snapshot and cache."""


@dataclass(frozen=True, slots=True)
class Use:
    """Resource usage of a replica: bytes of memory, open files, asyncio tasks."""

    memory: int
    files: int
    tasks: int

    @override
    def __str__(self) -> str:
        tasks = f" and {self.tasks} tasks" if self.tasks else ""
        return f"{self.memory / 2**20:.0f} MiB, {self.files} files{tasks}"


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault, or two concurrent faults, and the recovery."""

    faults: tuple[str, ...]
    recovery_seconds: float
    lost: int


@dataclass
class Report:
    """Results of a run."""

    kind: Kind
    seed: int
    seconds: float = 0.0
    injections: list[Injection] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    bindings: int = 0
    evictions: int = 0
    repeated_evictions: int = 0
    whole_gangs: int = 0
    """Gangs that reached their required number of bound members."""
    restarts: int = 0
    most_requests: int = 0
    """Maximum requests and connections of one replica in one second while requests failed."""
    resources: list[str] = field(default_factory=list)
    """Resource usage of the replicas at the end."""
    recordings: list[Replayed] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return sum(each.lost for each in self.injections)

    def rows(self) -> Iterator[tuple[str, int, float, float, int]]:
        """Yield fault, count, recovery p50 and maximum in seconds, and lost pods."""
        by_name: dict[str, list[Injection]] = {}
        for each in self.injections:
            name = each.faults[0] if len(each.faults) == 1 else "two of these at once"
            by_name.setdefault(name, []).append(each)
        order = [fault.name for fault in CATALOGUE]
        for name in sorted(by_name, key=lambda n: order.index(n) if n in order else len(order)):
            group = by_name[name]
            times = [each.recovery_seconds for each in group]
            lost = sum(each.lost for each in group)
            yield name, len(group), statistics.median(times), max(times), lost


class Harness:
    """One run."""

    def __init__(
        self,
        *,
        kind: Kind = Kind.STOWAGE,
        seed: int = 1,
        faults: Sequence[type[Fault]] = CATALOGUE,
        size: Size | None = None,
        directory: Path | None = None,
    ) -> None:
        self._faults = [each for each in faults if kind is Kind.STOWAGE or not each.is_stowage_only]
        self._kind = kind
        self._seed = seed
        self._windows: list[Window] = []
        self._size = size or Size()
        self._directory = directory
        self.report = Report(kind, seed)

    def run(self, minutes: float | None = None, *, combine: bool = True) -> Report:
        """Inject faults for this time, or each fault once; then check the invariants."""
        with World(self._kind, self._seed, self._size, self._directory) as world:
            mounted = self._mount_disks(world)
            try:
                try:
                    self._play(world, minutes, combine=combine)
                except WaitTimeoutError as problem:
                    # Decisions up to this point can still be replayed.
                    self._violated("what has to come comes", str(problem))
                self._replay(world)
            finally:
                for replica in world.replicas:
                    replica.close()
                for replica in mounted:
                    unmount(replica.recordings, keeps=self._directory is not None)
        return self.report

    def _mount_disks(self, world: World) -> list[Replica]:
        """Mount small disks for recordings, if a fault fills disks and mounting is permitted."""
        if DiskFull not in self._faults:
            return []
        mounted = [
            replica
            for replica in world.replicas
            if mount_small(replica.recordings, _RECORDINGS_MEBIBYTES)
        ]
        if not mounted:
            print("no small disk can be mounted here: the full disk is skipped", flush=True)
            self._faults.remove(DiskFull)
        return mounted

    def _play(self, world: World, minutes: float | None, *, combine: bool) -> None:
        world.start()
        self._settle(world)
        before = {replica.name: _usage_of(replica) for replica in world.replicas}
        begun = time.monotonic()
        for chosen in self._choices(world, minutes, begun, combine=combine):
            self._inject(world, chosen)
        self.report.seconds = time.monotonic() - begun
        world.run(world.load.stop())
        self._judge(world, before)

    def _settle(self, world: World) -> None:
        """Wait until the load has its full number of pods, as the baseline for memory."""
        world.pause(min(10.0, self._size.population / self._size.pods_per_second / 4))
        wait_for(lambda: not world.waiting(), "the first pods to be bound", 60, 0.5)

    def _choices(
        self, world: World, minutes: float | None, begun: float, *, combine: bool
    ) -> Iterator[tuple[type[Fault], ...]]:
        """Yield each fault once in random order, then more, sometimes two at once."""
        while True:
            for fault in world.draw.sample(self._faults, len(self._faults)):
                if minutes is not None and time.monotonic() - begun > minutes * 60:
                    return
                others = [each for each in self._faults if each.can_combine and each is not fault]
                if (
                    combine
                    and fault.can_combine
                    and others
                    and world.draw.random() < _COMBINED_SHARE
                ):
                    yield fault, world.draw.choice(others)
                yield (fault,)
            if minutes is None:
                return

    # --- one injection ----------------------------------------------------------------------------

    def _inject(self, world: World, chosen: Sequence[type[Fault]]) -> None:
        faults, begin, begun = [each() for each in chosen], time.time(), time.monotonic()
        name = " + ".join(each.name for each in chosen)
        for fault in faults:
            fault.begin(world)
        world.pause(max(fault.seconds for fault in faults))
        if any(fault.blocks_requests for fault in faults):
            world.failing_periods.append((begun, time.monotonic()))
        for fault in reversed(faults):
            fault.end(world)
        self._windows.append(Window(name, begin, time.time()))
        world.count()
        seconds, lost = self._await_recovery(world)
        self._windows[-1] = Window(name, begin, time.time())
        world.count()
        self.report.injections.append(Injection(tuple(f.name for f in faults), seconds, lost))
        print(f"{name}: {seconds:.1f} s" + (f", {lost} lost" if lost else ""), flush=True)
        if seconds > RECOVERY_SECONDS:
            what = f"{name}: {seconds:.1f} s"
            self._violated(IN_TIME, what)

    def _await_recovery(self, world: World) -> tuple[float, int]:
        """Wait for recovery; return the seconds, and the number of lost pods."""
        begun = time.monotonic()
        wanted = {world.run(world.load.probe())}
        wanted |= {pod["metadata"]["uid"] for pod in world.waiting()}

        def has_recovered() -> bool:
            nonlocal wanted
            world.supervise()
            wanted &= {pod["metadata"]["uid"] for pod in world.waiting()}
            return not wanted

        try:
            wait_for(has_recovered, "pods to be bound", _PATIENCE_SECONDS, _POLL_SECONDS)
        except WaitTimeoutError:
            lost = [pod for pod in world.waiting() if pod["metadata"]["uid"] in wanted]
            print(*map(_why, lost), sep="\n", flush=True)
            return _PATIENCE_SECONDS, len(lost)
        return time.monotonic() - begun, 0

    # --- at the end -------------------------------------------------------------------------------

    def _judge(self, world: World, before: dict[str, Use]) -> None:
        report = self.report

        def are_bound() -> bool:
            world.run(world.load.complete())
            return not world.waiting()

        try:
            wait_for(are_bound, "all pods to be bound", RECOVERY_SECONDS)
        except WaitTimeoutError:
            self._violated(IN_TIME, "; ".join(map(_why, world.waiting()[:5])))
        world.pause(2)
        self._check_claims(world)
        for replica in world.replicas:
            self._judge_use(replica, before[replica.name])
            self._judge_log(replica)
            if self._kind is Kind.STOWAGE:
                self._compare(world, replica)
            report.restarts += replica.restarts
        self._judge_requests(world)
        audit_log = world.control_plane.audit_log
        assert audit_log is not None, "an audit log was asked for"
        users = [replica.user for replica in world.replicas]
        events = list(read_audit_log(audit_log))
        checker = checked(events, users, self._windows, world.rewinds, world.censuses)
        gangs = judge_gangs(events, users, self._windows, world.rewinds, checker.lost)
        report.violations += [*checker.violations, *gangs.violations]
        report.whole_gangs = gangs.whole
        report.bindings = sum(checker.bindings[user] for user in users)
        report.evictions = checker.evictions
        report.repeated_evictions = checker.repeated
        for problem, count in world.load.problems.most_common(5):
            print(f"the load met, {count} times: {problem}", flush=True)

    def _check_claims(self, world: World) -> None:
        """Check that pods have the devices they claimed, and that no claims are left over."""
        for name in world.unserved():
            self._violated("every pod on a node has its devices", name)
        self._await_claims(world, "with their pods")
        world.run(world.load.end_pods_with_devices())
        self._await_claims(world, "in the end")

    def _await_claims(self, world: World, when: str) -> None:
        def are_gone() -> bool:
            world.run(world.load.devices.remove_unused(world.run(world.load.pods())))
            return not world.unused_claims()

        try:
            wait_for(are_gone, "claims without pods to go", _CLAIMS_SECONDS, 0.5)
        except WaitTimeoutError:
            what = f"{when}: {', '.join(world.unused_claims())}"
            self._violated("no claim is left behind", what)

    def _judge_use(self, replica: Replica, before: Use) -> None:
        after = _usage_of(replica)
        self.report.resources.append(f"{replica.name}: {before} before, {after} after")
        has_grown = (
            after.memory > before.memory * _MEMORY_FACTOR
            or after.files > before.files + _FILES_MORE
            or after.tasks > before.tasks + _TASKS_MORE
        )
        if has_grown:
            what = "memory, files and tasks return to where they were"
            self._violated(what, self.report.resources[-1])

    def _judge_log(self, replica: Replica) -> None:
        assert replica.program is not None, "every replica was started"
        with replica.program.log.open(errors="replace") as log:
            for line in log:
                # The daemon corrects a change that it could not apply for lack of memory.
                if _REBUILT in line and "MemoryError" not in line:
                    what = f"{replica.name}: {line[:300]}"
                    self._violated("cache, snapshot and API agree", what)
                if any(token in line for token in replica.tokens):
                    self._violated("no log holds a token", replica.name)

    def _compare(self, world: World, replica: Replica) -> None:
        """Compare the daemon's cache, queue and snapshot with the API server."""
        program = replica.program
        assert program is not None, "every replica was started"
        wait_for(program.is_running, f"{replica.name} to run")
        log = program.log
        offset = log.stat().st_size
        wait_for(lambda: "Caches are synced" in program.log.read_text(), f"{replica.name} to sync")
        program.signal(SIGUSR2)

        def log_text() -> str:
            with log.open("rb") as lines:
                lines.seek(offset)
                return lines.read().decode(errors="replace")

        wait_for(lambda: _COMPARED in log_text(), f"{replica.name} to compare")
        for line in log_text().splitlines():
            if _MISMATCH in line:
                self._violated("cache, snapshot and API agree", f"{replica.name}: {line[:300]}")
        counted = _counted_nodes(log_text())
        there = len(world.run(world.cluster.api.list_items("/api/v1/nodes")))
        if counted is not None and counted != there:
            what = f"{replica.name} knows {counted} nodes, the API server {there}"
            self._violated("cache, snapshot and API agree", what)

    def _replay(self, world: World) -> None:
        """Replay all decisions of the replicas."""
        for replica in world.replicas:
            replica.close()
        self.report.recordings = replay_all([replica.recordings for replica in world.replicas])
        for each in self.report.recordings:
            if each.problem:
                self._violated(IDENTICAL, f"{each.name}: {each.problem[:1000]}")

    def _judge_requests(self, world: World) -> None:
        for replica in world.replicas:
            in_vain = (each.at for each in replica.proxy.records if each.fault or not each.status)
            times = [*replica.relay.accepted, *in_vain]
            for begin, end in world.failing_periods:
                by_second = Counter(int(at - begin) for at in times if begin < at < end)
                most = max(by_second.values(), default=0)
                self.report.most_requests = max(self.report.most_requests, most)
        if self.report.most_requests > _REQUESTS_PER_SECOND:
            what = f"{self.report.most_requests} in a second in which it asked in vain"
            self._violated("requests per second stay bounded", what)

    def _violated(self, promise: str, what: str) -> None:
        self.report.violations.append(Violation(time.time(), promise, what))


def _usage_of(replica: Replica) -> Use:
    """Return the resource usage of a replica; wait for one that was just started."""
    tasks = 0
    if replica.kind is Kind.STOWAGE:
        tasks = wait_for(replica.tasks, f"{replica.name} to tell how many tasks it has", 60)
    return Use(replica.resident_bytes(), replica.open_files(), tasks)


def _why(pod: Json) -> str:
    """Return a waiting pod and the reason in its PodScheduled condition."""
    conditions = pod.get("status", {}).get("conditions", ())
    told = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
    labels = pod["metadata"]["labels"]
    return f"{pod['metadata']['name']} ({labels.get('kind')}): {''.join(told) or 'nobody said why'}"


def _counted_nodes(text: str) -> int | None:
    """Return the number of nodes in a cache dump, without placeholders for deleted nodes."""
    if "Dump of cached NodeInfo" not in text:
        return None
    return len(re.findall(r'"ghost": false', text))
