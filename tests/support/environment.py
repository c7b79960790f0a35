"""An environment of its own for packages that tests install, with ours behind it."""

import os
import shlex
import subprocess
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PIP = {
    "PIP_NO_INDEX": "1",
    # What builds is ours; pip reads "0" as "no isolation".
    "PIP_NO_BUILD_ISOLATION": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
"""Variables with which pip asks nobody."""


class Environment:
    """A virtual environment that sees everything ours has; nothing is fetched from anywhere.

    Attributes:
        folder: where it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
        [packages] = folder.glob("lib/python*/site-packages")
        ours = sysconfig.get_path("purelib")
        packages.joinpath("ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
        for name in ("stowage", "pip"):
            module = {"stowage": "scheduler"}.get(name, name)
            program = folder / "bin" / name
            program.write_text(f'#!/bin/sh\nexec {folder}/bin/python -m {module} "$@"\n')
            program.chmod(0o755)

    def run(
        self, command: str, directory: Path, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a line as a shell would whose environment is activated."""
        words = shlex.split(command)
        variables = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            **PIP,
            **(more or {}),
        }
        if words[0] in ("python", "pip", "stowage"):
            words[0] = str(self.folder / "bin" / words[0])
        return subprocess.run(
            words, cwd=directory, env=variables, capture_output=True, text=True, check=False
        )

    def succeed(self, command: str, directory: Path) -> str:
        """Run a line that has to end well; gives its output."""
        done = self.run(command, directory)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout
