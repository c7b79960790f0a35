"""Programs that Debian has and this machine has not: fetched as packages, unpacked below `.cache`.

Nothing is installed: a package is a folder, and programs run from there with its libraries.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from e2e.support.go_programs import CACHE

_TIMEOUT_SECONDS = 300


class NotHereError(RuntimeError):
    """A program is not on this machine and cannot be fetched; the message says why."""


def program(name: str, *packages: str) -> Path:
    """The path of a program: one that the variable names, on the PATH, or from the packages.

    Args:
        name: the program; the variable is its name in capitals.
        packages: where Debian has it, with the libraries it needs.

    Raises:
        NotHereError: it is nowhere.
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
    raise NotHereError(f"there is no {name} in {', '.join(packages)}")


def environment(programs: Mapping[str, str]) -> dict[str, str]:
    """Variables with which all of some programs are found and run, whichever were here before.

    Args:
        programs: each with the package that has it; packages are fetched with all they depend on.

    Raises:
        NotHereError: a program is nowhere.
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
        raise NotHereError(f"no program in {', '.join(packages)}")
    variables = {"PATH": path}
    if libraries := library_folders(folder):
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, libraries))
        variables["DEBOOTSTRAP_DIR"] = str(folder / "usr" / "share" / "debootstrap")
    return variables


def library_folders(folder: Path = CACHE / "debian") -> list[Path]:
    """Where unpacked libraries are."""
    return sorted((folder / "usr" / "lib").glob("*-linux-gnu*"))


def libraries() -> dict[str, str]:
    """Variables with which unpacked programs find unpacked libraries."""
    found = library_folders()
    return {"LD_LIBRARY_PATH": os.pathsep.join(map(str, found))} if found else {}


def _fetch(command: list[str], folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NotHereError(f"this is no Debian: nothing to run {' '.join(command)} with")
    if _run(command, folder):
        # The lists may be old or missing; only root can renew them.
        if os.geteuid() == 0:
            _run(["apt-get", "update", "--quiet"], folder)
        said = _run(command, folder)
        if said:
            raise NotHereError(f"{' '.join(command)}: {said}")
    for archive in folder.glob("*.deb"):
        said = _run(["dpkg-deb", "--extract", str(archive), str(folder)], folder)
        archive.unlink()
        if said:
            raise NotHereError(said)


def _run(command: list[str], folder: Path) -> str:
    """Runs a command; gives its complaint, empty when it went well."""
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
