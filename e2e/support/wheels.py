"""Builds wheels of the example plugins with pip."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from e2e.support.go_programs import CHECKOUT
from tests.support.environment import PIP


def example_wheel(name: str, folder: Path) -> Path:
    """Build the wheel of a package in examples/plugins, offline.

    Args:
        name: name of the package's folder.
        folder: folder for the wheel and for build files.
    """
    package = shutil.copytree(CHECKOUT / "examples" / "plugins" / name, folder / name)
    words = ["wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(package)]
    subprocess.run([sys.executable, "-m", "pip", *words], env={**os.environ, **PIP}, check=True)
    [built] = folder.glob("*.whl")
    return built
