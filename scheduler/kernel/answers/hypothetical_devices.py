"""Replaces devices and claims for trials: plugins see a fork of the catalog during a trial."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scheduler.api.devices import ResourceClaim
from scheduler.kernel.devices.claim_catalog import CLAIM, ClaimCatalog
from scheduler.kernel.engine import Engine
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.kernel.snapshot import Snapshot


def hypothetical_devices(
    engine: Engine, states: SharedStates | None = None
) -> "HypotheticalDevices | None":
    """Return the object that replaces devices and claims; None if no plugin reads them.

    Args:
        engine: the engine with the device catalog.
        states: a copy of the engine's shared states; None for these states themselves.
    """
    states = engine.core.states if states is None else states
    catalog = states.known(ClaimCatalog)
    return None if catalog is None else HypotheticalDevices(catalog, engine.services, states)


class HypotheticalDevices:
    """Replaces devices and claims during a trial.

    Attributes:
        catalog: the actual devices and claims. Read-only.
    """

    def __init__(
        self, catalog: ClaimCatalog, services: PluginServices, states: SharedStates
    ) -> None:
        self.catalog = catalog
        self._services = services
        self._states = states
        self._fork: SharedStates | None = None

    @contextmanager
    def claims(self, claims: Iterable[ResourceClaim], snapshot: Snapshot) -> Iterator[None]:
        """Replace some claims within the context.

        Raises:
            PluginError: the catalog cannot be forked.
        """
        changes = [(CLAIM, self.catalog.claims.get(claim.key), claim) for claim in claims]
        with self._with(changes, snapshot):
            yield

    @contextmanager
    def nothing_kept(self, snapshot: Snapshot) -> Iterator[None]:
        """Keep no devices for nominated pods within the context.

        Raises:
            PluginError: the catalog cannot be forked.
        """
        if not self.catalog.kept:
            yield
            return
        states = self._states.with_own(ClaimCatalog, lambda known: known.keeping_nothing())
        with self._services.on_fork(snapshot, states):
            yield

    @contextmanager
    def _with(
        self, changes: Sequence[tuple[ObjectKind, Any, Any]], snapshot: Snapshot
    ) -> Iterator[None]:
        if self._fork is None:
            self._fork = self._states.with_own(ClaimCatalog)
        catalog = self._fork.shared(ClaimCatalog, "")
        with self._services.on_fork(snapshot, self._fork):
            for kind, old, new in changes:
                catalog.on_event(kind, old, new)
            try:
                yield
            finally:
                for kind, old, new in changes:
                    catalog.on_event(kind, new, old)
