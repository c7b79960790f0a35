"""The stand-in API server as one thing to start, use and stop."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Self

import msgspec

from apistub.controllers.background import BackgroundLoop
from apistub.controllers.kubelet import Kubelet
from apistub.controllers.resource_claims import ResourceClaims
from apistub.controllers.workloads import Workloads
from apistub.http.api import Api
from apistub.http.faults import Faults
from apistub.http.patches import merge
from apistub.http.requests import RequestLog
from apistub.http.server import BOOKMARK_SECONDS, Server
from apistub.rules.binding import bind
from apistub.rules.deletion import DeleteOptions, Deleter
from apistub.rules.others import SYSTEM_PRIORITIES
from apistub.rules.registry import Registry
from apistub.storage.event_forms import shown
from apistub.storage.kinds import BY_TYPE, NAMESPACES, PRIORITY_CLASSES, Kind, Object, kind_of
from apistub.storage.reading import current, selection
from apistub.storage.status import bad_request
from apistub.storage.store import DEFAULT_HISTORY, Backup, Key, Store
from scheduler.clock import Clock, SystemClock

_FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_NAME: Final = "stowage-apistub"
DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a sandbox behaves."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 lets the system choose."""
    history_limit: int = DEFAULT_HISTORY
    """How many changes of each kind can be watched from; older versions are gone."""
    bookmark_seconds: float = BOOKMARK_SECONDS
    run_kubelet: bool = False
    """Whether bound pods begin to run and deleted ones end."""
    run_workloads: bool = False
    """Whether Deployments and ReplicaSets get pods, and pods the claims of their templates."""


class Sandbox:
    """An API server in memory: over HTTP at `url`, and directly through the methods here.

    Everything happens in the event loop it was started in; the methods are not for other threads.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        random = Random()  # noqa: S311 - names of test objects are no secrets
        self._settings = settings
        self.store = Store(settings.history_limit)
        self.requests = RequestLog()
        self.faults = Faults()
        self._registry = Registry(self.store, clock, random)
        self._deleter = Deleter(self._registry, clock)
        self._server = Server(
            Api(self._registry, self._deleter, clock),
            self.store,
            self.faults,
            requests=self.requests,
            random=random,
            bookmark_seconds=settings.bookmark_seconds,
        )
        self._background: list[BackgroundLoop] = []
        if settings.run_kubelet:
            self._background.append(Kubelet(self._registry, self._deleter).loop)
        if settings.run_workloads:
            self._background.append(Workloads(self._registry, self._deleter).loop)
            self._background.append(ResourceClaims(self._registry, self._deleter).loop)
        self.url = ""
        """Where it listens, once it is started."""
        for name in _FIRST_NAMESPACES:
            self._registry.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in SYSTEM_PRIORITIES.items():
            content = {"metadata": {"name": name}, "value": value}
            self._registry.create(PRIORITY_CLASSES, "", content)

    @classmethod
    async def start(cls, settings: Settings | None = None, *, clock: Clock | None = None) -> Self:
        """A sandbox that listens.

        Args:
            settings: how it behaves; the defaults if not given.
            clock: for the times objects carry; the machine's if not given.
        """
        sandbox = cls(settings or Settings(), clock or SystemClock())
        await sandbox.listen()
        return sandbox

    async def listen(self) -> None:
        """Begins to serve."""
        host = self._settings.host
        port = await self._server.start(host, self._settings.port)
        self.url = f"http://{host}:{port}"
        for loop in self._background:
            loop.start()

    async def stop(self) -> None:
        """Ends all watches and stops to serve."""
        for loop in self._background:
            await loop.stop()
        await self._server.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    def write_kubeconfig(self, path: Path) -> None:
        """Writes the file with which clients find this server."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": _NAME,
            "clusters": [{"name": _NAME, "cluster": {"server": self.url}}],
            "users": [{"name": _NAME, "user": {}}],
            "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        }
        path.write_bytes(msgspec.json.encode(content))

    @property
    def open_watches(self) -> int:
        """How many watches there are."""
        return len(self.faults.watches)

    def create(self, *objects: Object, keep_status: bool = False) -> list[Object]:
        """Adds objects as a client would; they say themselves what they are.

        Args:
            objects: in full, with kind and apiVersion.
            keep_status: whether their status comes along, as a kubelet would have set it.

        Raises:
            StatusError: an object is refused; those before it are there.
        """
        created = []
        for given in objects:
            kind = BY_TYPE.get((given.get("apiVersion", ""), given.get("kind", "")))
            if kind is None:
                raise bad_request(f"no {given.get('kind')} of {given.get('apiVersion')} is served")
            written = self._registry.create(kind, "", given, keep_status=keep_status)
            created.append(shown(kind, written.entry))
        return created

    def get(self, resource: str, name: str, namespace: str = DEFAULT_NAMESPACE) -> Object:
        """One object; resources are named like `pods` or `leases.coordination.k8s.io`.

        Raises:
            StatusError: 404.
        """
        kind = kind_of(resource)
        return shown(kind, self._registry.get(kind, _key(kind, namespace, name)))

    def find(self, resource: str, name: str, namespace: str = DEFAULT_NAMESPACE) -> Object | None:
        """One object, if it is there."""
        kind = kind_of(resource)
        entry = self.store.collection(kind).get(_key(kind, namespace, name))
        return shown(kind, entry) if entry else None

    def list(self, resource: str, namespace: str = "") -> Iterable[Object]:
        """The objects of a kind, sorted by namespace and name."""
        kind = kind_of(resource)
        entries = current(self.store.collection(kind), selection(kind, namespace, {}))
        return [shown(kind, entry) for entry in entries]

    def patch(
        self,
        resource: str,
        name: str,
        patch: Object,
        namespace: str = DEFAULT_NAMESPACE,
        *,
        subresource: str = "",
    ) -> Object:
        """Changes an object by a merge patch.

        Raises:
            StatusError: 404, or the change is refused.
        """
        kind = kind_of(resource)
        key = _key(kind, namespace, name)
        written = self._registry.transform(kind, key, lambda old: merge(old, patch), subresource)
        return shown(kind, written.entry)

    def delete(
        self,
        resource: str,
        name: str,
        namespace: str = DEFAULT_NAMESPACE,
        *,
        grace_seconds: int | None = None,
    ) -> None:
        """Deletes an object; a bound pod only begins to end, unless grace_seconds is 0.

        Raises:
            StatusError: 404.
        """
        kind = kind_of(resource)
        options = DeleteOptions(grace_seconds=grace_seconds)
        self._deleter.delete(kind, _key(kind, namespace, name), options)

    def bind(self, pod: str, node: str, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Gives a pod its node, as another scheduler would.

        Raises:
            StatusError: 404 or 409.
        """
        binding = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        bind(self._registry, Key(namespace, pod), binding)

    def forget_history(self, resource: str = "") -> None:
        """Makes every version up to now too old to be watched from, as a compaction does."""
        for collection in self.store.collections():
            if resource in {"", collection.kind.key}:
                collection.forget_changes()

    def restore(self, backup: Backup) -> None:
        """Restores a backup of the store, as of etcd: all watches are cut."""
        self.faults.close_watches(abort=True)
        self.store.restore(backup)


def _key(kind: Kind, namespace: str, name: str) -> Key:
    return Key(namespace if kind.namespaced else "", name)
