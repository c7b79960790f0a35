"""The output that pages show under a command on files is what the command prints."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.tools.cli.main import main

CHECKOUT = Path(__file__).parents[3]
NAMES = (
    "README.md",
    "docs/getting-started.md",
    "docs/devices.md",
    "docs/groups.md",
    "docs/what-if.md",
)
PAGES = [CHECKOUT / name for name in NAMES]
EXAMPLES = ("examples/getting-started/cluster.yaml", "examples/devices/", "examples/groups/")


def shown(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command on an example file, with the lines of the `text` block after it."""
    pattern = r"```sh\n([^\n]+)\n```\n\n```text\n(.*?)```"
    for command, output in re.findall(pattern, page.read_text(), re.DOTALL):
        if any(example in command for example in EXAMPLES):
            yield command, [line for line in output.splitlines() if line.strip()]


CASES = [(page.name, *found) for page in PAGES for found in shown(page)]


def test_pages_show_output() -> None:
    """All pages have commands whose output is checked."""
    assert {page for page, _, _ in CASES} == {page.name for page in PAGES}


@pytest.mark.parametrize(("page", "command", "lines"), CASES)
def test_the_lines_are_printed_in_this_order(
    page: str, command: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may leave lines out; it may not change or invent one."""
    monkeypatch.chdir(CHECKOUT)
    result = CliRunner().invoke(main, command.split()[1:], prog_name="stowage")
    printed = iter(line.rstrip() for line in result.stdout.splitlines())

    assert result.exit_code == 0, (page, result.output)
    for line in lines:
        assert line in printed, f"{page}: `{command}` does not print: {line}"
