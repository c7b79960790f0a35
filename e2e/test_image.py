"""Promise: the image contains Python, Stowage and their libraries, nothing else, and binds pods.

The test runs the Dockerfile's steps on this machine, without docker. A folder replaces the root of
the build stage, and the result runs in a chroot.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest

from e2e.support.go_programs import CHECKOUT

NOBODY = 65532
ROOTED = re.compile(r"(?<![\w.=/-])/(?:opt/stowage|rootfs|src|wheels)\b")
"""Paths in the Dockerfile's steps."""


class Build:
    """The build stage of the Dockerfile.

    Args:
        root: folder that replaces `/`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.context = root / "context"
        self.variables: dict[str, str] = {}
        (root / "src").mkdir(parents=True)
        (root / "wheels").mkdir()
        self._take_context()

    def _take_context(self) -> None:
        """Copy the files that .dockerignore re-includes; it excludes all others."""
        first, *others = (CHECKOUT / ".dockerignore").read_text().split()
        assert first == "*"
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for source in (path for name in others for path in CHECKOUT.glob(name.removeprefix("!"))):
            target = self.context / source.relative_to(CHECKOUT)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=unwanted)
            else:
                shutil.copy(source, target)

    def carry_out(self, step: str) -> None:
        """Execute one instruction."""
        instruction, _, rest = step.partition(" ")
        if instruction == "ARG":
            name, _, value = rest.partition("=")
            self.variables.setdefault(name, value)
        elif instruction == "COPY":
            *sources, target = Template(rest).substitute(self.variables).split()
            for source in sources:
                self._copy(self.context / source, self.root / "src" / target)
        elif instruction == "RUN":
            self._run(re.sub(r"^(--mount=\S+\s+)*", "", rest))
        else:
            assert instruction == "WORKDIR", step

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)

    def _run(self, command: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", ROOTED.sub(lambda found: f"{self.root}{found[0]}", command)],
            cwd=self.root / "src",
            # The base image has one Python; this machine may have several.
            env={**os.environ, **self.variables, "PATH": f"{self.root}/bin:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def steps(stage: str) -> list[str]:
    """Return the instructions of a stage after its FROM."""
    text = re.sub(r"^#.*\n", "", (CHECKOUT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    start = next(i for i, line in enumerate(lines) if re.fullmatch(f"FROM .* AS {stage}", line))
    rest = lines[start + 1 :]
    end = next((i for i, line in enumerate(rest) if line.startswith("FROM ")), len(rest))
    return [re.sub(r"\s+", " ", line).strip() for line in rest[:end] if line.strip()]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root folder of the image."""
    if os.geteuid() != 0:
        pytest.skip("a chroot needs root")
    root = tmp_path_factory.mktemp("image")
    # The image's user is not root and needs access.
    for folder in (root, *root.parents[:2]):
        folder.chmod(0o755)
    (root / "bin").mkdir()
    (root / "bin" / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    build = Build(root)
    build.variables["VERSION"] = "1.2.3"
    for step in steps("build"):
        build.carry_out(step)
    return root / "rootfs"


def inside(image: Path) -> list[str]:
    """Return the command of the Dockerfile's entry point, run in the image as its user."""
    [words] = re.findall(r"^ENTRYPOINT (.*)$", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)
    program, *rest = json.loads(words)
    chroot = ["chroot", f"--userspec={NOBODY}:{NOBODY}", str(image)]
    return [*chroot, f"{image.parent}{program}", *rest]


def test_it_says_what_it_is(image: Path) -> None:
    """The version is the one of the build argument."""
    words = [*inside(image), "version", "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["stowage"] == "1.2.3"


def test_it_trusts_the_authorities_of_the_system(image: Path) -> None:
    """Extenders and API servers behind public certificates are verified without any setting."""
    code = "import ssl; print(ssl.create_default_context().cert_store_stats()['x509_ca'])"
    words = [*inside(image)[:-2], "-c", code]
    # No SSL_CERT_FILE of this machine.
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/", env=env)

    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 50


def test_there_is_nothing_else_to_run(image: Path) -> None:
    """The image has one program and its libraries; no shell, no installer, no test double."""
    files = {path for path in image.rglob("*") if path.is_file() and not path.is_symlink()}
    programs = {
        path.name
        for path in files
        if os.access(path, os.X_OK)
        and path.read_bytes()[:4] == b"\x7fELF"
        and ".so" not in path.name
    }
    packages = {path.name for path in image.glob("**/site-packages/*")}

    assert programs == {f"python{sys.version_info.major}.{sys.version_info.minor}"}
    assert packages.isdisjoint({"pip", "setuptools", "apistub", "textual", "pytest"})
    assert {"scheduler", "numpy", "kubernetes"} <= packages
    assert "nonroot:x:65532" in (image / "etc" / "passwd").read_text()


def test_every_wheel_is_there_for_both_architectures() -> None:
    """The lock file has hashes of wheels for arm64 too, without which the build would fail."""
    makefile = (CHECKOUT / "Makefile").read_text()
    [platforms] = re.findall(r"^PLATFORMS \?= (.*)$", makefile, re.MULTILINE)
    assert platforms == "linux/amd64,linux/arm64"
    [run] = [step for step in steps("build") if "requirements.lock" in step and "RUN" in step]
    assert {"--require-hashes", "--only-binary=:all:"} <= set(shlex.split(run))
