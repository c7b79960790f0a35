"""Provides the cluster under test: creates nodes and pods, waits for conditions, cleans up."""

import subprocess
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import aiohttp

from e2e.support.api import Api, ApiRefusedError, Call
from e2e.support.audit import AuditEvent, read_audit_log
from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import CONTROL_PLANE, build
from e2e.support.heartbeats import Heartbeats
from e2e.support.kubeconfig import write_kubeconfig
from e2e.support.loops import LoopThread
from e2e.support.objects import SIMULATED, Json, make_pod
from e2e.support.waiting import PATIENCE_SECONDS, wait_for

Result = TypeVar("Result")

_NOT_READY = "node.kubernetes.io/not-ready"


class Cluster:
    """A cluster that tests reach with administrator rights.

    Args:
        description: name of the cluster in reports.
        kubeconfig: kubeconfig of an administrator.
        directory: folder for files that tests write.
        control_plane: the control plane, if the harness runs it.
        image: the scheduler's image, if the cluster can run it; otherwise empty.
    """

    def __init__(
        self,
        description: str,
        kubeconfig: Path,
        directory: Path,
        *,
        control_plane: ControlPlane | None = None,
        image: str = "",
    ) -> None:
        self.description = description
        self.kubeconfig = kubeconfig
        self.directory = directory
        self.control_plane = control_plane
        self.image = image
        self._namespaces: set[str] = set()
        self._loop = LoopThread("e2e-cluster")
        self._resources = AsyncExitStack()
        self.api = self.run(self._resources.enter_async_context(Api.connect(kubeconfig)))
        self._heartbeats = Heartbeats(self.api)

    @property
    def has_controllers(self) -> bool:
        """Report whether node, service account and namespace controllers run."""
        return self.control_plane is None or self.control_plane.options.controller_manager

    @property
    def has_foreign_nodes(self) -> bool:
        """Report whether the cluster may have nodes that tests did not create."""
        return self.control_plane is None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine, such as ``cluster.api.get(...)``, and return its result."""
        return self._loop.run(work)

    def close(self) -> None:
        self.run(self._resources.aclose())
        self._loop.close()

    def create_nodes(self, nodes: Sequence[Json]) -> None:
        """Create nodes and wait until pods can be scheduled to them."""
        self.run(self.api.create_all("/api/v1/nodes", nodes))
        if self.has_controllers:
            self.run(self._heartbeats.add([node["metadata"]["name"] for node in nodes]))
            wait_for(self._all_nodes_are_ready, "the not-ready taints of new nodes to be removed")

    def create_pods(self, pods: Iterable[Json]) -> None:
        """Create pods and their namespaces."""
        by_namespace: dict[str, list[Json]] = {}
        for pod in pods:
            by_namespace.setdefault(pod["metadata"]["namespace"], []).append(self._placeable(pod))
        for namespace, members in by_namespace.items():
            self.create_namespace(namespace)
            self.run(self.api.create_all(_pods_path(namespace), members))

    @contextmanager
    def priority_classes(self, values: Mapping[str, int]) -> Iterator[None]:
        """Create priority classes and delete them on exit; ``reset`` does not delete them.

        The API server admits pods by a cache of classes, so this waits until the cache has them.
        """
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        for name, value in values.items():
            self.run(self.api.post(path, {"metadata": {"name": name}, "value": value}))
        try:
            wait_for(lambda: all(map(self._admits_class, values)), "the classes to be known")
            yield
        finally:
            for name in values:
                self.run(self.api.delete(f"{path}/{name}"))
            wait_for(lambda: not any(map(self._admits_class, values)), "the classes to go")

    def create_namespace(self, name: str) -> None:
        """Create a namespace if it does not exist; ``reset`` deletes its pods."""
        if name in self._namespaces:
            return
        self._namespaces.add(name)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            self.run(self.api.post("/api/v1/namespaces", body))
        except ApiRefusedError as error:
            if error.status != 409:
                raise
        if self.has_controllers:
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            wait_for(lambda: self._exists(account), f"the default service account of {name}")

    def create_from_files(self, *files: Path) -> None:
        """Create the objects of manifests with kubectl.

        Raises:
            RuntimeError: kubectl failed.
        """
        kubectl = build(CONTROL_PLANE).with_name("kubectl")
        names = [word for file in files for word in ("-f", str(file))]
        done = subprocess.run(
            [
                str(kubectl),
                f"--kubeconfig={self.kubeconfig}",
                # Another cluster may have used this address before: do not share its discovery
                # cache.
                f"--cache-dir={self.directory / 'kubectl'}",
                "create",
                *names,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)

    def pod(self, namespace: str, name: str) -> Json:
        return self.run(self.api.get(f"{_pods_path(namespace)}/{name}"))

    def pods(self, namespace: str) -> list[Json]:
        return self.run(self.api.list_items(_pods_path(namespace)))

    def nodes(self) -> list[Json]:
        """Return the nodes that tests created."""
        return self.run(self.api.list_items(f"/api/v1/nodes?labelSelector={SIMULATED}"))

    def events(self, namespace: str, reason: str = "", about: str = "") -> list[Json]:
        """Return the events.k8s.io/v1 events of a namespace.

        They are filtered by reason and by the name of the regarded object, where given.
        """
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        events = self.run(self.api.list_items(path))
        return [
            event
            for event in events
            if reason in ("", event.get("reason")) and about in ("", event["regarding"].get("name"))
        ]

    def scheduled_condition(self, namespace: str, name: str) -> Json | None:
        """Return a pod's PodScheduled condition; the scheduler writes it apart from the event."""
        conditions = self.pod(namespace, name).get("status", {}).get("conditions", ())
        return next((each for each in conditions if each["type"] == "PodScheduled"), None)

    def audit_events(self) -> list[AuditEvent]:
        """Return all completed requests in the audit log.

        Raises:
            LookupError: the cluster has no audit log that tests can read.
        """
        log = self.control_plane.audit_log if self.control_plane else None
        if log is None:
            raise LookupError(f"{self.description} has no readable audit log")
        return list(read_audit_log(log))

    def delete_pods(self, namespace: str, names: Collection[str] = ()) -> None:
        """Delete the named pods, or all pods of a namespace, with grace period 0."""
        path, now = _pods_path(namespace), "gracePeriodSeconds=0"
        if names:
            self.run(self.api.call_all(Call("DELETE", f"{path}/{name}?{now}") for name in names))
        else:
            self.delete_all(f"{path}?{now}")

    def delete_all(self, path: str) -> None:
        """Delete a collection, which may take longer than the API server lets one request last.

        It then answers 504, or breaks off an answer that has begun.
        """
        while True:
            try:
                self.run(self.api.delete(path))
            except ApiRefusedError as error:
                if error.status != 504:
                    raise
            except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError):
                continue
            else:
                return

    def wait_until_bound(
        self,
        namespace: str,
        *,
        scheduler_name: str = "stowage",
        but: int = 0,
        timeout_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Wait until at most ``but`` pods of one scheduler in ``namespace`` are unbound."""
        wait_for(
            lambda: len(self.unbound(namespace, scheduler_name, limit=but + 1)) <= but,
            f"the pods of {scheduler_name} in {namespace} to be bound",
            timeout_seconds,
            every_seconds=0.1,
        )

    def unbound(self, namespace: str, scheduler_name: str, limit: int = 500) -> list[str]:
        """Return the names of up to ``limit`` unbound pods of one scheduler."""
        return self._pods_on("spec.nodeName%3D", namespace, scheduler_name, limit)

    def bound(self, namespace: str, scheduler_name: str, limit: int = 500) -> list[str]:
        """Return the names of up to ``limit`` bound pods of one scheduler."""
        return self._pods_on("spec.nodeName%21%3D", namespace, scheduler_name, limit)

    def _pods_on(
        self, node_selector: str, namespace: str, scheduler_name: str, limit: int
    ) -> list[str]:
        selector = f"{node_selector},spec.schedulerName%3D{scheduler_name}"
        path = f"{_pods_path(namespace)}?fieldSelector={selector}&limit={limit}"
        return [pod["metadata"]["name"] for pod in self.run(self.api.get(path))["items"]]

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a TokenRequest token as its only credential."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        answer = self.run(self.api.post(path, request))
        credentials = self.api.credentials
        return write_kubeconfig(
            self.directory / f"{namespace}.{name}.kubeconfig",
            credentials.server,
            authority=credentials.authority,
            token=answer["status"]["token"],
            namespace=namespace,
        )

    def reset(self) -> None:
        """Delete the pods and nodes that tests created."""
        for namespace in self._namespaces:
            self.delete_pods(namespace)
            if self.has_controllers and namespace != "default":
                self.run(self.api.delete(f"/api/v1/namespaces/{namespace}"))
        # Without a namespace controller a deleted namespace stays in Terminating; reuse it instead.
        if self.has_controllers:
            self._namespaces.clear()
        self.delete_all(f"/api/v1/nodes?labelSelector={SIMULATED}")
        self.run(self._heartbeats.remove_all())

    def report(self) -> str:
        """Return pending pods, recent events and logs for the report of a failed test."""
        lines = [f"cluster: {self.description}"]
        for namespace in sorted(self._namespaces):
            lines += [
                f"pending {namespace}/{pod['metadata']['name']}: {_why_pending(pod)}"
                for pod in self.pods(namespace)
                if not pod["spec"].get("nodeName")
            ][:20]
            lines += [
                f"event {event.get('reason')} {event['regarding'].get('name')}: {event.get('note')}"
                for event in self.events(namespace)[-20:]
            ]
        if self.control_plane is not None:
            lines.append(self.control_plane.logs(15))
        return "\n".join(lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _placeable(self, pod: Json) -> Json:
        """Add a node selector that keeps the pod on nodes that tests created."""
        if not self.has_foreign_nodes:
            return pod
        spec = pod["spec"]
        selector = {**spec.get("nodeSelector", {}), SIMULATED: "simulated"}
        return {**pod, "spec": {**spec, "nodeSelector": selector}}

    def _all_nodes_are_ready(self) -> bool:
        return not any(
            taint["key"] == _NOT_READY
            for node in self.nodes()
            for taint in node["spec"].get("taints", [])
        )

    def _admits_class(self, name: str) -> bool:
        """Report whether the API server would create a pod with a priority class."""
        pod = make_pod("any", priorityClassName=name)
        try:
            self.run(self.api.post(f"{_pods_path('default')}?dryRun=All", pod))
        except ApiRefusedError as error:
            if error.status != 403:
                raise
            return False
        return True

    def _exists(self, path: str) -> bool:
        try:
            self.run(self.api.get(path))
        except ApiRefusedError as error:
            if error.status != 404:
                raise
            return False
        return True


def _pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _why_pending(pod: Json) -> str:
    conditions = pod.get("status", {}).get("conditions", [])
    scheduled = [each for each in conditions if each["type"] == "PodScheduled"]
    return scheduled[0].get("message", "") if scheduled else "no PodScheduled condition"
