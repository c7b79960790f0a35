"""Checks that a machine can run real nodes, and that nothing is left of them afterwards."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.nodes.namespaces import CommandError, run
from e2e.support import debian
from e2e.support.go_programs import CACHE

PROGRAMS = {
    "buildah": "buildah",
    "busybox": "busybox-static",
    "containerd": "containerd",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "nft": "nftables",
    "runc": "runc",
}
"""Programs that build nodes and images, and their Debian packages."""

NETWORK_PLUGINS = "containernetworking-plugins"

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = (
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "devices",
    "freezer",
    "memory",
    "pids",
    "systemd",
)
"""The cgroup v1 hierarchies in which kubelet and runc create groups."""

SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/ip_forward",
    "net/ipv4/vs/conntrack",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""Settings below /proc/sys that kubelet and kube-proxy write."""

_NAME = "stowage-nodes"


class UnsupportedMachineError(RuntimeError):
    """The machine cannot run real nodes; the message gives the reason and a remedy."""


class LeftoversError(RuntimeError):
    """A lab left something behind; the message says what."""


def prepare() -> None:
    """Check that the machine can run real nodes; put the required programs on the PATH.

    Raises:
        UnsupportedMachineError: it cannot.
    """
    if os.geteuid() != 0:
        raise UnsupportedMachineError(
            "real nodes need root: namespaces, mounts and cgroups are made for them"
        )
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        raise UnsupportedMachineError("real nodes need unshare and nsenter, which util-linux has")
    try:
        run(["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--mount-proc", "true"])
    except CommandError as error:
        raise UnsupportedMachineError(f"namespaces cannot be made here: {error}") from error
    if not has_unified_cgroups():
        missing = [name for name in CONTROLLERS if not (CGROUPS / name / "cgroup.procs").exists()]
        if missing:
            raise UnsupportedMachineError(
                f"these cgroup hierarchies are not mounted: {', '.join(missing)}"
            )
        if not os.access(CGROUPS / "memory" / "cgroup.procs", os.W_OK):
            raise UnsupportedMachineError(
                "cgroups cannot be made here: /sys/fs/cgroup is read-only"
            )
    try:
        os.environ.update(debian.environment({**PROGRAMS, "ptp": NETWORK_PLUGINS}))
    except debian.ProgramNotFoundError as error:
        raise UnsupportedMachineError(f"real nodes need {', '.join(PROGRAMS)}: {error}") from error


def has_unified_cgroups() -> bool:
    """Report whether the machine uses cgroup v2 alone; a hybrid hierarchy counts as v1."""
    return (CGROUPS / "cgroup.controllers").exists()


def network_plugins() -> Path:
    """Return the folder of the CNI plugins."""
    found = shutil.which("ptp")
    assert found is not None, "the machine was prepared"
    return Path(found).resolve().parent


class CgroupTree:
    """A cgroup folder in every hierarchy, for one lab.

    Args:
        name: name of the folder; all groups of kubelets are below it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._roots = (
            [CGROUPS] if has_unified_cgroups() else [CGROUPS / each for each in CONTROLLERS]
        )

    def make(self, child: str) -> str:
        """Create a node's folder and return its path for kubelet's `cgroupRoot`."""
        for root in self._roots:
            for path in (root / self.name, root / self.name / child):
                path.mkdir(exist_ok=True)
                if root.name == "cpuset":
                    # A new cpuset is empty; no process can join before these are set.
                    for name in ("cpuset.cpus", "cpuset.mems"):
                        (path / name).write_text((path.parent / name).read_text())
                if has_unified_cgroups():
                    controllers = (path.parent / "cgroup.controllers").read_text().split()
                    wanted = " ".join(f"+{name}" for name in controllers)
                    (path.parent / "cgroup.subtree_control").write_text(wanted)
        return f"/{self.name}/{child}"

    def remove(self) -> None:
        """Remove every folder, after its processes have ended."""
        # runc also creates some outside the controllers' hierarchies.
        for root in (CGROUPS, *CGROUPS.iterdir()):
            for folder, _, _ in os.walk(root / self.name, topdown=False):
                Path(folder).rmdir()


def remove_leftovers() -> None:
    """Remove the folders and cgroups of labs whose process was killed."""
    folders = Path(tempfile.gettempdir()).glob(f"{_NAME}-*")
    for path in (*folders, *CGROUPS.glob(f"{_NAME}-*"), *CGROUPS.glob(f"*/{_NAME}-*")):
        owner = re.match(rf"{_NAME}-(\d+)-", path.name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            CgroupTree(path.name).remove()
            shutil.rmtree(Path(tempfile.gettempdir()) / path.name, ignore_errors=True)


def prefix() -> str:
    """Return the name prefix of this process' lab."""
    return f"{_NAME}-{os.getpid()}-"


@contextmanager
def check_for_leftovers() -> Iterator[None]:
    """Compare the machine's state before and after.

    Raises:
        LeftoversError: a setting, rule, mount or cgroup differs.
    """
    before = _seen()
    yield
    after = _seen()
    changed = [
        f"{key}: was {before[key]!r}, is {after[key]!r}"
        for key in before
        if before[key] != after[key]
    ]
    if changed:
        raise LeftoversError("real nodes changed this machine:\n" + "\n".join(changed))


def _seen() -> dict[str, str]:
    """Return the state that a lab could change, without that of other labs."""
    seen = {name: _text(Path("/proc/sys") / name) for name in SETTINGS}
    mounts = _text(Path("/proc/self/mounts")).splitlines()
    seen["mounts"] = "\n".join(each for each in mounts if prefix() in each or str(CACHE) in each)
    groups = {path.name for path in CGROUPS.glob("*/*") if path.is_dir()}
    ours = re.compile(rf"{prefix()}.*|kubepods.*|buildah.*")
    seen["cgroups"] = " ".join(sorted(name for name in groups if ours.fullmatch(name)))
    seen["rules"] = run(["nft", "--stateless", "list", "ruleset"])
    return seen


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
