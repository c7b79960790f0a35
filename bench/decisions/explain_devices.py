"""``python -m bench.decisions.explain_devices``: processor time of a question about a GPU pod.

Every device of every node is in use, four claims and pods on each node; one more pod fits nowhere.
"""

import gc
from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import Any, Final

import click

from e2e.support.objects import make_node, make_pod
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.why import Depth
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents

_API: Final = "resource.k8s.io/v1"
_DRIVER: Final = "gpu.example.com"
_PER_NODE: Final = 8
_PER_CLAIM: Final = 2
_MODEL: Final = f'device.attributes["{_DRIVER}"].model'
_Object = dict[str, Any]


@click.command()
@click.option("--nodes", default=5000, show_default=True, help="Nodes of 8 devices each.")
@click.option("--questions", default=5, show_default=True, help="Of each depth.")
def main(nodes: int, questions: int) -> None:
    """Time questions about a pod whose claim finds no devices."""
    profiles = Profiles(None)
    found = objects_from_documents((f"o{i}", each) for i, each in enumerate(devices_in_use(nodes)))
    cluster = profiles.load(found)
    [pod] = cluster.waiting
    explainer = Explainer(cluster.engine, profiles.framework_of)
    explainer.explain(pod, Depth.CHANGES)
    gc.collect()
    gc.freeze()
    for depth in Depth:
        times = []
        for _ in range(questions):
            start = process_time()
            explainer.explain(pod, depth)
            times.append((process_time() - start) * 1e3)
        click.echo(f"{depth.name.lower()}: median {median(times):.0f} ms, most {max(times):.0f} ms")


def devices_in_use(nodes: int) -> Iterator[_Object]:
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    yield _made("DeviceClass", "gpu", {"selectors": selectors})
    for node in (f"node-{number}" for number in range(nodes)):
        yield make_node(node)
        devices = [
            {"name": f"gpu-{i}", "attributes": {"model": {"string": "big"}}}
            for i in range(_PER_NODE)
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": _DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        yield _made("ResourceSlice", node, spec)
        for first in range(0, _PER_NODE, _PER_CLAIM):
            name = f"{node}-{first}"
            yield _pod(name, node)
            results = [
                {"request": "gpu", "driver": _DRIVER, "pool": node, "device": f"gpu-{first + i}"}
                for i in range(_PER_CLAIM)
            ]
            users = [{"resource": "pods", "name": name, "uid": name}]
            status = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
            yield {**_claim(name, 1), "status": status}
    yield _claim("late", 4)
    yield _pod("late", "")


def _claim(name: str, count: int) -> _Object:
    selectors = [{"cel": {"expression": f'{_MODEL} == "big"'}}]
    exactly = {"deviceClassName": "gpu", "count": count, "selectors": selectors}
    constraints = [{"matchAttribute": f"{_DRIVER}/model"}]
    requests = [{"name": "gpu", "exactly": exactly}]
    return _made(
        "ResourceClaim", name, {"devices": {"requests": requests, "constraints": constraints}}
    )


def _made(kind: str, name: str, spec: _Object) -> _Object:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _pod(name: str, node: str) -> _Object:
    pod = make_pod(name)
    pod["metadata"]["uid"] = name
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    if node:
        pod["spec"]["nodeName"] = node
    return pod


if __name__ == "__main__":
    main()
