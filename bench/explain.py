"""Measures the latency of explain requests during scheduling, and their cost in throughput.

    python -m bench.explain                              # 5,000 nodes, 1,000 pods that fit nowhere
    python -m bench.explain --nodes 500 --pods 100 --load 500     # small: shows that it works

The daemon runs against a real API server. A client requests explanations of unschedulable pods over
the secure port, one after another, while other pods are bound. Rounds with and without requests
alternate. Each response is compared with the pod's condition.
"""

import argparse
import http.client
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bench.latency import percentile
from bench.progress import scheduled
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import Json, make_nodes, make_pod, make_pods
from e2e.support.probing import unverified
from e2e.support.processes import Program
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for

P99_MS: Final = 50.0
SPEED: Final = 0.95
_NAMESPACE: Final = "asked"
_NOBODY: Final[Json] = {
    "labelSelector": {"matchLabels": {"app": "nobody"}},
    "topologyKey": "topology.kubernetes.io/zone",
}
KINDS: Final[tuple[Json, ...]] = (
    {"requests": {"cpu": "1000"}},
    {"requests": {"memory": "100Ti"}},
    {"nodeSelector": {"disk": "tape"}},
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_NOBODY]}}},
    {"requests": {"cpu": "1000"}, "tolerations": [{"operator": "Exists"}]},
)
"""Spec fields of the unschedulable pods, by reason."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status says whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=1000, help="unschedulable pods to explain")
    parser.add_argument("--load", type=int, default=5000, help="pods bound in each round")
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds with requests; as many without"
    )
    parser.add_argument(
        "--per-second", type=float, default=20.0, help="explain requests per second"
    )
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as directory,
        ControlPlane() as own,
        Cluster("own", own.kubeconfig, Path(directory), control_plane=own) as cluster,
    ):
        program = start_stowage(
            own.kubeconfig, Path(directory), arguments=["--serve-without-authorization"]
        )
        try:
            return _measure(cluster, program, options)
        finally:
            program.stop()


def _measure(cluster: Cluster, program: Program, options: argparse.Namespace) -> int:
    cluster.create_nodes(make_nodes(options.nodes, allocatable={"pods": "1000", "cpu": "64"}))
    cluster.create_pods(hopeless(options.pods))
    told = wait_for(lambda: _conditions(cluster, options.pods), "conditions", 600, 1.0)
    asker = _Explainer(program.url, told)
    quiet, asked = [], []
    for number in range(options.rounds):
        quiet.append(_round(cluster, program, options.load, f"quiet-{number}", None, 0))
        asked.append(
            _round(cluster, program, options.load, f"asked-{number}", asker, options.per_second)
        )
    while len(asker.milliseconds) < options.pods:
        asker.ask()
    before, during = statistics.median(quiet), statistics.median(asked)
    p99 = percentile(asker.milliseconds, 0.99)
    print(f"questions: {len(asker.milliseconds)}, that disagree: {len(asker.wrong)}")
    print(f"milliseconds: p50 {percentile(asker.milliseconds, 0.5):.1f}, p99 {p99:.1f}, ", end="")
    print(f"longest {max(asker.milliseconds):.1f} (target: p99 at most {P99_MS:g})")
    print(f"binds per second: {before:.0f} without questions, {during:.0f} with ", end="")
    print(f"({during / before:.2f}; target: at least {SPEED})")
    for key in asker.wrong[:5]:
        print(f"disagrees: {key}: told {told[key]!r}", file=sys.stderr)
    is_met = p99 <= P99_MS and during >= SPEED * before and not asker.wrong
    return 0 if is_met else 1


class _Explainer:
    """Sends explain requests over one connection, from a process of its own.

    Attributes:
        milliseconds: latency of each response.
        wrong: pods whose explanation differs from their condition.
    """

    def __init__(self, url: str, told: dict[str, str]) -> None:
        self.milliseconds: list[float] = []
        self.wrong: list[str] = []
        self._told = told
        self._keys: Iterator[str] = itertools.cycle(told)
        # A separate process does not compete with the creation of pods.
        self._process = ProcessPoolExecutor(
            1, get_context("spawn"), _connect, (urlsplit(url).netloc,)
        )

    def ask(self) -> None:
        key = next(self._keys)
        milliseconds, body = self._process.submit(_ask, key).result()
        self.milliseconds.append(milliseconds)
        [answer] = json.loads(body)["pods"]
        if not answer["message"] or not self._told[key].startswith(answer["message"]):
            self.wrong.append(key)


_connections: list[http.client.HTTPSConnection] = []
"""The connection of the client process."""


def _connect(address: str) -> None:
    _connections.append(http.client.HTTPSConnection(address, context=unverified(), timeout=30))


def _ask(key: str) -> tuple[float, bytes]:
    [connection] = _connections
    start = time.perf_counter()
    connection.request("GET", f"/debug/explain?pod={key}")
    body = connection.getresponse().read()
    return 1000 * (time.perf_counter() - start), body


def _round(
    cluster: Cluster,
    program: Program,
    load: int,
    prefix: str,
    asker: _Explainer | None,
    per_second: float,
) -> float:
    """Bind pods with or without concurrent requests; return pods per second."""
    bodies = make_pods(load, prefix=prefix, namespace="load", requests={"cpu": "10m"})
    before, start = scheduled(program), time.monotonic()
    next_look = next_question = start
    with ThreadPoolExecutor(1) as pool:
        created = pool.submit(cluster.create_pods, bodies)
        while True:
            now = time.monotonic()
            if now >= next_look:
                next_look = now + 0.25
                if scheduled(program) - before >= load:
                    break
            if asker is not None and now >= next_question:
                next_question = now + 1 / per_second
                asker.ask()
            else:
                time.sleep(0.005)
        created.result()
    speed = load / (time.monotonic() - start)
    cluster.delete_pods("load")
    wait_for(lambda: not cluster.pods("load"), "the load to be gone", 300, 0.5)
    return speed


def hopeless(count: int) -> Iterator[Json]:
    """Yield unschedulable pods, of each kind in turn."""
    for number in range(count):
        yield make_pod(f"pod-{number:05}", namespace=_NAMESPACE, **KINDS[number % len(KINDS)])


def _conditions(cluster: Cluster, count: int) -> dict[str, str]:
    """Return the pods' condition messages; empty until all have one."""
    found = {
        f"{_NAMESPACE}/{pod['metadata']['name']}": condition["message"]
        for pod in cluster.pods(_NAMESPACE)
        for condition in pod.get("status", {}).get("conditions", ())
        if condition["type"] == "PodScheduled"
    }
    return found if len(found) == count else {}


if __name__ == "__main__":
    sys.exit(main())
