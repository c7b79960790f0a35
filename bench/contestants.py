"""Who does the work: each is a program started against a control plane of the harness.

All of them are the same service account to the API server; see ``bench.access``.
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
from e2e.support.processes import Program, free_port
from e2e.support.stowage import start_stowage

KUBE_SCHEDULER: Final = "kube-scheduler"
"""As it is shipped: on large clusters it scores a part of the nodes that fit."""
KUBE_SCHEDULER_ALL: Final = "kube-scheduler-all"
"""With ``percentageOfNodesToScore: 100``."""
STOWAGE: Final = "stowage"
WALL: Final = "wall"
"""Binds without any scheduling: as fast as the API server lets anybody be."""
WALL_WITH_EVENTS: Final = "wall-events"
"""The same, and tells of each binding with an event as schedulers do: the wall for all of them."""
FOLLOWING_WALL: Final = "wall-follow"
"""Binds each pod the moment it appears, and tells nobody."""
FOLLOWING_WALL_WITH_EVENTS: Final = "wall-follow-events"
"""The same, and writes an event after each binding."""
FOLLOWING_WALLS: Final = (FOLLOWING_WALL, FOLLOWING_WALL_WITH_EVENTS)
WALLS: Final = frozenset((WALL, WALL_WITH_EVENTS, *FOLLOWING_WALLS))
"""Those that schedule nothing."""
SILENT: Final = frozenset((WALL, FOLLOWING_WALL))
"""Those that write no events."""

IN_FLIGHT: Final = 32
"""Requests of a wall at a time, unless others are found to serve it better."""

_PROFILE: Mapping[str, Any] = {"schedulerName": SCHEDULER_NAME}

Start = Callable[[ControlPlane, Path, Sequence[str]], Program]
"""Starts a program with a kubeconfig and arguments that a workload needs of a scheduler.

It is ready when this returns, unless it is a wall, which ignores the arguments.
"""


class Contestant(NamedTuple):
    """One that does the work."""

    name: str
    start: Start


def kube_scheduler(
    control_plane: ControlPlane, kubeconfig: Path, arguments: Sequence[str]
) -> Program:
    """Starts it as shipped, but for its limit of requests per second."""
    configuration = {"profiles": [_PROFILE]}
    return control_plane.start_kube_scheduler(configuration, arguments, kubeconfig=kubeconfig)


def kube_scheduler_all(
    control_plane: ControlPlane, kubeconfig: Path, arguments: Sequence[str]
) -> Program:
    """Starts it so that it scores every node."""
    configuration = {"profiles": [_PROFILE], "percentageOfNodesToScore": 100}
    return control_plane.start_kube_scheduler(configuration, arguments, kubeconfig=kubeconfig)


def stowage(
    command: Sequence[str] = (sys.executable, "-m", "scheduler", "run"),
    checkout: Path = CHECKOUT,
    distance_ms: float = 0,
) -> Start:
    """Gives what starts the daemon of one checkout, so far away from the API server."""

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
    """Starts what delays everything, and gives the address of the API server behind it."""
    port = free_port()
    flags = f"--port={port}", f"--milliseconds={milliseconds:g}"
    program = start_module(control_plane, "bench.distance", kubeconfig, *flags)
    address = f"https://127.0.0.1:{port}"
    program.wait_ready(lambda: status_of(f"{address}/readyz", unverified()) > 0)
    return address


def wall(name: str, *arguments: str) -> Start:
    """Gives what starts one of the walls."""

    def start(control_plane: ControlPlane, kubeconfig: Path, _needed: Sequence[str]) -> Program:
        return start_module(control_plane, "bench.wall", kubeconfig, *arguments, name=name)

    return start


def start_module(
    control_plane: ControlPlane, module: str, kubeconfig: Path, *arguments: str, name: str = ""
) -> Program:
    """Starts a module of the harness beside a control plane, with which it ends."""
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
    """Gives all of them by name.

    Args:
        in_flight: how many requests a wall sends at a time.
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
