"""Feeds an engine a long random history, records it, and has other processes replay it.

python -m bench.determinism [--events 100000] [--seed 1]
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from scheduler.config.load import default_configuration
from scheduler.config.write import to_object
from scheduler.daemon.informers.kinds import NODES, PODS
from scheduler.daemon.recording.directory import DirectoryRecorder
from scheduler.daemon.recording.records import Header
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Decide,
    Event,
    Evicted,
    EvictFailed,
    ObjectGone,
    ObjectSet,
    Tick,
)
from scheduler.kernel.engine.instructions import Bind, Evict
from scheduler.tools.offline.cluster import Profiles

ZONE = "topology.kubernetes.io/zone"
NODE_COUNT = 200


class History:
    """A cluster with random changes, and an engine that schedules its pods."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._draw = random.Random(seed)
        config = default_configuration("stowage")
        header = Header(
            recording="determinism",
            version="0",
            configuration=to_object(config),
            seed=seed,
            max_in_unschedulable_seconds=300.0,
            started=0.0,
            clock=0.0,
        )
        self._engine = Profiles(config).engine(seed)
        self._recorder = DirectoryRecorder(directory, header, lambda why, _: print(why))
        self._now = 0.0
        self._serial = 0
        self._placed: dict[str, Any] = {}
        self._owed: list[Event] = []
        """Pending responses to evictions, and watch events of victims."""
        self.events = 0
        self.evictions = 0

    def run(self, events: int) -> None:
        """Generate this many events."""
        for index in range(NODE_COUNT):
            self._set_node(index)
        while self.events < events:
            self._now += self._draw.random() * 0.05
            self._change()
            while self._engine.has_ready and self._draw.random() < 0.9:
                self._handle(Decide())
        self._recorder.close()

    def _change(self) -> None:
        while self._owed and self._draw.random() < 0.7:
            self._handle(self._owed.pop(self._draw.randrange(len(self._owed))))
        chance = self._draw.random()
        if chance < 0.6:
            self._add_pod()
        elif chance < 0.9 and self._placed:
            pod = self._placed.pop(self._draw.choice(list(self._placed)))
            self._handle(ObjectGone("pods", pod.namespace, pod.name, pod.uid))
        elif chance < 0.95:
            self._set_node(self._draw.randrange(NODE_COUNT))
        elif chance < 0.96:
            name = f"n{self._draw.randrange(NODE_COUNT)}"
            self._handle(ObjectGone("nodes", "", name, name))
        else:
            self._handle(Tick())

    def _handle(self, event: Event) -> None:
        self.events += 1
        answer = list(self._engine.handle(event, self._now))
        self._recorder.note(event, self._now, answer)
        for instruction in answer:
            if isinstance(instruction, Bind):
                self._bind(instruction)
            elif isinstance(instruction, Evict):
                self._evict(instruction)

    def _evict(self, evict: Evict) -> None:
        """Queue response and watch event in random order."""
        self.evictions += 1
        if self._draw.random() < 0.1:
            self._owed.append(EvictFailed(evict.uid, "no"))
            return
        self._placed.pop(evict.uid, None)
        gone = ObjectGone("pods", evict.namespace, evict.name, evict.uid)
        self._owed.extend((Evicted(evict.uid), gone))

    def _bind(self, bind: Bind) -> None:
        attempt = self._engine.attempts.get(bind.attempt)
        if attempt is None:
            return
        pod = attempt.pod
        if self._draw.random() < 0.05:
            self._handle(BindFailed(bind.attempt, "no", is_certain=True))
        else:
            self._handle(Bound(bind.attempt))
            self._handle(ObjectSet("pods", pod))
            self._placed[pod.uid] = pod

    def _set_node(self, index: int) -> None:
        taints = [{"key": "t", "effect": "NoSchedule"}] if self._draw.random() < 0.1 else []
        labels = {ZONE: f"z{index % 5}", "disk": f"d{self._draw.randrange(3)}"}
        node = {
            "metadata": {"name": f"n{index}", "uid": f"n{index}", "labels": labels},
            "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        }
        self._handle(ObjectSet("nodes", NODES.decode(msgspec.json.encode(node))))

    def _add_pod(self) -> None:
        self._serial += 1
        app = f"a{self._draw.randrange(30)}"
        chosen = {"labelSelector": {"matchLabels": {"app": app}}}
        spec: dict[str, Any] = {
            "schedulerName": "stowage",
            "priority": self._draw.randrange(3),
            "containers": [
                {"resources": {"requests": {"cpu": self._draw.choice(("100m", "1", "4"))}}}
            ],
        }
        kind = self._draw.randrange(4)
        if kind == 1:
            spec["nodeSelector"] = {"disk": "d1"}
        elif kind == 2:
            spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [spread | chosen]
        elif kind == 3:
            term = [{"topologyKey": ZONE} | chosen]
            which = self._draw.choice(("podAffinity", "podAntiAffinity"))
            spec["affinity"] = {which: {"requiredDuringSchedulingIgnoredDuringExecution": term}}
        meta = {
            "name": f"p{self._serial}",
            "namespace": "ns",
            "uid": f"u{self._serial}",
            "labels": {"app": app},
        }
        pod = PODS.decode(msgspec.json.encode({"metadata": meta, "spec": spec}))
        self._handle(ObjectSet("pods", pod))


def main() -> int:
    """Record a history, and replay it twice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        history = History(Path(directory), options.seed)
        history.run(options.events)
        files = [str(path) for path in Path(directory).iterdir()]
        events, evictions = history.events, history.evictions
        print(f"recorded {events} events of seed {options.seed}, {evictions} evictions")
        codes = [
            subprocess.run(
                [sys.executable, "-m", "scheduler", "replay", *files],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                check=False,
            ).returncode
            for hash_seed in ("1", "2")
        ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
