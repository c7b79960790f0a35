"""The commands that pages show exist, with the options they are shown with."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from scheduler.tools.cli.main import main

CHECKOUT = Path(__file__).parents[3]
PAGES = [
    CHECKOUT / "README.md",
    CHECKOUT / "CHANGELOG.md",
    CHECKOUT / "CONTRIBUTING.md",
    *sorted((CHECKOUT / "docs").glob("*.md")),
]
_OF_ANY_COMMAND = {"-h", "--help", "--version"}


def shown(text: str, program: str) -> Iterator[str]:
    """Command lines of a program, in code blocks (comments left out) and as code."""
    for block in re.findall(r"```(?:sh|console)?\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            command = line.removeprefix("$ ").split("  #")[0].strip()
            if command.startswith(f"{program} "):
                yield command
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    yield from re.findall(rf"`({program} [a-z][^`]*)`", outside)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_stowage_exist(page: Path) -> None:
    """Down to their options."""
    context = click.Context(main)
    for line in shown(page.read_text(), "stowage"):
        _, name, *words = shlex.split(line)
        command = main.get_command(context, name)
        assert command is not None, line
        known = {o for parameter in command.params for o in parameter.opts} | _OF_ANY_COMMAND
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert used <= known, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_make_exist(page: Path) -> None:
    """As the Makefile has them."""
    makefile = (CHECKOUT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))

    assert {line.split()[1] for line in shown(page.read_text(), "make")} <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_exist(page: Path) -> None:
    """Those that are run with `python -m`."""
    for module in re.findall(r"python -m ((?:tests|bench|e2e)[\w.]*)", page.read_text()):
        place = CHECKOUT.joinpath(*module.split("."))
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
