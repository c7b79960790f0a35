"""The version of Stowage, and the version of Kubernetes whose behaviour it has."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from scheduler.observability.instruments import Instruments

KUBERNETES_VERSION: Final = "1.36.3"
"""The version of kube-scheduler whose decisions Stowage makes."""


def stowage_version() -> str:
    """Return the version of the installed package, or `0.0.0` if none is installed."""
    try:
        return version("stowage-scheduler")
    except PackageNotFoundError:
        return "0.0.0"


def image_tag() -> str:
    """Return the version as an image tag; `make image-push` pushes with the same tag.

    Source: github.com/distribution/reference regexp.go (TagRegexp), which has no plus sign.
    """
    return stowage_version().replace("+", "-")


def git_commit() -> str:
    """Return the commit or the release tag from which the installed package was built.

    Empty if the build had none. Source: setuptools-scm, `1.2.1.dev5+g0123abc.d20260131`.
    """
    installed = stowage_version()
    release, _, local = installed.partition("+")
    if local:
        return local.partition(".")[0].removeprefix("g")
    return "" if release == "0.0.0" else f"v{release}"


def declare_build_info(instruments: Instruments) -> None:
    """Declare both versions as metrics.

    `kubernetes_build_info` has the version of Kubernetes, not of Stowage: alerts compare it between
    the components of a cluster to find differences in behaviour.
    """
    major, minor, _ = KUBERNETES_VERSION.split(".")
    build_info = instruments.gauge(
        "kubernetes_build_info",
        "Always 1; its labels say which Kubernetes this behaves like and what it runs on.",
        "major",
        "minor",
        "git_version",
        "git_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    )
    system = f"{platform.system().lower()}/{platform.machine()}"
    build_info[
        major, minor, f"v{KUBERNETES_VERSION}", "", "", "", "", sys.implementation.name, system
    ].set(1)
    own = instruments.gauge(
        "stowage_build_info",
        "Always 1; its labels say which Stowage and which Python this is.",
        "version",
        "python_version",
    )
    own[stowage_version(), platform.python_version()].set(1)


def declare_process_metrics(registry: CollectorRegistry) -> None:
    """Serve memory, CPU, file descriptors and garbage collections of this process."""
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
