"""The rooms of `scheduler/`: its packages and modules, and those of each wing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PRODUCT: Final = Path(__file__).parents[1] / "scheduler"
WINGS: Final = ("kernel", "daemon", "tools")


def rooms() -> dict[str, Path]:
    """Each room by its name: a folder or, at the top, a module."""
    folders = [
        path.parent for path in PRODUCT.glob("*/__init__.py") if path.parent.name not in WINGS
    ]
    for wing in WINGS:
        folders += [path.parent for path in (PRODUCT / wing).glob("*/__init__.py")]
    modules = [path for path in PRODUCT.glob("*.py") if not path.name.startswith("__")]
    return {path.stem: path for path in sorted([*folders, *modules])}


def path_of(room: str) -> str:
    """A room's place below `scheduler/`, as the map of docs/architecture.md writes it."""
    return rooms()[room].relative_to(PRODUCT).with_suffix("").as_posix()
