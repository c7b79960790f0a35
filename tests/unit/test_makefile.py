"""The first command of a checkout: what it says, and what a failed try leaves behind."""

import shutil
import subprocess
import sys
from pathlib import Path

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
