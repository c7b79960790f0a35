"""The services that the handle of a plugin gives access to, as protocols.

Source: k8s.io/kube-scheduler framework/interface.go (Handle, WaitingPod, PodNominator) v0.36.
"""

from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

from scheduler.api.pods import PodInfo

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
