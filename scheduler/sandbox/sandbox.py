"""The stand-in API server as one thing to start, use and stop."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

from scheduler.clock import Clock, SystemClock
from scheduler.sandbox.accounts import Account, Accounts
from scheduler.sandbox.api import Api
from scheduler.sandbox.background import BackgroundLoop
from scheduler.sandbox.binding import bind
from scheduler.sandbox.deletion import DeleteOptions, Deleter
from scheduler.sandbox.errors import SandboxError
from scheduler.sandbox.faults import Faults
from scheduler.sandbox.kinds import BY_TYPE, NAMESPACES, PRIORITY_CLASSES, Kind, kind_of
from scheduler.sandbox.kubeconfig import kubeconfig, kubeconfig_text
from scheduler.sandbox.kubelet import Kubelet
from scheduler.sandbox.patches.json_patch import apply_merge_patch
from scheduler.sandbox.reading import current, selection
from scheduler.sandbox.registry import Registry
from scheduler.sandbox.request_log import RequestLog
from scheduler.sandbox.rules.others import SYSTEM_PRIORITIES
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.server import BOOKMARK_SECONDS, Server
from scheduler.sandbox.store import DEFAULT_HISTORY, Key, Store
from scheduler.sandbox.tls import ServingCertificate, self_signed
from scheduler.sandbox.watch_sessions import WatchSessions
from scheduler.sandbox.workloads import Workloads

_FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a sandbox behaves."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 lets the system choose."""
    use_tls: bool = False
    accounts: Sequence[Account] = ()
    """Who may come in; none lets everybody in."""
    history_limit: int = DEFAULT_HISTORY
    """How many changes of each kind can be watched from; older versions are gone."""
    bookmark_seconds: float = BOOKMARK_SECONDS
    run_kubelet: bool = False
    """Whether bound pods begin to run and deleted ones end."""
    run_workloads: bool = False
    """Whether Deployments and ReplicaSets get pods."""
    seed: int | None = None
    """For uids and generated names; none makes them different each time."""


class Sandbox:
    """An API server in memory: over HTTP at `url`, and directly through the methods here.

    Everything happens in the event loop it was started in; the methods are not for other threads.

    Args:
        settings: how it behaves.
        clock: for the times objects carry.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        random = Random(settings.seed)  # noqa: S311 - names of test objects are no secrets
        self._settings = settings
        self._certificate: ServingCertificate | None = None
        self.store = Store(settings.history_limit)
        self.requests = RequestLog()
        self.faults = Faults(WatchSessions())
        self._registry = Registry(self.store, clock, random)
        self._deleter = Deleter(self._registry, clock)
        accounts = Accounts(settings.accounts, clock, random)
        api = Api(self._registry, self._deleter, accounts, clock)
        self._server = Server(
            api,
            self.store,
            accounts,
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
        if settings.use_tls:
            self._certificate = self_signed(settings.host, clock.wall())
        self.url = ""
        """Where it listens, once it is started."""
        self._create_first_objects()

    @classmethod
    async def start(
        cls, settings: Settings | None = None, *, port: int = 0, clock: Clock | None = None
    ) -> Self:
        """A sandbox that listens.

        Args:
            settings: how it behaves; the defaults if not given.
            port: where to listen if there are no settings.
            clock: for the times objects carry; the machine's if not given.
        """
        sandbox = cls(settings or Settings(port=port), clock or SystemClock())
        await sandbox.listen()
        return sandbox

    async def listen(self) -> None:
        """Begins to serve."""
        settings = self._settings
        context = self._certificate.context if self._certificate else None
        port = await self._server.start(settings.host, settings.port, context)
        scheme = "https" if context else "http"
        self.url = f"{scheme}://{settings.host}:{port}"
        for loop in self._background:
            loop.start()

    async def stop(self) -> None:
        """Ends all watches and stops to serve."""
        for loop in self._background:
            await loop.stop()
        await self._server.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def kubeconfig(self, token: str = "") -> Object:
        """The kubeconfig for this sandbox, with the first account's token unless one is given."""
        accounts = self._settings.accounts
        if not token and accounts:
            token = accounts[0].token
        pem = self._certificate.pem if self._certificate else b""
        return kubeconfig(self.url, certificate=pem, token=token)

    def write_kubeconfig(self, path: Path, token: str = "") -> None:
        """Writes the kubeconfig to a file that only its owner can read."""
        path.touch(mode=0o600)
        path.write_text(kubeconfig_text(self.kubeconfig(token)), encoding="utf-8")

    @property
    def open_watches(self) -> int:
        """How many watches there are."""
        return len(self.faults.sessions)

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
            kind = _kind_by_type(given)
            written = self._registry.create(kind, "", given, keep_status=keep_status)
            created.append(self._registry.shown(kind, written.entry))
        return created

    def get(self, resource: str, name: str, namespace: str = DEFAULT_NAMESPACE) -> Object:
        """One object; resources are named like `pods` or `leases.coordination.k8s.io`.

        Raises:
            StatusError: 404.
        """
        kind = kind_of(resource)
        return self._registry.shown(kind, self._registry.get(kind, _key(kind, namespace, name)))

    def find(self, resource: str, name: str, namespace: str = DEFAULT_NAMESPACE) -> Object | None:
        """One object, if it is there."""
        kind = kind_of(resource)
        entry = self.store.collection(kind).get(_key(kind, namespace, name))
        return self._registry.shown(kind, entry) if entry else None

    def list(
        self,
        resource: str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Iterable[Object]:
        """The objects of a kind, sorted by namespace and name."""
        kind = kind_of(resource)
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        entries = current(self.store.collection(kind), selection(kind, namespace, query))
        return [self._registry.shown(kind, entry) for entry in entries]

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
        written = self._registry.transform(
            kind,
            _key(kind, namespace, name),
            lambda document: apply_merge_patch(document, patch),
            subresource=subresource,
        )
        return self._registry.shown(kind, written.entry)

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

    def _create_first_objects(self) -> None:
        for name in _FIRST_NAMESPACES:
            self._registry.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in SYSTEM_PRIORITIES.items():
            content = {"metadata": {"name": name}, "value": value}
            self._registry.create(PRIORITY_CLASSES, "", content)
        service = {
            "metadata": {"name": "kubernetes", "labels": {"component": "apiserver"}},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]},
        }
        self._registry.create(kind_of("services"), DEFAULT_NAMESPACE, service)


def _kind_by_type(given: Object) -> Kind:
    named = (given.get("apiVersion", ""), given.get("kind", ""))
    kind = BY_TYPE.get(named)
    if kind is None:
        raise SandboxError(f"the sandbox serves no kind {named[1]!r} of apiVersion {named[0]!r}")
    return kind


def _key(kind: Kind, namespace: str, name: str) -> Key:
    return Key(namespace if kind.namespaced else "", name)
