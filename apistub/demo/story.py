"""What happens during the demo, in order."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from apistub.demo.cluster import Cluster
from apistub.demo.connection import Connection
from apistub.demo.load import GATE, NAMESPACE, URGENT, Load
from apistub.storage.kinds import Object

PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
NODES: Final = "/api/v1/nodes"
NAMESPACES: Final = "/api/v1/namespaces"
PODS: Final = f"{NAMESPACES}/{NAMESPACE}/pods"
_PODS_PER_SECOND: Final = 1500.0
_BURST_SECONDS: Final = 0.2
_SHORTEST_SUBMISSION_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 1.0
_HERALDS: Final = 10
"""Pods that show whether the daemon is there yet."""


class Story:
    """The acts of the demo."""

    def __init__(
        self, connection: Connection, cluster: Cluster, load: Load, tell: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._cluster = cluster
        self._load = load
        self._tell = tell
        self.cordoned: dict[str, frozenset[str]] = {}
        """The cordoned nodes, with the pods that existed when the daemon had to know."""

    async def prepare(self) -> None:
        """Creates namespace, priority and nodes."""
        await self._connection.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await self._connection.create(PRIORITY_CLASSES, self._load.important)
        await self._connection.create_all(NODES, self._load.nodes)
        self._tell(f"{len(self._load.nodes)} nodes in 3 zones are ready")

    async def perform(self) -> None:
        """Submits the pods; on the way cordons nodes, adds some, and removes the gate.

        At last comes a pod for which a less important one has to go.
        """
        pods = self._load.pods
        half = len(pods) // 2
        await self._connection.create_all(PODS, pods[:_HERALDS])
        self._tell(f"{_HERALDS} pods created, waiting for `stowage run` to come up")
        await self._cluster.has_bound.wait()
        self._tell(f"the first pod has a node; submitting {len(pods)} pods of several workloads")
        await self._submit(pods[_HERALDS:half])
        await self._cordon()
        await self._submit(pods[half:])
        await asyncio.sleep(_PAUSE_SECONDS)
        await self._connection.create_all(NODES, self._load.late_nodes)
        self._tell(f"{len(self._load.late_nodes)} nodes added, which the report pods wait for")
        await asyncio.sleep(_PAUSE_SECONDS)
        await self._open_gate()
        await asyncio.sleep(_PAUSE_SECONDS)
        await self._connection.create(PODS, self._load.urgent)
        self._tell(f"{URGENT} needs a licence that less important pods hold: one has to go")

    async def _submit(self, pods: Sequence[Object]) -> None:
        """Creates pods in bursts, slowly enough to be watched when they are few."""
        seconds = max(_SHORTEST_SUBMISSION_SECONDS / 2, len(pods) / _PODS_PER_SECOND)
        burst = max(1, round(len(pods) * _BURST_SECONDS / seconds))
        for start in range(0, len(pods), burst):
            pause = asyncio.create_task(asyncio.sleep(_BURST_SECONDS))
            await self._connection.create_all(PODS, pods[start : start + burst])
            await pause

    async def _cordon(self) -> None:
        others = (n for n in self._cluster.nodes.values() if n.name != self._load.licensed)
        fullest = sorted(others, key=lambda node: -node.pods)
        chosen = [node.name for node in fullest[: max(3, len(fullest) // 20)]]
        paths = (f"{NODES}/{name}" for name in chosen)
        await self._connection.change_all(paths, {"spec": {"unschedulable": True}})
        self._tell(f"cordoned {', '.join(chosen[:4])}{' ...' if len(chosen) > 4 else ''}")  # noqa: PLR2004 - what fits on a line
        # Decisions made before the daemon saw the change are right, their bindings may still come.
        # Pods that are created a second later have no such excuse.
        await asyncio.sleep(_PAUSE_SECONDS)
        self.cordoned = dict.fromkeys(chosen, frozenset(self._cluster.pods))

    async def _open_gate(self) -> None:
        gated = [
            pod["metadata"]["name"] for pod in self._load.pods if "schedulingGates" in pod["spec"]
        ]
        paths = (f"{PODS}/{name}" for name in gated)
        await self._connection.change_all(paths, {"spec": {"schedulingGates": None}})
        self._tell(f"removed the gate {GATE} from {len(gated)} pods")
