"""Builds the engine of a configuration.

Source: kubernetes pkg/scheduler/scheduler.go (New) v1.36.
"""

from collections.abc import Callable, Mapping
from typing import Any

from scheduler.config.load import load_object
from scheduler.config.types import MAX_IN_UNSCHEDULABLE_SECONDS, KubeSchedulerConfiguration
from scheduler.daemon.bootstrap.frameworks import FrameworkBuilder
from scheduler.daemon.informers.kinds import watched_kind
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.engine import EngineSettings
from scheduler.kernel.engine.engine_state import EngineProfiles
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.kernel.framework.runtime import Framework
from scheduler.kernel.framework.runtime.shared_states import kinds_to_watch
from scheduler.kernel.queue import BackoffSettings
from scheduler.observability.tracing import CycleTracer


def build_engine(  # noqa: PLR0913 - what differs between a daemon, a file and a test
    config: KubeSchedulerConfiguration,
    builder: FrameworkBuilder,
    frameworks: Mapping[str, Framework],
    *,
    seed: int = 0,
    max_in_unschedulable_seconds: float = MAX_IN_UNSCHEDULABLE_SECONDS,
    tracer: CycleTracer | None = None,
    take_outcome: TakeOutcome | None = None,
    stopwatch: Callable[[], float] = lambda: 0.0,
) -> Engine:
    """Build an engine without cluster objects; see `Engine` and `EngineSettings`.

    The engine can load another configuration; `builder` builds its plugins too.
    """

    def rules_of(written: dict[str, Any]) -> EngineProfiles:
        changed = load_object(
            written, out_of_tree=builder.own_plugins, feature_gates=config.feature_gates
        )
        return _profiles(changed, builder.build(changed))

    return Engine(
        _profiles(config, frameworks),
        EngineSettings(seed, max_in_unschedulable_seconds, config.extenders),
        services=builder.services,
        states=builder.states,
        kinds={watched_kind(kind).name: kind for kind in kinds_to_watch(frameworks.values())},
        tracer=tracer,
        take_outcome=take_outcome,
        stopwatch=stopwatch,
        rules_of=rules_of,
    )


def _profiles(
    config: KubeSchedulerConfiguration, frameworks: Mapping[str, Framework]
) -> EngineProfiles:
    backoff = BackoffSettings(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds)
    return EngineProfiles(frameworks, config.percentage_of_nodes_to_score, backoff)
