"""``python -m e2e.nodes``: runs the tests on real nodes, in Linux namespaces on this machine.

Programs and images are built first, since that needs the network. Then pytest runs inside the
namespaces with the control plane and the nodes. If pytest is killed, the kernel ends all of them.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from e2e.nodes import machine
from e2e.nodes.images import build_all
from e2e.nodes.lab import VARIABLE
from e2e.nodes.namespaces import CommandError, Namespaces
from e2e.support.go_programs import CHECKOUT, CONTROL_PLANE, NODE, BuildError, build

_TESTS = Path(__file__).parent.relative_to(CHECKOUT)
_ANY = {"ignore_unknown_options": True}


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Run Stowage as pods on real nodes; without a command, the tests."""
    if context.invoked_subcommand is None:
        context.invoke(test)


@main.command(context_settings=_ANY)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def test(arguments: Sequence[str]) -> None:
    """Run the tests; ARGUMENTS are pytest's."""
    paths = [] if any(not each.startswith("-") for each in arguments) else [str(_TESTS)]
    _inside([sys.executable, "-m", "pytest", "--harness=nodes", *paths, *arguments])


@main.command(name="build")
def build_() -> None:
    """Build the programs and images that are missing."""
    _prepare()


@main.command()
def shell() -> None:
    """Start a cluster with two nodes and a shell that reaches it with kubectl."""
    _inside([sys.executable, "-m", "e2e.nodes.shell"])


@main.command()
@click.option(
    "--tries", default=10, show_default=True, help="Number of times to inject each fault."
)
@click.option("--only", multiple=True, help="Faults whose name contains this; may be repeated.")
def faults(tries: int, only: tuple[str, ...]) -> None:
    """Inject faults into the leader and its node, and print how long pods waited."""
    _inside([sys.executable, "-m", "e2e.nodes.faults", str(tries), *only])


def _prepare() -> list[Path]:
    try:
        machine.prepare()
        build(CONTROL_PLANE)
        build(NODE)
        return build_all()
    except (machine.UnsupportedMachineError, BuildError, CommandError) as error:
        sys.exit(f"error: {error}")


def _inside(command: Sequence[str]) -> None:
    """Run a command inside the namespaces and exit with its status."""
    # SIGTERM must run the cleanup too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    archives = _prepare()
    machine.remove_leftovers()
    try:
        with machine.check_for_leftovers():
            status = _in_namespaces(archives, command)
    except machine.LeftoversError as error:
        sys.exit(f"error: {error}")
    sys.exit(status)


def _in_namespaces(archives: Sequence[Path], command: Sequence[str]) -> int:
    """Run a command with tmpfs disks and the image archives; return its status."""
    with tempfile.TemporaryDirectory(prefix=machine.prefix()) as made:
        world = Path(made)
        (world / "images").mkdir()
        for archive in archives:
            # Hard links survive when another checkout cleans the cache.
            _link(archive, world / "images" / archive.name)
        try:
            with Namespaces("lab", world) as namespaces:
                # tmpfs is fast and disappears with the namespaces.
                (world / "disk").mkdir()
                namespaces.run("mount", "-t", "tmpfs", "none", str(world / "disk"))
                # nsenter changes the working directory to the root.
                words = namespaces.command("env", f"--chdir={CHECKOUT}", *command)
                variables = {**os.environ, VARIABLE: made}
                return subprocess.run(words, check=False, env=variables).returncode
        finally:
            machine.CgroupTree(world.name).remove()


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


if __name__ == "__main__":
    main()
