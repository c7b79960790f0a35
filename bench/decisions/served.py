"""Nodes and pods as an API server lists them, made in a process of their own.

Pods are as a ReplicaSet, the kubelet and the API server leave them: with an owner, a status and
managed fields. `bare` ones have what the API server itself adds, as those of `python -m bench`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from bench.objects import PodFactory, nodes_of
from bench.workload import MEASURED, chosen, load_workloads
from e2e.support.objects import Json
from scheduler.daemon.client.body import PART_BYTES
from scheduler.daemon.informers.kinds import KINDS, NODES, PODS

REPLICAS: Final = 30
"""Pods of one ReplicaSet."""
_WORKLOAD: Final = "start-150000"
_MOST: Final = 2000
"""Objects on a page: each is there as a whole here, which counts as memory of the start."""
_VERSION: Final = 10**9
"""Of the whole lists; objects have smaller ones."""


class Amounts(msgspec.Struct, frozen=True):
    """How much there is, and of what sort.

    Attributes:
        nodes: nodes.
        running: pods that run, each node's turn.
        waiting: pods that come last in the list, and wait.
        bare: whether pods lack what controllers and kubelets add.
    """

    nodes: int
    running: int
    waiting: int
    bare: bool


class Server:
    """Answers lists, a page at a time; a watch brings nothing. Stands in for `ApiSession`."""

    def __init__(self, pages: Connection) -> None:
        self._pages = pages

    @asynccontextmanager
    async def download(self, path: str, *, timeout: float) -> AsyncIterator["_Page"]:
        """See `ApiSession.download`."""
        del timeout
        self._pages.send(path)
        yield _Page(self._pages.recv_bytes())

    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator["Server"]:
        """See `ApiSession.stream`."""
        del path, read_timeout
        yield self

    async def read(self) -> Sequence[bytes]:
        """See `Lines.read`."""
        await asyncio.Event().wait()
        return ()


class _Page:
    """A page, in parts as they come from a socket. See `Body`."""

    def __init__(self, page: bytes) -> None:
        self._page = BytesIO(page)

    async def read(self) -> bytes:
        """See `Body.read`."""
        return self._page.read(PART_BYTES)


@contextmanager
def served(amounts: Amounts) -> Iterator[Server]:
    """A server of this much."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, amounts), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Server(ours)
    finally:
        ours.close()
        process.join()


def _serve(paths: Connection, amounts: Amounts) -> None:
    make = _Objects(amounts)
    totals = {NODES.path: amounts.nodes, PODS.path: amounts.running + amounts.waiting}
    makers: dict[str, Callable[[int], Json]] = {NODES.path: make.node, PODS.path: make.pod}
    list_kinds = {kind.path: kind.list_kind for kind in KINDS}
    while True:
        try:
            split = urlsplit(paths.recv())
        except EOFError:
            return
        query = dict(parse_qsl(split.query))
        first, total = int(query.get("continue", 0)), totals.get(split.path, 0)
        end = min(total, first + min(_MOST, int(query["limit"])))
        items = [makers[split.path](index) for index in range(first, end)]
        metadata = {"resourceVersion": str(_VERSION), "continue": str(end) if end < total else ""}
        page = {"kind": list_kinds[split.path], "apiVersion": "v1", "metadata": metadata}
        paths.send_bytes(msgspec.json.encode({**page, "items": items}))


class _Objects:
    """Makes each object by its number."""

    def __init__(self, amounts: Amounts) -> None:
        self._amounts = amounts
        [workload] = chosen(load_workloads(), (_WORKLOAD,))
        self._nodes = nodes_of(workload.nodes, amounts.nodes)
        self._names = [node["metadata"]["name"] for node in self._nodes]
        self._pods = PodFactory(workload.pods, self._names, "pod")

    def node(self, index: int) -> Json:
        """A node."""
        return _stored(self._nodes[index], index, "kubelet")

    def pod(self, index: int) -> Json:
        """A pod; those that wait come last."""
        running = self._amounts.running
        if index >= running:
            return _stored(msgspec.json.decode(self._pods.waiting(index)), index, "kubectl")
        place = self._names[index % len(self._names)]
        pod = msgspec.json.decode(self._pods.running(index, MEASURED, place))
        if self._amounts.bare:
            return _stored(pod, index, "bench")
        return _stored(_owned(pod, index), index, "kube-controller-manager", "kubelet")


def _stored(body: Json, index: int, *managers: str) -> Json:
    """With what the API server adds."""
    added = {
        "uid": _uid("c0", index),
        "resourceVersion": str(_VERSION // 2 + index),
        "creationTimestamp": _time(index),
        "managedFields": [_managed(manager, body) for manager in managers],
    }
    body = {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}
    status = {"phase": "Pending", "qosClass": "Burstable", **body.get("status", {})}
    return {**body, "metadata": {**body["metadata"], **added}, "status": status}


def _owned(pod: Json, index: int) -> Json:
    """With what its controller and its kubelet add."""
    number = index // REPLICAS
    [main] = pod["spec"]["containers"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"app-{number:05}-6d4cf56db6",
        "uid": _uid("0c", number),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        **pod["metadata"],
        "name": f"app-{number:05}-6d4cf56db6-{index:06}",
        "labels": {"app": f"app-{number:05}", "pod-template-hash": "6d4cf56db6"},
        "ownerReferences": [owner],
    }
    image = f"registry.example.com/app-{number:05}:1"
    resources = main.get("resources", {})
    began = _time(index + 3)
    state = {
        "name": main["name"],
        "state": {"running": {"startedAt": began}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": image,
        "imageID": f"{image}@sha256:{index:064}",
        "containerID": f"containerd://{index:064}",
        "started": True,
        "allocatedResources": resources.get("requests", {}),
        "resources": resources,
    }
    conditions = [
        {"type": sort, "status": "True", "lastProbeTime": None, "lastTransitionTime": began}
        for sort in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": began})
    status = {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "startTime": began,
        "containerStatuses": [state],
    }
    spec = {**pod["spec"], "containers": [{**main, "image": image}]}
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def _managed(manager: str, body: Mapping[str, Any]) -> Json:
    """About as long as what the API server writes of who has set which field."""
    fields: Json = {f"f:{field}": {".": {}} for field in (*body["metadata"], *body.get("spec", {}))}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _time(0),
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": fields, "f:spec": fields},
    }


def _uid(sort: str, number: int) -> str:
    return f"{number:08x}-{sort}00-4000-8000-{number:012x}"


def _time(second: int) -> str:
    minutes, seconds = divmod(second, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"2026-01-{1 + days % 28:02}T{hours:02}:{minutes:02}:{seconds:02}Z"
