"""Options that several commands have."""

import sys
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import click
import msgspec

Output: TypeAlias = Literal["text", "json"]
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

context_option: Final = click.option(
    "--context", default="", metavar="NAME", help="Which context of the kubeconfig."
)


def cluster_options(told: str) -> Decorator:
    """Adds --kubeconfig, with this help, and --context."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        kubeconfig = click.option("--kubeconfig", default="", metavar="FILE", help=told)
        return kubeconfig(context_option(command))

    return add


def output_option(told: str = "For people or for programs.") -> Decorator:
    """Adds -o, with this help; the command gets an `Output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help=told,
    )


def print_line(value: object) -> None:
    """Prints what programs read: JSON on one line."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()
