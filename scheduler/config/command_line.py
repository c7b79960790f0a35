"""kube-scheduler's flags as click options.

@click.command(cls=FlagCommand, context_settings=CONTEXT_SETTINGS)
@flag_options
def run(options: RunOptions) -> None: ...
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

import click
from typing_extensions import override

from scheduler.config.duration import format_duration
from scheduler.config.flags import BY_NAME, FLAGS, Flag, FlagError, options_from_flags
from scheduler.config.options import RunOptions

R = TypeVar("R")

CONTEXT_SETTINGS: Final = {
    "token_normalize_func": lambda name: name.replace("_", "-"),
    "max_content_width": 100,
}
"""pflag takes `--leader_elect` for `--leader-elect`."""

_PREFIX: Final = "flag__"


class _Value(click.ParamType[str]):
    """Checks one flag's value and returns its text; `options_from_flags` parses all flags."""

    def __init__(self, flag: Flag) -> None:
        self.name = flag.metavar
        self._flag = flag

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        # click passes "-v=2" as "=2".
        text = str(value).removeprefix("=")
        try:
            self._flag.parse(text)
        except FlagError as error:
            self.fail(str(error), param, ctx)
        return text


class _FlagOption(click.Option):
    """A flag of the table; the help hides flags without effect."""


class FlagCommand(click.Command):
    """A command whose help shows the flags by group."""

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the table's."""
        params = {param.name: param for param in self.get_params(ctx)}
        own = [p for p in params.values() if not isinstance(p, _FlagOption)]
        _write_section(ctx, formatter, "Options", own)
        for group, flags in FLAGS.items():
            shown = [params[_parameter(flag)] for flag in flags if not flag.no_effect]
            _write_section(ctx, formatter, group, shown)
        silent = ", ".join(f"--{flag.name}" for flag in BY_NAME.values() if flag.no_effect)
        with formatter.section("Accepted without effect, as kube-scheduler's"):
            formatter.write_text(silent)


def _write_section(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    title: str,
    params: Sequence[click.Parameter],
) -> None:
    records = [record for param in params if (record := param.get_help_record(ctx))]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


def flag_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add every flag to a command, which receives them as one argument `options`."""

    @wraps(function)
    def with_options(**arguments: Any) -> R:
        given = [
            (name, text)
            for name in BY_NAME
            for text in _texts(arguments.pop(_parameter(BY_NAME[name])))
        ]
        try:
            options = options_from_flags(given)
        except FlagError as error:
            raise click.UsageError(str(error)) from None
        return function(options=options, **arguments)

    command: Callable[..., R] = with_options
    for flag in reversed(tuple(BY_NAME.values())):
        command = click.option(*_spellings(flag), **_settings(flag))(command)
    return command


def _parameter(flag: Flag) -> str:
    return _PREFIX + flag.field


def _spellings(flag: Flag) -> tuple[str, ...]:
    long = f"--{flag.name}"
    return ("-v", long, _parameter(flag)) if flag.name == "v" else (long, _parameter(flag))


def _settings(flag: Flag) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "cls": _FlagOption,
        "type": _Value(flag),
        "metavar": flag.metavar,
        "help": flag.help + _default_of(flag),
        "default": None,
        "multiple": flag.is_list,
    }
    if flag.is_bool:
        settings |= {"is_flag": False, "flag_value": "true"}
    return settings


def _default_of(flag: Flag) -> str:
    default = getattr(RunOptions(), flag.field, None)
    if flag.no_effect or default in (None, "", (), False):
        return ""
    if isinstance(default, tuple):
        default = ",".join(default)
    if isinstance(default, float):
        default = format_duration(default)
    return f" [default: {default}]"


def _texts(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)
