"""Wheels of the example plugins, as pip builds them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from e2e.support.go_programs import CHECKOUT
from tests.support.environment import PIP


def example_wheel(name: str, folder: Path) -> Path:
    """Builds a package of examples/plugins into a folder; nothing is fetched.

    Args:
        name: of the package's folder.
        folder: where the wheel goes, and what building leaves.
    """
    package = shutil.copytree(CHECKOUT / "examples" / "plugins" / name, folder / name)
    words = ["wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(package)]
    subprocess.run([sys.executable, "-m", "pip", *words], env={**os.environ, **PIP}, check=True)
    [built] = folder.glob("*.whl")
    return built
