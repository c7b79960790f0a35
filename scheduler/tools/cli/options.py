"""Options that several commands have."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import click
import msgspec
from typing_extensions import override

from scheduler.tools.offline.documents import InputError
from scheduler.tools.pages.shell import Page, saved_page

Output: TypeAlias = Literal["text", "json", "html"]
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


class _Command(click.Command):
    """A command that refuses an option given twice: click takes the last one in silence."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(list(args))
            for param, times in Counter(order).items():
                if times > 1 and _is_for_once(param):
                    told = f"it is given {times} times, expected once."
                    raise click.BadParameter(told, ctx, param)
        return super().parse_args(ctx, args)


def _is_for_once(param: click.Parameter) -> bool:
    """Return whether an option given again would replace another value."""
    if not isinstance(param, click.Option) or param.multiple or param.count:
        return False
    return not param.is_flag or bool(param.secondary_opts)


def command(name: str | None = None) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command, whose options may be given once unless they say otherwise."""
    return click.command(name, cls=_Command, context_settings={"max_content_width": 100})


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
        default="text",
        show_default=True,
        help=told,
    )


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
