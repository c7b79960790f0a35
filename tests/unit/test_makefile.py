"""The first command of a checkout: what it says, and what a failed try leaves behind."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def make(work: Path, python: str) -> subprocess.CompletedProcess[str]:
    """`make .venv/run.stamp` with a Python that is a shell script."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml", "apistub/pyproject.toml"):
        (work / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, work / name)
    fake = work / "python"
    fake.write_text(f"#!/bin/sh\n{python}\n")
    fake.chmod(0o755)
    return subprocess.run(
        [str(shutil.which("make")), ".venv/run.stamp", f"PYTHON={fake}"],
        cwd=work, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_kind_is_two_commands_from_nothing_to_a_pod(tmp_path: Path) -> None:
    """What is loaded is what the overlay names, and everything goes to the cluster that is made."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("docker", "kind", "kubectl"):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path / "calls"}\n')
        tool.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}

    # However old the environment is: otherwise pip would install into it.
    stamp = ROOT / ".venv" / "run.stamp"
    subprocess.run(
        [str(shutil.which("make")), "kind", "-o", stamp, f"VENV={stamp.parent}", "VERSION=1"],
        cwd=ROOT, env=environ, check=True, capture_output=True,
    )  # fmt: skip

    calls = (tmp_path / "calls").read_text().splitlines()
    base = yaml.safe_load((ROOT / "deploy/base/kustomization.yaml").read_text())
    [image] = [f"{each['newName']}:{each['newTag']}" for each in base["images"]]
    [build] = [call for call in calls if call.startswith("docker")]
    create, load = (call for call in calls if call.startswith(("kind create", "kind load")))
    assert f"-t {image} " in build
    assert calls.index(build) < calls.index(create) < calls.index(load)
    assert create.startswith("kind create cluster --name stowage --config ")
    config = yaml.safe_load((ROOT / create.split("--config ")[1].split()[0]).read_text())
    assert config["kind"] == "Cluster"
    assert load == f"kind load docker-image {image} --name stowage"
    kubectl = [call for call in calls if call.startswith("kubectl")]
    assert kubectl[0].endswith("apply -k deploy/overlays/kind")
    assert all("--context kind-stowage" in call for call in kubectl)


def test_an_old_python_is_named_before_anything_is_made(tmp_path: Path) -> None:
    """One line, and how to name another one."""
    old = (
        f"exec {sys.executable} -c 'import sys; sys.version_info = (3, 9, 2); "
        'sys.version = "3.9.2"; exec(sys.argv[1])\' "$2"'
    )

    done = make(tmp_path, old)

    assert done.returncode
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "is 3.9.2; name another one: make PYTHON=python3.12" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_failed_try_leaves_nothing(tmp_path: Path) -> None:
    """An environment that was made by half is gone, and the next try begins anew."""
    half = '[ "$1" = -c ] || { mkdir -p "$3/bin"; touch "$3/bin/python"; exit 1; }'

    for _ in range(2):
        done = make(tmp_path, half)

        assert done.returncode
        assert "Installing about 30 packages into .venv" in done.stdout
        assert "has no venv; on Debian: apt install python3-venv" in done.stderr
        assert not (tmp_path / ".venv").exists()
