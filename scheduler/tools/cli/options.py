"""Options that several commands have."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import click
import msgspec

from scheduler.tools.offline.documents import InputError
from scheduler.tools.pages.shell import Page, saved_page

Output: TypeAlias = Literal["text", "json", "html"]
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

context_option: Final = click.option(
    "--context", default="", metavar="NAME", help="Which context of the kubeconfig."
)


def cluster_options(told: str) -> Decorator:
    """Add --kubeconfig, with this help, and --context."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        kubeconfig = click.option("--kubeconfig", default="", metavar="FILE", help=told)
        return kubeconfig(context_option(command))

    return add


def output_option(told: str = "For people or for programs.") -> Decorator:
    """Add -o, with this help; the command gets an `Output` that is no page."""
    return _output_option(["text", "json"], told)


def page_option() -> Decorator:
    """Add -o; the command gets an `Output`."""
    told = "For people or for programs, or one page for a browser: > page.html."
    return _output_option(["text", "json", "html"], told)


def _output_option(choices: Sequence[str], told: str) -> Decorator:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        # click itself would take the last one in silence.
        multiple=True,
        default=["text"],
        callback=_only_one,
        show_default=True,
        help=told,
    )


def _only_one(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> str:
    if len(given) > 1:
        raise click.BadParameter(f"it is given {len(given)} times, expected once.")
    return given[0]


def print_line(value: object) -> None:
    """Print output for programs: JSON on one line."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def print_page(page: Page, data: object) -> None:
    """Print a page that needs no server.

    Raises:
        InputError: standard output is a terminal.
    """
    if sys.stdout.isatty():
        raise InputError("-o html prints a page for a browser: redirect it, as in > page.html")
    sys.stdout.buffer.write(saved_page(page, data))
    sys.stdout.buffer.flush()
