"""The handle of a plugin: the parts of the scheduler that plugins may use.

Every plugin is made as `(args, handle)`. A handle is narrow on purpose. The services behind it
(`PluginServices`) are filled in after the plugins are built. So a plugin's constructor may call
`lister`, `shared` and `metrics`; the plugin uses the other members later.

Source: k8s.io/kube-scheduler framework/interface.go (Handle, WaitingPod, PodNominator) v0.36.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Never, Protocol, Self, TypeVar, cast

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.services import Api, HeldPods, Lister, Nominations
from scheduler.kernel.framework.status import Status
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.instruments import Instruments


class HandleError(SchedulerError):
    """A plugin asked for an object kind that it did not declare, or a missing service."""


class SharedState(Protocol):
    """Data about the cluster beyond the snapshot; one instance for all plugins and profiles.

    It receives all changes in the order in which they happen, so it is consistent in every cycle
    without locks. Plugins must not keep it, but call `Handle.shared` at each use: in a simulation,
    `shared` returns a fork.

    When a pod is assumed, the engine calls `reserve`, and later either `on_event` with the pod on
    that node or `unreserve`. For a pod that another client bound it calls only `on_event`, after
    `unreserve` if the pod was assumed. A pod that loses its node, or is replaced by a pod of its
    name, is reported as deleted and added.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = ()
    """The kinds whose changes the state receives, pods, nodes and namespaces included; plugins that
    use the state declare them too."""
    HEARS_OF: ClassVar[tuple[ObjectKind, ...]] = ()
    """Further kinds whose changes the state receives if any plugin declares them."""

    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        """Record an object that was added (`old` is None), updated or deleted (`new` is None)."""
        del kind, old, new

    def reserve(self, pod: PodInfo, node_name: str) -> None:
        """Record that a pod is assumed on a node; called before the Reserve plugins run."""
        del pod, node_name

    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        """Record that an assumed pod is forgotten; called after the Unreserve plugins ran."""
        del pod, node_name

    @abstractmethod
    def fork(self) -> Self:
        """Make an independent copy."""
        ...


StateT = TypeVar("StateT", bound=SharedState)


class States(Protocol):
    """The shared states and listers of one composition; see `runtime.shared_states`."""

    def lister(self, kind: ObjectKind) -> Lister:
        """The objects of a kind."""
        ...

    def shared(self, state_type: type[StateT], plugin: str) -> StateT:
        """The state of a type, made at the first call."""
        ...


class FiltersOnFork(Protocol):
    """A profile's filters; see `Filtering.run_filters`."""

    def run_filters(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        node_names: Iterable[str],
        *,
        add: Iterable[PodInfo] = (),
        remove: Iterable[PodInfo] = (),
    ) -> dict[str, Status]:
        """The status of each node."""
        ...


class PluginServices:
    """The services behind the handles; one instance for all plugins of a composition.

    Attributes:
        states: shared states and listers; there from the start.
        metrics: the registry for metrics that plugins declare; there from the start.
        now: monotonic seconds; there from the start.
        epoch: the time of day at which `now` was 0, in seconds since 1970; there from the start.
        snapshot: the cluster in the present cycle; the engine fills in this and the following.
        filters: the filters of each profile, by its name.
        nominator: the nominated pods, by node.
        waiting: pods that Permit holds.
        activate: moves pods of the queue to the active queue.
        record_event: sends an event about a pod: type, reason, note.
        random: the engine's own random generator; the same seed gives the same numbers.
        api: the API server; filled in by the driver, where there is one.
        is_on_fork: whether plugins see a fork; `activate`, `allow` and `reject` then do nothing.
    """

    snapshot: Snapshot
    filters: Mapping[str, FiltersOnFork]
    nominator: Nominations
    waiting: HeldPods
    activate: Callable[[Iterable[PodInfo]], None]
    record_event: Callable[[PodInfo, str, str, str], None]
    random: Random
    api: Api

    def __init__(
        self,
        states: States,
        metrics: Instruments,
        now: Callable[[], float],
        epoch: float = 0.0,
    ) -> None:
        self.states = states
        self.metrics = metrics
        self.now = now
        self.epoch = epoch
        self.is_on_fork = False

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            raise HandleError(f"{name} is not there (yet, or in this command)")

    @contextmanager
    def on_fork(self, snapshot: Snapshot, states: States) -> Iterator[None]:
        """Give all plugins a fork of the snapshot and of the shared states within this block."""
        before, self.states = (self.states, self.is_on_fork), states
        self.is_on_fork = True
        present = self.__dict__.get("snapshot")
        self.snapshot = snapshot
        try:
            yield
        finally:
            self.states, self.is_on_fork = before
            if present is None:
                del self.snapshot
            else:
                self.snapshot = present


class Handle:
    """One plugin's view of the scheduler: these fourteen members and no others."""

    __slots__ = ("_plugin", "_profile", "_services", "_states", "_watches")

    def __init__(
        self,
        services: PluginServices,
        plugin: str = "",
        profile: str = "",
        watches: Collection[ObjectKind] = (),
    ) -> None:
        self._services = services
        self._plugin = plugin
        self._profile = profile
        self._watches = frozenset(watches)
        self._states: set[type[SharedState]] = set()

    # --- to decide ------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the present cycle; plugins must not change it."""
        return self._services.snapshot

    def run_filters(
        self,
        pod: PodInfo,
        node_names: Iterable[str],
        *,
        add: Iterable[PodInfo] = (),
        remove: Iterable[PodInfo] = (),
    ) -> dict[str, Status]:
        """Run the profile's filters for a pod on some nodes, with other pods added or removed.

        Args:
            pod: the pod.
            node_names: the nodes.
            add: pods that count as running on the nodes they name.
            remove: pods that count as gone from the nodes they name.

        Returns:
            The first rejection, or success, of each of these nodes that exists.

        Raises:
            SchedulerError: a plugin failed.
        """
        filters = self._services.filters[self._profile]
        return filters.run_filters(pod, self.snapshot, node_names, add=add, remove=remove)

    @property
    def nominator(self) -> Nominations:
        """The nominated pods, by node."""
        return self._services.nominator

    def lister(self, kind: ObjectKind) -> Lister:
        """The objects of a kind that the plugin declares in `WATCHES`.

        Call this at each use: on a fork of the cluster it returns another lister.

        Raises:
            HandleError: the plugin does not declare the kind.
        """
        self._check_declared((kind,))
        return self._services.states.lister(kind)

    def shared(self, state_type: type[StateT]) -> StateT:
        """The state of this type that all plugins share; made at the first call.

        Call this once in the constructor, so that the state receives all changes, and at each use.

        Raises:
            HandleError: the plugin does not declare the kinds in the state's `WATCHES`.
        """
        if state_type not in self._states:
            if self._plugin:
                self._check_declared(state_type.WATCHES)
            self._states.add(state_type)
        return self._services.states.shared(state_type, self._plugin)

    @property
    def random(self) -> Random:
        """The engine's own random generator."""
        return self._services.random

    def now(self) -> float:
        """Monotonic seconds."""
        return self._services.now()

    def wall(self) -> float:
        """The time of day as objects carry it, in seconds since 1970."""
        return self._services.epoch + self._services.now()

    @property
    def profile(self) -> str:
        """The name of the plugin's profile."""
        return self._profile

    # --- to act ---------------------------------------------------------------------------------

    @property
    def waiting(self) -> HeldPods:
        """The pods that Permit plugins hold. On a fork, `allow` and `reject` have no effect."""
        return self._services.waiting

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pods of the queue to the active queue without back-off; ignore unknown pods.

        On a fork this has no effect.
        """
        self._services.activate(pods)

    def record_event(self, pod: PodInfo, event_type: str, reason: str, note: str) -> None:
        """Send an event about a pod, `Normal` or `Warning`."""
        self._services.record_event(pod, event_type, reason, note)

    @property
    def api(self) -> Api:
        """The API server, for PreBind, Bind and PostBind only."""
        return self._services.api

    @property
    def metrics(self) -> Instruments:
        """The registry for metrics of plugins; the same name gives the same metric."""
        return self._services.metrics

    def _check_declared(self, kinds: Iterable[ObjectKind]) -> None:
        for kind in kinds:
            if kind not in self._watches:
                raise HandleError(
                    f'plugin "{self._plugin}" asks for {kind.kind} ({kind.api_version}), '
                    "which is not in its WATCHES"
                )


def watched_kinds(plugin: object) -> tuple[ObjectKind, ...]:
    """The kinds a plugin, or its class, declares."""
    return cast("tuple[ObjectKind, ...]", getattr(plugin, "WATCHES", ()))
