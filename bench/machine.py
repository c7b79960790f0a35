"""The machine and the versions of a measurement."""

import datetime as dt
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Final, Self

import msgspec

from e2e.support.go_programs import CHECKOUT, KUBERNETES_VERSION

_MEASURED: Final = ("scheduler", "bench/*.py", "bench/workloads", "e2e/support")
_DIRTY: Final = "-dirty"
_LIBRARIES: Final = ("aiohttp", "kubernetes", "msgspec", "numpy", "uvloop")


class DirtyTreeError(RuntimeError):
    """The working tree differs from the commit."""


class Machine(msgspec.Struct, frozen=True, rename="camel"):
    """Properties that affect the results.

    Attributes:
        started: when the run began, UTC.
        commit: of the checkout; ends in ``-dirty`` when files differ from it.
        load: load average before the run, caused by other processes.
    """

    started: str
    commit: str
    cores: int
    processor: str
    memory_bytes: int
    system: str
    python: str
    kubernetes: str
    libraries: dict[str, str]
    load: float

    @classmethod
    def here(cls) -> Self:
        """Return the properties of this machine."""
        return cls(
            started=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            commit=_commit(),
            cores=os.cpu_count() or 1,
            processor=_proc_field("cpuinfo", "model name"),
            memory_bytes=1024 * int(_proc_field("meminfo", "MemTotal").split()[0]),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            kubernetes=KUBERNETES_VERSION,
            libraries={name: version(name) for name in _LIBRARIES},
            load=os.getloadavg()[0],
        )

    def refuse_dirty(self) -> None:
        """Ensure that results belong to a commit.

        Raises:
            DirtyTreeError: files differ from the commit.
        """
        if self.commit.endswith(_DIRTY):
            raise DirtyTreeError("files differ from the commit; --dirty measures them all the same")


def _commit() -> str:
    commit = _git("rev-parse", "HEAD")
    # New result files do not count as changes.
    changed = _git("status", "--porcelain", "--", *_MEASURED)
    return f"{commit}{_DIRTY}" if changed else commit


def _git(*arguments: str) -> str:
    answer = subprocess.run(
        ["git", *arguments],  # noqa: S607 -- whichever git there is
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip()


def _proc_field(file: str, name: str) -> str:
    for line in Path(f"/proc/{file}").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0"
