"""What plugins are built with, for tests."""

from collections.abc import Mapping
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
    **filled: Any,
) -> Handle:
    """A handle with these shared states; one that belongs to no plugin may ask for any."""
    services = make_services(**filled)
    services.states._states.update(shared or {})
    return Handle(services, profile=profile, watches=watches)
