"""A metric of the container's memory limit, with which alerts compare the memory use.

Source: Documentation/admin-guide/cgroup-v2.rst (memory.max). cgroup v1, which Kubernetes no longer
supports, counts as no limit.
"""

import math
from pathlib import Path
from typing import Final

from scheduler.observability.instruments import Instruments

_UNIFIED: Final = "0::/"
"""The beginning of the line of cgroup v2 in /proc/self/cgroup; the path below the mount follows."""


def declare_memory_limit(instruments: Instruments) -> None:
    """Declare the metric; the limit is read at each scrape, since a pod can be resized."""
    limit = instruments.gauge(
        "stowage_memory_limit_bytes", "Memory limit of the container; +Inf without one."
    )
    limit.from_source(lambda: {(): memory_limit_bytes()})


def memory_limit_bytes(root: Path = Path("/")) -> float:
    """Return the limit of the process's own cgroup in bytes; infinite if it cannot be read.

    `root` is the root of the file system.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
        [place] = [line.removeprefix(_UNIFIED) for line in lines if line.startswith(_UNIFIED)]
        return float((root / "sys/fs/cgroup" / place / "memory.max").read_text())
    except (OSError, ValueError):
        # Also for the value "max".
        return math.inf
