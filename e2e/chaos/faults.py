"""The catalogue: what can be made to go wrong, and how it is put right again."""

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
from e2e.support.wire import Mode

_SHARE = 0.5
"""Of requests that a fault about requests meets."""
_LAG_SECONDS = 4.0
_MEBIBYTE = 1 << 20
FILLER = "filler"
"""What fills a small disk."""


class Fault(ABC):
    """Something that goes wrong for a while.

    Attributes:
        name: what it is called in the table.
        seconds: how long it lasts.
        combines: whether it may come together with another.
        silences: whether replicas ask in vain, all or part of them; they must not ask more then.
        is_ours: whether only Stowage can be put through it.
    """

    name: ClassVar[str]
    seconds: ClassVar[float] = 4.0
    combines: ClassVar[bool] = True
    silences: ClassVar[bool] = False
    is_ours: ClassVar[bool] = False

    @abstractmethod
    def begin(self, world: World) -> None:
        """Lets it go wrong."""

    @abstractmethod
    def end(self, world: World) -> None:
        """Puts it right; when this returns, the fault is over."""


class ApiServerKilled(Fault):
    name = "API server killed and restarted"
    seconds = 3.0
    combines = False
    silences = True

    @override
    def begin(self, world: World) -> None:
        world.control_plane.kill_api_server()

    @override
    def end(self, world: World) -> None:
        world.control_plane.start_api_server()


class ApiServerFrozen(Fault):
    name = "API server frozen"
    combines = False
    silences = True

    @override
    def begin(self, world: World) -> None:
        world.control_plane.freeze_api_server()

    @override
    def end(self, world: World) -> None:
        world.control_plane.thaw_api_server()


class Compacted(Fault):
    """Versions that the replicas know are gone when they come back."""

    name = "versions compacted while cut off (410)"
    combines = False
    silences = True

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
    """What happened since the backup has never happened; versions count up again from there."""

    name = "etcd restored from an older backup"
    combines = False

    @override
    def begin(self, world: World) -> None:
        self._backup = world.directory / "backup"
        self._saved = world.control_plane.back_up(self._backup)

    @override
    def end(self, world: World) -> None:
        # Replicas write again before whoever started the server knows that it is there.
        restored = world.control_plane.restore(self._backup)
        world.rewinds.append(Rewind(self._saved, restored))


class OnTheWire(Fault):
    """Bytes of both replicas go wrong."""

    silences = True
    mode: ClassVar[Mode]

    @override
    def begin(self, world: World) -> None:
        for replica in world.replicas:
            replica.wire.spoil(self.mode)

    @override
    def end(self, world: World) -> None:
        for replica in world.replicas:
            replica.wire.restore()


class CutMidLine(OnTheWire):
    name = "connections cut mid-line"
    mode = Mode.CUT_MID_LINE


class HalfOpen(OnTheWire):
    name = "half-open connections"
    mode = Mode.SWALLOW


class Trickle(OnTheWire):
    name = "one byte a second"
    mode = Mode.TRICKLE


class NoHandshake(OnTheWire):
    name = "TLS handshakes fail"
    mode = Mode.NOISE


class Refusing(Fault):
    """A share of all requests is not answered as it should be."""

    silences = True
    answer: requests.Fault
    path: ClassVar[str] = ""

    @override
    def begin(self, world: World) -> None:
        for replica in world.replicas:
            # Open watches are to meet it too.
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
    """Lists and watches show the cluster as it was some time ago; writes take effect at once."""

    name = f"stale reads ({_LAG_SECONDS:g} s behind)"
    seconds = 8.0
    silences = False
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
        """It is started again by whoever looks after it."""


class LeaderFrozen(Fault):
    name = "leader frozen for longer than its lease"
    seconds = LEASE_SECONDS + 3
    combines = False

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
    """The leader loses the network for longer than its lease, then who leads by then does."""

    name = "replicas cut off, one at a time"
    seconds = LEASE_SECONDS + 3
    combines = False

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
    """Another one places some of the pods, on the same nodes."""

    name = "another scheduler on the same nodes"
    seconds = 10.0
    combines = False

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
    """The time of day is wrong by an hour, on each replica the other way, and then is right again.

    Nobody may lead for longer or shorter because of it, or hold a token for expired.
    """

    name = "clocks step by an hour"
    is_ours = True
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
    """The token in the file is another one, and the old one is not valid any more."""

    name = "credentials rotated"

    @override
    def begin(self, world: World) -> None:
        self._old = [(replica, replica.renew_token()) for replica in world.replicas]

    @override
    def end(self, world: World) -> None:
        for replica, secret in self._old:
            replica.revoke(secret)


class DiskFull(Fault):
    """There is no room left where the leader records."""

    name = "disk full"
    is_ours = True

    @override
    def begin(self, world: World) -> None:
        self._filler = world.leader().recordings / FILLER
        fill(self._filler)

    @override
    def end(self, world: World) -> None:
        self._filler.unlink(missing_ok=True)


class NoFiles(Fault):
    """The leader may open no file and no connection, and loses those it has."""

    name = "file descriptors used up"

    @override
    def begin(self, world: World) -> None:
        leader = world.leader()
        self._pid = leader.pid
        self._leader = leader
        leader.limit_files(leader.open_files() // 2)
        leader.wire.drop()

    @override
    def end(self, world: World) -> None:
        if self._leader.pid == self._pid and self._leader.open_files():
            self._leader.limit_files(1 << 16)


class LittleMemory(Fault):
    """The leader may use a MiB more than it does, and has a burst of pods to deal with."""

    name = "memory limit near"

    @override
    def begin(self, world: World) -> None:
        self._leader = world.leader()
        self._pid = self._leader.pid
        self._leader.limit_memory(_MEBIBYTE)
        self._leader.wire.drop()

    @override
    def end(self, world: World) -> None:
        if self._leader.pid == self._pid and self._leader.open_files():
            self._leader.limit_memory(None)


def fill(path: Path) -> None:
    """Writes until there is no room left on the device."""
    with path.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass


def mount_small(path: Path, mebibytes: int) -> bool:
    """Mounts a small file system in memory; answers whether that is allowed here."""
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def unmount(path: Path, *, keeps: bool) -> None:
    """Takes a small file system away; what was recorded on it stays in its place, if wanted."""
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
