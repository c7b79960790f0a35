"""The shared states of plugins and the objects of listers; both receive all changes, in order.

The engine calls `SharedStates` for each change, and forks it together with the snapshot.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.errors import FOREIGN_ERRORS
from scheduler.kernel.framework.events import NAMESPACE_KIND, NODE_KIND, POD_KIND, ObjectKind
from scheduler.kernel.framework.handle import (
    HandleError,
    SharedState,
    StateT,
    watched_kinds,
)
from scheduler.kernel.framework.runtime.answers import wrong
from scheduler.kernel.framework.runtime.framework import Framework
from scheduler.kernel.framework.runtime.plugin_calls import PluginError, plugin_error
from scheduler.kernel.framework.services import Lister
from scheduler.observability.framework_metrics import FrameworkMetrics

_POINT: Final = "SharedState"
_IN_ANY_CASE: Final = frozenset({POD_KIND, NODE_KIND, NAMESPACE_KIND})
_DEAF: Final = (SharedState.reserve, SharedState.unreserve)


class ObjectStore(SharedState):
    """The objects of one kind by namespace and name."""

    def __init__(self, objects: Mapping[tuple[str, str], Any] | None = None) -> None:
        self._objects = dict(objects or {})

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        if new is None:
            self._objects.pop(place_of(old), None)
        else:
            self._objects[place_of(new)] = new

    def get(self, name: str, namespace: str = "") -> Any | None:
        """An object, or None."""
        return self._objects.get((namespace, name))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._objects.values())

    @override
    def fork(self) -> "ObjectStore":
        return ObjectStore(self._objects)


class SharedStates:
    """All shared states of one composition.

    No method raises an exception of a state: failures are reported, each with the plugin that asked
    for the state first, and counted. A fork reports nothing.

    Attributes:
        changes: number of changes of objects so far.
        on_failed: receives the failures of states.
    """

    def __init__(
        self,
        metrics: FrameworkMetrics,
        on_failed: Callable[[PluginError], object] = lambda _: None,
    ) -> None:
        self._metrics = metrics
        self.on_failed = on_failed
        self.changes = 0
        self._states: dict[type[SharedState], Any] = {}
        self._reserving: dict[type[SharedState], Any] = {}
        """The states that receive assumed pods."""
        self._stores: dict[ObjectKind, ObjectStore] = {}
        self._owners: dict[type[SharedState], str] = {}
        self._assumed: Callable[[], Iterable[PodInfo]] | None = None

    # --- for handles ----------------------------------------------------------------------------

    def watch(self, kinds: Iterable[ObjectKind]) -> None:
        """Keep the objects of some kinds from now on.

        Raises:
            HandleError: the scheduler has started and does not watch one of the kinds.
        """
        for kind in kinds:
            if kind not in self._stores and self._assumed is not None:
                raise HandleError(
                    f"{kind.kind} ({kind.api_version}) is not watched yet; that takes a restart"
                )
            self._stores.setdefault(kind, ObjectStore())

    def lister(self, kind: ObjectKind) -> Lister:
        """The objects of a kind.

        Raises:
            HandleError: no plugin declared the kind while plugins were built.
        """
        if kind not in self._stores:
            raise HandleError(f"no plugin watches {kind.kind} ({kind.api_version})")
        return self._stores[kind]

    def shared(self, state_type: type[StateT], plugin: str) -> StateT:
        """Return the state of a type; the first call makes it, on behalf of its plugin.

        A state made after the start receives all known objects and assumed pods first.
        """
        found: StateT | None = self._states.get(state_type)
        if found is None:
            found = state_type()
            for kind in (*found.WATCHES, *found.HEARS_OF):
                for obj in self._stores.get(kind, ()):
                    found.on_event(kind, None, obj)
            for pod in self._assumed() if self._assumed is not None else ():
                found.reserve(pod, pod.node_name)
            self._add(state_type, found)
            self._owners[state_type] = plugin
        return found

    def _add(self, state_type: type[SharedState], state: SharedState) -> None:
        if not isinstance(state, state_type):
            wrong(state, f"a copy of type {state_type.__name__} from fork")
        self._states[state_type] = state
        if (state_type.reserve, state_type.unreserve) != _DEAF:
            self._reserving[state_type] = state

    def known(self, state_type: type[StateT]) -> StateT | None:
        """The state of a type if any plugin has asked for it."""
        return self._states.get(state_type)

    # --- for the engine -------------------------------------------------------------------------

    def begin(self, assumed: Callable[[], Iterable[PodInfo]]) -> None:
        """Begin to receive objects: no further kinds can be watched from now on.

        `assumed` returns the pods that are assumed on the nodes they name.
        """
        self._assumed = assumed

    def object_set(self, kind: ObjectKind, new: Any) -> Any | None:
        """Store an added or updated object, and pass it to the states; return its former version.

        None for an undeclared kind. A pod that lost its node, or was replaced, is removed first.
        """
        store = self._stores.get(kind)
        if store is None:
            return None
        namespace, name = place_of(new)
        old = store.get(name, namespace)
        if isinstance(old, PodInfo) and (
            old.uid != new.uid or (old.node_name and not new.node_name)
        ):
            self.object_gone(kind, name, namespace)
            old = None
        self.object_changed(kind, old, new)
        return old

    def object_gone(
        self, kind: ObjectKind, name: str, namespace: str = "", uid: str = ""
    ) -> Any | None:
        """Remove an object; return it, or None if it is missing or has another UID."""
        store = self._stores.get(kind)
        old = None if store is None else store.get(name, namespace)
        if old is None or (uid and old.uid != uid):
            return None
        self.object_changed(kind, old, None)
        return old

    def object_changed(self, kind: ObjectKind, old: object, new: object) -> None:
        """Pass on an object that was added (`old` is None), updated or deleted (`new` is None)."""
        self.changes += 1
        store = self._stores.get(kind)
        if store is not None:
            store.on_event(kind, old, new)

        def notify(state: SharedState) -> None:
            if kind in state.WATCHES or kind in state.HEARS_OF:
                state.on_event(kind, old, new)

        self._notify(self._states, notify)

    def reserved(self, pod: PodInfo) -> None:
        """Call `reserve` of the states for a pod that is assumed on the node it names."""
        if self._reserving:
            self._notify(self._reserving, lambda state: state.reserve(pod, pod.node_name), pod.key)

    def unreserved(self, pod: PodInfo) -> None:
        """Call `unreserve` of the states for an assumed pod that is forgotten."""
        self._notify(self._reserving, lambda state: state.unreserve(pod, pod.node_name), pod.key)

    def fork(self) -> "SharedStates":
        """Make an independent copy.

        Raises:
            PluginError: a state cannot be forked.
        """
        copy = SharedStates(self._metrics)
        copy._stores = {kind: store.fork() for kind, store in self._stores.items()}
        copy._owners = self._owners.copy()
        copy._assumed = self._assumed
        for state_type, state in self._states.items():
            try:
                copy._add(state_type, state.fork())
            except FOREIGN_ERRORS as problem:
                raise self._failed(state_type, problem) from problem
        return copy

    def with_own(
        self,
        state_type: type[StateT],
        fork: Callable[[StateT], SharedState] = lambda state: state.fork(),
    ) -> "SharedStates":
        """Return the same states with a fork of one, for simulations that change that state only.

        `fork` makes the fork, where it is to be a partial one.

        Raises:
            PluginError: the state cannot be forked.
        """
        copy = SharedStates(self._metrics)
        copy._stores, copy._assumed = self._stores, self._assumed
        copy._states, copy._owners = self._states.copy(), self._owners.copy()
        copy._reserving = self._reserving.copy()
        try:
            copy._add(state_type, fork(self._states[state_type]))
        except FOREIGN_ERRORS as problem:
            raise self._failed(state_type, problem) from problem
        return copy

    def _notify(
        self,
        states: Mapping[type[SharedState], Any],
        what: Callable[[SharedState], None],
        pod: str = "",
    ) -> None:
        for state_type, state in states.items():
            try:
                what(state)
            except FOREIGN_ERRORS as problem:  # the other states must receive it
                failure = self._failed(state_type, problem)
                failure.pod = pod
                self.on_failed(failure)

    def _failed(self, state_type: type[SharedState], problem: BaseException) -> PluginError:
        self._metrics.plugin_errors[self._owners[state_type], _POINT].inc()
        return plugin_error(self._owners[state_type], _POINT, problem)


def place_of(obj: Any) -> tuple[str, str]:
    """Namespace and name of an object, in any form in which objects are kept."""
    if isinstance(obj, PodInfo):
        return obj.namespace, obj.name
    if isinstance(obj, dict):
        metadata = obj["metadata"]
        return metadata.get("namespace", ""), metadata["name"]
    return obj.metadata.namespace, obj.metadata.name


def kinds_to_watch(frameworks: Iterable[Framework]) -> tuple[ObjectKind, ...]:
    """The kinds that the plugins of some profiles declare, each once.

    Kinds that the engine always receives are left out.
    """
    plugins = (plugin for f in frameworks for plugin in f.plugins.by_name.values())
    declared = dict.fromkeys(kind for plugin in plugins for kind in watched_kinds(plugin))
    return tuple(kind for kind in declared if kind not in _IN_ANY_CASE)
