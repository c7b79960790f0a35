"""Prepared cluster states: created once, restored from the same bytes for every run.

A state is saved as etcd's data. Each run starts a control plane from a copy, so no run affects
another.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench import objects
from bench.access import access_calls
from bench.contestants import start_module
from bench.devices import create_devices
from bench.groups import api_server_arguments, create_groups
from bench.processor import wait_until_idle
from bench.storage import create_storage
from bench.workload import MEASURED, Size, Workload
from e2e.support.api import Api, ApiRefusedError, Call
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.devices import RESOURCE
from e2e.support.objects import Json

_AUDITED = {
    "level": "Metadata",
    "verbs": ["create", "delete"],
    "namespaces": [MEASURED],
    "resources": [
        {"group": "", "resources": ["pods", "pods/binding", "events"]},
        {"group": "events.k8s.io", "resources": ["events"]},
    ],
}
"""Audit only the measured requests, to minimize the overhead."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The states of one workload at one size.

    Attributes:
        quiet: nodes, running and waiting pods, without the measured pods; created only on request.
        loaded: the same with the measured pods.
    """

    workload: Workload
    size: Size
    quiet: Path
    loaded: Path

    @classmethod
    def prepare(cls, workload: Workload, size: Size, folder: Path, *, with_quiet: bool) -> Self:
        """Create the states below ``folder``."""
        prepared = cls(workload, size, folder / "quiet", folder / "loaded")
        making = folder / "preparing"
        with _cluster(workload, making, None, audited=False) as cluster:
            cluster.run(_fill(cluster.api, workload, size))
            if not with_quiet:
                cluster.run(_load(cluster.api, workload, size))
        if with_quiet:
            _move_data(making, prepared.quiet)
            with _cluster(workload, making, prepared.quiet, audited=False) as cluster:
                cluster.run(_load(cluster.api, workload, size))
        _move_data(making, prepared.loaded)
        return prepared


@contextmanager
def prepared_state(workload: Workload, size: Size, *, with_quiet: bool) -> Iterator[Prepared]:
    """Create the states of a workload, and delete them at the end."""
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        yield Prepared.prepare(workload, size, Path(folder), with_quiet=with_quiet)


@contextmanager
def running_cluster(workload: Workload, state: Path) -> Iterator[Cluster]:
    """Start a control plane from a copy of ``state`` and wait until it is idle.

    If the workload's pods have claims, ``bench.binder`` runs beside it.
    """
    folder = state.parent / "running"
    with _cluster(workload, folder, state, audited=True) as cluster:
        cluster.run(_warm(cluster.api))
        assert cluster.control_plane is not None
        if workload.storage is not None:
            start_module(cluster.control_plane, "bench.binder", cluster.kubeconfig)
        wait_until_idle(cluster.control_plane.programs)
        yield cluster
    shutil.rmtree(folder)


@contextmanager
def _cluster(
    workload: Workload, folder: Path, state: Path | None, *, audited: bool
) -> Iterator[Cluster]:
    if state is not None:
        shutil.copytree(state, folder / "etcd")
    options = Options(
        audit_level="None" if audited else None,
        audit_rules=[_AUDITED],
        api_server_arguments=[
            *api_server_arguments(workload),
            *(["--audit-log-maxsize=10000"] if audited else ()),
        ],
        directory=folder,
    )
    with ControlPlane(options) as control_plane:
        cluster = Cluster("bench", control_plane.kubeconfig, folder, control_plane=control_plane)
        try:
            yield cluster
        except ApiRefusedError:
            # The folder with the logs is deleted next.
            print(control_plane.logs(), file=sys.stderr)
            raise
        finally:
            cluster.close()


def _move_data(folder: Path, target: Path) -> None:
    (folder / "etcd").rename(target)
    shutil.rmtree(folder)


async def _fill(api: Api, workload: Workload, size: Size) -> None:
    nodes = objects.nodes_of(workload.nodes, size.nodes)
    await api.create_all("/api/v1/nodes", nodes)
    await api.create_all("/api/v1/namespaces", objects.namespaces_of(workload))
    await api.call_all(access_calls())
    await api.create_all(f"/api/v1/namespaces/{MEASURED}/services", objects.services_of(workload))
    names = _names(nodes)
    await create_storage(api, workload, size, names)
    await create_devices(api, workload, names, size.running, size.pods)
    await create_groups(api, workload, size.running, size.pods)
    classes = objects.priority_classes_of(workload)
    await api.create_all("/apis/scheduling.k8s.io/v1/priorityclasses", classes)
    factory = objects.PodFactory(workload.running_template, names, "pod")
    running = objects.running_pods(workload, factory, nodes, size.running)
    await api.call_all(Call("POST", _pods(namespace), body) for namespace, body in running)
    if workload.waiting is not None:
        waiting = objects.PodFactory(workload.waiting, names, "waiting")
        bodies = (waiting.waiting(index, "waiting") for index in range(size.waiting))
        await api.create_all(_pods("waiting"), bodies)


async def _load(api: Api, workload: Workload, size: Size) -> None:
    factory = measured_pods(workload, size)
    # A fixed creation order, since schedulers sort pods of equal priority by creation time.
    indexes = range(size.running, size.running + size.pods)
    await api.create_all(_pods(MEASURED), (factory.waiting(index) for index in indexes))


async def _warm(api: Api) -> None:
    """Fill the API server's caches, as in a cluster that has run for a while."""
    collections = [
        *("nodes", "pods", "namespaces", "services"),
        *("persistentvolumes", "persistentvolumeclaims"),
    ]
    paths = [f"/api/v1/{each}" for each in collections]
    paths += [f"{RESOURCE}/{each}" for each in ("resourceclaims", "resourceslices")]
    await asyncio.gather(*(api.get(f"{path}?limit=1&resourceVersion=0") for path in paths))


def measured_pods(workload: Workload, size: Size) -> objects.PodFactory:
    """Return the factory of the measured pods, numbered after the running ones."""
    names = _names(objects.nodes_of(workload.nodes, size.nodes))
    return objects.PodFactory(workload.pods, names, "pod")


def _names(nodes: Sequence[Json]) -> list[str]:
    return [node["metadata"]["name"] for node in nodes]


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"
