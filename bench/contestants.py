"""The contestants: programs that schedule the pods of a control plane.

All use the same service account; see ``bench.access``.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.objects import SCHEDULER_NAME
from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import CHECKOUT
from e2e.support.probing import status_of, unverified
from e2e.support.processes import Program
from e2e.support.stowage import start_stowage
from tests.support.ports import free_port

KUBE_SCHEDULER: Final = "kube-scheduler"
"""With its defaults: on large clusters it scores only some of the feasible nodes."""
KUBE_SCHEDULER_ALL: Final = "kube-scheduler-all"
"""With ``percentageOfNodesToScore: 100``."""
STOWAGE: Final = "stowage"
WALL: Final = "wall"
"""Binds without scheduling, as fast as the API server allows."""
WALL_WITH_EVENTS: Final = "wall-events"
"""Also writes an event per binding, as schedulers do; the upper bound for all contestants."""
FOLLOWING_WALL: Final = "wall-follow"
"""Binds each pod as soon as it appears, without events."""
FOLLOWING_WALL_WITH_EVENTS: Final = "wall-follow-events"
"""Also writes an event after each binding."""
FOLLOWING_WALLS: Final = (FOLLOWING_WALL, FOLLOWING_WALL_WITH_EVENTS)
WALLS: Final = frozenset((WALL, WALL_WITH_EVENTS, *FOLLOWING_WALLS))
"""Contestants that do not schedule."""
SILENT: Final = frozenset((WALL, FOLLOWING_WALL))
"""Contestants that write no events."""

IN_FLIGHT: Final = 32
"""Concurrent requests of a wall, unless another number proves faster."""

_PROFILE: Mapping[str, Any] = {"schedulerName": SCHEDULER_NAME}

Start = Callable[[ControlPlane, Path, Sequence[str]], Program]
"""Starts a program with a kubeconfig and the flags that a workload requires of a scheduler.

Returns when the program is ready; a wall ignores the flags and is not waited for.
"""


class Contestant(NamedTuple):
    """A program that schedules the measured pods."""

    name: str
    start: Start


def kube_scheduler(
    control_plane: ControlPlane, kubeconfig: Path, arguments: Sequence[str]
) -> Program:
    """Start kube-scheduler with its defaults, except for its client QPS."""
    configuration = {"profiles": [_PROFILE]}
    return control_plane.start_kube_scheduler(configuration, arguments, kubeconfig=kubeconfig)


def kube_scheduler_all(
    control_plane: ControlPlane, kubeconfig: Path, arguments: Sequence[str]
) -> Program:
    """Start kube-scheduler with ``percentageOfNodesToScore: 100``."""
    configuration = {"profiles": [_PROFILE], "percentageOfNodesToScore": 100}
    return control_plane.start_kube_scheduler(configuration, arguments, kubeconfig=kubeconfig)


def stowage(
    command: Sequence[str] = (sys.executable, "-m", "scheduler", "run"),
    checkout: Path = CHECKOUT,
    distance_ms: float = 0,
) -> Start:
    """Return a function that starts a checkout's daemon with latency to the API server."""

    def start(control_plane: ControlPlane, kubeconfig: Path, needed: Sequence[str]) -> Program:
        open_paths = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"
        arguments = [open_paths, *needed]
        if distance_ms:
            arguments.append(f"--master={_far_away(control_plane, kubeconfig, distance_ms)}")
        program = start_stowage(
            kubeconfig,
            control_plane.directory,
            configuration={"profiles": [_PROFILE]},
            arguments=arguments,
            command=command,
            checkout=checkout,
        )
        control_plane.programs.append(program)
        return program

    return start


def _far_away(control_plane: ControlPlane, kubeconfig: Path, milliseconds: float) -> str:
    """Start a TCP relay with latency, and return the API server's address behind it."""
    port = free_port()
    flags = f"--port={port}", f"--milliseconds={milliseconds:g}"
    program = start_module(control_plane, "bench.distance", kubeconfig, *flags)
    address = f"https://127.0.0.1:{port}"
    program.wait_ready(lambda: status_of(f"{address}/readyz", unverified()) > 0)
    return address


def wall(name: str, *arguments: str) -> Start:
    """Return a function that starts a wall."""

    def start(control_plane: ControlPlane, kubeconfig: Path, _needed: Sequence[str]) -> Program:
        return start_module(control_plane, "bench.wall", kubeconfig, *arguments, name=name)

    return start


def start_module(
    control_plane: ControlPlane, module: str, kubeconfig: Path, *arguments: str, name: str = ""
) -> Program:
    """Start a module of this package beside a control plane, and stop it with it."""
    path = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    program = Program(
        name or module,
        [sys.executable, "-m", module, f"--kubeconfig={kubeconfig}", *arguments],
        control_plane.directory / f"{name or module}.log",
        {"PYTHONPATH": path},
    )
    control_plane.programs.append(program)
    return program


def contestants(in_flight: int = IN_FLIGHT) -> dict[str, Contestant]:
    """Return all contestants by name.

    Args:
        in_flight: concurrent requests of a wall.
    """
    flag = f"--in-flight={in_flight}"
    starts: dict[str, Start] = {
        KUBE_SCHEDULER: kube_scheduler,
        KUBE_SCHEDULER_ALL: kube_scheduler_all,
        STOWAGE: stowage(),
        WALL: wall(WALL, flag),
        WALL_WITH_EVENTS: wall(WALL_WITH_EVENTS, "--events", flag),
        FOLLOWING_WALL: wall(FOLLOWING_WALL, "--follow", flag),
        FOLLOWING_WALL_WITH_EVENTS: wall(FOLLOWING_WALL_WITH_EVENTS, "--follow", "--events", flag),
    }
    return {name: Contestant(name, start) for name, start in starts.items()}
