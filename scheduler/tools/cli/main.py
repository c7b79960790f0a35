"""The command group; each command is imported only when it is used, so that help is quick."""

import gc
import os
import signal
import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, NamedTuple

import click
from typing_extensions import override

from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.streams import checked_streams


class _Command(NamedTuple):
    """The place of a command in the code, and its help text."""

    module: str
    attribute: str
    help: str


_COMMANDS: Final = {
    "run": _Command("scheduler.tools.cli.run", "run", "Schedule the pods of a cluster."),
    "explain": _Command(
        "scheduler.tools.cli.explain",
        "explain",
        "Say why pods wait, or are where they are: cluster or files.",
    ),
    "simulate": _Command(
        "scheduler.tools.cli.simulate", "simulate", "Show where waiting pods would go, from files."
    ),
    "what-if": _Command(
        "scheduler.tools.cli.what_if", "what_if", "Say which pods would move if something changed."
    ),
    "capacity": _Command(
        "scheduler.tools.cli.capacity", "capacity", "Say how many more pods of a kind fit."
    ),
    "shadow": _Command(
        "scheduler.tools.cli.shadow",
        "shadow",
        "Watch another scheduler, and say where this one would decide otherwise.",
    ),
    "top": _Command(
        "scheduler.tools.cli.top.command", "top", "Show queue, pending pods and nodes, live."
    ),
    "console": _Command(
        "scheduler.tools.console.command",
        "console",
        "Serve pages for a browser: queue, pods, what if, replay.",
    ),
    "replay": _Command(
        "scheduler.tools.cli.replay",
        "replay",
        "Replay what `run --record` has recorded, and compare.",
    ),
    "sweep": _Command(
        "scheduler.tools.cli.sweep",
        "sweep",
        "Replay recordings under many configurations, and rank them.",
    ),
    "config": _Command(
        "scheduler.tools.cli.config", "config", "Check a configuration and print what is in effect."
    ),
    "operator": _Command(
        "scheduler.tools.cli.operator",
        "operator",
        "Run instances, and profiles of teams, from custom resources.",
    ),
    "plugin": _Command(
        "scheduler.tools.cli.plugin",
        "plugin",
        "Write a package for a plugin of your own; list those that are installed.",
    ),
    "help": _Command("scheduler.tools.cli.help", "show_help", "Say what a command takes."),
    "version": _Command(
        "scheduler.tools.cli.version", "version", "Print the version, and what it runs on."
    ),
}
_INTERRUPTED: Final = 128 + signal.SIGINT
"""The status that a shell has for a program that Ctrl-C ended."""
_ENTRY_POINT_GROUP: Final = "stowage.commands"
"""The entry point group in which other distributions register commands."""
_EXTRAS: Final = {
    "demo": "it is not installed: pip install 'stowage-scheduler[demo]', or `make install` in a "
    "checkout",
}
"""Commands of extras, each with the remedy if it is not installed."""


def _end_when_asked() -> None:
    """End on SIGTERM until a command handles it itself.

    The kernel drops signals without a handler for the first process of a container. A pod deleted
    at its start would run on until it is killed, possibly as the leader.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


class _LazyGroup(click.Group):
    """A group that knows its commands by name and imports them on use."""

    @override
    def main(self, *args: Any, **kwargs: Any) -> Any:
        _end_when_asked()
        with checked_streams(kwargs.get("prog_name") or "stowage"):
            return super().main(*args, **kwargs)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # click exits with 1, as if a plugin had failed. The line has the terminal's ^C.
            echo(err=True)
            sys.exit(_INTERRUPTED)

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *_found_elsewhere()]

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place, entry = _COMMANDS.get(cmd_name), _found_elsewhere().get(cmd_name)
        if place is not None:
            # An import makes many objects and no garbage. Without collections it takes a sixth less
            # time, and later collections need not scan these objects.
            gc.disable()
            try:
                module = import_module(place.module)
            finally:
                gc.freeze()
                gc.enable()
            command: click.Command = getattr(module, place.attribute)
        elif entry is not None:
            command = entry.load()
        else:
            return None
        return command

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] in _EXTRAS and args[0] not in known:
            raise click.ClickException(f"`stowage {args[0]}`: {_EXTRAS[args[0]]}")
        # click itself suggests only commands that are imported.
        similar = get_close_matches(args[0], known, n=1)
        if similar and args[0] not in known:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {similar[0]!r}?")
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click itself would import every command for the first line of its help.
        own = [(name, command.help) for name, command in _COMMANDS.items()]
        others = [(name, _summary(entry)) for name, entry in _found_elsewhere().items()]
        with formatter.section("Commands"):
            formatter.write_dl(own + others)


def _found_elsewhere() -> dict[str, EntryPoint]:
    """Return the commands of other distributions; they cannot replace those of Stowage."""
    entries = entry_points(group=_ENTRY_POINT_GROUP)
    return {entry.name: entry for entry in entries if entry.name not in _COMMANDS}


def _summary(entry: EntryPoint) -> str:
    """Return the summary in a distribution's metadata, without an import."""
    return entry.dist.metadata["Summary"] if entry.dist is not None else ""


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if value and not ctx.resilient_parsing:
        found: str = import_module("scheduler.observability.build_info").stowage_version()
        echo(f"stowage, version {found}")
        ctx.exit()


@click.group(
    cls=_LazyGroup,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit; `stowage version` says more.",
)
def main() -> None:
    """Stowage: a Kubernetes scheduler that can say why.

    Run it as a second scheduler and set `schedulerName: stowage` on pods; or ask it about the
    objects in a file without any cluster. `stowage COMMAND --help` says more about each command.
    """
