"""The memory limit is that of the process's cgroup."""

import math
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from scheduler.observability.memory_limit import memory_limit_bytes
from scheduler.observability.metrics import SchedulerMetrics


def machine(root: Path, cgroup: str, limits: dict[str, str]) -> Path:
    """A file system with the process's cgroup, and files below the mount."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in limits.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "limits", "expected"),
    [
        pytest.param("0::/\n", {"memory.max": "2147483648\n"}, 2 << 30, id="a container"),
        pytest.param(
            "1:cpu:/\n0::/a/b\n", {"memory.max": "5\n", "a/b/memory.max": "7\n"}, 7, id="a unit"
        ),
        pytest.param("0::/\n", {"memory.max": "max\n"}, math.inf, id="no limit"),
        pytest.param("0::/\n", {}, math.inf, id="the root"),
        pytest.param("1:cpu:/\n", {"memory.max": "5\n"}, math.inf, id="no cgroup of memory"),
        pytest.param("gone\n", {"memory.max": "5\n"}, math.inf, id="not readable"),
        pytest.param(
            "4:memory:/kubepods/pod1\n0::/a\n",
            {"memory/memory.limit_in_bytes": "6\n", "a/memory.max": "7\n"},
            6,
            id="cgroup v1: a container",
        ),
        pytest.param(
            "4:hugetlb,memory:/a\n",
            {"memory/memory.limit_in_bytes": "6\n", "memory/a/memory.limit_in_bytes": "5\n"},
            5,
            id="cgroup v1: a unit",
        ),
        pytest.param(
            "4:memory:/\n",
            {"memory/memory.limit_in_bytes": "9223372036854771712\n"},
            math.inf,
            id="cgroup v1: no limit",
        ),
        pytest.param("4:memory:/\n", {}, math.inf, id="cgroup v1: the root"),
    ],
)
def test_the_limit_is_that_of_the_cgroup(
    tmp_path: Path, cgroup: str, limits: dict[str, str], expected: float
) -> None:
    """Infinite where there is none."""
    assert memory_limit_bytes(machine(tmp_path, cgroup, limits)) == expected


def test_without_cgroups_there_is_no_limit(tmp_path: Path) -> None:
    """As on macOS."""
    assert memory_limit_bytes(tmp_path) == math.inf


def test_the_limit_is_served() -> None:
    """With or without one, so that the alert's query finds it."""
    registry = CollectorRegistry()
    SchedulerMetrics(registry)

    assert "\nstowage_memory_limit_bytes " in generate_latest(registry).decode()
