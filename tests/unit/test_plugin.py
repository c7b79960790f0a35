"""The module that plugins import: complete for the examples, and the only one they need."""

import re
from pathlib import Path

import pytest

from scheduler import plugin
from scheduler.kernel.framework import interface

CHECKOUT = Path(__file__).parents[2]
PUBLIC = {"scheduler.plugin", "scheduler.testing"}
TEMPLATES = CHECKOUT / "scheduler" / "tools" / "cli" / "plugin_template"
SOURCES = [
    *sorted((CHECKOUT / "examples").rglob("*.py")),
    *(TEMPLATES / name for name in ("module.py.txt", "tests.py.txt")),
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_examples_import_the_public_modules_only(path: Path) -> None:
    """The package `scheduler` has no other promise to plugins."""
    lines = re.findall(r"^\s*(?:from|import) (scheduler[\w.]*)", path.read_text(), re.MULTILINE)

    assert set(lines) <= PUBLIC


def test_every_extension_point_is_there() -> None:
    """Under the name that the framework gives it."""
    points = {
        name
        for name, found in vars(interface).items()
        if name.endswith(("Plugin", "Extensions")) and isinstance(found, type)
    }
    inside = {"CountingFilterPlugin", "DomainScorePlugin"}

    assert points - inside <= set(plugin.__all__)


def test_all_names_exist() -> None:
    """`__all__` is sorted as ruff wants it, and true."""
    assert {name for name in plugin.__all__ if not hasattr(plugin, name)} == set()
