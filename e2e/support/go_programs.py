"""Builds the Go programs that the end-to-end tests start.

A program is built into ``.cache/<name>/`` with a fingerprint of its sources, so that it is rebuilt
only after a change. This module does not know what the programs do.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".cache"

KUBERNETES_VERSION = "v1.36.3"


class BuildError(RuntimeError):
    """Go is missing or the compiler failed; the message says which."""


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A Go module of this repository that builds one binary."""

    name: str
    """Name of the binary and of its folder below ``.cache``."""
    module: Path
    """Folder with ``go.mod``."""
    linker_flags: tuple[str, ...] = ()
    package: str = "."
    """Package to build: the module itself, or a command of a required module."""
    also_named: tuple[str, ...] = ()
    """Names of hard links to the binary, so that process lists show the program."""

    @property
    def binary(self) -> Path:
        return CACHE / self.name / self.name


def version_flags(version: str) -> tuple[str, ...]:
    """Return linker flags that set the reported Kubernetes version to ``version``.

    Without them the programs report v0.0.0, and kubectl and clients warn about the skew.
    """
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return tuple(
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in values.items()
    )


CONTROL_PLANE = GoProgram(
    name="controlplane",
    module=CHECKOUT / "e2e" / "controlplane",
    linker_flags=version_flags(KUBERNETES_VERSION),
    also_named=("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
)
"""One binary with all programs of a control plane; the name it is started by selects one."""

NODE = GoProgram(
    name="node",
    module=CHECKOUT / "e2e" / "node",
    linker_flags=version_flags(KUBERNETES_VERSION),
    also_named=("kubelet", "kube-proxy", "device-plugin", "dra-driver"),
)
"""One binary with all Kubernetes programs of a node; the name it is started by selects one."""

PAUSE = GoProgram(name="pause", module=CHECKOUT / "e2e" / "node", package="./pause")
"""Main process of containers that do nothing."""

KWOK = GoProgram(
    name="kwok",
    module=CHECKOUT / "e2e" / "kwok",
    package="sigs.k8s.io/kwok/cmd/kwok",
)
"""kwok: pods on its nodes become Running, and are deleted after their grace period."""


HELM_VERSION = "v3.21.4"
HELM = GoProgram(
    name="helm",
    module=CHECKOUT / "e2e" / "helm",
    package="helm.sh/helm/v3/cmd/helm",
    linker_flags=(
        f"-X helm.sh/helm/v3/internal/version.version={HELM_VERSION}",
        "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
        "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36",
    ),
)
"""Helm; linker flags set the Kubernetes version for which it renders charts offline."""


def build(program: GoProgram) -> Path:
    """Build ``program`` unless its binary is up to date, and return the path.

    Concurrent callers wait for one build. A cold build of the control plane takes about four
    minutes on two cores.

    Raises:
        BuildError: Go is not installed, or the compiler failed.
    """
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"building {program.name} needs Go, and there is no `go` on the PATH")
    folder = program.binary.parent
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "stamp"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = _fingerprint(program, go)
        if program.binary.exists() and stamp.exists() and stamp.read_text() == wanted:
            return program.binary
        print(f"building {program.name} (minutes, the first time) ...", file=sys.stderr, flush=True)
        _compile(program, go)
        stamp.write_text(wanted)
    return program.binary


def _fingerprint(program: GoProgram, go: str) -> str:
    """Hash all inputs of a build: sources, locked modules, flags and compiler version."""
    compiler = subprocess.run([go, "version"], capture_output=True, text=True, check=True)
    digest = hashlib.sha256(compiler.stdout.encode())
    flags = (*program.linker_flags, *program.also_named)
    digest.update(
        "\0".join(flags if program.package == "." else (*flags, program.package)).encode()
    )
    sources = sorted(
        path for path in program.module.rglob("*") if path.suffix in {".go", ".mod", ".sum"}
    )
    for path in sources:
        digest.update(f"\0{path.relative_to(program.module)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _compile(program: GoProgram, go: str) -> None:
    unfinished = program.binary.with_suffix(".unfinished")
    flags = " ".join(("-s", "-w", *program.linker_flags))
    arguments = [
        go,
        "build",
        "-trimpath",
        "-ldflags",
        flags,
        "-o",
        str(unfinished),
        program.package,
    ]
    result = subprocess.run(
        arguments,
        cwd=program.module,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise BuildError(f"building {program.name} failed:\n{result.stderr[-4000:]}")
    unfinished.replace(program.binary)
    for name in program.also_named:
        link = program.binary.with_name(name)
        link.unlink(missing_ok=True)
        link.symlink_to(program.binary.name)


if __name__ == "__main__":
    try:
        print(build(CONTROL_PLANE))
    except BuildError as error:
        sys.exit(f"error: {error}")
