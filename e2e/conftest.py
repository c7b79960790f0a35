"""Provides the cluster, the daemon under test, and the diagnostics of failed tests.

``--harness`` selects the cluster: ``kubeconfig`` (the cluster of KUBECONFIG), ``kind`` (docker and
kind), ``own`` (a control plane built from Go modules), ``nodes`` (``own`` with real nodes, run by
`python -m e2e.nodes`), or ``ecosystem`` (``own`` with third-party job controllers). The default is
the first available of ``kubeconfig``, ``kind`` and ``own``. If ``--harness`` is given, a skipped
test counts as failed.
"""

import os
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.support import kind
from e2e.support.audit import AuditEvent
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.devices import Devices
from e2e.support.processes import Program
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.storage import Storage
from e2e.support.stowage import start_stowage
from e2e.support.varied_pods import PRIORITIES

StartStowage = Callable[..., Program]

EARLIER_AUDIT_EVENTS = pytest.StashKey[list[AuditEvent]]()
"""Stash key of the session's config: audit events of clusters that were stopped before the end."""

HARNESSES = ("kubeconfig", "kind", "own", "nodes", "ecosystem")

_HARNESS_FOLDERS = {name: Path(__file__).parent / name for name in ("nodes", "ecosystem")}
"""Test folders that require their own harness."""

_BROWSER_TESTS = "test_console.py"

REPORTERS = pytest.StashKey[list[Callable[[], str]]]()
"""Stash key of a test item: functions whose text is added to the report of a failure."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--harness``."""
    parser.addoption(
        "--harness", choices=HARNESSES, help="cluster to test against; skipped tests fail"
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Print the selected harness."""
    named = config.getoption("--harness")
    return f"harness: {_harness(config)} ({'--harness' if named else 'first available'})"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect only the tests of the selected harness.

    `BROWSER=none` excludes the tests that need Chromium.
    """
    if collection_path.name in left_out():
        return True
    if config.getoption("--harness") is None or collection_path.is_dir():
        return None
    return True if _required_harness(collection_path) != _selected_folder_harness(config) else None


def left_out() -> frozenset[str]:
    """Return the names of the files that are not collected on this machine."""
    return frozenset({_BROWSER_TESTS} if os.environ.get("BROWSER") == "none" else ())


def _required_harness(path: Path) -> str:
    """Return the harness that a file requires; empty if any cluster will do."""
    return next((name for name, each in _HARNESS_FOLDERS.items() if path.is_relative_to(each)), "")


def _selected_folder_harness(config: pytest.Config) -> str:
    named = str(config.getoption("--harness"))
    return named if named in _HARNESS_FOLDERS else ""


def _harness(config: pytest.Config) -> str:
    named = config.getoption("--harness")
    if named:
        return str(named)
    if os.environ.get("KUBECONFIG"):
        return "kubeconfig"
    return "kind" if kind.is_available() else "own"


@pytest.fixture(scope="session", autouse=True)
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep kubectl's and helm's caches in a folder of this test run.

    They cache what an API server offers by its address, and another run may use that address too.
    """
    folder = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("KUBECACHEDIR", "HELM_CACHE_HOME"):
            patch.setenv(variable, str(folder / variable))
        yield


@pytest.fixture(scope="session")
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """The cluster of the session; tests use ``cluster``."""
    directory, harness = tmp_path_factory.mktemp("cluster"), _harness(pytestconfig)
    with ExitStack() as stack:
        if harness == "kubeconfig":
            given = Path(os.environ["KUBECONFIG"])
            cluster = Cluster(f"KUBECONFIG {given}", given, directory)
        elif harness == "kind":
            kubeconfig = stack.enter_context(kind.kind_cluster(directory))
            cluster = Cluster("kind", kubeconfig, directory, image=kind.IMAGE)
        else:
            own = stack.enter_context(ControlPlane())
            cluster = Cluster("own control plane", own.kubeconfig, directory, control_plane=own)
        yield stack.enter_context(cluster)


@contextmanager
def module_control_plane(
    options: Options, tmp_path_factory: pytest.TempPathFactory, config: pytest.Config
) -> Iterator[Cluster]:
    """A control plane for one test module; its audit events count in test_rights.py."""
    directory = tmp_path_factory.mktemp("own")
    with (
        ControlPlane(options) as own,
        Cluster("own control plane", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        yield cluster
        config.stash.setdefault(EARLIER_AUDIT_EVENTS, []).extend(cluster.audit_events())


@pytest.fixture(scope="module")
def cluster_with_controllers(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Cluster]:
    """A control plane for one test module with the controllers in the module's CONTROLLERS."""
    options = Options(controller_manager=True, controllers=",".join(request.module.CONTROLLERS))
    with module_control_plane(options, tmp_path_factory, pytestconfig) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The session's cluster, without nodes and pods of earlier tests."""
    request.node.stash.setdefault(REPORTERS, []).append(shared_cluster.report)
    yield shared_cluster
    shared_cluster.reset()


@pytest.fixture
def devices(cluster: Cluster) -> Iterator[Devices]:
    """Create ResourceSlices and a DeviceClass; delete them after the test."""
    made = Devices(cluster)
    yield made
    made.remove()


@pytest.fixture
def own_cluster(cluster: Cluster) -> ControlPlane:
    """The control plane of ``cluster``, for tests that restart programs or read their files."""
    if cluster.control_plane is None:
        pytest.skip(f"the harness does not run {cluster.description}")
    return cluster.control_plane


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A new namespace for the test."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(name)
    return name


@pytest.fixture
def run_stowage(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[StartStowage]:
    """Start instances of the daemon and stop them after the test; arguments as ``start_stowage``.

    The default kubeconfig has the RBAC rules of the manifests.
    """
    started: list[Program] = []

    def start(kubeconfig: Path | None = None, **options: Any) -> Program:
        kubeconfig = kubeconfig or scheduler_kubeconfig(cluster)
        name = options.pop("name", f"stowage-{len(started)}")
        program = start_stowage(kubeconfig, tmp_path, name=name, **options)
        started.append(program)
        request.node.stash[REPORTERS].append(lambda: f"--- {name}\n{program.tail(60)}")
        return program

    yield start
    for program in started:
        program.stop()


@pytest.fixture
def stowage(run_stowage: StartStowage) -> Program:
    """A running daemon with default options on ``cluster``."""
    return run_stowage()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run test_rights.py last, since it checks the requests of all tests."""
    items.sort(key=lambda item: item.path.name == "test_rights.py")
    for item in items:
        harness = _required_harness(item.path)
        if harness and not item.config.getoption("--harness"):
            item.add_marker(pytest.mark.skip(reason=f"run `make e2e HARNESS={harness}`"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the reports of cluster and programs to the report of a failed test."""
    report = yield
    if report.skipped and item.config.getoption("--harness"):
        report.outcome = "failed"
    if report.failed:
        for reporter in item.stash.get(REPORTERS, []):
            try:
                report.sections.append(("cluster", reporter()))
            except Exception as error:  # noqa: BLE001 -- a broken report must not hide the test's failure
                report.sections.append(("cluster", f"report failed: {error!r}"))
    return report


@pytest.fixture
def storage(cluster: Cluster) -> Iterator[Storage]:
    """Create storage objects; delete them after the test."""
    made = Storage(cluster)
    yield made
    made.remove()


@pytest.fixture
def priority_classes(cluster: Cluster) -> Iterator[None]:
    """Create the priority classes of ``varied_pods``; delete them after the test."""
    with cluster.priority_classes(PRIORITIES):
        yield
