"""What a plugin is built with: the rest of the scheduler, as far as plugins may see it.

Every plugin is made as `(args, handle)`. A handle is narrow on purpose. What it gives access to
(`PluginServices`) is filled in after the plugins are built. So a plugin declares in its constructor
what it wants (`lister`, `shared`, `metrics`), and uses the rest later.

Source: k8s.io/kube-scheduler framework/interface.go (Handle, WaitingPod, PodNominator) v0.36.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Never, Protocol, Self, TypeAlias, TypeVar, cast

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.status import Status
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.instruments import Instruments

Wake: TypeAlias = Callable[[], None]
"""Something to be called, without a question and an answer."""


class HandleError(SchedulerError):
    """A plugin asked for something that it did not declare, or that is not there."""


class Nominations(Protocol):
    """Which pods are nominated to which nodes."""

    def __iter__(self) -> Iterator[str]:
        """The names of the nodes that pods are nominated to."""
        ...

    def nominated_pods_for_node(self, node_name: str) -> Collection[PodInfo]:
        """The pods nominated to a node, in order of their nomination."""
        ...

    def comes_before(self, uid: str, pod: PodInfo) -> bool:
        """Whether a pod must leave free what is kept for the nominated pod of this UID."""
        ...


class HeldPod(Protocol):
    """A pod that has a node and waits for Permit plugins."""

    @property
    def pod(self) -> PodInfo:
        """The pod, assumed on its node."""
        ...

    @property
    def pending_plugins(self) -> Sequence[str]:
        """The plugins that have not allowed it yet."""
        ...


class HeldPods(Protocol):
    """The pods that Permit plugins hold, of all profiles. Both verbs say whether it was held."""

    def __iter__(self) -> Iterator[HeldPod]: ...

    def get(self, uid: str) -> HeldPod | None:
        """A held pod."""
        ...

    def allow(self, uid: str, plugin: str) -> bool:
        """A plugin lets a pod go; the last one that it waits for sets it free."""
        ...

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        """A pod may not be bound."""
        ...


class Api(Protocol):
    """The API server, for PreBind, Bind and PostBind. Nothing is written without the lease."""

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod of that name and UID to the node.

        Raises:
            SchedulerError: the pod may not be bound.
        """
        ...

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request with a JSON body, or none; PATCH is a strategic merge patch.

        Returns:
            The decoded answer.

        Raises:
            SchedulerError: the server refused, or cannot be reached.
        """
        ...

    async def until(
        self, holds: Callable[[], bool], listen: Callable[[Wake], Wake], seconds: float
    ) -> bool:
        """Wait until a condition holds in the cluster, without blocking other pods.

        Args:
            holds: the condition; called now, and again after each call of the wake.
            listen: called once with the wake: a function to call when `holds` may have changed.
                Returns the function that ends listening.
            seconds: how long to wait at most.

        Returns:
            Whether it holds; False when the time is over.
        """
        ...


class Lister(Protocol):
    """The objects of one kind, as the watch has brought them."""

    def get(self, name: str, namespace: str = "") -> Any | None:
        """An object, or None."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class SharedState(Protocol):
    """What plugins know of the cluster beyond the snapshot; one for all plugins and profiles.

    It hears of all changes in the order in which they happen, so it is consistent in every cycle
    without locks. Plugins must not keep it, but call `Handle.shared` each time: in a "what if", a
    fork stands in for it.

    When a pod gets a node, the state hears `reserve`. Then it hears either `on_event` with the pod
    on that node, or `unreserve`. For a pod that another client has placed it hears `on_event` only,
    after `unreserve` if the pod was reserved. A pod that loses its node, or has a successor of its
    name, goes and comes.
    """

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = ()
    """The kinds it hears of, pods, nodes and namespaces if it wants; every plugin that uses it
    declares them too."""
    HEARS_OF: ClassVar[tuple[ObjectKind, ...]] = ()
    """Kinds beside these that it hears of where a plugin declares them."""

    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        """An object came (`old` is None), changed, or went (`new` is None)."""
        del kind, old, new

    def reserve(self, pod: PodInfo, node_name: str) -> None:
        """A pod is assumed on a node; before the Reserve plugins run."""
        del pod, node_name

    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        """A pod is not on a node after all; after the Unreserve plugins ran."""
        del pod, node_name

    def fork(self) -> Self:
        """A copy that changes without this one, and this one without it."""
        ...


StateT = TypeVar("StateT", bound=SharedState)


class States(Protocol):
    """The shared states and listers of one composition; see `runtime.shared_states`."""

    def lister(self, kind: ObjectKind) -> Lister:
        """The objects of a kind."""
        ...

    def shared(self, state_type: type[StateT], plugin: str) -> StateT:
        """The state of a type, made when it is first asked for."""
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
    """What handles give access to; one for all plugins of a composition.

    Attributes:
        states: shared states and listers; there from the start.
        metrics: where plugins may declare metrics of their own; there from the start.
        now: monotonic seconds; there from the start.
        epoch: the time of day at which `now` was 0, in seconds since 1970; there from the start.
        snapshot: what the present cycle decides on; filled in by the engine, as what follows.
        filters: by profile name.
        nominator: which pods are nominated where.
        waiting: pods that Permit holds.
        activate: makes waiting pods active.
        tell: sends an event about a pod: type, reason, note.
        random: the engine's own chance; the same seed gives the same.
        api: the API server; filled in by the driver, where there is one.
    """

    snapshot: Snapshot
    filters: Mapping[str, FiltersOnFork]
    nominator: Nominations
    waiting: HeldPods
    activate: Callable[[Iterable[PodInfo]], None]
    tell: Callable[[PodInfo, str, str, str], None]
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            raise HandleError(f"{name} is not there (yet, or in this command)")

    @contextmanager
    def on_fork(self, snapshot: Snapshot, states: States) -> Iterator[None]:
        """Within this, every plugin sees a fork of the cluster in place of the cluster."""
        before, self.states = self.states, states
        present = self.__dict__.get("snapshot")
        self.snapshot = snapshot
        try:
            yield
        finally:
            self.states = before
            if present is None:
                del self.snapshot
            else:
                self.snapshot = present


class Handle:
    """One plugin's view of the scheduler; its fourteen members are all there is."""

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
        """The cluster as the present cycle sees it; reading never writes."""
        return self._services.snapshot

    def run_filters(
        self,
        pod: PodInfo,
        node_names: Iterable[str],
        *,
        add: Iterable[PodInfo] = (),
        remove: Iterable[PodInfo] = (),
    ) -> dict[str, Status]:
        """What the profile's filters say about a pod on some nodes, if other pods came or went.

        Args:
            pod: the pod.
            node_names: which nodes.
            add: pods that are to be thought of as running on the nodes they name.
            remove: pods that are to be thought of as gone from theirs.

        Returns:
            The first rejection, or success, of each of these nodes that exists.

        Raises:
            SchedulerError: a plugin failed.
        """
        filters = self._services.filters[self._profile]
        return filters.run_filters(pod, self.snapshot, node_names, add=add, remove=remove)

    @property
    def nominator(self) -> Nominations:
        """Which pods are nominated to which nodes."""
        return self._services.nominator

    def lister(self, kind: ObjectKind) -> Lister:
        """The objects of a kind that the plugin declares in `WATCHES`.

        Ask each time: on a fork of the cluster it is another one.

        Raises:
            HandleError: the plugin does not declare the kind.
        """
        self._check_declared((kind,))
        return self._services.states.lister(kind)

    def shared(self, state_type: type[StateT]) -> StateT:
        """The state of this type that all plugins share; made when it is first asked for.

        Ask for it once in the constructor, so that it misses nothing, and then each time.

        Raises:
            HandleError: the plugin does not declare the kinds that the state hears of.
        """
        if state_type not in self._states:
            if self._plugin:
                self._check_declared(state_type.WATCHES)
            self._states.add(state_type)
        return self._services.states.shared(state_type, self._plugin)

    @property
    def random(self) -> Random:
        """The engine's own chance."""
        return self._services.random

    def now(self) -> float:
        """Monotonic seconds."""
        return self._services.now()

    def wall(self) -> float:
        """The time of day as objects carry it, in seconds since 1970."""
        return self._services.epoch + self._services.now()

    @property
    def profile(self) -> str:
        """The name of the profile that the plugin is of."""
        return self._profile

    # --- to act ---------------------------------------------------------------------------------

    @property
    def waiting(self) -> HeldPods:
        """The pods that Permit plugins hold."""
        return self._services.waiting

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Make waiting pods active at once, without back-off; unknown ones are ignored."""
        self._services.activate(pods)

    def tell(self, pod: PodInfo, event_type: str, reason: str, note: str) -> None:
        """Send an event about a pod, `Normal` or `Warning`."""
        self._services.tell(pod, event_type, reason, note)

    @property
    def api(self) -> Api:
        """The API server, for PreBind, Bind and PostBind only."""
        return self._services.api

    @property
    def metrics(self) -> Instruments:
        """Where to declare metrics; the same name gives the same metric."""
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
