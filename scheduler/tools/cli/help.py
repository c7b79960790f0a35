"""`stowage help COMMAND`: the same text as `stowage COMMAND --help`."""

import click

from scheduler.tools.cli.echo import echo


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def show_help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Say what a command is for, and what it takes: `stowage help explain`.

    Without a command it lists them all.
    """
    asked = ctx.parent or ctx
    for word in words:
        group = asked.command
        if not isinstance(group, click.Group):
            ctx.fail(f"{asked.command_path} has no commands of its own.")
        # The group's own message names a command that does not exist.
        name, command, _ = group.resolve_command(asked, [word])
        if command is None:
            ctx.fail(f"No such command {word!r}.")
        asked = type(asked)(command, asked, name)
    echo(asked.get_help())
