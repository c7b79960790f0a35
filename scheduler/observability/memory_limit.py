"""A metric of the container's memory limit, with which alerts compare the memory use.

Source: Documentation/admin-guide/cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst
(memory.limit_in_bytes) of Linux.
"""

import math
from pathlib import Path
from typing import Final

from scheduler.observability.instruments import Instruments

_NO_LIMIT_BYTES: Final = 1 << 60
"""cgroup v1 writes "no limit" as the largest multiple of the page size in 63 bits."""


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
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
        # Each line: number, controllers (none for cgroup v2), path below the mount.
        places = {names: path[1:] for _, names, path in (line.split(":", 2) for line in lines)}
        v1 = [path for names, path in places.items() if "memory" in names.split(",")]
        if not v1:
            # The word "max" is a ValueError.
            return float((mount / places[""] / "memory.max").read_text())
        folder = mount / "memory" / v1[0]
        if not folder.is_dir():
            # The path is the host's, and the mount has the container's cgroup only.
            folder = mount / "memory"
        limit = float((folder / "memory.limit_in_bytes").read_text())
    except (OSError, ValueError, KeyError):
        return math.inf
    return limit if limit < _NO_LIMIT_BYTES else math.inf
