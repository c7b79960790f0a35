"""Promise: a lab does not change the machine, and leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from e2e.nodes.lab import Lab
from e2e.nodes.machine import SETTINGS
from e2e.nodes.namespaces import Namespaces
from e2e.support.go_programs import CHECKOUT
from e2e.support.waiting import wait_for

ORPHAN = "setsid sleep 3210 >/dev/null 2>&1 </dev/null &"
MAKER = """
import sys
from pathlib import Path
from e2e.nodes.namespaces import Namespaces
made = Namespaces("other", Path(sys.argv[1]))
made.run("sh", "-c", sys.argv[2])
print(made.pid, flush=True)
sys.stdin.read()
"""


def sleepers() -> list[str]:
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    return [line.decode() for line in lines if b"sleep\x003210" in line]


def test_everything_inside_ends_with_them(tmp_path: Path) -> None:
    """Also processes that left their parent's process group, as containers do."""
    with Namespaces("inner", tmp_path) as made:
        made.run("sh", "-c", ORPHAN)
        wait_for(sleepers, "the process inside")

    assert sleepers() == []


def test_they_do_not_outlive_a_harness_that_is_killed(tmp_path: Path) -> None:
    """No process is left to clean up, so the kernel must."""
    words = [sys.executable, "-c", MAKER, str(tmp_path), ORPHAN]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CHECKOUT
    ) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline()
        wait_for(sleepers, "the process inside")
        maker.kill()

    wait_for(lambda: not sleepers(), "the end of the process inside")


def test_mounts_are_not_seen_outside(tmp_path: Path) -> None:
    with Namespaces("inner", tmp_path) as made:
        made.run("mount", "-t", "tmpfs", "none", str(tmp_path))
        inside = made.run("cat", "/proc/mounts")

        assert str(tmp_path) in inside
        assert str(tmp_path) not in Path("/proc/mounts").read_text()


@pytest.mark.parametrize("name", [each for each in SETTINGS if not each.startswith("net/")])
def test_what_a_kubelet_writes_is_its_nodes_own(lab: Lab, name: str) -> None:
    """Kubelet finds the kernel settings that it requires; the machine's settings do not change."""
    path = Path("/proc/sys") / name
    before = path.read_text()
    node = lab.nodes[0]

    node.run("sh", "-c", f"echo 77 > {path}")

    assert node.run("cat", str(path)) == "77\n"
    assert path.read_text() == before
    node.run("sh", "-c", f"echo {before.strip()} > {path}")


def test_a_rebooted_node_is_another_boot_of_the_same_node(lab: Lab) -> None:
    """Kubelet reports the reboot: the Node object stays, with a new boot ID."""
    before = lab.get("node", "node-2")

    lab.node("node-2").reboot()
    wait_for(
        lambda: (
            lab.get("node", "node-2")["status"]["nodeInfo"]["bootID"]
            != before["status"]["nodeInfo"]["bootID"]
        ),
        "kubelet to report the new boot",
        180,
    )

    lab.wait_for_nodes()
    assert lab.get("node", "node-2")["metadata"]["uid"] == before["metadata"]["uid"]
    assert lab.get("node", "node-1")["status"]["nodeInfo"]["bootID"]
