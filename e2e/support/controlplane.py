"""Runs a Kubernetes control plane on loopback ports, without containers.

Starts etcd and kube-apiserver with RBAC, optionally kube-controller-manager and kube-scheduler. One
folder holds keys, data, logs and the audit log. Nodes exist only as API objects.

``python -m e2e.support up`` runs one for manual use.
"""

import json
import shutil
import signal
import ssl
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import yaml

from e2e.support.certificates import Authority, KeyPair, service_account_key
from e2e.support.go_programs import CONTROL_PLANE, build
from e2e.support.kubeconfig import write_kubeconfig
from e2e.support.probing import status_of, unverified
from e2e.support.processes import Program, raise_open_file_limit
from tests.support.ports import free_port

SCHEDULER_REQUESTS_PER_SECOND = 5000
"""Client QPS of kube-scheduler; at its default of 50, tests would measure the rate limit."""

_FILLING_SECONDS = 300
"""Startup timeout of the API server; filling its watch cache with 500,000 pods takes minutes."""


@dataclass(frozen=True, slots=True)
class Options:
    """Configuration of a control plane."""

    controller_manager: bool = False
    """Run kube-controller-manager, and enable the admission plugins that depend on it."""
    controllers: str = "*"
    """Controllers to run, in the syntax of kube-controller-manager's ``--controllers``."""
    audit_level: str | None = "Metadata"
    """Audit level of all requests; None disables the audit log."""
    audit_rules: Sequence[Mapping[str, Any]] = ()
    """Audit policy rules that precede the rule for all requests."""
    tokens: Mapping[str, tuple[str, Sequence[str]]] = field(default_factory=dict)
    """Static bearer tokens: token to user and groups."""
    api_server_arguments: Sequence[str] = ()
    """Additional kube-apiserver flags; they override the harness' flags."""
    controller_manager_arguments: Sequence[str] = ()
    """Additional kube-controller-manager flags; they override the harness' flags."""
    address: str = ""
    """Address at which real nodes reach the API server; empty for a cluster without real nodes."""
    directory: Path | None = None
    """Folder for all files; by default a temporary folder, removed at the end."""


class ControlPlane:
    """A running control plane; use it as a context manager.

    Invariant: between ``start`` and ``stop``, etcd and the API server run and were ready once.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.programs: list[Program] = []
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if self.options.directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="stowage-e2e-")
            self.directory = Path(self._temporary.name)
        else:
            self.directory = self.options.directory
            self.directory.mkdir(parents=True, exist_ok=True)
        self._authority = Authority()
        # If this CA also signed clients, the API server would verify each client certificate twice.
        self._proxy_authority = Authority("stowage-e2e-front-proxy")
        self._service_account_key = service_account_key()
        self._admin = self._authority.client("e2e-admin", ["system:masters"])
        self._admin_context = ssl.create_default_context(cadata=self.ca.decode())
        self.server = ""
        self.api_server: Program | None = None
        self._etcd: Program | None = None
        self._controller_manager: Program | None = None
        self._etcd_ports: tuple[int, int] = (0, 0)
        self._port = 0
        self.kubeconfig = self.directory / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path | None:
        return self.directory / "audit.log" if self.options.audit_level else None

    def start(self) -> Self:
        """Build the programs if needed, start them, and wait until they are ready.

        Raises:
            ProgramError: a program did not become ready; the message has the end of its log.
        """
        binary = build(CONTROL_PLANE)
        raise_open_file_limit()
        self._write_files()
        self._admin_context.load_cert_chain(
            self.directory / "admin.crt", self.directory / "admin.key"
        )
        try:
            self._start_programs(binary)
        except BaseException:
            self._stop_programs()
            raise
        return self

    def stop(self) -> None:
        """Stop all programs and remove the temporary folder."""
        self._stop_programs()
        if self._temporary is not None:
            self._temporary.cleanup()

    def kubeconfig_for(
        self, user: str, groups: Sequence[str] = (), *, server: str | None = None
    ) -> Path:
        """Write a kubeconfig with a client certificate for ``user`` in ``groups``."""
        path = self.directory / f"{user.replace(':', '.')}.kubeconfig"
        certificate = self._authority.client(user, groups)
        server = server or self.server
        return write_kubeconfig(path, server, authority=self.ca, certificate=certificate)

    @property
    def server_for_nodes(self) -> str:
        """URL at which real nodes reach the API server."""
        return f"https://{self.options.address}:{self._port}"

    @property
    def ca(self) -> bytes:
        """CA certificate of the server and of all clients, in PEM."""
        return self._authority.certificate

    # --- what goes wrong with it ------------------------------------------------------------------

    def kill_api_server(self) -> None:
        """Kill the API server with SIGKILL; ``start_api_server`` restarts it."""
        assert self.api_server is not None, "there is an API server between start and stop"
        self.api_server.kill()
        self.programs.remove(self.api_server)

    def start_api_server(self) -> None:
        """Restart the API server on the same port and wait until it is ready."""
        self._start_api_server(build(CONTROL_PLANE))

    def freeze_api_server(self) -> None:
        """Suspend the API server with SIGSTOP; its connections stay open."""
        assert self.api_server is not None, "there is an API server between start and stop"
        self.api_server.signal(signal.SIGSTOP)

    def thaw_api_server(self) -> None:
        assert self.api_server is not None, "there is an API server between start and stop"
        self.api_server.signal(signal.SIGCONT)

    def compact(self) -> None:
        """Compact etcd to the current revision."""
        revision = self._ask_etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._ask_etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def back_up(self, directory: Path) -> float:
        """Copy etcd's data while etcd is suspended; return the time of the copy."""
        assert self._etcd is not None, "etcd is not running"
        shutil.rmtree(directory, ignore_errors=True)
        self._etcd.signal(signal.SIGSTOP)
        try:
            shutil.copytree(self._data, directory)
            return time.time()
        finally:
            self._etcd.signal(signal.SIGCONT)

    def restore(self, directory: Path, away_seconds: float = 0.0) -> float:
        """Restore a backup: restart etcd and the API server with the older data.

        They are down for at least ``away_seconds``.

        Return a time at which neither ran: any later response is based on the restored data. The
        controller manager restarts too, since its caches hold objects of the lost revisions.
        """
        assert self._etcd is not None, "etcd is not running"
        if self._controller_manager is not None:
            self.stop_program(self._controller_manager)
        self.kill_api_server()
        self._etcd.kill()
        self.programs.remove(self._etcd)
        shutil.rmtree(self._data)
        shutil.copytree(directory, self._data)
        moment = time.time()
        time.sleep(away_seconds)
        self._start_etcd(build(CONTROL_PLANE))
        self.start_api_server()
        if self._controller_manager is not None:
            self._start_controller_manager(build(CONTROL_PLANE))
        return moment

    def supervise(self) -> None:
        """Restart a controller manager that has ended, as without an API server at its start."""
        ended = self._controller_manager
        if ended is not None and not ended.is_running() and self.is_serving():
            self.programs.remove(ended)
            self._start_controller_manager(build(CONTROL_PLANE))

    def is_serving(self) -> bool:
        """Report whether the API server is ready."""
        return self._is_found("/readyz")

    # --- schedulers -------------------------------------------------------------------------------

    def start_kube_scheduler(
        self,
        configuration: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
        *,
        kubeconfig: Path | None = None,
        name: str = "kube-scheduler",
        wait: bool = True,
    ) -> Program:
        """Start kube-scheduler and wait until it is ready.

        Args:
            configuration: fields of a KubeSchedulerConfiguration, such as profiles. They override
                the harness' own (5,000 requests a second, no leader election).
            arguments: additional command line flags.
            kubeconfig: kubeconfig to use; by default a client certificate for
                system:kube-scheduler.
            name: name of the log and configuration files.
            wait: False returns before kube-scheduler is ready.
        """
        kubeconfig = kubeconfig or self.kubeconfig_for("system:kube-scheduler")
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {
                "kubeconfig": str(kubeconfig),
                "qps": SCHEDULER_REQUESTS_PER_SECOND,
                "burst": SCHEDULER_REQUESTS_PER_SECOND,
            },
            **(configuration or {}),
        }
        file = self._write(f"{name}.yaml", yaml.safe_dump(document, sort_keys=False))
        port = free_port()
        program = self._run(
            build(CONTROL_PLANE),
            "kube-scheduler",
            f"--config={file}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.directory / name}",
            *arguments,
            name=name,
        )
        program.url = f"https://127.0.0.1:{port}"
        if wait:
            program.wait_ready(lambda: status_of(f"{program.url}/readyz", unverified()) == 200)
        return program

    def stop_program(self, program: Program) -> None:
        """Stop one program of this control plane."""
        program.stop()
        self.programs.remove(program)

    def logs(self, lines: int = 30) -> str:
        """Return the end of all programs' logs, for the report of a failed test."""
        return "\n".join(
            f"--- {program.name} ({'running' if program.is_running() else 'ended'})\n"
            f"{program.tail(lines)}"
            for program in self.programs
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_programs(self, binary: Path) -> None:
        self._etcd_ports = (free_port(), free_port())
        self._start_etcd(binary)
        self._port = free_port()
        self.server = f"https://127.0.0.1:{self._port}"
        write_kubeconfig(self.kubeconfig, self.server, authority=self.ca, certificate=self._admin)
        self._start_api_server(binary)
        if self.options.controller_manager:
            self._start_controller_manager(binary)

    @property
    def _data(self) -> Path:
        return self.directory / "etcd"

    @property
    def _etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._etcd_ports[0]}"

    def _ask_etcd(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send a request to etcd's JSON gateway."""
        request = urllib.request.Request(  # noqa: S310 - our own loopback
            self._etcd_url + path, json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - see above
            return json.load(answer)

    def _start_etcd(self, binary: Path) -> None:
        url, peer_url = self._etcd_url, f"http://127.0.0.1:{self._etcd_ports[1]}"
        etcd = self._etcd = self._run(
            binary,
            "etcd",
            f"--data-dir={self._data}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            # The data is discarded after the test; fsync would only slow it down.
            "--unsafe-no-fsync",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        )
        etcd.wait_ready(lambda: status_of(f"{url}/health") == 200)

    def _start_api_server(self, binary: Path) -> None:
        api_server = self.api_server = self._run(
            binary,
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self.directory / 'serving.crt'}",
            f"--tls-private-key-file={self.directory / 'serving.key'}",
            f"--client-ca-file={self.directory / 'ca.crt'}",
            f"--requestheader-client-ca-file={self.directory / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.directory / 'service-account.pub'}",
            f"--service-account-signing-key-file={self.directory / 'service-account.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # The API server rejects a loopback address as an endpoint of the kubernetes Service.
            "--endpoint-reconciler-type=none",
            "--delete-collection-workers=16",
            *self._admission_arguments(),
            *self._audit_arguments(),
            *self._node_arguments(),
            *self.options.api_server_arguments,
        )
        for path in ("/readyz", "/api/v1/namespaces/default"):
            api_server.wait_ready(partial(self._is_found, path), _FILLING_SECONDS)

    def _admission_arguments(self) -> list[str]:
        if self.options.controller_manager:
            return []
        # Without controllers, no service accounts are created and the not-ready taints stay.
        return ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]

    def _audit_arguments(self) -> list[str]:
        if self.audit_log is None:
            return []
        return [
            f"--audit-policy-file={self.directory / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
            # In blocking mode the log entry precedes the response: tests read their own requests.
            "--audit-log-mode=blocking",
        ]

    def _node_arguments(self) -> list[str]:
        """Return the flags for real nodes; they override the flags for simulated nodes."""
        if not self.options.address:
            return []
        return [
            "--bind-address=0.0.0.0",
            f"--advertise-address={self.options.address}",
            "--endpoint-reconciler-type=lease",
            "--authorization-mode=Node",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--kubelet-client-certificate={self.directory / 'admin.crt'}",
            f"--kubelet-client-key={self.directory / 'admin.key'}",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def _start_controller_manager(self, binary: Path) -> None:
        kubeconfig = self.kubeconfig_for("system:kube-controller-manager")
        port = free_port()
        controller_manager = self._controller_manager = self._run(
            binary,
            "kube-controller-manager",
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.directory / 'kube-controller-manager'}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.directory / 'service-account.key'}",
            f"--root-ca-file={self.directory / 'ca.crt'}",
            f"--cluster-signing-cert-file={self.directory / 'ca.crt'}",
            f"--cluster-signing-key-file={self.directory / 'ca.key'}",
            f"--controllers={self.options.controllers}",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
            *self.options.controller_manager_arguments,
        )
        controller_manager.url = f"https://127.0.0.1:{port}"
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        health = f"{controller_manager.url}/healthz"
        # With restored data the account is there before the controllers are.
        controller_manager.wait_ready(
            lambda: status_of(health, unverified()) == 200 and self._is_found(account)
        )

    def _run(self, binary: Path, command: str, *arguments: str, name: str = "") -> Program:
        name = name or command
        program = Program(
            name, [str(binary.with_name(command)), *arguments], self.directory / f"{name}.log"
        )
        self.programs.append(program)
        return program

    def _stop_programs(self) -> None:
        while self.programs:
            self.programs.pop().stop()

    def _write_files(self) -> None:
        serving = self._authority.serving(
            ["kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"],
            ["127.0.0.1", "10.0.0.1", *filter(None, [self.options.address])],
        )
        self._write("ca.crt", self.ca)
        self._write("ca.key", self._authority.key)
        self._write("front-proxy-ca.crt", self._proxy_authority.certificate)
        self._write_pair("serving", serving, "crt")
        self._write_pair("admin", self._admin, "crt")
        self._write_pair("service-account", self._service_account_key, "pub")
        self._write("audit-policy.yaml", yaml.safe_dump(self._audit_policy()))
        tokens = (
            f'{token},{user},{user},"{",".join(groups)}"\n'
            for token, (user, groups) in self.options.tokens.items()
        )
        self._write("tokens.csv", "".join(tokens))

    def _audit_policy(self) -> dict[str, Any]:
        return {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [*self.options.audit_rules, {"level": self.options.audit_level or "None"}],
        }

    def _write_pair(self, name: str, pair: KeyPair, public_suffix: str) -> None:
        self._write(f"{name}.key", pair.key)
        self._write(f"{name}.{public_suffix}", pair.public)

    def _write(self, name: str, content: str | bytes) -> Path:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def _is_found(self, path: str) -> bool:
        """Report whether the API server answers a GET request of the admin with 200."""
        return status_of(self.server + path, self._admin_context) == 200
