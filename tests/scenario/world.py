"""A sandbox and the whole daemon in one loop, and words for what scenarios say about them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import uvloop

from apistub import Sandbox, Settings
from scheduler.clock import SystemClock
from scheduler.config.load import load_object
from scheduler.config.options import RunOptions
from scheduler.config.plugin_sets import IN_TREE
from scheduler.daemon.bootstrap import args_types_of, implemented_plugins
from scheduler.daemon.bootstrap.configuration import read_configuration
from scheduler.daemon.bootstrap.daemon import RunningDaemon
from scheduler.daemon.client.connection import Connection, load_connection
from scheduler.daemon.informers.informer import InformerOptions
from scheduler.kernel.framework.interface import Plugin

Object = dict[str, Any]
OutOfTree = Mapping[str, type[Plugin]]

LIMIT_SECONDS: Final = 60.0
"""How long anything may take; only failing tests wait that long."""
LOOK_SECONDS: Final = 0.01
BINDINGS: Final = "*/binding"
LEASES: Final = "leases.coordination.k8s.io"


class World:
    """A cluster to write scenarios in.

    Attributes:
        sandbox: the API server.
        daemon: the last daemon started.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.daemon: RunningDaemon
        self._running: dict[RunningDaemon, asyncio.Task[None]] = {}

    # --- the daemon -----------------------------------------------------------------------------

    async def start_daemon(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        out_of_tree: OutOfTree | None = None,
        informer_options: InformerOptions | None = None,
        synced: bool = True,
        record: str = "",
        decisions: str = "",
        secure_port: int = 0,
        certificate: tuple[Path, Path] | None = None,
        file: Path | None = None,
        connection: Connection | None = None,
        feature_gates: tuple[str, ...] = (),
    ) -> RunningDaemon:
        """Start a daemon as `stowage run` would, and wait until it knows the cluster.

        With a file, that is its configuration, and it follows it. Without a connection it needs no
        credentials.
        """
        plugins = out_of_tree or {}
        implemented = implemented_plugins(plugins)
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **(config or {}),
        }
        own = {name: points for name, points in implemented.items() if name not in IN_TREE}
        clock = SystemClock()
        options = RunOptions(
            bind_address="127.0.0.1",
            secure_port=secure_port,
            serve_without_authorization=True,
            record=record,
            decisions=decisions,
            config=str(file or ""),
            feature_gates=tuple(f"{gate}=true" for gate in feature_gates),
            tls_cert_file=str(certificate[0]) if certificate else "",
            tls_private_key_file=str(certificate[1]) if certificate else "",
        )
        daemon = RunningDaemon(
            options,
            read_configuration(options, plugins)[0]
            if file
            else load_object(
                document,
                out_of_tree=own,
                args_types=args_types_of(plugins),
                feature_gates=feature_gates,
            ),
            connection or await load_connection(master=self.sandbox.url, environ={}, clock=clock),
            clock,
            out_of_tree=plugins,
            informer_options=informer_options,
        )
        self.daemon = daemon
        self._running[daemon] = asyncio.create_task(daemon.run())
        if synced:
            await self.until(lambda: daemon.daemon.health.handlers_synced, "the caches to sync")
        return daemon

    async def stop_daemon(self, daemon: RunningDaemon | None = None) -> None:
        """End a daemon as SIGTERM does, and wait until it is gone."""
        daemon = daemon or self.daemon
        task = self._running.pop(daemon)
        daemon.daemon.stop()
        async with asyncio.timeout(LIMIT_SECONDS):
            await task

    async def kill_daemon(self) -> None:
        """End the daemon without a word, as far as a process that lives on can."""
        task = self._running.pop(self.daemon)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def end_lease(self) -> None:
        """Have the lease that a killed daemon left behind run out in a second."""
        [lease] = self.sandbox.list(LEASES)
        name, namespace = lease["metadata"]["name"], lease["metadata"]["namespace"]
        self.sandbox.patch(LEASES, name, {"spec": {"leaseDurationSeconds": 1}}, namespace)

    async def close(self) -> None:
        """End what still runs."""
        for task in self._running.values():
            task.cancel()
        results = await asyncio.gather(*self._running.values(), return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    # --- the cluster ----------------------------------------------------------------------------

    def node(self, name: str, **options: Any) -> None:
        """Add a node; options as for `node_object`."""
        self.sandbox.create(node_object(name, **options), keep_status=True)

    def pod(self, name: str, **options: Any) -> None:
        """Add a pod; options as for `pod_object`."""
        self.sandbox.create(pod_object(name, **options))

    def node_of(self, pod: str, namespace: str = "default") -> str:
        """Where a pod is bound; empty when it is not."""
        found = self.sandbox.find("pods", pod, namespace)
        return "" if found is None else found["spec"].get("nodeName", "")

    def condition(self, pod: str, namespace: str = "default") -> Object | None:
        """The PodScheduled condition of a pod without its times."""
        status = self.sandbox.get("pods", pod, namespace).get("status", {})
        for condition in status.get("conditions", ()):
            if condition["type"] == "PodScheduled":
                timeless = {k: v for k, v in condition.items() if not k.startswith("last")}
                return {k: v for k, v in timeless.items() if k != "observedGeneration"}
        return None

    def events(self, pod: str = "", reason: str = "") -> list[Object]:
        """The events about a pod."""
        return [
            event
            for event in self.sandbox.list("events.events.k8s.io")
            if pod in ("", event["regarding"]["name"]) and reason in ("", event["reason"])
        ]

    def bindings(self, code: int | None = 201) -> int:
        """How many bindings were answered with a code."""
        return self.sandbox.requests.count(
            verb="create", resource="pods", subresource="binding", code=code
        )

    def attempts(self, pod: str) -> int:
        """How often a waiting pod has been tried."""
        entries = self.daemon.driver.engine.core.queue.dump()
        return next(entry["attempts"] for entry in entries if entry["pod"] == f"default/{pod}")

    def is_settled(self) -> bool:
        """Whether the daemon owes nothing: nobody assumed, in flight or in doubt."""
        engine = self.daemon.driver.engine.core
        return (
            not engine.cache.assumed_pods()
            and not engine.queue.counts().in_flight
            and not self.daemon.driver.in_flight
        )

    # --- waiting --------------------------------------------------------------------------------

    async def until(
        self, holds: Callable[[], object], what: str, seconds: float = LIMIT_SECONDS
    ) -> None:
        """Wait until something holds; a daemon that dies meanwhile fails the test."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    for task in self._running.values():
                        if task.done():
                            await task
                            raise AssertionError("the daemon has ended")
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise AssertionError(f"waited {seconds:g} s for {what}") from None

    async def bound(self, *pods: str, seconds: float = LIMIT_SECONDS) -> list[str]:
        """Wait until pods are bound; gives their nodes."""
        await self.until(
            lambda: all(map(self.node_of, pods)), f"{', '.join(pods)} to be bound", seconds
        )
        return [self.node_of(pod) for pod in pods]

    async def rejected(self, *pods: str, reason: str = "Unschedulable") -> None:
        """Wait until pods have been tried and their conditions say so."""
        for pod in pods:
            await self.until(
                lambda name=pod: (self.condition(name) or {}).get("reason") == reason,
                f"{pod} to be {reason}",
            )

    async def settled(self) -> None:
        """Wait until the daemon owes nothing."""
        await self.until(self.is_settled, "the daemon to settle")

    async def quiet(self, seconds: float = 0.2) -> None:
        """Let some time pass in which something must not happen."""
        await asyncio.sleep(seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def play(story: Callable[[World], Awaitable[None]], settings: Settings | None = None) -> None:
    """Run a scenario in a world of its own."""

    async def run() -> None:
        async with await Sandbox.start(settings) as sandbox, World(sandbox) as world:
            await story(world)

    uvloop.run(run())


def node_object(
    name: str,
    *,
    cpu: str = "4",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    zone: str = "",
    **spec: Any,
) -> Object:
    """A node as a kubelet reports it."""
    all_labels = {"kubernetes.io/hostname": name, **(labels or {})}
    if zone:
        all_labels["topology.kubernetes.io/zone"] = zone
    allocatable = {"cpu": cpu, "memory": "32Gi", "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": all_labels},
        "spec": spec,
        "status": {"capacity": allocatable, "allocatable": allocatable},
    }


def pod_object(
    name: str,
    *,
    namespace: str = "default",
    cpu: str = "",
    labels: Mapping[str, str] | None = None,
    scheduler: str = "stowage",
    **spec: Any,
) -> Object:
    """A pod as its owner writes it; further keywords are fields of its spec."""
    container: Object = {"name": "main", "image": "example.com/app:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }
