"""Prints text for people: terminals show the control characters in it, and obey none."""

import click

from scheduler.observability.visible import visible


def echo(
    text: str = "", *, err: bool = False, nl: bool = True, color: str = "", bold: bool = False
) -> None:
    """Print a text, parts of which tenants may have written.

    Args:
        text: the text, without escape sequences.
        err: whether to print it to standard error.
        nl: whether to end the line.
        color: its colour, if any.
        bold: whether it is bold.
    """
    shown = visible(text)
    if color or bold:
        shown = click.style(shown, fg=color or None, bold=bold or None)
    click.echo(shown, err=err, nl=nl)
