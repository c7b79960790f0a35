"""Plugins as installed packages, without an installer: what their entry points need."""

import shutil
import tomllib
from pathlib import Path


def announce(package: Path, folder: Path) -> None:
    """Puts the modules of a package into a folder, and what announces its plugins.

    The folder is one that Python looks for modules in.
    """
    settings = tomllib.loads((package / "pyproject.toml").read_text())
    project = settings["project"]
    for module in settings["tool"]["setuptools"]["py-modules"]:
        shutil.copy(package / f"{module}.py", folder)
    name, version = project["name"], project["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{entry} = {place}" for entry, place in entries.items())]
    info.joinpath("entry_points.txt").write_text("\n".join(lines))
