"""The handle of a plugin: the parts of the scheduler that plugins may use.

Every plugin is made as `(args, handle)`. A handle is narrow on purpose. The services behind it
(`PluginServices`) are filled in after the plugins are built. So a plugin's constructor may call
`lister`, `shared` and `metrics`; the plugin uses the other members later.

Source: k8s.io/kube-scheduler framework/interface.go (Handle, WaitingPod, PodNominator) v0.36.
"""

from collections.abc import Collection, Iterable
from random import Random
from typing import Final, cast

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.services import (
    Api,
    HandleError,
    HeldPods,
    Lister,
    Nominations,
    PluginServices,
    SharedState,
    StateT,
)
from scheduler.kernel.framework.status import Status
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.instruments import Instruments

__all__ = ["Handle", "HandleError", "SharedState", "StateT", "watched_kinds"]

_EVENT_TYPES: Final = ("Normal", "Warning")


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
        add, remove = tuple(add), tuple(remove)
        _check_pods("run_filters", pod, *add, *remove)
        if isinstance(node_names, str):
            raise HandleError(f"run_filters: expected names of nodes, got the text {node_names!r}")
        run_filters = self._services.filters[self._profile]
        return run_filters(pod, self.snapshot, node_names, add=add, remove=remove)

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
        pods = tuple(pods)
        _check_pods("activate", *pods)
        self._services.activate(pods)

    def record_event(self, pod: PodInfo, event_type: str, reason: str, note: str) -> None:
        """Send an event about a pod, `Normal` or `Warning`."""
        _check_pods("record_event", pod)
        if event_type not in _EVENT_TYPES:
            raise HandleError(f"record_event: expected Normal or Warning, got {event_type!r}")
        texts: tuple[object, ...] = reason, note
        if not all(isinstance(text, str) for text in texts):
            raise HandleError(f"record_event: expected texts as reason and note, got {texts!r}")
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


def _check_pods(member: str, *pods: object) -> None:
    """Refuse what is no `PodInfo`, such as the `Pod` of a plugin in node form."""
    for pod in pods:
        if not isinstance(pod, PodInfo):
            raise HandleError(f"{member}: expected a PodInfo, got a {type(pod).__name__}")


def watched_kinds(plugin: object) -> tuple[ObjectKind, ...]:
    """The kinds a plugin, or its class, declares."""
    return cast("tuple[ObjectKind, ...]", getattr(plugin, "WATCHES", ()))
