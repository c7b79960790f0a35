"""A Kubernetes cluster with real nodes, inside the namespaces that `python -m e2e.nodes` made.

Its control plane is the harness' own; pods run, Services work, images are those of the checkout.
There is no DNS, and nothing outside can be reached.
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

VARIABLE = "STOWAGE_NODES"
"""Names the folder of the running command, inside its namespaces."""

_KUBELET_STARTS = ("could not find the requested resource", "connection refused")

_NUMBERS = count()


def is_ready(pod: Json) -> bool:
    """Tells whether kubelet says that a pod is Ready."""
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True"


class Lab:
    """A cluster with real nodes; use it as a context manager.

    Args:
        nodes: how many.
        kube_scheduler: whether the default scheduler runs, which places Stowage itself.
        kubelet: fields of KubeletConfiguration that win over the lab's own, for every node.
        options: of the control plane; controllers, address and directory are the lab's own.
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
        """Starts everything and waits until every node is Ready."""
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
        """Ends everything."""
        self._stack.close()
        run(["ip", "link", "delete", self.network.bridge])

    # --- nodes ------------------------------------------------------------------------------------

    def node(self, name: str) -> Node:
        """The node of this name."""
        return next(node for node in self.nodes if node.name == name)

    def wait_for_nodes(self, timeout_seconds: float = 120) -> None:
        """Waits until every node that is on is Ready and takes pods."""
        names = {node.name for node in self.nodes if node.is_on}
        wait_for(lambda: names <= self._usable(), f"{sorted(names)} to be Ready", timeout_seconds)

    # --- kubectl ----------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str = "", timeout: float = 180) -> str:
        """Runs kubectl as an administrator, in the checkout, and returns what it printed.

        Raises:
            CommandError: it failed.
        """
        program = build(CONTROL_PLANE).with_name("kubectl")
        words = [str(program), f"--kubeconfig={self.control_plane.kubeconfig}", *arguments]
        return run(words, stdin=stdin, timeout=timeout, directory=CHECKOUT)

    def get(self, *arguments: str) -> Json:
        """What `kubectl get -o json` gives."""
        answer: Json = json.loads(self.kubectl("get", *arguments, "--output=json"))
        return answer

    def rendered(
        self,
        folder: str,
        *,
        components: Sequence[str] = (),
        images: Mapping[str, str] | None = None,
    ) -> str:
        """The manifests of a kustomization of the checkout.

        Args:
            folder: where it is, in the checkout.
            components: folders of components that an overlay adds to it.
            images: other images, by the names that the manifests have.
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
        """Applies a kustomization; arguments as for ``rendered``."""
        with self.applied_text(self.rendered(folder, components=components, images=images)):
            yield

    @contextmanager
    def applied_text(self, manifests: str) -> Iterator[None]:
        """Applies manifests, and deletes at the end what they made."""
        self.kubectl("apply", "--filename=-", stdin=manifests)
        try:
            yield
        finally:
            self.kubectl("delete", "--ignore-not-found", "--filename=-", stdin=manifests)

    def token(self, namespace: str, account: str, *audiences: str) -> str:
        """A token of a ServiceAccount, from the TokenRequest API."""
        words = [f"--namespace={namespace}", account, *(f"--audience={each}" for each in audiences)]
        return self.kubectl("create", "token", *words).strip()

    # --- pods -------------------------------------------------------------------------------------

    def pods(self, namespace: str, selector: str = "") -> list[Json]:
        """The pods of a namespace, or those a label selector names, that do not end already."""
        found = self.get("pods", f"--namespace={namespace}", f"--selector={selector}")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def wait_for_rollout(self, namespace: str, name: str, timeout_seconds: int = 120) -> None:
        """Waits until the pods of a Deployment are the newest ones and Ready."""
        words = [f"--namespace={namespace}", f"deployment/{name}", f"--timeout={timeout_seconds}s"]
        self.kubectl("rollout", "status", *words)

    def exec(self, namespace: str, pod: str, *words: str) -> str:
        """Runs a command in the first container of a pod."""
        return self.kubectl("exec", f"--namespace={namespace}", pod, "--", *words)

    def logs(self, namespace: str, pod: str, *arguments: str) -> str:
        """What the pod's container printed; `--previous` for the one before it.

        A kubelet that has just started refuses connections, and then answers 404 until it has
        read its pods from the API server: both are waited out.

        Raises:
            CommandError: kubectl failed for another reason.
            WaitTimeoutError: the kubelet did not come.
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
        """What a lease says of its holder; empty when it has none."""
        for each in self.get("leases.coordination.k8s.io", f"--namespace={namespace}")["items"]:
            if each["metadata"]["name"] == lease:
                return str(each["spec"].get("holderIdentity") or "")
        return ""

    def leader(self, namespace: str = "stowage", lease: str = "stowage") -> str:
        """The name of the pod that holds a lease; empty when none does."""
        return self.holder(namespace, lease).partition("_")[0]

    def processes(self, pod: Json, container: int = 0) -> list[int]:
        """The ids, as seen from here, of what runs in a container of a pod."""
        group = self.container_cgroup("memory", pod, container)
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]

    def signal(self, pod: Json, number: signal.Signals) -> None:
        """Sends a signal to every process in the first container of a pod."""
        for pid in self.processes(pod):
            os.kill(pid, number)

    def exhaust_memory(self, pod: Json) -> None:
        """Has the kernel end what runs in a container for want of memory.

        The limit comes down to what is in use, and a process of ours in the container's group asks
        for more; the kernel ends the container's, which kubelet told it to prefer.
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
        """The most memory, in bytes, that the kernel counted for a container."""
        name = "memory.peak" if has_unified_cgroups() else "memory.max_usage_in_bytes"
        return int((self.container_cgroup("memory", pod) / name).read_text())

    def container_cgroup(self, controller: str, pod: Json, container: int = 0) -> Path:
        """The cgroup of a container, in one hierarchy where there are several."""
        identity = pod["status"]["containerStatuses"][container]["containerID"].rpartition("/")[2]
        root = CGROUPS if has_unified_cgroups() else CGROUPS / controller
        node = self.node(pod["spec"]["nodeName"])
        uid = pod["metadata"]["uid"]
        found = list((root / node.cgroup.lstrip("/")).glob(f"kubepods/**/pod{uid}/{identity}"))
        assert found, f"there is no cgroup of {pod['metadata']['name']}"
        return found[0]

    # --- what a failure shows ---------------------------------------------------------------------

    def report(self) -> str:
        """What a person asks first: pods, events, and the ends of all logs."""
        words = ["get", "pods", "--all-namespaces", "--output=wide"]
        events = ["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"]
        shown = [self.kubectl(*words), *self.kubectl(*events).splitlines()[-40:]]
        shown += [self.kubectl("get", "nodes,leases", "--all-namespaces", "--output=wide")]
        shown += [self.pod_logs(), *(node.logs() for node in self.nodes)]
        return "\n".join([*shown, self.control_plane.logs(15)])

    def pod_logs(self) -> str:
        """The end of what each of Stowage's containers said, and of the one before it."""
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
