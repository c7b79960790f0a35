"""Profiles and engine that a recording was made with, for whoever replays it."""

from scheduler.bootstrap import args_types_of, out_of_tree_plugins, own_plugins
from scheduler.config.load import load_object
from scheduler.engine import Engine
from scheduler.engine.outcome import TakeOutcome
from scheduler.offline.cluster import Profiles
from scheduler.recording.records import Header


def recorded_profiles(header: Header) -> Profiles:
    """The profiles that were in force when a recording began.

    Raises:
        SchedulerError: they cannot be built here.
    """
    out_of_tree = out_of_tree_plugins()
    config = load_object(
        header.configuration,
        source="recorded configuration",
        out_of_tree=own_plugins(out_of_tree),
        feature_gates=header.feature_gates,
        args_types=args_types_of(out_of_tree),
    )
    return Profiles(config, out_of_tree)


def recorded_engine(
    profiles: Profiles, header: Header, take_outcome: TakeOutcome | None = None
) -> Engine:
    """A fresh engine that gives the answers of a recording."""
    return profiles.engine(
        header.seed, header.max_in_unschedulable_seconds, take_outcome=take_outcome
    )
