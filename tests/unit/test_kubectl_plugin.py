"""`kubectl stowage`: the entry point, and what krew is given."""

import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
KREW = ROOT / "deploy" / "krew"
SEMVER = re.compile(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


def build(into: Path) -> dict[str, Any]:
    subprocess.run(
        [sys.executable, str(KREW / "build.py"), "--version", "v1.2.3",
         "--url", "https://example.com/v1.2.3/", "--into", str(into)],
        check=True,
    )  # fmt: skip
    found: dict[str, Any] = yaml.safe_load((into / "stowage.yaml").read_text())
    return found


def test_the_manifest_is_one_that_krew_takes(tmp_path: Path) -> None:
    """Its own rules: names, a version with a v, a checksum, and files that are there."""
    manifest = build(tmp_path)

    spec = manifest["spec"]
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Plugin", "stowage")
    assert SEMVER.fullmatch(spec["version"])
    assert 0 < len(spec["shortDescription"]) <= 50
    assert "\n" not in spec["shortDescription"]
    [platform] = spec["platforms"]
    archive = tmp_path / "kubectl-stowage.tar.gz"
    assert platform["uri"] == "https://example.com/v1.2.3/kubectl-stowage.tar.gz"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as tar:
        assert {entry["from"] for entry in platform["files"]} == set(tar.getnames())
        assert tar.getmember(platform["bin"]).mode == 0o755


def test_the_same_bytes_each_time(tmp_path: Path) -> None:
    """A checksum that somebody else can work out."""
    assert build(tmp_path / "a") == build(tmp_path / "b")


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_launcher(tmp_path: Path, is_installed: bool) -> None:
    """Hands everything on, or says what to install."""
    stowage = tmp_path / "stowage"
    if is_installed:
        stowage.write_text('#!/bin/sh\necho "got $*"\n')
        stowage.chmod(0o755)

    done = subprocess.run(
        ["/bin/sh", str(KREW / "kubectl-stowage"), "explain", "-f", "x"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    if is_installed:
        assert (done.returncode, done.stdout) == (0, "got explain -f x\n")
    else:
        assert done.returncode == 1
        assert "pipx install stowage-scheduler" in done.stderr


def test_kubectl_finds_the_command() -> None:
    """By a program of this name; it is the same group under another name."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-stowage"] == "scheduler.__main__:kubectl_plugin"

    done = subprocess.run(
        [sys.executable, "-c", "from scheduler.__main__ import kubectl_plugin; kubectl_plugin()",
         "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.startswith("Usage: kubectl stowage [OPTIONS] COMMAND")
