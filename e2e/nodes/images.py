"""Builds the images for the real nodes from the checkout's Dockerfile, without a registry.

Every image is an OCI archive below ``.cache``, named by a hash of its inputs, so that it is rebuilt
only after a change and checkouts can share the cache. The build needs the network; running the
images does not.
"""

import fcntl
import hashlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement

from e2e.nodes.namespaces import CommandError, run
from e2e.support.go_programs import CACHE, CHECKOUT, PAUSE, build as build_program

FOLDER = CACHE / "nodes"

SUITE = "trixie"
"""Debian release with the same Python version as the Dockerfile's base image."""

_PYTHON = "3.13"
_PACKAGES = ("ca-certificates", "python3", "python3-venv", "tzdata")
_BASE = f"localhost/stowage-base:{SUITE}"
_KEPT = 6
"""Number of archives kept per image, newest first, since checkouts share the cache."""

_BUILD_SECONDS = 1200


@dataclass(frozen=True, slots=True)
class Image:
    """An image for the nodes.

    Args:
        name: name and tag, as in manifests.
        recipe: text of the Dockerfile.
        context: path in the build context to a local file or folder.
        arguments: build arguments.
        target: stage to build; the last one by default.
        wheels: lock file of the wheels that the build installs.
    """

    name: str
    recipe: str
    context: Mapping[str, Path]
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    wheels: Path | None = None


def images() -> list[Image]:
    """Return all images: Stowage's two, and those of test and example pods."""
    return [
        _stowage("stowage:dev", "daemon"),
        _stowage("stowage-operator:dev", "operator"),
        Image(
            "registry.k8s.io/pause:3.10",
            'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n',
            {"pause": build_program(PAUSE)},
        ),
        Image("box:1", _box(), {"busybox": Path(shutil.which("busybox") or "busybox")}),
    ]


def _stowage(name: str, target: str) -> Image:
    return Image(
        name,
        (CHECKOUT / "Dockerfile").read_text(),
        dict(_context()),
        {"BASE": _BASE, "PIP_NO_INDEX": "1", "VERSION": "0.0.1"},
        target,
        CHECKOUT / "requirements.lock",
    )


def _context() -> Iterator[tuple[str, Path]]:
    """Yield the files that .dockerignore re-includes; it excludes everything else."""
    first, *others = (CHECKOUT / ".dockerignore").read_text().split()
    assert first == "*"
    for pattern in others:
        for path in sorted(CHECKOUT.glob(pattern.removeprefix("!"))):
            yield str(path.relative_to(CHECKOUT)), path


def _box() -> str:
    """Return the Dockerfile of an image with a shell and small tools, for test pods."""
    return (
        "FROM scratch\n"
        "COPY busybox /bin/busybox\n"
        'RUN ["/bin/busybox", "--install", "-s", "/bin"]\n'
        'ENTRYPOINT ["/bin/sh"]\n'
    )


def build_all() -> list[Path]:
    """Build the missing images and return the archives of all.

    Raises:
        CommandError: a build failed; the message has its output.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return [_archive(image) for image in images()]


def _archive(image: Image) -> Path:
    short = image.name.rpartition("/")[2].replace(":", "-")
    archive = FOLDER / f"{short}.{_fingerprint(image)}.tar"
    if archive.exists():
        archive.touch()
        return archive
    print(f"building {image.name} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix="build-") as made:
        _build(image, Path(made), archive)
    others = sorted(FOLDER.glob(f"{short}.*.tar"), key=lambda path: -path.stat().st_mtime)
    for old in others[_KEPT:]:
        old.unlink()
    return archive


def _build(image: Image, directory: Path, archive: Path) -> None:
    context = directory / "context"
    context.mkdir()
    for name, source in image.context.items():
        target = context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (directory / "Dockerfile").write_text(image.recipe)
    words = ["--layers", "--isolation=chroot", "--pull-never", f"--file={directory}/Dockerfile"]
    if image.wheels is not None:
        _make_base()
        words.append(f"--build-context=wheels={_wheels(image.wheels)}")
    words += [f"--build-arg={key}={value}" for key, value in image.arguments.items()]
    if image.target:
        words.append(f"--target={image.target}")
    _buildah("build", *words, f"--tag={image.name}", str(context))
    unfinished = directory / "image.tar"
    _buildah("push", image.name, f"oci-archive:{unfinished}:{_full(image.name)}")
    unfinished.replace(archive)


def _full(name: str) -> str:
    """Return the full image name, as containerd uses it."""
    first, _, rest = name.partition("/")
    if not rest:
        return f"docker.io/library/{name}"
    return name if "." in first else f"docker.io/{name}"


def _fingerprint(image: Image) -> str:
    """Hash all inputs of an image."""
    parts = (image.name, image.recipe, image.target, sorted(image.arguments.items()), _PACKAGES)
    digest = hashlib.sha256(repr(parts).encode())
    for name, source in image.context.items():
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"\0{name}\0{path.relative_to(source)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _make_base() -> None:
    """Build a replacement of the Dockerfile's base image: Debian with the same Python version.

    No registry is available; a build uses only Python and pip of its base.
    """
    with suppress(CommandError):
        _buildah("inspect", "--type=image", _BASE)
        return
    print(f"building {_BASE} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix="build-") as made:
        root = Path(made) / "root"
        words = ["debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}"]
        run([*words, SUITE, str(root), _mirror()], timeout=_BUILD_SECONDS)
        recipe = Path(made) / "Dockerfile"
        recipe.write_text("FROM scratch\nCOPY root /\n")
        _buildah("build", f"--file={recipe}", f"--tag={_BASE}", made)


def _mirror() -> str:
    """Return the Debian mirror that this machine uses."""
    found = run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian"])
    return found.split()[0]


def _wheels(lock: Path) -> Path:
    """Return a folder with the wheels of a lock file for the base image's Python.

    pip would evaluate markers for the Python that it runs in, so they are evaluated here.
    """
    wanted = "".join(_for_python(lock.read_text()))
    folder = FOLDER / f"wheels.{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=FOLDER, prefix="build-") as made:
            requirements, wheels = Path(made) / "requirements.txt", Path(made) / "wheels"
            requirements.write_text(wanted)
            words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            words += ["--require-hashes", "--only-binary=:all:", f"--python-version={_PYTHON}"]
            words += [f"--dest={wheels}", f"--requirement={requirements}"]
            run(words, timeout=_BUILD_SECONDS)
            wheels.rename(folder)
    return folder


def _for_python(lock: str) -> Iterator[str]:
    """Yield a lock file's entries whose markers apply to the base image, without markers."""
    there = {"python_version": _PYTHON, "python_full_version": f"{_PYTHON}.0"}
    for entry in re.split(r"^(?=\w)", lock, flags=re.MULTILINE):
        first, _, rest = entry.partition("\\\n")
        if not first.strip() or first.startswith("#"):
            continue
        requirement = Requirement(first)
        if requirement.marker is None or requirement.marker.evaluate(there):
            requirement.marker = None
            yield f"{requirement} \\\n{rest}"


_WITH_LIBRARIES = """
if [ -n "${LD_LIBRARY_PATH:-}" ]; then
  cache=$1/ld.so.cache
  IFS=:
  ldconfig -X -C "$cache" $LD_LIBRARY_PATH
  mount --bind "$cache" /etc/ld.so.cache
fi
shift
exec "$@"
"""
"""buildah gets no variables, so the libraries of unpacked programs are configured here."""


def _buildah(*words: str) -> str:
    """Run buildah with its own storage, and with mounts that are removed at the end."""
    policy = FOLDER / "policy.json"
    policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
    place = ["--storage-driver=overlay", f"--root={FOLDER / 'storage'}"]
    place += [f"--runroot={FOLDER / 'storage-run'}"]
    private = ["unshare", "--mount", "--propagation=private"]
    private += ["sh", "-euc", _WITH_LIBRARIES, "sh", str(FOLDER)]
    signed = [f"--signature-policy={policy}"] if words[0] in ("build", "push") else []
    command = [*private, "buildah", *place, words[0], *signed, *words[1:]]
    return run(command, timeout=_BUILD_SECONDS)
