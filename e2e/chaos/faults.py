"""The catalogue of faults: how each is injected and ended."""

import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from e2e.chaos.checker import Rewind
from e2e.chaos.replicas import LEASE_SECONDS
from e2e.chaos.world import World
from e2e.support import faults as requests
from e2e.support.processes import Program
from e2e.support.tcp_relay import Mode

_SHARE = 0.5
"""Share of requests that request faults affect."""
_LAG_SECONDS = 4.0
_MEBIBYTE = 1 << 20
FILLER = "filler"
"""Name of the file that fills a small disk."""


class Fault(ABC):
    """A temporary fault.

    Attributes:
        name: name in the results table.
        seconds: duration.
        can_combine: whether it may be injected together with another fault.
        blocks_requests: whether requests of replicas fail; their retry rate is then checked.
        is_stowage_only: whether it applies to Stowage only, not to kube-scheduler.
    """

    name: ClassVar[str]
    seconds: ClassVar[float] = 4.0
    can_combine: ClassVar[bool] = True
    blocks_requests: ClassVar[bool] = False
    is_stowage_only: ClassVar[bool] = False

    @abstractmethod
    def begin(self, world: World) -> None:
        """Inject the fault."""

    @abstractmethod
    def end(self, world: World) -> None:
        """End the fault; on return it is over."""


class ApiServerKilled(Fault):
    name = "API server killed and restarted"
    seconds = 3.0
    can_combine = False
    blocks_requests = True

    @override
    def begin(self, world: World) -> None:
        world.control_plane.kill_api_server()

    @override
    def end(self, world: World) -> None:
        world.control_plane.start_api_server()


class ApiServerFrozen(Fault):
    name = "API server frozen"
    can_combine = False
    blocks_requests = True

    @override
    def begin(self, world: World) -> None:
        world.control_plane.freeze_api_server()

    @override
    def end(self, world: World) -> None:
        world.control_plane.thaw_api_server()


class Compacted(Fault):
    """etcd is compacted, so replicas reconnect with resource versions that are gone."""

    name = "versions compacted while cut off (410)"
    can_combine = False
    blocks_requests = True

    @override
    def begin(self, world: World) -> None:
        for replica in world.replicas:
            replica.proxy.cut()

    @override
    def end(self, world: World) -> None:
        world.control_plane.compact()
        world.control_plane.kill_api_server()
        world.control_plane.start_api_server()
        for replica in world.replicas:
            replica.proxy.restore()


class EtcdRestored(Fault):
    """etcd is restored from a backup: objects and resource versions go back."""

    name = "etcd restored from an older backup"
    can_combine = False
    away_seconds: ClassVar[float] = 0.0

    @override
    def begin(self, world: World) -> None:
        self._backup = world.directory / "backup"
        self._saved = world.control_plane.back_up(self._backup)

    @override
    def end(self, world: World) -> None:
        # Replicas may write before ``restore`` returns.
        restored = world.control_plane.restore(self._backup, self.away_seconds)
        world.rewinds.append(Rewind(self._saved, restored))


class EtcdRestoredLate(EtcdRestored):
    """The restore takes longer than bindings wait for one kind that has no answer."""

    name = "etcd restored from an older backup after 40 s"
    away_seconds = 40.0


class TcpFault(Fault):
    """The TCP connections of both replicas fail."""

    blocks_requests = True
    mode: ClassVar[Mode]

    @override
    def begin(self, world: World) -> None:
        for replica in world.replicas:
            replica.relay.disturb(self.mode)

    @override
    def end(self, world: World) -> None:
        for replica in world.replicas:
            replica.relay.restore()


class CutMidLine(TcpFault):
    name = "connections cut mid-line"
    mode = Mode.TRUNCATE


class HalfOpen(TcpFault):
    name = "half-open connections"
    mode = Mode.DISCARD


class Trickle(TcpFault):
    name = "one byte a second"
    mode = Mode.THROTTLE


class NoHandshake(TcpFault):
    name = "TLS handshakes fail"
    mode = Mode.NOT_TLS


class Refusing(Fault):
    """Some requests fail."""

    blocks_requests = True
    answer: requests.Fault
    path: ClassVar[str] = ""

    @override
    def begin(self, world: World) -> None:
        for replica in world.replicas:
            # Open watches are affected too.
            replica.proxy.add(
                self.answer, path=self.path, only_if=lambda _: world.draw.random() < _SHARE
            )
            replica.proxy.drop_connections()

    @override
    def end(self, world: World) -> None:
        for replica in world.replicas:
            replica.proxy.clear()
            replica.proxy.drop_connections()


class TooMany(Refusing):
    name = "429 with Retry-After"
    answer: requests.Fault = requests.Answer(429, "TooManyRequests", 1)


class InternalError(Refusing):
    name = "500"
    answer: requests.Fault = requests.Answer(500, "InternalError")


class Unavailable(Refusing):
    name = "503"
    answer: requests.Fault = requests.Answer(503, "ServiceUnavailable")


class GatewayTimeout(Refusing):
    name = "504"
    answer: requests.Fault = requests.Answer(504, "Timeout")


class TimeOutBefore(Refusing):
    name = "time-out before the server acted"
    answer: requests.Fault = requests.Hang()


class TimeOutAfter(Refusing):
    name = "time-out after the server acted"
    answer: requests.Fault = requests.HangAfter()
    path = r"/(binding|status|leases/|events)|^/api/v1/namespaces/[^/]+/pods/[^/?]+$"


class LostAnswer(Refusing):
    name = "connection lost after the server acted"
    answer: requests.Fault = requests.DropAfter()
    path = TimeOutAfter.path


class StaleReads(Refusing):
    """Lists and watches return an older state; writes take effect at once."""

    name = f"stale reads ({_LAG_SECONDS:g} s behind)"
    seconds = 8.0
    blocks_requests = False
    answer: requests.Fault = requests.Lag(_LAG_SECONDS)
    path = "watch=true"

    @override
    def begin(self, world: World) -> None:
        for replica in world.replicas:
            replica.proxy.add(self.answer, path=self.path)
            replica.proxy.drop_connections()


class NodesRecreated(Fault):
    name = "nodes re-created under their names"

    @override
    def begin(self, world: World) -> None:
        world.run(world.load.recreate_nodes(6))

    @override
    def end(self, world: World) -> None:
        world.run(world.load.recreate_nodes(6))


class PodsRecreated(Fault):
    name = "pods re-created under their names"

    @override
    def begin(self, world: World) -> None:
        world.run(world.load.recreate_pods(30))

    @override
    def end(self, world: World) -> None:
        world.run(world.load.recreate_pods(30))


class LeaderKilled(Fault):
    name = "leader killed"
    seconds = 2.0

    @override
    def begin(self, world: World) -> None:
        program = world.leader().program
        assert program is not None, "a leader runs"
        program.kill()

    @override
    def end(self, world: World) -> None:
        """The supervisor restarts it."""


class LeaderFrozen(Fault):
    name = "leader frozen for longer than its lease"
    seconds = LEASE_SECONDS + 3
    can_combine = False

    @override
    def begin(self, world: World) -> None:
        program = world.leader().program
        assert program is not None, "a leader runs"
        self._program: Program = program
        self._program.signal(signal.SIGSTOP)

    @override
    def end(self, world: World) -> None:
        self._program.signal(signal.SIGCONT)


class OneCutOff(Fault):
    """The leader loses the network for longer than its lease; then the next leader does."""

    name = "replicas cut off, one at a time"
    seconds = LEASE_SECONDS + 3
    can_combine = False

    @override
    def begin(self, world: World) -> None:
        self._first = world.leader()
        self._first.proxy.cut()

    @override
    def end(self, world: World) -> None:
        self._first.proxy.restore()
        second = world.leader()
        second.proxy.cut()
        world.pause(self.seconds)
        second.proxy.restore()


class AnotherScheduler(Fault):
    """Another scheduler binds pods to the same nodes."""

    name = "another scheduler on the same nodes"
    seconds = 10.0
    can_combine = False

    @override
    def begin(self, world: World) -> None:
        self._other = world.control_plane.start_kube_scheduler(name="other-scheduler")
        world.load.foreign_share = 0.5

    @override
    def end(self, world: World) -> None:
        world.load.foreign_share = 0.0
        world.wait_for_foreign()
        world.control_plane.stop_program(self._other)


class ClocksStep(Fault):
    """The replicas' clocks jump by an hour in opposite directions, and back.

    Leadership must not become longer or shorter, and valid tokens must not count as expired.
    """

    name = "clocks step by an hour"
    is_stowage_only = True
    seconds = LEASE_SECONDS + 2

    @override
    def begin(self, world: World) -> None:
        leader = world.leader()
        for replica in world.replicas:
            replica.set_clock(3600 if replica is leader else -3600)

    @override
    def end(self, world: World) -> None:
        for replica in world.replicas:
            replica.set_clock(0)


class CredentialsRotated(Fault):
    """The token file gets a new token, and the old token is revoked."""

    name = "credentials rotated"

    @override
    def begin(self, world: World) -> None:
        self._old = [(replica, replica.renew_token()) for replica in world.replicas]

    @override
    def end(self, world: World) -> None:
        for replica, secret in self._old:
            replica.revoke(secret)


class DiskFull(Fault):
    """The disk of the leader's recording is full."""

    name = "disk full"
    is_stowage_only = True

    @override
    def begin(self, world: World) -> None:
        self._filler = world.leader().recordings / FILLER
        fill(self._filler)

    @override
    def end(self, world: World) -> None:
        self._filler.unlink(missing_ok=True)


class NoFiles(Fault):
    """The leader loses its connections and can open no files or connections."""

    name = "file descriptors used up"

    @override
    def begin(self, world: World) -> None:
        leader = world.leader()
        self._pid = leader.pid
        self._leader = leader
        leader.limit_files(leader.open_files() // 2)
        leader.relay.drop()

    @override
    def end(self, world: World) -> None:
        if self._leader.pid == self._pid and self._leader.open_files():
            self._leader.limit_files(1 << 16)


class LittleMemory(Fault):
    """The leader may allocate 1 MiB more, and receives a burst of pods."""

    name = "memory limit near"

    @override
    def begin(self, world: World) -> None:
        self._leader = world.leader()
        self._pid = self._leader.pid
        self._leader.limit_memory(_MEBIBYTE)
        self._leader.relay.drop()

    @override
    def end(self, world: World) -> None:
        if self._leader.pid == self._pid and self._leader.open_files():
            self._leader.limit_memory(None)


def fill(path: Path) -> None:
    """Write until the device is full."""
    with path.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass


def mount_small(path: Path, mebibytes: int) -> bool:
    """Mount a small tmpfs; return False if that is not permitted."""
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def unmount(path: Path, *, keeps: bool) -> None:
    """Unmount the tmpfs; ``keeps`` preserves its files in the mount point."""
    kept = path.with_name(f"{path.name}-kept")
    if keeps:
        shutil.copytree(path, kept, ignore=shutil.ignore_patterns(FILLER))
    command = ["umount", str(path)]
    subprocess.run(command, check=False, capture_output=True)
    if keeps:
        kept.replace(path)


CATALOGUE: tuple[type[Fault], ...] = (
    ApiServerKilled,
    ApiServerFrozen,
    Compacted,
    EtcdRestored,
    EtcdRestoredLate,
    CutMidLine,
    HalfOpen,
    Trickle,
    NoHandshake,
    TooMany,
    InternalError,
    Unavailable,
    GatewayTimeout,
    TimeOutBefore,
    TimeOutAfter,
    LostAnswer,
    StaleReads,
    NodesRecreated,
    PodsRecreated,
    LeaderKilled,
    LeaderFrozen,
    OneCutOff,
    AnotherScheduler,
    ClocksStep,
    CredentialsRotated,
    DiskFull,
    NoFiles,
    LittleMemory,
)
