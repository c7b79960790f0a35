"""The command group; each command is imported only when it is used, so that help is quick."""

from difflib import get_close_matches
from importlib import import_module
from typing import Final, NamedTuple

import click
from typing_extensions import override

from scheduler import __version__


class _Command(NamedTuple):
    """Where a command is found, and what it is for."""

    module: str
    attribute: str
    help: str


_COMMANDS: Final = {
    "run": _Command("scheduler.cli.run", "run", "Schedule the pods of a cluster."),
    "explain": _Command(
        "scheduler.cli.explain", "explain", "Say why waiting pods fit or do not fit, from files."
    ),
    "simulate": _Command(
        "scheduler.cli.simulate", "simulate", "Show where waiting pods would go, from files."
    ),
    "config": _Command(
        "scheduler.cli.config", "config", "Check a configuration and print what is in effect."
    ),
    "demo": _Command(
        "scheduler.cli.demo", "demo", "Watch a scheduler at work on a cluster in memory."
    ),
}


class _LazyGroup(click.Group):
    """Knows its commands by name and imports them when asked."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        command: click.Command = getattr(import_module(place.module), place.attribute)
        return command

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # click's own suggestion looks among commands that are imported already.
        similar = get_close_matches(args[0], _COMMANDS, n=1)
        if similar and args[0] not in _COMMANDS:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {similar[0]!r}?")
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click's own would import every command for its first line.
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="stowage")
def main() -> None:
    """Stowage: a Kubernetes scheduler that can say why.

    Run it as a second scheduler and set `schedulerName: stowage` on pods; or ask it about the
    objects in a file without any cluster. `stowage COMMAND --help` says more about each command.
    """
