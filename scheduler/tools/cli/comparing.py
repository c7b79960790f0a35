"""`stowage replay` with another configuration: its options, and its result as text."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from scheduler.daemon.recording.comparison import ReplayComparison, Side, compare
from scheduler.daemon.recording.records import Header, Record, scheduler_names
from scheduler.daemon.recording.summary import Summary, Victim
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.inputs import read_profiles
from scheduler.tools.cli.tables import print_table
from scheduler.tools.offline.asking import NOT_ASKED
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.configured import plugin_called, profiles_from_text
from scheduler.tools.offline.recorded import (
    for_recorded_pods,
    recorded_engine,
    recorded_profiles,
    with_plugins,
)

_SHOWN: Final = 20


class Compared(msgspec.Struct, frozen=True):
    """The input of a comparison with another configuration.

    Attributes:
        profiles: the profiles of the other configuration.
        reference: profiles of another builder, for the engine that follows the recording.
        notices: notices about settings of the other configuration without effect.
    """

    profiles: Profiles
    reference: Profiles
    notices: tuple[str, ...]


def configured(header: Header, config_file: str | None, plugins: tuple[str, ...]) -> Compared:
    """Build the configuration to compare with a recording.

    Without a file it is the recorded one; the plugins of `--plugin` are enabled in addition.

    Raises:
        SchedulerError: the configuration, or a plugin, cannot be read.
    """
    if config_file is None:
        return _compared(header, recorded_profiles(header), (), plugins)
    profiles, notices = read_profiles(config_file, feature_gates=_settings(header))
    return _compared(header, profiles, notices, plugins)


def configured_by(header: Header, text: str) -> Compared:
    """Build the input of a comparison from the text of a configuration.

    Raises:
        SchedulerError: the configuration cannot be read.
    """
    profiles, notices = profiles_from_text(text, "configuration", feature_gates=_settings(header))
    return _compared(header, profiles, notices, ())


def _settings(header: Header) -> tuple[str, ...]:
    return tuple(f"{name}=true" for name in header.feature_gates)


def _compared(
    header: Header, profiles: Profiles, notices: tuple[str, ...], plugins: tuple[str, ...]
) -> Compared:
    reference = profiles.again()
    if plugins:
        added = dict(map(plugin_called, plugins))
        profiles = with_plugins(profiles, added, header.feature_gates)
    if profiles.config.extenders:
        notices = (*notices, NOT_ASKED)
    profiles = for_recorded_pods(profiles, header)
    return Compared(profiles, reference, (*notices, *_unserved(profiles, header)))


def _unserved(profiles: Profiles, header: Header) -> Iterator[str]:
    """Yield a notice if pods of the recording have no profile."""
    recorded = scheduler_names(header.configuration)
    if names := [name for name in recorded if name not in profiles.frameworks]:
        told = ", ".join(names)
        yield f"Pods of {told} are left out of both sides: no profile has this name."


def compared_with(
    header: Header,
    records: Iterable[Record],
    asked: Compared,
    take_outcome: TakeOutcome | None = None,
    looked: Callable[[float, Side, Side], None] = lambda _time, _recorded, _now: None,
) -> ReplayComparison:
    """Replay with another configuration.

    Raises:
        SchedulerError: the recording cannot be read.
    """
    engine = recorded_engine(asked.profiles, header, take_outcome, with_extenders=False)
    reference = recorded_engine(asked.reference, header, with_extenders=False)
    return compare(records, engine, reference, looked)


def notices_of(asked: Compared, reconfigured: int) -> tuple[str, ...]:
    """Return the notices of a comparison, of a recorded engine that was reconfigured so often."""
    if not reconfigured:
        return asked.notices
    told = f"The configuration changed during the recording ({reconfigured}): this one stays."
    return (*asked.notices, told)


# --- for people -----------------------------------------------------------------------------------


def print_comparison(found: ReplayComparison) -> None:
    """Print the pods on other nodes, and the numbers of both engines."""
    elsewhere = found.elsewhere
    echo(f"pods: {found.pods}, elsewhere: {len(elsewhere)}")
    for each in elsewhere[:_SHOWN]:
        echo(f"  {each.pod}: {each.recorded or 'pending'} -> {each.now or 'pending'}")
    _more(len(elsewhere))
    before, after = found.recorded, found.now
    echo()
    print_table(("", "recorded", "now"), list(_rows(before, after)))
    gone = {victim.pod for victim in before.victims}, {victim.pod for victim in after.victims}
    _print_victims("Evicted now only:", [v for v in after.victims if v.pod not in gone[0]])
    _print_victims("Evicted then only:", [v for v in before.victims if v.pod not in gone[1]])


def _rows(before: Summary, after: Summary) -> Iterator[tuple[str, ...]]:
    yield "pods placed", str(before.placed), str(after.placed)
    yield "pods pending", str(before.pending), str(after.pending)
    for what in ("mean", "median", "p99", "longest"):
        yield f"waited, {what}", _seconds(before, what), _seconds(after, what)
    yield "victims", str(len(before.victims)), str(len(after.victims))
    nodes = (before.nodes, after.nodes)
    yield "nodes with pods, mean", *(f"{use.mean:.1f}" for use in nodes)
    yield "nodes with pods, most", *(f"{use.most:.0f}" for use in nodes)
    for name in after.use:
        both = (before.use.get(name), after.use[name])
        yield f"{name} requested, mean", *(f"{use.mean:.1%}" if use else "-" for use in both)
        yield f"{name} requested, most", *(f"{use.most:.1%}" if use else "-" for use in both)


def _seconds(summary: Summary, what: str) -> str:
    return "-" if summary.waited is None else f"{getattr(summary.waited, what):.3f} s"


def _print_victims(title: str, victims: list[Victim]) -> None:
    if victims:
        echo(f"\n{title}")
        for victim in victims[:_SHOWN]:
            echo(f"  {victim.pod}, for {victim.preemptor}")
        _more(len(victims))


def _more(count: int) -> None:
    if count > _SHOWN:
        echo(f"  and {count - _SHOWN} more")
