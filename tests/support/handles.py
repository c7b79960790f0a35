"""What plugins are built with, for tests."""

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.handle import Handle, SharedState
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments


def make_services(**filled: Any) -> PluginServices:
    """What is behind handles; only what is given has been filled in."""
    instruments = Instruments()
    services = PluginServices(SharedStates(FrameworkMetrics(instruments)), instruments, lambda: 0.0)
    for name, value in filled.items():
        setattr(services, name, value)
    return services


def make_handle(
    shared: Mapping[type[SharedState], SharedState] | None = None,
    *,
    watches: tuple[ObjectKind, ...] = (),
    profile: str = "",
    listed: Mapping[ObjectKind, Iterable[Any]] | None = None,
    **filled: Any,
) -> Handle:
    """A handle with these shared states; one that belongs to no plugin may ask for any.

    `listed` are the objects that listers have, by kind.
    """
    services = make_services(**filled)
    for kind, objects in (listed or {}).items():
        services.states.watch((kind,))
        for each in objects:
            services.states.object_set(kind, each)
    services.states._states.update(shared or {})
    return Handle(services, profile=profile, watches=(*watches, *(listed or ())))
