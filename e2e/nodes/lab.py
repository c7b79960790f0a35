"""A Kubernetes cluster with real nodes, inside the namespaces of `python -m e2e.nodes`.

The control plane is the harness' own. Pods and Services work, and images come from the checkout.
The cluster has no DNS and no network access to the outside.
"""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Self

from e2e.nodes.machine import CGROUPS, CgroupTree, has_unified_cgroups
from e2e.nodes.namespaces import CommandError, run
from e2e.nodes.node import Network, Node
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.go_programs import CHECKOUT, CONTROL_PLANE, build
from e2e.support.objects import Json
from e2e.support.waiting import wait_for
from scheduler.daemon.leader_election.elector import host_of

VARIABLE = "STOWAGE_NODES"
"""Environment variable with the command's working folder, set inside the namespaces."""

_KUBELET_STARTS = ("could not find the requested resource", "connection refused")

_BUSY = (
    "etcdserver: ",
    "TLS handshake timeout",
    "currently unable to handle the request",
    "in the time allotted",
)
"""Parts of the errors of an API server that is too busy to answer."""

_NUMBERS = count()


def is_ready(pod: Json) -> bool:
    """Report whether a pod has the condition Ready."""
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True"


class Lab:
    """A cluster with real nodes; use it as a context manager.

    Args:
        nodes: number of nodes.
        kube_scheduler: whether to run kube-scheduler, which schedules the pods of Stowage.
        kubelet: fields of KubeletConfiguration that override the lab's on every node.
        options: of the control plane; controllers, address and directory are set by the lab.
    """

    def __init__(
        self,
        nodes: int = 2,
        *,
        kube_scheduler: bool = True,
        kubelet: Mapping[str, Any] | None = None,
        options: Options | None = None,
    ) -> None:
        world = Path(os.environ[VARIABLE])
        number = next(_NUMBERS)
        self.network = Network(number)
        self.directory = world / "disk" / f"lab-{number}"
        self.directory.mkdir()
        self._cgroups = CgroupTree(world.name)
        self._images = world / "images"
        self._count = nodes
        self._has_kube_scheduler = kube_scheduler
        self._kubelet = dict(kubelet or {})
        self._stack = ExitStack()
        options = replace(
            options or Options(),
            controller_manager=True,
            address=self.network.gateway,
            directory=self.directory / "control-plane",
        )
        self.control_plane = ControlPlane(options)
        self.nodes: list[Node] = []

    def start(self) -> Self:
        """Start control plane and nodes, and wait until every node is Ready."""
        run(["ip", "link", "add", self.network.bridge, "type", "bridge"])
        run(["ip", "address", "add", f"{self.network.gateway}/24", "dev", self.network.bridge])
        run(["ip", "link", "set", self.network.bridge, "up"])
        run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        self._stack.enter_context(self.control_plane)
        self.cluster = self._stack.enter_context(
            Cluster(
                "real nodes",
                self.control_plane.kubeconfig,
                self.directory,
                control_plane=self.control_plane,
                image="stowage:dev",
            )
        )
        for index in range(1, self._count + 1):
            self.nodes.append(self._node(index))
        for node in self.nodes:
            node.start()
            self._stack.callback(self._stop, node)
        if self._has_kube_scheduler:
            self.control_plane.start_kube_scheduler()
        for node in self.nodes:
            node.wait_for_images()
        self.wait_for_nodes()
        return self

    def stop(self) -> None:
        """Stop nodes and control plane."""
        self._stack.close()
        run(["ip", "link", "delete", self.network.bridge])

    # --- nodes ------------------------------------------------------------------------------------

    def node(self, name: str) -> Node:
        """Return the node of this name."""
        return next(node for node in self.nodes if node.name == name)

    def wait_for_nodes(self, timeout_seconds: float = 300) -> None:
        """Wait until every running node is Ready and schedulable."""
        names = {node.name for node in self.nodes if node.is_on}
        wait_for(lambda: names <= self._usable(), f"{sorted(names)} to be Ready", timeout_seconds)

    # --- kubectl ----------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str = "", timeout: float = 400) -> str:
        """Run kubectl as an administrator in the checkout, and return its output.

        Raises:
            CommandError: kubectl failed.
        """
        program = build(CONTROL_PLANE).with_name("kubectl")
        words = [str(program), f"--kubeconfig={self.control_plane.kubeconfig}", *arguments]
        return run(words, stdin=stdin, timeout=timeout, directory=CHECKOUT)

    def get(self, *arguments: str) -> Json:
        """Return the result of `kubectl get -o json`; ask again if the API server is too busy.

        Raises:
            CommandError: kubectl failed for another reason.
            WaitTimeoutError: the API server stays too busy.
        """

        def read() -> Json | None:
            try:
                answer: Json = json.loads(self.kubectl("get", *arguments, "--output=json"))
            except CommandError as error:
                if any(each in str(error) for each in _BUSY):
                    return None
                raise
            return answer

        found = wait_for(read, f"kubectl get {' '.join(arguments)}", every_seconds=1)
        assert found is not None
        return found

    def rendered(
        self,
        folder: str,
        *,
        components: Sequence[str] = (),
        images: Mapping[str, str] | None = None,
    ) -> str:
        """Render a kustomization of the checkout.

        Args:
            folder: folder of the kustomization in the checkout.
            components: folders of components to add.
            images: image name in the manifests to the image to use.
        """
        if components:
            overlay = Path(tempfile.mkdtemp(dir=self.directory))
            above = Path(os.path.relpath(CHECKOUT, overlay))
            lists = {
                "resources": [str(above / folder)],
                "components": [str(above / each) for each in components],
            }
            document = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
            (overlay / "kustomization.yaml").write_text(json.dumps({**document, **lists}))
            folder = str(overlay)
        text = self.kubectl("kustomize", folder)
        for name, other in (images or {}).items():
            assert f"image: {name}\n" in text, f"{folder} has no image {name}"
            text = text.replace(f"image: {name}\n", f"image: {other}\n")
        return text

    @contextmanager
    def applied(
        self,
        folder: str,
        *,
        components: Sequence[str] = (),
        images: Mapping[str, str] | None = None,
    ) -> Iterator[None]:
        """Apply a kustomization, and delete its objects on exit; see ``rendered``."""
        with self.applied_text(self.rendered(folder, components=components, images=images)):
            yield

    @contextmanager
    def applied_text(self, manifests: str) -> Iterator[None]:
        """Apply manifests, and delete their objects on exit."""
        self.kubectl("apply", "--filename=-", stdin=manifests)
        try:
            yield
        finally:
            self.kubectl("delete", "--ignore-not-found", "--filename=-", stdin=manifests)

    def token(self, namespace: str, account: str, *audiences: str) -> str:
        """Return a token of a ServiceAccount from the TokenRequest API."""
        words = [f"--namespace={namespace}", account, *(f"--audience={each}" for each in audiences)]
        return self.kubectl("create", "token", *words).strip()

    # --- pods -------------------------------------------------------------------------------------

    def pods(self, namespace: str, selector: str = "") -> list[Json]:
        """Return a namespace's pods that match a label selector, without terminating pods."""
        found = self.get("pods", f"--namespace={namespace}", f"--selector={selector}")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def wait_for_rollout(self, namespace: str, name: str, timeout_seconds: int = 300) -> None:
        """Wait until a Deployment is rolled out."""
        words = [f"--namespace={namespace}", f"deployment/{name}", f"--timeout={timeout_seconds}s"]
        self.kubectl("rollout", "status", *words)

    def exec(self, namespace: str, pod: str, *words: str) -> str:
        """Run a command in the first container of a pod."""
        return self.kubectl("exec", f"--namespace={namespace}", pod, "--", *words)

    def logs(self, namespace: str, pod: str, *arguments: str) -> str:
        """Return the container's log; `--previous` selects the container before the last restart.

        A kubelet that has just started refuses connections, and answers 404 until it has listed its
        pods. Both are retried.

        Raises:
            CommandError: kubectl failed for another reason.
            WaitTimeoutError: the kubelet did not respond in time.
        """

        def read() -> tuple[str] | None:
            try:
                return (self.kubectl("logs", f"--namespace={namespace}", pod, *arguments),)
            except CommandError as error:
                if any(each in str(error) for each in _KUBELET_STARTS):
                    return None
                raise

        found = wait_for(read, f"the kubelet of {pod}", every_seconds=0.5)
        assert found is not None
        return found[0]

    def pod(self, namespace: str, name: str) -> Json:
        return self.get("pod", f"--namespace={namespace}", name)

    def holder(self, namespace: str = "stowage", lease: str = "stowage") -> str:
        """Return the holderIdentity of a lease; empty without a holder."""
        for each in self.get("leases.coordination.k8s.io", f"--namespace={namespace}")["items"]:
            if each["metadata"]["name"] == lease:
                return str(each["spec"].get("holderIdentity") or "")
        return ""

    def leader(self, namespace: str = "stowage", lease: str = "stowage") -> str:
        """Return the name of the pod that holds a lease; empty without a holder."""
        return host_of(self.holder(namespace, lease))

    def processes(self, pod: Json, container: int = 0) -> list[int]:
        """Return the process ids, in the lab's namespace, of a container."""
        group = self.container_cgroup("memory", pod, container)
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]

    def signal(self, pod: Json, number: signal.Signals) -> None:
        """Send a signal to every process in the first container of a pod."""
        for pid in self.processes(pod):
            os.kill(pid, number)

    def exhaust_memory(self, pod: Json) -> None:
        """Make the kernel OOM-kill a container's processes.

        Lower the memory limit to the current usage; a process in the container's cgroup then
        allocates more. The kernel kills the container's own process, whose oom_score_adj the
        kubelet raised.
        """
        group = self.container_cgroup("memory", pod)
        used, limit = ("memory.current", "memory.max")
        if not has_unified_cgroups():
            used, limit = ("memory.usage_in_bytes", "memory.limit_in_bytes")
        [victim] = self.processes(pod)
        (group / limit).write_text(str(int((group / used).read_text()) + (8 << 20)))
        ask = 'echo $$ >"$1/cgroup.procs"; exec "$2" -c "held = bytearray(64 << 20)"'
        with suppress(CommandError):
            run(["sh", "-c", ask, "sh", str(group), sys.executable])
        wait_for(lambda: not Path(f"/proc/{victim}").exists(), "the kernel to end the container")

    def peak_memory(self, pod: Json) -> int:
        """Return the container's peak memory usage in bytes, from its cgroup."""
        name = "memory.peak" if has_unified_cgroups() else "memory.max_usage_in_bytes"
        return int((self.container_cgroup("memory", pod) / name).read_text())

    def container_cgroup(self, controller: str, pod: Json, container: int = 0) -> Path:
        """Return a container's cgroup, in one hierarchy on cgroup v1."""
        identity = pod["status"]["containerStatuses"][container]["containerID"].rpartition("/")[2]
        root = CGROUPS if has_unified_cgroups() else CGROUPS / controller
        node = self.node(pod["spec"]["nodeName"])
        uid = pod["metadata"]["uid"]
        found = list((root / node.cgroup.lstrip("/")).glob(f"kubepods/**/pod{uid}/{identity}"))
        assert found, f"there is no cgroup of {pod['metadata']['name']}"
        return found[0]

    # --- what a failure shows ---------------------------------------------------------------------

    def report(self) -> str:
        """Return pods, events and the ends of all logs, for the report of a failed test."""
        words = ["get", "pods", "--all-namespaces", "--output=wide"]
        events = ["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"]
        shown = [self.kubectl(*words), *self.kubectl(*events).splitlines()[-40:]]
        shown += [self.kubectl("get", "nodes,leases", "--all-namespaces", "--output=wide")]
        shown += [self.pod_logs(), *(node.logs() for node in self.nodes)]
        return "\n".join([*shown, self.control_plane.logs(15)])

    def pod_logs(self) -> str:
        """Return the end of the current and the previous log of each of Stowage's containers."""
        shown = []
        for pod in self.get("pods", "--all-namespaces", "--selector=app.kubernetes.io/name")[
            "items"
        ]:
            where = pod["metadata"]["namespace"], pod["metadata"]["name"]
            for more in ((), ("--previous",)):
                with suppress(CommandError):
                    shown.append(f"--- {'/'.join(where)} {' '.join(more)}")
                    shown.append(self.logs(*where, "--tail=25", *more))
        return "\n".join(shown)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            print(*(node.logs() for node in self.nodes), sep="\n")
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _node(self, index: int) -> Node:
        server = self.control_plane.server_for_nodes
        user = f"system:node:node-{index}"
        node = Node(
            index,
            self.directory / f"node-{index}",
            self.network,
            self._cgroups,
            self._images,
            kubelet_kubeconfig=self.control_plane.kubeconfig_for(
                user, ["system:nodes"], server=server
            ),
            proxy_kubeconfig=self.control_plane.kubeconfig_for("system:kube-proxy", server=server),
            authority=self.control_plane.directory / "ca.crt",
        )
        node.kubelet_configuration |= self._kubelet
        return node

    @staticmethod
    def _stop(node: Node) -> None:
        if node.is_on:
            node.stop()

    def _usable(self) -> set[str]:
        return {
            node["metadata"]["name"]
            for node in self.cluster.run(self.cluster.api.list_items("/api/v1/nodes"))
            if not node["spec"].get("taints")
            and any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in node["status"].get("conditions", [])
            )
        }
