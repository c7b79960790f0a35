"""``python -m e2e.support``: the control plane by hand."""

import signal
import sys
import threading
from pathlib import Path

import click

from e2e.support.controlplane import ControlPlane, Options
from e2e.support.go_programs import CONTROL_PLANE, BuildError, build
from e2e.support.processes import ProgramError


@click.group()
def main() -> None:
    """Build and run a real Kubernetes control plane on this machine, without containers."""


@main.command("build")
def build_command() -> None:
    """Build the control plane into .cache/ if its sources changed, and print where it is."""
    print(build(CONTROL_PLANE))


@main.command()
@click.option("--controller-manager", is_flag=True, help="Run kube-controller-manager too.")
@click.option("--kube-scheduler", is_flag=True, help="Run kube-scheduler too.")
@click.option("--audit", default="Metadata", help="Audit level of every request, or None.")
@click.option("--directory", type=click.Path(path_type=Path), help="Folder for all files.")
def up(controller_manager: bool, kube_scheduler: bool, audit: str, directory: Path | None) -> None:
    """Start a control plane, print the path of an admin kubeconfig, and stay until Ctrl-C."""
    options = Options(
        controller_manager=controller_manager,
        audit_level=None if audit == "None" else audit,
        directory=directory,
    )
    asked_to_end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked_to_end.set())
    control_plane = ControlPlane(options)
    try:
        control_plane.start()
        if kube_scheduler:
            control_plane.start_kube_scheduler()
        kubectl = CONTROL_PLANE.binary.with_name("kubectl")
        print(control_plane.kubeconfig, flush=True)
        print(f"{kubectl} --kubeconfig {control_plane.kubeconfig} get nodes", file=sys.stderr)
        while not asked_to_end.wait(1):
            ended = [each for each in control_plane.programs if not each.is_running()]
            if ended:
                raise ProgramError(f"{ended[0].name} ended:\n{ended[0].tail()}")
    finally:
        control_plane.stop()


if __name__ == "__main__":
    try:
        main()
    except (BuildError, ProgramError) as error:
        sys.exit(f"error: {error}")
