"""Copies what a virtual environment needs to run, and nothing else, into an empty root folder.

    python rootfs.py /opt/stowage /rootfs

That is: the interpreter, its standard library without what installs or builds, the environment
without pip and setuptools, every shared library that either loads, certificates, and names for the
user. No shell, no package manager, nothing that could be run but Python.
"""

import shutil
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

LEFT_OUT: Final = frozenset(
    [
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pip",
        "setuptools",
        "test",
        "tests",
        "tkinter",
        "turtledemo",
        "venv",
        "_distutils_hack",
        "distutils",
        "pkg_resources",
    ]
)
"""Folders that install, build or test; of packages, their metadata goes too."""

CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
SYSTEM: Final = (
    CERTIFICATES,
    "/etc/mime.types",
    "/usr/share/zoneinfo/UTC",
)
"""Data that Python reads when it is there."""

RESOLVERS: Final = ("libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Loaded by name when a host is looked up, so no file mentions them."""


def main(environment: Path, root: Path) -> None:
    """Fills the root folder."""
    library = Path(sysconfig.get_path("stdlib"))
    interpreter = Path(sys.base_prefix) / "bin" / f"python{sysconfig.get_python_version()}"
    shutil.copytree(library, _under(root, library), ignore=_left_out_of_base)
    packages = environment / "lib"
    shutil.copytree(packages, _under(root, packages), ignore=_left_out)
    _copy(interpreter, root)
    _environment(environment, interpreter, root)
    for path in _libraries(root, interpreter):
        _copy(path, root)
    for name in SYSTEM:
        if Path(name).exists():
            _copy(Path(name), root)
    _trust(root)
    _names(root)


def _left_out(_folder: str, names: list[str]) -> list[str]:
    return [n for n in names if n in LEFT_OUT or n.split("-")[0] in LEFT_OUT or n.endswith(".a")]


def _left_out_of_base(folder: str, names: list[str]) -> list[str]:
    """The base image's own packages are pip and what it needs."""
    return [*_left_out(folder, names), "site-packages"]


def _environment(environment: Path, interpreter: Path, root: Path) -> None:
    """The environment's own interpreter is a link, and its configuration says of what."""
    folder = _under(root, environment)
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "bin" / "python").symlink_to(interpreter)
    shutil.copy2(environment / "pyvenv.cfg", folder)


def _libraries(root: Path, interpreter: Path) -> set[Path]:
    """What the loader needs for the interpreter and all extension modules, found by `ldd`."""
    objects = [interpreter, *(p for p in root.rglob("*.so*") if p.is_file())]
    found = set(_needed(objects))
    folders = {path.parent for path in found}
    found |= {folder / name for folder in folders for name in RESOLVERS if (folder / name).exists()}
    return {path for path in found if not path.is_relative_to(root)}


def _needed(objects: Iterable[Path]) -> Iterator[Path]:
    for path in objects:
        listed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)
        for word in listed.stdout.split():
            if word.startswith("/"):
                yield Path(word)


def _copy(path: Path, root: Path) -> None:
    """The file under its name; a link becomes what it leads to."""
    target = _under(root, path)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path.resolve(), target)


def _trust(root: Path) -> None:
    """OpenSSL reads another name, which Debian links to the certificates."""
    read = _under(root, Path(ssl.get_default_verify_paths().openssl_cafile))
    if _under(root, Path(CERTIFICATES)).exists() and not read.exists():
        read.parent.mkdir(parents=True, exist_ok=True)
        read.symlink_to(CERTIFICATES)


def _names(root: Path) -> None:
    etc = root / "etc"
    etc.mkdir(exist_ok=True)
    (etc / "passwd").write_text("nonroot:x:65532:65532::/:/nonexistent\n")
    (etc / "group").write_text("nonroot:x:65532:\n")
    (etc / "nsswitch.conf").write_text("hosts: files dns\n")
    (root / "tmp").mkdir(exist_ok=True)
    # Not the mode of `mkdir`, from which the umask takes bits.
    (root / "tmp").chmod(0o1777)


def _under(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
