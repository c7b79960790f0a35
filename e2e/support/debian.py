"""Downloads Debian packages of missing programs and unpacks them below `.cache`.

Nothing is installed: programs run from the unpacked folder with the libraries in it.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from e2e.support.go_programs import CACHE

_TIMEOUT_SECONDS = 300


class ProgramNotFoundError(RuntimeError):
    """The program is not installed and cannot be downloaded; the message gives the reason."""


def program(name: str, *packages: str) -> Path:
    """Return the path of a program: from an environment variable, PATH, or the packages.

    Args:
        name: the program; the environment variable is its name in capitals.
        packages: the Debian packages of the program and of its libraries.

    Raises:
        ProgramNotFoundError: the program is not installed and cannot be downloaded.
    """
    found = os.environ.get(name.upper()) or shutil.which(name)
    if found:
        return Path(found)
    folder = CACHE / "debian"
    folder.mkdir(parents=True, exist_ok=True)
    places = [folder / "usr" / "bin" / name, folder / "bin" / name]
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not any(path.exists() for path in places):
            _fetch(["apt-get", "download", *packages], folder)
    for path in places:
        if path.exists():
            return path
    raise ProgramNotFoundError(f"{name} is not in the packages {', '.join(packages)}")


def environment(programs: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with which all the programs run.

    Args:
        programs: program to Debian package; missing packages are downloaded with dependencies.

    Raises:
        ProgramNotFoundError: a program is not installed and cannot be downloaded.
    """
    folder = CACHE / "debian-tools"
    folder.mkdir(parents=True, exist_ok=True)
    places = ["usr/local/sbin", "usr/sbin", "usr/bin", "sbin", "bin", "usr/lib/cni"]
    here = [Path("/") / place for place in places]
    unpacked = [folder / place for place in places]
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, [*here, *unpacked])])

    def missing() -> list[str]:
        return [package for name, package in programs.items() if not shutil.which(name, path=path)]

    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if packages := missing():
            archives = f"Dir::Cache::archives={folder}"
            (folder / "partial").mkdir(exist_ok=True)
            download = ["apt-get", "install", "--download-only", "--yes", "--no-install-recommends"]
            _fetch([*download, "-o", archives, *packages], folder)
    if packages := missing():
        raise ProgramNotFoundError(f"packages without the expected program: {', '.join(packages)}")
    variables = {"PATH": path}
    if libraries := library_folders(folder):
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, libraries))
    scripts = folder / "usr" / "share" / "debootstrap"
    if scripts.is_dir():  # an installed debootstrap finds its own
        variables["DEBOOTSTRAP_DIR"] = str(scripts)
    return variables


def library_folders(folder: Path = CACHE / "debian") -> list[Path]:
    """Return the folders of the unpacked libraries."""
    return sorted((folder / "usr" / "lib").glob("*-linux-gnu*"))


def libraries() -> dict[str, str]:
    """Return the environment variables with which unpacked programs find their libraries."""
    found = library_folders()
    return {"LD_LIBRARY_PATH": os.pathsep.join(map(str, found))} if found else {}


def _fetch(command: list[str], folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ProgramNotFoundError(f"apt-get and dpkg-deb are required to run {' '.join(command)}")
    if _run(command, folder):
        # The package lists may be outdated or missing; only root can update them.
        if os.geteuid() == 0:
            _run(["apt-get", "update", "--quiet"], folder)
        output = _run(command, folder)
        if output:
            raise ProgramNotFoundError(f"{' '.join(command)}: {output}")
    for archive in folder.glob("*.deb"):
        output = _run(["dpkg-deb", "--extract", str(archive), str(folder)], folder)
        archive.unlink()
        if output:
            raise ProgramNotFoundError(output)


def _run(command: list[str], folder: Path) -> str:
    """Run a command and return its error message, empty on success."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {_TIMEOUT_SECONDS} s"
    return (done.stderr or "failed")[-500:] if done.returncode else ""
