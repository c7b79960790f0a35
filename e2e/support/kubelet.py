"""A minimal kubelet for one namespace that runs containers as local processes.

It implements what the tests' pod specs use: arguments, ConfigMap volumes with updates, the
ServiceAccount's permissions, readiness probes, SIGTERM and the grace period. An image is mapped to
a local command; nothing is pulled.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from aiohttp import ClientError

from e2e.support.api import ApiRefusedError
from e2e.support.cluster import Cluster
from e2e.support.objects import Json
from e2e.support.probing import status_of, unverified
from e2e.support.processes import Program
from e2e.support.waiting import PATIENCE_SECONDS
from tests.support.ports import free_port

_LOOK_SECONDS = 0.25
_READINESS = ("Ready", "ContainersReady")


@dataclass
class Container:
    """A running pod.

    Attributes:
        program: its process.
        mounts: ConfigMap name to folder.
        is_ready: the last reported readiness.
    """

    program: Program
    mounts: Mapping[str, Path] = field(default_factory=dict)
    is_ready: bool = False


class Kubelet:
    """Runs the pods of a namespace that are bound to a node.

    Args:
        cluster: the cluster.
        namespace: the namespace of the pods.
        images: image name to the command that replaces its entry point.
        directory: folder for mounts and logs.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        images: Mapping[str, Sequence[str]],
        directory: Path,
    ) -> None:
        self.images = dict(images)
        self.running: dict[str, Container] = {}
        """Running pods, by name."""
        self.ended: dict[str, int] = {}
        """Exit status of ended pods, by name."""
        self.problem: BaseException | None = None
        self._refusal: Exception | None = None
        self._cluster = cluster
        self._namespace = namespace
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._directory = directory
        self._asked_to_end = threading.Event()
        # Processes end with the thread that started them.
        self._thread = threading.Thread(target=self._work, name="e2e-kubelet", daemon=True)

    def report(self) -> str:
        """Return the end of all logs, for the report of a failed test."""
        shown = [f"kubelet: {each!r}" for each in (self.problem, self._refusal) if each]
        for name, container in self.running.items():
            shown.append(f"--- {name}\n{container.program.tail(40)}")
        return "\n".join(shown)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._asked_to_end.set()
        self._thread.join(PATIENCE_SECONDS)
        if self.problem is not None:
            raise self.problem
        assert not self._thread.is_alive(), "the kubelet does not end"

    def _work(self) -> None:
        try:
            while not self._asked_to_end.wait(_LOOK_SECONDS):
                try:
                    self._look()
                except (ApiRefusedError, ClientError) as refusal:
                    # As a kubelet does, it looks again: an object may have gone meanwhile.
                    self._refusal = refusal
        except BaseException as problem:  # noqa: BLE001 -- told by the thread of the test
            self.problem = problem
        finally:
            for container in self.running.values():
                container.program.stop()

    def _look(self) -> None:
        pods = {
            pod["metadata"]["name"]: pod
            for pod in self._cluster.run(self._cluster.api.list_items(self._pods))
            if pod["spec"].get("nodeName") and self._image(pod) in self.images
        }
        for name, pod in pods.items():
            if "deletionTimestamp" in pod["metadata"]:
                self._end(name)
                with suppress(ApiRefusedError):
                    path = f"{self._pods}/{name}?gracePeriodSeconds=0"
                    self._cluster.run(self._cluster.api.delete(path))
            elif name not in self.running:
                self.running[name] = self._start(name, pod)
            else:
                self._attend(name, pod, self.running[name])
        for name in self.running.keys() - pods.keys():
            self._end(name)

    @staticmethod
    def _image(pod: Json) -> str:
        return str(pod["spec"]["containers"][0]["image"])

    def _start(self, name: str, pod: Json) -> Container:
        [container] = pod["spec"]["containers"]
        mounts: dict[str, Path] = {}
        words = [*self.images[container["image"]], *container["args"]]
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            source = volumes[mount["name"]].get("configMap")
            if source is None:
                continue  # The ServiceAccount's credentials are in KUBECONFIG.
            folder = mounts[source["name"]] = self._directory / name / mount["name"]
            _write(folder, self._data(source["name"]))
            words = [word.replace(mount["mountPath"], str(folder)) for word in words]
        port = free_port()
        account = self._cluster.service_account_kubeconfig(
            self._namespace, pod["spec"]["serviceAccountName"]
        )
        home = self._directory / name
        program = Program(
            name,
            # Pods share this machine's ports, so each gets a port of its own.
            [*words, "--bind-address=127.0.0.1", f"--secure-port={port}"],
            self._directory / f"{name}.log",
            {"KUBECONFIG": str(account), "HOME": str(home)},
            home,
        )
        program.url = f"https://127.0.0.1:{port}"
        return Container(program, mounts)

    def _attend(self, name: str, pod: Json, container: Container) -> None:
        if not container.program.is_running():
            raise AssertionError(f"{name} ended by itself:\n{container.program.tail()}")
        for config_map, folder in container.mounts.items():
            _write(folder, self._data(config_map))
        is_ready = status_of(f"{container.program.url}/readyz", unverified()) == 200
        if is_ready != container.is_ready:
            container.is_ready = is_ready
            told = [{"type": kind, "status": str(is_ready)} for kind in _READINESS]
            kept = [c for c in pod["status"].get("conditions", ()) if c["type"] not in _READINESS]
            status = {"phase": "Running", "conditions": [*kept, *told]}
            path = f"{self._pods}/{name}/status"
            with suppress(ApiRefusedError):
                self._cluster.run(self._cluster.api.patch(path, {"status": status}))

    def _end(self, name: str) -> None:
        container = self.running.pop(name, None)
        if container is not None:
            self.ended[name] = container.program.stop(timeout_seconds=40)

    def _data(self, config_map: str) -> Mapping[str, str]:
        path = f"/api/v1/namespaces/{self._namespace}/configmaps/{config_map}"
        try:
            found = self._cluster.run(self._cluster.api.get(path))
        except ApiRefusedError as error:
            if error.status != 404:
                raise
            return {}
        data: Mapping[str, str] = found.get("data", {})
        return data


def _write(folder: Path, data: Mapping[str, str]) -> None:
    """Write the files as a kubelet does: a symbolic link is switched to a new folder."""
    link = folder / "..data"
    if not data or all(_has(link / name, text) for name, text in data.items()):
        return
    number = len(list(folder.glob("..[0-9]*")))
    fresh = folder / f"..{number}"
    fresh.mkdir(parents=True)
    for name, text in data.items():
        (fresh / name).write_text(text)
        with suppress(FileExistsError):
            (folder / name).symlink_to(Path("..data") / name)
    beside = folder / "..new"
    beside.symlink_to(fresh.name)
    beside.replace(link)


def _has(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text
