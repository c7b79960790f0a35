"""A real Kubernetes node: kubelet, containerd and kube-proxy in their own namespaces.

Files on its disk survive a power failure; memory and /run do not.
"""

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from e2e.nodes.machine import CgroupTree, network_plugins
from e2e.nodes.namespaces import CommandError, Namespaces, run
from e2e.support.go_programs import NODE, build
from e2e.support.processes import Program

_SOCKET = "/run/containerd/containerd.sock"
_SANDBOX = "registry.k8s.io/pause:3.10"

_SET_UP = """
mount --make-rshared /
mount -t tmpfs none /run
mkdir -p /run/lock /run/netns /run/sysnet /var/lib/kubelet /var/lib/containerd /etc/cni/net.d
mount --bind {disk}/kubelet /var/lib/kubelet
mount --bind {disk}/containerd /var/lib/containerd
mount --bind {disk}/cni /etc/cni/net.d
mount --bind {disk}/log /var/log
mount --make-rshared /var/lib/kubelet
# Of the kernel's settings, only those of the network namespace are the node's own.
mount --bind /proc/sys /proc/sys
mount --bind /proc/sys/net /run/sysnet
mount -o remount,bind,ro /proc/sys
mount --bind /run/sysnet /proc/sys/net
for file in $(cd {disk}/sys && find . -type f); do
  mount --bind {disk}/sys/$file /proc/sys/$file
done
ip address add {address}/24 dev eth0
ip link set eth0 up
ip route add default via {gateway}
sysctl -qw net.ipv4.ip_forward=1
"""

_KUBELET_SETTINGS = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
"""Kernel settings that kubelet requires, as files that hide the machine's settings."""


@dataclass(frozen=True, slots=True)
class Network:
    """The network between a lab and its nodes.

    Args:
        number: number of the lab, unique in its network namespace.
    """

    number: int

    @property
    def bridge(self) -> str:
        return f"br{self.number}"

    @property
    def gateway(self) -> str:
        """IP address of the lab, where the API server listens."""
        return f"172.30.{self.number}.1"

    def address(self, index: int) -> str:
        """Return a node's IP address."""
        return f"172.30.{self.number}.{10 + index}"

    def pods(self, index: int) -> str:
        """Return a node's pod CIDR."""
        return f"10.{100 + self.number}.{index}.0/24"


class Node:
    """One node of a lab.

    Args:
        index: from 1; determines name, zone and addresses.
        directory: its disk and the logs of its programs.
        images: folder of the archives to import into containerd.
        kubelet_kubeconfig: kubelet's kubeconfig.
        proxy_kubeconfig: kube-proxy's kubeconfig.
        authority: CA certificate of the API server's client certificate.
    """

    def __init__(
        self,
        index: int,
        directory: Path,
        network: Network,
        cgroups: CgroupTree,
        images: Path,
        *,
        kubelet_kubeconfig: Path,
        proxy_kubeconfig: Path,
        authority: Path,
    ) -> None:
        self.name = f"node-{index}"
        self.zone = f"zone-{index}"
        self.address = network.address(index)
        self.kubelet_configuration: dict[str, Any] = {}
        """Fields of KubeletConfiguration that override the lab's when kubelet next starts."""
        self._directory = directory
        self._network = network
        self._pods = network.pods(index)
        self._link = f"{network.bridge}-{index}"
        self._images = images
        self._authority = authority
        self._kubeconfigs = {"kubelet": kubelet_kubeconfig, "kube-proxy": proxy_kubeconfig}
        self.cgroup = cgroups.make(self.name)
        self._namespaces: Namespaces | None = None
        self._importing: Program | None = None
        self.programs: dict[str, Program] = {}
        self._write_disk()

    @property
    def namespaces(self) -> Namespaces:
        assert self._namespaces is not None, f"{self.name} is off"
        return self._namespaces

    # --- power ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Power the node on; return when its programs run, before the node is Ready."""
        self._namespaces = Namespaces(self.name, self._directory)
        self._connect()
        self._write("sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
        script = _SET_UP.format(
            disk=self._directory, address=self.address, gateway=self._network.gateway
        )
        self.run("sh", "-eu", stdin=script)
        self._start_containerd()
        self.start_kubelet()
        self._start_kube_proxy()

    def stop(self) -> None:
        """Simulate a power failure: kill all processes at once."""
        self.namespaces.kill()
        for program in self.programs.values():
            program.stop()
        self.programs.clear()
        self._namespaces = None
        # The kernel deletes the link with the namespace, but later.
        with suppress(CommandError):
            run(["ip", "link", "delete", self._link])

    def reboot(self) -> None:
        """Simulate a power failure, and power the node on again."""
        self.stop()
        self.start()

    @property
    def is_on(self) -> bool:
        return self._namespaces is not None

    def freeze(self) -> None:
        """Suspend every process with SIGSTOP, as an overloaded hypervisor would."""
        self.run("sh", "-c", "kill -STOP -1")

    def thaw(self) -> None:
        self.run("sh", "-c", "kill -CONT -1")

    # --- network ----------------------------------------------------------------------------------

    def cut_network(self) -> None:
        """Take the link down: packets are dropped, connections are not refused."""
        run(["ip", "link", "set", self._link, "down"])

    def restore_network(self) -> None:
        run(["ip", "link", "set", self._link, "up"])

    # --- what is on it ----------------------------------------------------------------------------

    def run(self, *words: str, stdin: str = "") -> str:
        """Run a command on the node and return its output."""
        return self.namespaces.run(*words, stdin=stdin)

    def start_kubelet(self) -> None:
        """Start kubelet with the current configuration."""
        self._write("kubelet.yaml", yaml.safe_dump(self._kubelet_document()))
        self._start(
            "kubelet",
            f"--config={self._directory / 'kubelet.yaml'}",
            f"--kubeconfig={self._kubeconfigs['kubelet']}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            "--root-dir=/var/lib/kubelet",
            "--cert-dir=/var/lib/kubelet/pki",
            f"--node-labels=topology.kubernetes.io/zone={self.zone}",
            "-v=2",
        )

    def restart_kubelet(self, **configuration: Any) -> None:
        """Restart kubelet with additional fields of KubeletConfiguration."""
        self.programs.pop("kubelet").stop()
        self.kubelet_configuration |= configuration
        self.start_kubelet()

    def start_device_plugin(self, resource: str, count: int) -> None:
        """Start a device plugin that advertises ``count`` devices of an extended resource."""
        self._start("device-plugin", resource, str(count))

    def start_dra_driver(self, driver: str, count: int) -> None:
        """Start a DRA driver that publishes ``count`` devices and prepares claims for kubelet."""
        kubeconfig = str(self._kubeconfigs["kubelet"])
        self._start("dra-driver", kubeconfig, self.name, driver, str(count))

    def tag_image(self, name: str, other: str) -> None:
        """Tag an image with another name, as if that image had been built and pulled."""
        full = partial("docker.io/library/{}".format)
        self._ctr("images", "tag", "--force", full(name), full(other))

    def wait_for_images(self, timeout_seconds: float = 600) -> None:
        """Wait until all images are imported.

        Raises:
            CommandError: an import failed.
        """
        if self._importing is not None:
            status = self._importing.process.wait(timeout_seconds)
            if status:
                raise CommandError(f"images of {self.name}:\n{self._importing.tail()}")
            self._importing = None

    def logs(self, lines: int = 20) -> str:
        """Return the ends of its programs' logs."""
        return "\n".join(
            f"--- {self.name} {name} ({'running' if program.is_running() else 'ended'})\n"
            f"{program.tail(lines)}"
            for name, program in self.programs.items()
        )

    def _ctr(self, *words: str) -> str:
        return self.run("ctr", f"--address={_SOCKET}", "--namespace=k8s.io", *words)

    # --- how it is made ---------------------------------------------------------------------------

    def _connect(self) -> None:
        """Create a veth pair from bridge to node, and the route to the node's pods."""
        peer = ["peer", "name", "eth0", "netns", str(self.namespaces.pid)]
        run(["ip", "link", "add", self._link, "type", "veth", *peer])
        run(["ip", "link", "set", self._link, "master", self._network.bridge, "up"])
        run(["ip", "route", "replace", self._pods, "via", self.address])

    def _start_containerd(self) -> None:
        containerd = self._start_program(
            "containerd", "containerd", f"--config={self._directory / 'containerd.toml'}"
        )
        containerd.wait_ready(self._answers)
        if self._known_images():
            return
        # Nodes import at the same time, and while kubelet starts.
        importing = "for archive; do ctr --address=$SOCKET --namespace=k8s.io images import"
        archives = sorted(map(str, self._images.glob("*.tar")))
        script = f"SOCKET={_SOCKET}; {importing} $archive; done"
        self._importing = self.namespaces.start("import", "sh", "-euc", script, "sh", *archives)

    def _known_images(self) -> list[str]:
        return self._ctr("images", "list", "--quiet").split()

    def _answers(self) -> bool:
        try:
            self._ctr("version")
        except CommandError:
            return False
        return True

    def _start_kube_proxy(self) -> None:
        self._start(
            "kube-proxy",
            f"--kubeconfig={self._kubeconfigs['kube-proxy']}",
            f"--hostname-override={self.name}",
            f"--cluster-cidr={self._pods}",
            "--proxy-mode=nftables",
            # Do not change the machine's conntrack limits.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        )

    def _start(self, name: str, *arguments: str) -> None:
        self._start_program(name, str(build(NODE).with_name(name)), *arguments)

    def _start_program(self, name: str, *words: str) -> Program:
        program = self.namespaces.start(name, *words)
        self.programs[name] = program
        return program

    def _write_disk(self) -> None:
        for folder in ("kubelet", "containerd", "log"):
            (self._directory / folder).mkdir(parents=True, exist_ok=True)
        for name, value in _KUBELET_SETTINGS.items():
            self._write(f"sys/{name}", f"{value}\n")
        self._write("resolv.conf", f"nameserver {self._network.gateway}\n")
        self._write("cni/10-ptp.conflist", _network_document(self._pods))
        self._write("containerd.toml", _containerd_document())

    def _write(self, name: str, text: str) -> None:
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _kubelet_document(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self._authority)},
            },
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.cgroup,
            "failCgroupV1": False,
            "failSwapOn": False,
            "resolvConf": str(self._directory / "resolv.conf"),
            # Disk and memory are the machine's; its other processes must not cause evictions.
            "evictionHard": {
                "imagefs.available": "0%",
                "memory.available": "50Mi",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "4s",
            # Interval at which mounted Secrets, ConfigMaps and tokens are refreshed.
            "syncFrequency": "10s",
            **self.kubelet_configuration,
        }


def _network_document(pods: str) -> str:
    """Return the CNI configuration: a veth pair per pod, addresses from the node's pod CIDR."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": pods}]],
    }
    plugins = [{"type": "ptp", "mtu": 1500, "ipMasq": False, "ipam": addresses}]
    return json.dumps({"cniVersion": "0.4.0", "name": "lab", "plugins": plugins})


def _containerd_document() -> str:
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE, root may not lower oom_score_adj.
    return f"""
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{_SANDBOX}"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "runc"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{network_plugins()}"
  conf_dir = "/etc/cni/net.d"
"""
