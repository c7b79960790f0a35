"""Runs the controllers of JobSet and Kueue as processes, built from Go modules.

Installs the modules' manifests in the form that their kustomizations produce. The API server
reaches the webhooks through an ExternalName Service that resolves to this machine.
"""

import base64
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.support.api import ApiRefusedError
from e2e.support.certificates import Authority
from e2e.support.cluster import Cluster
from e2e.support.go_programs import CHECKOUT, GoProgram, build
from e2e.support.objects import Json
from e2e.support.probing import status_of
from e2e.support.processes import Program
from e2e.support.waiting import wait_for
from tests.support.ports import free_port

_FOLDER: Final = CHECKOUT / "e2e" / "ecosystem"
_READY_SECONDS: Final = 180.0
_GROUPS: Final = {"", "batch", "jobset.x-k8s.io", "kueue.x-k8s.io"}
"""API groups whose webhooks are installed; webhooks for other job kinds would have no use."""


@dataclass(frozen=True, slots=True)
class Project:
    """A controller manager with its CRDs and webhooks."""

    name: str
    module: str
    package: str
    configuration: Json
    keeps_certificates: bool = False
    """The controller writes its own certificate into a Secret, which the kubelet would mount."""

    @property
    def namespace(self) -> str:
        return f"{self.name}-system"

    @property
    def service(self) -> str:
        return f"{self.name}-webhook-service"

    @property
    def program(self) -> GoProgram:
        return GoProgram(name=self.name, module=self.folder, package=self.package)

    @property
    def folder(self) -> Path:
        return _FOLDER / self.name


JOBSET: Final = Project(
    "jobset",
    module="sigs.k8s.io/jobset",
    package="sigs.k8s.io/jobset",
    configuration={
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "internalCertManagement": {"enable": False},
    },
)
KUEUE: Final = Project(
    "kueue",
    module="sigs.k8s.io/kueue",
    package="sigs.k8s.io/kueue/cmd/kueue",
    configuration={
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "internalCertManagement": {"enable": True},
        "integrations": {"frameworks": ["batch/job", "pod"]},
        # It needs an aggregated API server, which the tests do not use.
        "featureGates": {"VisibilityOnDemand": False},
    },
    keeps_certificates=True,
)


class JobController:
    """An installed and running controller manager; use it as a context manager."""

    def __init__(self, project: Project, cluster: Cluster, directory: Path) -> None:
        self._project = project
        self._cluster = cluster
        self._certificates = directory / f"{project.name}-certificates"
        self._directory = directory
        self._sources = _sources(project)
        self._port = free_port()
        self._authority = Authority(project.name)

    def __enter__(self) -> Program:
        binary = build(self._project.program)
        self._install()
        health = free_port()
        config = self._directory / f"{self._project.name}.yaml"
        config.write_text(yaml.safe_dump(self._configuration(health)))
        self._program = Program(
            self._project.name,
            [str(binary), f"--config={config}"],
            self._directory / f"{self._project.name}.log",
            {"KUBECONFIG": str(self._cluster.kubeconfig)},
        )

        def is_ready() -> bool:
            if self._project.keeps_certificates:
                self._mount()
            return status_of(f"http://127.0.0.1:{health}/readyz") == 200

        self._program.wait_ready(is_ready, _READY_SECONDS)
        return self._program

    def __exit__(self, *_: object) -> None:
        self._program.stop()

    def _configuration(self, health: int) -> Json:
        return {
            **self._project.configuration,
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": {"leaderElect": False},
            "webhook": {"port": self._port, "certDir": str(self._certificates)},
        }

    # --- what is installed ------------------------------------------------------------------------

    def _install(self) -> None:
        project = self._project
        self._cluster.create_namespace(project.namespace)
        core = f"/api/v1/namespaces/{project.namespace}"
        # The API server connects to this address, where the controller listens.
        spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
        self._post(f"{core}/services", {"metadata": {"name": project.service}, "spec": spec})
        self._certificates.mkdir()
        if project.keeps_certificates:
            secret = {"metadata": {"name": f"{project.name}-webhook-server-cert"}}
            self._post(f"{core}/secrets", secret)
        else:
            names = [f"{project.service}.{project.namespace}.svc"]
            pair = self._authority.serving(names, ["127.0.0.1"])
            (self._certificates / "tls.crt").write_bytes(pair.public)
            (self._certificates / "tls.key").write_bytes(pair.key)
        definitions = list(self._definitions())
        for definition in definitions:
            self._post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        for definition in definitions:
            name = definition["metadata"]["name"]
            wait_for(partial(self._is_served, definition["spec"]), name, _READY_SECONDS, 0.2)
        for configuration in self._webhooks():
            resource = f"{configuration['kind'].lower()}s"
            self._post(f"/apis/admissionregistration.k8s.io/v1/{resource}", configuration)

    def _definitions(self) -> Iterator[Json]:
        folder = self._sources / "config" / "components" / "crd"
        patches = {
            path.name.partition("_in_")[2]: path
            for path in folder.glob("patches/webhook_in_*.yaml")
        }
        installed = yaml.safe_load((folder / "kustomization.yaml").read_text())
        patched = {each["path"].partition("_in_")[2] for each in installed["patches"]}
        for path in sorted(folder.glob("bases/*.yaml")):
            definition = _loaded(path)[0]
            kind = path.name.partition("_")[2]
            if kind in patches and kind in patched:
                conversion = _loaded(patches[kind])[0]["spec"]["conversion"]
                self._set_client_config(conversion["webhook"]["clientConfig"])
                definition["spec"]["conversion"] = conversion
            yield definition

    def _webhooks(self) -> Iterator[Json]:
        manifests = self._sources / "config" / "components" / "webhook" / "manifests.yaml"
        for configuration in _loaded(manifests):
            metadata = configuration["metadata"]
            metadata["name"] = f"{self._project.name}-{metadata['name']}"
            configuration["webhooks"] = [
                webhook
                for webhook in configuration["webhooks"]
                if _GROUPS.issuperset(
                    group for rule in webhook["rules"] for group in rule["apiGroups"]
                )
            ]
            for webhook in configuration["webhooks"]:
                self._set_client_config(webhook["clientConfig"])
            yield configuration

    def _set_client_config(self, client: Json) -> None:
        """Set Service and CA bundle of a webhook's client configuration."""
        client["service"] |= {
            "namespace": self._project.namespace,
            "name": self._project.service,
            "port": self._port,
        }
        client["caBundle"] = base64.b64encode(self._authority.certificate).decode()

    def _mount(self) -> None:
        """Copy the certificates from the Secret, once the controller has written them."""
        path = f"/api/v1/namespaces/{self._project.namespace}/secrets"
        [secret] = self._cluster.run(self._cluster.api.list_items(path))
        for name, content in secret.get("data", {}).items():
            (self._certificates / name).write_bytes(base64.b64decode(content))

    def _is_served(self, definition: Json) -> bool:
        version = definition["versions"][-1]["name"]
        try:
            found = self._cluster.run(
                self._cluster.api.get(f"/apis/{definition['group']}/{version}")
            )
        except ApiRefusedError:
            return False
        return definition["names"]["plural"] in {each["name"] for each in found["resources"]}

    def _post(self, path: str, body: Json) -> None:
        self._cluster.run(self._cluster.api.post(path, body))


def _sources(project: Project) -> Path:
    """Return the folder of the project's sources in Go's module cache, at the locked version."""
    listed = subprocess.run(
        ["go", "list", "-m", "-json", project.module],  # noqa: S607 -- the one that builds as well
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(listed.stdout)
    return Path(found["Dir"])


def _loaded(path: Path) -> list[Json]:
    with path.open() as text:
        return list(filter(None, yaml.load_all(text, yaml.SafeLoader)))
