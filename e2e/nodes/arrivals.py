"""Creates a pod every 0.4 s during a fault, and measures how long each waits for a node.

The pods go to a simulated node, so that container start times do not count. The scheduler's
replicas run on the real nodes.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Self

from e2e.nodes.lab import Lab
from e2e.support.api import Api, ApiRefusedError
from e2e.support.loops import LoopThread
from e2e.support.objects import SIMULATED, make_node, make_pod
from e2e.support.waiting import wait_for

EVERY_SECONDS = 0.4
LOST_AFTER_SECONDS = 90
NAMESPACE = "arrivals"

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_TAINT = {"key": "stowage.dev/arrivals", "effect": "NoSchedule"}
_SERIAL = count()


@dataclass(frozen=True, slots=True)
class Waits:
    """Waiting times of the pods of one fault."""

    pods: int
    longest_seconds: float
    """Longest time from a pod's creation to its binding."""
    lost: int
    """Pods still unbound ``LOST_AFTER_SECONDS`` after the last creation."""


class Arrivals:
    """Creates pods in a ``with`` block until ``finish``."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._kubeconfig = lab.control_plane.kubeconfig
        self._loop = LoopThread("arrivals")
        self._created: dict[str, float] = {}
        self._waits: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._all_have_nodes = asyncio.Event()
        self._is_last_made = False

    @staticmethod
    def prepare(lab: Lab) -> None:
        """Create the simulated node once."""
        lab.cluster.create_namespace(NAMESPACE)
        room = {"cpu": "10000", "pods": "100000"}
        lab.cluster.create_nodes([make_node("roomy", allocatable=room, taints=[_TAINT])])

    def wait_for_more(self, pods: int) -> None:
        """Wait until this many pods created from now on are bound."""
        first = len(self._created)

        def have_nodes() -> bool:
            assert self._task is not None, "it has begun"
            if self._task.done():
                self._task.result()
            later = list(self._created)[first:]
            return sum(name in self._waits for name in later) >= pods

        wait_for(have_nodes, f"{pods} new pods to be bound", LOST_AFTER_SECONDS)

    def finish(self) -> Waits:
        """Stop creating pods, wait until all are bound, and return the waiting times."""
        return self._loop.run(self._finish())

    def __enter__(self) -> Self:
        self._loop.run(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.close()
        self._lab.cluster.delete_pods(NAMESPACE)

    async def _begin(self) -> None:
        started = asyncio.Event()
        self._task = asyncio.create_task(self._run(started))
        await started.wait()

    async def _run(self, started: asyncio.Event) -> None:
        async with Api.connect(self._kubeconfig) as api, asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(api, started))
            await started.wait()
            loop = asyncio.get_running_loop()
            while not self._ending.is_set():
                next_one = loop.time() + EVERY_SECONDS
                await self._create(api)
                await asyncio.sleep(next_one - loop.time())
            self._is_last_made = True
            self._note_end()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_have_nodes.wait(), LOST_AFTER_SECONDS)
            watching.cancel()

    async def _finish(self) -> Waits:
        assert self._task is not None, "it has begun"
        self._ending.set()
        await self._task
        lost = len(self._created) - len(self._waits)
        return Waits(len(self._created), max(self._waits.values(), default=0.0), lost)

    async def _create(self, api: Api) -> None:
        name = f"pod-{next(_SERIAL):06}"
        pod = make_pod(
            name,
            namespace=NAMESPACE,
            requests={"cpu": "10m"},
            nodeSelector={SIMULATED: "simulated"},
            tolerations=[_TAINT],
        )
        self._created[name] = asyncio.get_running_loop().time()
        while True:
            try:
                await api.post(_PODS, pod)
            except ApiRefusedError as error:
                # A request that the API server could not answer in time may have succeeded.
                if error.status == 409:
                    return
                if error.status < 500:
                    raise
            else:
                return

    async def _watch(self, api: Api, started: asyncio.Event) -> None:
        version = (await api.get(f"{_PODS}?limit=1"))["metadata"]["resourceVersion"]
        started.set()
        loop = asyncio.get_running_loop()
        async for _, pod in api.watch(_PODS, version):
            name = pod["metadata"]["name"]
            if pod["spec"].get("nodeName") and name in self._created and name not in self._waits:
                self._waits[name] = loop.time() - self._created[name]
                self._note_end()

    def _note_end(self) -> None:
        if self._is_last_made and len(self._waits) == len(self._created):
            self._all_have_nodes.set()
