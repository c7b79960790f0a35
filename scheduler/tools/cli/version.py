"""`stowage version`: the version of Stowage, and its environment."""

import platform

import msgspec

from scheduler.observability.build_info import KUBERNETES_VERSION, git_commit, stowage_version
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.options import command, output_option


class Version(msgspec.Struct, frozen=True, rename="camel"):
    """The versions that a bug report should name.

    Attributes:
        stowage: the version of the installed package.
        git_commit: the commit or tag of the build; empty if unknown.
        kubernetes: the version of kube-scheduler that makes the same decisions.
        python: the version of the interpreter.
        platform: operating system and processor.
    """

    stowage: str
    git_commit: str
    kubernetes: str
    python: str
    platform: str


def this_version() -> Version:
    """Return the version of the running program."""
    return Version(
        stowage_version(),
        git_commit(),
        f"v{KUBERNETES_VERSION}",
        platform.python_version(),
        f"{platform.system().lower()}/{platform.machine()}",
    )


@command()
@output_option("How to print it.")
def version(output: str) -> None:
    """Print the version, its commit, the kube-scheduler it equals, Python and platform.

    Nothing is asked of any cluster.
    """
    found = this_version()
    if output == "json":
        echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    echo(f"Stowage     {found.stowage}")
    echo(f"Commit      {found.git_commit or 'unknown'}")
    echo(f"Kubernetes  {found.kubernetes} (decides as its kube-scheduler)")
    echo(f"Python      {found.python}")
    echo(f"Platform    {found.platform}")
