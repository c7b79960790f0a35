"""The services that the handle of a plugin gives access to.

Source: k8s.io/kube-scheduler framework/interface.go (Handle, WaitingPod, PodNominator) v0.36.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Never, Protocol, Self, TypeAlias, TypeVar

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.status import Status
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.instruments import Instruments

T = TypeVar("T")

Wake: TypeAlias = Callable[[], None]
"""A function without arguments or result."""


class Nominations(Protocol):
    """The nominated pods, by node."""

    def __iter__(self) -> Iterator[str]:
        """The names of the nodes that pods are nominated to."""
        ...

    def nominated_pods_for_node(self, node_name: str) -> Collection[PodInfo]:
        """The pods nominated to a node, in order of their nomination."""
        ...

    def comes_before(self, uid: str, pod: PodInfo) -> bool:
        """Whether filters for `pod` count the nominated pod with this UID as running."""
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
    """The pods that Permit plugins hold, of all profiles."""

    def __iter__(self) -> Iterator[HeldPod]: ...

    def get(self, uid: str) -> HeldPod | None:
        """The held pod with this UID, or None."""
        ...

    def allow(self, uid: str, plugin: str) -> bool:
        """Allow a pod on behalf of one plugin; return whether the pod is held."""
        ...

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        """Reject a held pod; return whether it was held."""
        ...


class Api(Protocol):
    """The API server, for PreBind, Bind and PostBind. Nothing is written without the lease."""

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod of that name and UID to the node.

        Raises:
            RequestError: the pod may not be bound.
        """
        ...

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request with a JSON body, or none; PATCH is a strategic merge patch.

        Requests wait while many are in flight, in the order of the scheduling queue.

        Returns:
            The decoded answer.

        Raises:
            RequestError: the server refused, or cannot be reached; see its `is_certain`. Or the
                request was not sent, because PreBind was cancelled first.
        """
        ...

    async def run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, even if the caller is cancelled meanwhile.

        The engine cancels PreBind of a pod that is deleted or preempted, and unreserves when
        PreBind has ended. A write whose response decides what to unreserve must run to its end.

        Raises:
            CancelledError: the caller was cancelled; the coroutine has ended.
        """
        ...

    def turn(self, uid: str) -> AbstractAsyncContextManager[None]:
        """Wait for the turn to write an object that many pods write; it ends with the context.

        The API server repeats writes to one object until none comes in between: a hundred at once
        become thousands. Turns come in the order of the scheduling queue. After a minute a writer
        counts as stuck, and the next turn begins beside it.

        Args:
            uid: the object's.

        Raises:
            RequestError: PreBind was cancelled before it had the turn, and has sent nothing.
        """
        ...

    async def until(
        self, holds: Callable[[], bool], listen: Callable[[Wake], Wake], seconds: float
    ) -> bool:
        """Wait until a condition holds in the cluster, without blocking other pods.

        Args:
            holds: the condition; called now, and again after each call of the `Wake`.
            listen: called once with a `Wake`, the callback for when `holds` may have changed.
                Returns the function that removes the callback.
            seconds: the longest time to wait.

        Returns:
            Whether the condition holds; False after `seconds`.
        """
        ...


class Lister(Protocol):
    """The objects of one kind, as of the latest watch events."""

    def get(self, name: str, namespace: str = "") -> Any | None:
        """An object, or None."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


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


class PluginServices:
    """The services behind the handles; one instance for all plugins of a composition.

    Attributes:
        states: shared states and listers; there from the start.
        metrics: the registry for metrics that plugins declare; there from the start.
        now: monotonic seconds; there from the start.
        epoch: the time of day at which `now` was 0, in seconds since 1970; there from the start.
        snapshot: the cluster in the present cycle; the engine fills in this and the following.
        filters: `Filtering.run_filters` of each profile, by its name.
        nominator: the nominated pods, by node.
        waiting: pods that Permit holds.
        activate: moves pods of the queue to the active queue.
        record_event: sends an event about a pod: type, reason, note.
        random: the engine's own random generator; the same seed gives the same numbers.
        api: the API server; filled in by the driver, where there is one.
        is_on_fork: whether plugins see a fork; `activate`, `allow` and `reject` then do nothing.
    """

    snapshot: Snapshot
    filters: Mapping[str, Callable[..., dict[str, Status]]]
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
