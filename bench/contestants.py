"""Who does the work: each is a program started against a control plane of the harness.

All of them are the same user to the API server, so that its fairness queues treat them alike.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bench.objects import SCHEDULER_NAME
from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import CHECKOUT
from e2e.support.processes import Program
from e2e.support.stowage import start_stowage

KUBE_SCHEDULER: Final = "kube-scheduler"
"""As it is shipped: on large clusters it scores a part of the nodes that fit."""
KUBE_SCHEDULER_ALL: Final = "kube-scheduler-all"
"""With ``percentageOfNodesToScore: 100``."""
STOWAGE: Final = "stowage"
WALL: Final = "wall"
"""Binds without any scheduling: as fast as the API server lets anybody be."""
WALL_WITH_EVENTS: Final = "wall-events"
"""The same, and tells of each binding with an event as schedulers do."""
FOLLOWING_WALL: Final = "wall-follow"
"""Binds each pod the moment it appears, and tells nobody."""
WALLS: Final = frozenset((WALL, WALL_WITH_EVENTS, FOLLOWING_WALL))
"""Those that schedule nothing."""

_USER = "system:kube-scheduler"
_PROFILE: Mapping[str, Any] = {"schedulerName": SCHEDULER_NAME}

Start = Callable[[ControlPlane], Program]


def _kube_scheduler(control_plane: ControlPlane) -> Program:
    return control_plane.start_kube_scheduler({"profiles": [_PROFILE]})


def _kube_scheduler_all(control_plane: ControlPlane) -> Program:
    return control_plane.start_kube_scheduler(
        {"profiles": [_PROFILE], "percentageOfNodesToScore": 100}
    )


def _stowage(control_plane: ControlPlane) -> Program:
    kubeconfig = control_plane.kubeconfig_for(_USER)
    program = start_stowage(
        kubeconfig,
        control_plane.directory,
        configuration={
            # With a configuration the flag is ignored, as kube-scheduler ignores its own.
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "profiles": [_PROFILE],
        },
        arguments=["--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"],
    )
    control_plane.programs.append(program)
    return program


def _wall(control_plane: ControlPlane) -> Program:
    return _start_wall(control_plane, WALL)


def _wall_with_events(control_plane: ControlPlane) -> Program:
    return _start_wall(control_plane, WALL_WITH_EVENTS, "--events")


def _following_wall(control_plane: ControlPlane) -> Program:
    return _start_wall(control_plane, FOLLOWING_WALL, "--follow")


def _start_wall(control_plane: ControlPlane, name: str, *arguments: str) -> Program:
    kubeconfig: Path = control_plane.kubeconfig_for(_USER)
    path = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    program = Program(
        name,
        [sys.executable, "-m", "bench.wall", f"--kubeconfig={kubeconfig}", *arguments],
        control_plane.directory / f"{name}.log",
        {"PYTHONPATH": path},
    )
    control_plane.programs.append(program)
    return program


CONTESTANTS: Final[Mapping[str, Start]] = {
    KUBE_SCHEDULER: _kube_scheduler,
    KUBE_SCHEDULER_ALL: _kube_scheduler_all,
    STOWAGE: _stowage,
    WALL: _wall,
    WALL_WITH_EVENTS: _wall_with_events,
    FOLLOWING_WALL: _following_wall,
}
"""How to start each; every program is ready when its function returns, except the walls."""
