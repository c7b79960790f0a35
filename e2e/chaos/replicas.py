"""Two replicas of a scheduler, each with its own faulty network path to the API server.

A replica connects with TLS to a TCP relay, which injects network faults. The relay connects to a
proxy, which injects request faults, and the proxy to the API server. The replica authenticates with
a token from a file, as a pod does, so that the audit log has its user name. A supervisor restarts
ended replicas, as a kubelet would.
"""

import resource
import ssl
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from e2e.chaos.clocks import move
from e2e.chaos.load import TEAM
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.kubeconfig import write_kubeconfig
from e2e.support.pod_groups import SCHEDULER_GATES
from e2e.support.processes import Program
from e2e.support.proxy import FaultProxy
from e2e.support.rights import bind_role, grant, group, rules
from e2e.support.scraping import fetch, total
from e2e.support.stowage import start_stowage
from e2e.support.tcp_relay import TcpRelay

ACCOUNTS = "chaos-accounts"
"""Namespace of the replicas' service accounts and lease."""
LEASE = "chaos"
LEASE_SECONDS = 8.0
"""Half of the default, so that pods can be bound within 15 s even if a lease must expire."""
_RENEW_SECONDS = 6.0
_RETRY_SECONDS = 1.0
_TOKEN_SECONDS = 6 * 3600
_PAUSE_SECONDS = 1.0
"""Delay before an ended replica is restarted."""

_HOLDING = {
    "schedulerName": "stowage",
    "plugins": {"multiPoint": {"enabled": [{"name": "Together"}]}},
    "pluginConfig": [{"name": "Together", "args": {"patienceSeconds": 5}}],
}
"""Profile of most pods, with the plugin that holds groups in Permit."""
_TEAM = {
    "schedulerName": TEAM,
    "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 3}]}},
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 1}],
                }
            },
        }
    ],
}


class Kind(StrEnum):
    """The scheduler under test."""

    STOWAGE = "stowage"
    KUBE_SCHEDULER = "kube-scheduler"


@dataclass
class Replica:
    """One replica and its path to the API server.

    Attributes:
        name: name of the replica and of its service account.
        user: user name in the audit log.
        restarts: number of restarts.
        tokens: all issued tokens.
    """

    name: str
    kind: Kind
    cluster: Cluster
    directory: Path
    user: str = ""
    restarts: int = 0
    program: Program | None = None
    tokens: list[str] = field(default_factory=list)
    _secret: str = ""
    _secrets: int = 0
    _ended: float | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def open(self) -> None:
        """Create service account, token, proxy and relay."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.user = f"system:serviceaccount:{ACCOUNTS}:{self.name}"
        account = {"metadata": {"name": self.name}}
        self._post(f"/api/v1/namespaces/{ACCOUNTS}/serviceaccounts", account)
        self._offset_file = self.directory / "clock"
        self.set_clock(0)
        self.token_file = self.directory / "token"
        self.renew_token()
        own = self.control_plane
        server = write_kubeconfig(self.directory / "server", own.server, authority=own.ca)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(own.directory / "serving.crt", own.directory / "serving.key")
        self.proxy = self._stack.enter_context(FaultProxy(server, tls=tls))
        port = int(self.proxy.url.rpartition(":")[2])
        self.relay = self._stack.enter_context(TcpRelay(port))
        self.kubeconfig = write_kubeconfig(
            self.directory / "kubeconfig",
            f"https://127.0.0.1:{self.relay.port}",
            authority=own.ca,
            token_file=self.token_file,
        )

    @property
    def control_plane(self) -> ControlPlane:
        assert self.cluster.control_plane is not None, "the harness runs the control plane"
        return self.cluster.control_plane

    @property
    def recordings(self) -> Path:
        """Folder of its recordings."""
        return self.directory / "recordings"

    def start(self) -> None:
        election = {
            "leaderElect": True,
            "leaseDuration": f"{LEASE_SECONDS:g}s",
            "renewDeadline": f"{_RENEW_SECONDS:g}s",
            "retryPeriod": f"{_RETRY_SECONDS:g}s",
            "resourceName": LEASE,
            "resourceNamespace": ACCOUNTS,
            "resourceLock": "leases",
        }
        if self.kind is Kind.STOWAGE:
            self.program = start_stowage(
                self.kubeconfig,
                self.directory,
                name=self.name,
                leader_elect=True,
                configuration={"leaderElection": election, "profiles": [_HOLDING, _TEAM]},
                arguments=[
                    *SCHEDULER_GATES,
                    f"--record={self.recordings}",
                    "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
                ],
                wait=False,
                command=(sys.executable, "-m", "e2e.chaos.clocks", str(self._offset_file), "run"),
            )
        else:
            profiles = [{"schedulerName": "stowage"}, _TEAM]
            self.program = self.control_plane.start_kube_scheduler(
                {"leaderElection": election, "profiles": profiles},
                SCHEDULER_GATES,
                kubeconfig=self.kubeconfig,
                name=self.name,
                wait=False,
            )

    def supervise(self) -> None:
        """Restart it after a delay if it has ended."""
        if self.program is None or self.program.is_running():
            return
        now = time.monotonic()
        if self._ended is None:
            self._ended = now
        elif now - self._ended > _PAUSE_SECONDS:
            self._ended = None
            self.restarts += 1
            self._forget_program()
            self.start()

    def close(self) -> None:
        self._forget_program()
        self._stack.close()

    def _forget_program(self) -> None:
        if self.program is not None:
            self.program.stop()
            if self.program in self.control_plane.programs:
                self.control_plane.programs.remove(self.program)

    @property
    def pid(self) -> int:
        assert self.program is not None, "the replica was not started"
        return self.program.pid

    # --- what it uses -----------------------------------------------------------------------------

    def open_files(self) -> int:
        """Return the number of open file descriptors; 0 if it has ended."""
        try:
            return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))
        except FileNotFoundError:
            return 0

    def resident_bytes(self) -> int:
        return self._size("VmRSS:")

    def tasks(self) -> int:
        """Return the number of asyncio tasks; 0 while it does not respond."""
        assert self.program is not None, "the replica was not started"
        try:
            return int(total(fetch(f"{self.program.url}/metrics"), "stowage_tasks"))
        except OSError:
            return 0

    def set_clock(self, seconds: float) -> None:
        """Set its clock this many seconds ahead of the system clock."""
        move(self._offset_file, seconds)

    def limit_files(self, count: int) -> None:
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (min(count, hard), hard))

    def limit_memory(self, spare_bytes: int | None) -> None:
        """Limit its address space to this many more bytes; None removes the limit."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_AS)
        soft = hard if spare_bytes is None else self._size("VmSize:") + spare_bytes
        resource.prlimit(self.pid, resource.RLIMIT_AS, (soft, hard))

    def _size(self, name: str) -> int:
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except FileNotFoundError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)

    # --- its credentials --------------------------------------------------------------------------

    def renew_token(self) -> str:
        """Write a new token into its file; return the Secret that the old token is bound to."""
        old, self._secrets = self._secret, self._secrets + 1
        self._secret = f"{self.name}-{self._secrets}"
        path = f"/api/v1/namespaces/{ACCOUNTS}/secrets"
        made = self._post(path, {"metadata": {"name": self._secret}})
        bound = {"kind": "Secret", "apiVersion": "v1"}
        bound |= {"name": self._secret, "uid": made["metadata"]["uid"]}
        request = {"spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound}}
        answer = self._post(
            f"/api/v1/namespaces/{ACCOUNTS}/serviceaccounts/{self.name}/token", request
        )
        # Replace the file atomically, as a kubelet does.
        fresh = self.token_file.with_suffix(".new")
        self.tokens.append(answer["status"]["token"])
        fresh.write_text(self.tokens[-1])
        fresh.replace(self.token_file)
        return old

    def revoke(self, secret: str) -> None:
        """Revoke the tokens that are bound to a Secret."""
        path = f"/api/v1/namespaces/{ACCOUNTS}/secrets/{secret}"
        self.cluster.run(self.cluster.api.delete(path))

    def _post(self, path: str, body: object) -> dict[str, dict[str, str]]:
        return self.cluster.run(self.cluster.api.post(path, body))


def grant_rights(cluster: Cluster) -> None:
    """Grant the replicas' accounts the rules of the manifests, with the name of their lease."""
    cluster.create_namespace(ACCOUNTS)
    accounts = group(f"system:serviceaccounts:{ACCOUNTS}")
    # kube-scheduler needs the permissions of its own roles.
    for role in ("system:kube-scheduler", "system:volume-scheduler"):
        bind_role(cluster, f"chaos-{role.replace(':', '-')}", role, accounts)
    grant(cluster, "chaos", [*rules()], accounts)
