"""Every command that a page tells people to type is run by a test, or it is said why not."""

import re
from pathlib import Path

import pytest

from tests.support.pages import CHECKOUT, NOT_RUN_THERE, PAGES, shown, why_not_run

COMMANDS = [found.command for page in PAGES for found in shown(page)]
KNOWN = ("stowage", "kubectl", "helm", "make", "python", "pip", "cd", "cp", "curl", "docker", "git")


def test_no_exception_is_left_over() -> None:
    """Each pattern still meets a command of some page."""
    unused = [
        pattern
        for pattern in NOT_RUN_THERE
        if not any(re.fullmatch(pattern, command) for command in COMMANDS)
    ]

    assert unused == []


def test_most_are_run() -> None:
    """By `e2e/test_pages.py`, which takes them from here."""
    run = [command for command in COMMANDS if not why_not_run(command)]

    assert len(run) > 50
    assert {"stowage", "kubectl", "helm", "pip", "curl"} <= {each.split()[0] for each in run}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_blocks_hold_commands(page: Path) -> None:
    """A block in a language of the shell begins each line with a program; others are outputs."""
    for found in shown(page):
        first = re.sub(r"^eval \"\$\(|^\w+=\$\(", "", found.command)
        first = re.sub(r"^\w+=\S+ ", "", first).split()[0]
        assert first.rstrip(')"') in KNOWN, f"{page.name}:{found.line}: {found.command}"


@pytest.mark.parametrize("reason", NOT_RUN_THERE.values())
def test_the_tests_that_reasons_name_exist(reason: str) -> None:
    """Files and folders."""
    for name in re.findall(r"(?:tests|e2e|\.ci)/[\w./]*\w", reason):
        assert (CHECKOUT / name).exists(), name
