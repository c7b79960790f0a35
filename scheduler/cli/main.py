"""The command group; each command is imported only when it is used, so that help is quick."""

from importlib import import_module
from typing import Final

import click
from typing_extensions import override

from scheduler import __version__

_COMMANDS: Final = {
    "run": ("scheduler.cli.run", "run"),
    "explain": ("scheduler.cli.explain", "explain"),
    "simulate": ("scheduler.cli.simulate", "simulate"),
    "config": ("scheduler.cli.config", "config"),
    "demo": ("scheduler.cli.demo", "demo"),
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
        command: click.Command = getattr(import_module(place[0]), place[1])
        return command


@click.group(cls=_LazyGroup, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="stowage")
def main() -> None:
    """Stowage: a Kubernetes scheduler that can say why.

    Run it as a second scheduler and set `schedulerName: stowage` on pods; or ask it about the
    objects in a file without any cluster.
    """
