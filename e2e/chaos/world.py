"""The environment of a run: a control plane, two replicas of a scheduler, and the load."""

import os
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar

import aiohttp

from e2e.chaos.checker import AUDIT_RULES, Census, Rewind
from e2e.chaos.devices import CONTROLLERS, claim_names, lacks_claim
from e2e.chaos.load import FOREIGN, MAY_WAIT, PODS, TEAM, Load
from e2e.chaos.replicas import LEASE, LEASE_SECONDS, Kind, Replica, grant_rights
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.devices import devices_of, readers_of
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import Json
from e2e.support.plugins import install_package
from e2e.support.pod_groups import API_SERVER_ARGUMENTS
from e2e.support.waiting import wait_for

Result = TypeVar("Result")

_UNBOUND = "spec.nodeName%3D,spec.schedulerName%3D"
_NOT_ADMITTING = (
    "ServiceAccount",
    "TaintNodesByCondition",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
)
"""Admission plugins that need controllers which do not run here."""
_RECENT = 400
"""Number of recent requests in which the last renewal of the lease is searched."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the load."""

    pods_per_second: int = 8
    population: int = 200


@dataclass
class World:
    """The environment of a run; use it as a context manager.

    Attributes:
        kept: folder for all files; None for a temporary folder.
        rewinds: restored backups.
        censuses: pods and claims that the API server listed at some times.
        failing_periods: periods of failing requests, on the monotonic clock.
        draw: random number generator of the run and its faults.
    """

    kind: Kind
    seed: int
    size: Size
    kept: Path | None = None
    replicas: list[Replica] = field(default_factory=list)
    rewinds: list[Rewind] = field(default_factory=list)
    censuses: list[Census] = field(default_factory=list)
    failing_periods: list[tuple[float, float]] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        self.draw = Random(self.seed)
        options = Options(
            directory=self.kept,
            audit_rules=AUDIT_RULES,
            controller_manager=True,
            controllers=",".join(CONTROLLERS),
            api_server_arguments=(
                f"--disable-admission-plugins={','.join(_NOT_ADMITTING)}",
                "--audit-log-maxsize=1000",
                *API_SERVER_ARGUMENTS,
            ),
        )
        self.control_plane = self._stack.enter_context(ControlPlane(options))
        self.directory = self.control_plane.directory / "chaos"
        self.directory.mkdir()
        self._install_plugin()
        self.cluster = self._stack.enter_context(
            Cluster(
                "chaos",
                self.control_plane.kubeconfig,
                self.directory,
                control_plane=self.control_plane,
            )
        )
        grant_rights(self.cluster)
        self.load = Load(
            self.cluster.api,
            self.seed,
            pods_per_second=self.size.pods_per_second,
            population=self.size.population,
        )
        self.run(self.load.prepare())
        for name in ("replica-a", "replica-b"):
            replica = Replica(name, self.kind, self.cluster, self.directory / name)
            self._stack.callback(replica.close)
            replica.open()
            self.replicas.append(replica)

    def _install_plugin(self) -> None:
        """Install the plugin `together` for every Stowage process that this process starts."""
        folder = self.directory / "plugins"
        folder.mkdir()
        install_package(CHECKOUT / "examples" / "plugins" / "together", folder)
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), before)))

        def restore() -> None:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before

        self._stack.callback(restore)

    def start(self) -> None:
        """Start the replicas, then the load."""
        for replica in self.replicas:
            replica.start()
        wait_for(self._leader_or_none, "a replica to lead", 60)
        self.run(self.load.start())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.cluster.run(work)

    def pause(self, seconds: float) -> None:
        """Sleeps, and restarts ended replicas meanwhile."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.supervise()
            time.sleep(0.1)

    def supervise(self) -> None:
        self.control_plane.supervise()
        for replica in self.replicas:
            replica.supervise()

    def leader(self) -> Replica:
        """Return the running replica that holds the lease."""
        found = wait_for(self._supervised_leader, "a replica to lead", 60, 0.2)
        assert found is not None, "it was waited for"
        return found

    def _supervised_leader(self) -> Replica | None:
        self.supervise()
        return self._leader_or_none()

    def _leader_or_none(self) -> Replica | None:
        """Return the replica that last renewed the lease, if recently."""
        renewals = [
            (each.at, replica.name, replica)
            for replica in self.replicas
            for each in replica.proxy.records[-_RECENT:]
            if each.method == "PUT"
            and each.status == 200
            and each.path.partition("?")[0].endswith(f"/{LEASE}")
        ]
        if not renewals:
            return None
        at, _, replica = max(renewals)
        is_running = replica.program is not None and replica.program.is_running()
        return replica if is_running and time.monotonic() - at < LEASE_SECONDS else None

    # --- what is there ----------------------------------------------------------------------------

    def waiting(self) -> list[Json]:
        """Return unbound pods that can run and whose claims exist."""
        return [
            pod
            for scheduler in ("stowage", TEAM)
            for pod in self._unbound(scheduler)
            if MAY_WAIT not in pod["metadata"]["labels"] and not lacks_claim(pod)
        ]

    def count(self) -> None:
        """Record the current pods and the allocated claims."""
        at = time.time()
        claims = [each for each in self._listed(self.load.devices.claims) if devices_of(each)]
        there = [*self._listed(PODS), *claims]
        self.censuses.append(Census(at, frozenset(each["metadata"]["uid"] for each in there)))

    def unserved(self) -> list[str]:
        """Return bound pods whose claim has no devices or belongs to another pod."""
        pods = self._listed(PODS)
        claims = {each["metadata"]["name"]: each for each in self._listed(self.load.devices.claims)}
        return [
            pod["metadata"]["name"]
            for pod in pods
            if pod["spec"].get("nodeName")
            and not all(_serves(claims.get(name), pod) for name in claim_names(pod))
        ]

    def unused_claims(self) -> list[str]:
        """Return the claims that no pod uses."""
        return self.run(self.load.devices.unused_claims(self._listed(PODS)))

    def wait_for_foreign(self) -> None:
        """Wait until the other scheduler has bound its pods."""
        wait_for(lambda: not self._unbound(FOREIGN), "the other scheduler's pods", 60, 0.5)

    def _unbound(self, scheduler: str) -> list[Json]:
        return self._listed(f"{PODS}?fieldSelector={_UNBOUND}{scheduler}")

    def _listed(self, path: str) -> list[Json]:
        """List objects; retry until an API server responds."""

        def ask() -> list[list[Json]]:
            try:
                return [self.run(self.cluster.api.list_items(path))]
            except (aiohttp.ClientConnectionError, TimeoutError):
                return []

        [objects] = wait_for(ask, "an answer of the API server", 60, 0.5)
        return objects


def _serves(claim: Json | None, pod: Json) -> bool:
    if claim is None or not devices_of(claim):
        return False
    return pod["metadata"]["name"] in readers_of(claim)
