"""``python -m bench.soak``: runs constant churn for minutes, and checks for growth and stalls.

It runs one daemon and one control plane. First the cluster is filled with bound pods. Then pods are
created and the oldest deleted at a steady rate; each second one node is deleted and the previous
one recreated. Each sample has the daemon's resource usage, its backlog, and its longest event loop
stall since the last sample. The checks: memory stays flat after the warm-up, no stall of its own
exceeds 100 ms (time without CPU is reported separately), no backlog grows, and the load reached its
rate.

    python -m bench.soak                                                       # a minute, small
    python -m bench.soak --nodes 10000 --pods 200000 --minutes 20 --rate 80    # the real one
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, islice, repeat
from math import ceil
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.progress import track

from bench.stalls import Stall, longest_stall, stalls_in
from e2e.support.api import Api, Call
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.objects import Json, make_nodes, make_pod
from e2e.support.processes import Program
from e2e.support.scraping import fetch, total
from e2e.support.stowage import start_stowage
from scheduler.daemon.driver.lanes import CONCURRENCY
from scheduler.observability.loop_shares import NOT_RUNNING

_NAMESPACE: Final = "soak"
_NODES: Final = "/api/v1/nodes"
_PODS: Final = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_UNBOUND: Final = f"{_PODS}?fieldSelector=spec.nodeName%3D&limit=1"
_STALL_MS: Final = 100
_GROWTH: Final = 1.05
"""Allowed memory growth, from the first third of the samples after warm-up to the last."""
_BACKLOG_SECONDS: Final = 2
"""Allowed backlog of pods at a sample, in seconds of the load."""
_LOAD_SHARE: Final = 0.9
_WARM_UP_SHARE: Final = 0.25
_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class Sample:
    """The daemon at one time.

    Attributes:
        seconds: since the cluster was full.
        resident_mib: resident memory.
        files: open files.
        tasks: asyncio tasks.
        waiting: pods in its queues.
        owed: pending and running writes, and events kept for pods in flight.
        stall: longest time that work blocked the event loop since the last sample.
        kept: longest time that the process waited for a CPU.
        made: pods created since the cluster was full.
    """

    seconds: float
    resident_mib: float
    files: int
    tasks: int
    waiting: int
    owed: int
    stall: Stall
    kept: Stall
    made: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of one check."""

    question: str
    answer: str
    holds: bool


def verdicts(samples: Sequence[Sample], rate: int) -> Iterator[Verdict]:
    """Yield the checks of the samples after the warm-up."""
    steady = samples[int(len(samples) * _WARM_UP_SHARE) :]
    third = max(1, len(steady) // 3)
    begin = median(each.resident_mib for each in steady[:third])
    end = median(each.resident_mib for each in steady[-third:])
    yield Verdict("memory is flat", f"{begin:.0f} MiB, then {end:.0f}", end <= begin * _GROWTH)
    stall = max(each.stall for each in steady)
    kept = max(each.kept for each in steady)
    answer = f"none over {stall.ms:g} ms{stall.work and f', {stall.work}'}"
    answer += f"; kept from running for {kept.ms:g} ms at most" if kept.ms else ""
    yield Verdict("no long stall", answer, stall.ms <= _STALL_MS)
    for what, of in (("pods that wait", _waiting), ("writes owed", _owed)):
        first, last = median(map(of, steady[:third])), median(map(of, steady[-third:]))
        holds = last <= max(first * _GROWTH, rate * _BACKLOG_SECONDS)
        yield Verdict(f"no backlog of {what} grows", f"{first:.0f}, then {last:.0f}", holds)
    for what, of in (("files", _files), ("tasks", _tasks)):
        varied = max(map(of, steady)) - min(map(of, steady))
        yield Verdict(f"{what} are bounded", f"they vary by {varied}", varied <= CONCURRENCY)
    made = steady[-1].made / steady[-1].seconds
    holds = made >= rate * _LOAD_SHARE
    yield Verdict("the load is what was asked for", f"{made:.1f} pods a second of {rate}", holds)


_waiting, _owed = attrgetter("waiting"), attrgetter("owed")
_files, _tasks = attrgetter("files"), attrgetter("tasks")


class Soak:
    """One run against one API server."""

    def __init__(
        self, api: Api, daemon: Program, nodes: Sequence[Json], pods: int, rate: int
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._daemon = daemon
        self._pods = pods
        self._rate = rate
        self._made = 0
        self._gone = 0

    async def fill(self) -> None:
        """Create the initial pods, distributed over all nodes."""
        names = cycle(node["metadata"]["name"] for node in self._nodes)
        for _ in track(range(0, self._pods, _AT_ONCE), "filling"):
            count = min(_AT_ONCE, self._pods - self._made)
            await self._api.call_all(self._creations(count, names))

    async def run(self, seconds: float, every_seconds: float) -> list[Sample]:
        """Run the churn for this time, and return the samples."""
        samples: list[Sample] = []
        begun, filled = time.monotonic(), self._made
        stalls = stalls_in(await self._scraped())
        async with self._changing():
            while time.monotonic() - begun < seconds:
                await asyncio.sleep(every_seconds)
                text = await self._scraped()
                now = stalls_in(text)
                samples.append(
                    Sample(
                        time.monotonic() - begun,
                        resident_mib(self._daemon.pid),
                        len(list(Path(f"/proc/{self._daemon.pid}/fd").iterdir())),  # noqa: ASYNC240 - no disk
                        int(total(text, "stowage_tasks")),
                        waiting_pods(text),
                        owed_writes(text),
                        longest_stall(now, stalls, NOT_RUNNING.__ne__) or Stall(0.0, ""),
                        longest_stall(now, stalls, NOT_RUNNING.__eq__) or Stall(0.0, ""),
                        self._made - filled,
                    )
                )
                stalls = now
                print(_line(samples[-1]), flush=True)
        return samples

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._change())
        try:
            yield
        finally:
            task.cancel()
            ended = await asyncio.gather(task, return_exceptions=True)
            if isinstance(ended[0], Exception):
                raise ended[0]

    async def _change(self) -> None:
        """Create and delete pods each second; catch up after late seconds."""
        loop = asyncio.get_running_loop()
        begun, seconds = loop.time(), 0
        while True:
            pods = (*self._creations(self._rate), *self._deletions())
            await self._api.call_all((*pods, *self._node_changes(seconds)))
            seconds += 1
            await asyncio.sleep(max(0.0, begun + seconds - loop.time()))

    def _creations(self, count: int, nodes: Iterator[str] | None = None) -> Iterator[Call]:
        for node in islice(nodes or repeat(""), count):
            self._made += 1
            app = f"app-{self._made % 500}"
            pod = make_pod(
                f"pod-{self._made:08}",
                namespace=_NAMESPACE,
                labels={"app": app},
                requests={"cpu": "100m", "memory": "64Mi"},
                nodeName=node,
            )
            yield Call("POST", _PODS, pod)

    def _deletions(self) -> Iterator[Call]:
        while self._made - self._gone > self._pods:
            self._gone += 1
            yield Call("DELETE", f"{_PODS}/pod-{self._gone:08}?gracePeriodSeconds=0")

    def _node_changes(self, second: int) -> Iterator[Call]:
        """Delete one node with its pods still bound, and recreate the previous one."""
        if second:
            yield Call("POST", _NODES, self._nodes[(second - 1) % len(self._nodes)])
        name = self._nodes[second % len(self._nodes)]["metadata"]["name"]
        yield Call("DELETE", f"{_NODES}/{name}")

    async def _scraped(self) -> str:
        return await asyncio.to_thread(fetch, f"{self._daemon.url}/metrics")


def waiting_pods(scraped: str) -> int:
    """Return the number of pods in the daemon's queues."""
    return int(total(scraped, "scheduler_pending_pods"))


def owed_writes(scraped: str) -> int:
    """Return the daemon's pending and running writes, and events kept for pods in flight."""
    families = "workqueue_depth", "workqueue_unfinished_work_seconds", "scheduler_inflight_events"
    return ceil(sum(total(scraped, family) for family in families))


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


@click.command()
@click.option("--nodes", default=200, show_default=True)
@click.option("--pods", default=2000, show_default=True, help="Pods at a time.")
@click.option("--rate", default=40, show_default=True, help="Pods created and deleted per second.")
@click.option(
    "--minutes", default=1.0, show_default=True, help="Duration after the cluster is full."
)
@click.option(
    "--every", "every_seconds", default=5.0, show_default=True, help="Seconds between samples."
)
def main(nodes: int, pods: int, rate: int, minutes: float, every_seconds: float) -> None:
    """Run one daemon under churn; exits with 1 if a check fails."""
    room = Options(audit_level=None)
    with ControlPlane(room) as control_plane, tempfile.TemporaryDirectory() as directory:
        daemon = start_stowage(
            control_plane.kubeconfig,
            Path(directory),
            name="soak",
            arguments=["--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"],
        )
        with daemon:
            samples = asyncio.run(
                _soak(control_plane, daemon, nodes, pods, rate, minutes, every_seconds)
            )
    broken = False
    for verdict in verdicts(samples, rate):
        broken |= not verdict.holds
        print(f"{'holds ' if verdict.holds else 'BROKEN'} {verdict.question}: {verdict.answer}")
    raise SystemExit(int(broken))


async def _soak(
    control_plane: ControlPlane,
    daemon: Program,
    nodes: int,
    pods: int,
    rate: int,
    minutes: float,
    every_seconds: float,
) -> list[Sample]:
    async with Api.connect(control_plane.kubeconfig) as api:
        await api.post("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
        made: list[Json] = make_nodes(nodes)
        await api.create_all(_NODES, made)
        soak = Soak(api, daemon, made, pods, rate)
        await soak.fill()
        return await soak.run(minutes * 60, every_seconds)


def _line(sample: Sample) -> str:
    return (
        f"{sample.seconds:7.0f} s  {sample.resident_mib:7.1f} MiB  {sample.files:4} files  "
        f"{sample.tasks:4} tasks  {sample.waiting:6} wait  {sample.owed:5} owed  "
        f"stalls up to {sample.stall.ms:g} ms {sample.stall.work}"
        f"{(sample.kept.ms and f', kept from running up to {sample.kept.ms:g} ms') or ''}"
    )


if __name__ == "__main__":
    main()
