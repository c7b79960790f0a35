"""Installs plugin packages without pip: copies modules and entry point metadata."""

import shutil
import tomllib
from pathlib import Path


def install_package(package: Path, folder: Path) -> None:
    """Copy a package's modules and its entry point metadata into a folder on sys.path."""
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
