"""Which cluster the tests run against, the daemon under test, and what a failure shows.

The cluster is that of the harness named by `--harness`: `kubeconfig` (the cluster of KUBECONFIG),
`kind` (docker and kind), `own` (a control plane built from Go modules), `nodes` (that one and real
nodes, `python -m e2e.nodes`), or `ecosystem` (that one and job controllers of others). Without a
name it is the first of the first three that is there.
With a named one every test is wanted: one that is skipped has failed.
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

ASKED_ELSEWHERE = pytest.StashKey[list[AuditEvent]]()
"""In the session's configuration: what daemons asked of clusters that are gone by the end."""

HARNESSES = ("kubeconfig", "kind", "own", "nodes", "ecosystem")

_APART = {name: Path(__file__).parent / name for name in ("nodes", "ecosystem")}
"""Tests with a harness of their own: real nodes, and controllers that take minutes to build."""

_IN_A_BROWSER = "test_console.py"

REPORTERS = pytest.StashKey[list[Callable[[], str]]]()
"""What a failed test's report shows besides."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Lets CI say what it runs against."""
    parser.addoption("--harness", choices=HARNESSES, help="where tests run; none may be skipped")


def pytest_report_header(config: pytest.Config) -> str:
    """Says where tests run."""
    named = config.getoption("--harness")
    return f"harness: {_harness(config)} ({'as told' if named else 'the first that is there'})"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keeps tests with a harness of their own and all others apart.

    `BROWSER=none` says that this machine can have no Chromium; what needs it is left out.
    """
    if collection_path.name == _IN_A_BROWSER and os.environ.get("BROWSER") == "none":
        return True
    if config.getoption("--harness") is None or collection_path.is_dir():
        return None
    return True if _home(collection_path) != _asked(config) else None


def _home(path: Path) -> str:
    """The harness of its own that a file needs, or nothing."""
    return next((name for name, each in _APART.items() if path.is_relative_to(each)), "")


def _asked(config: pytest.Config) -> str:
    named = str(config.getoption("--harness"))
    return named if named in _APART else ""


def _harness(config: pytest.Config) -> str:
    named = config.getoption("--harness")
    if named:
        return str(named)
    if os.environ.get("KUBECONFIG"):
        return "kubeconfig"
    return "kind" if kind.is_available() else "own"


@pytest.fixture(scope="session")
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """One cluster for the whole run; tests ask for ``cluster``."""
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
def control_plane_of_file(
    options: Options, tmp_path_factory: pytest.TempPathFactory, config: pytest.Config
) -> Iterator[Cluster]:
    """A control plane for one file; what was asked of it counts for the rights that are used."""
    directory = tmp_path_factory.mktemp("own")
    with (
        ControlPlane(options) as own,
        Cluster("own control plane", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        yield cluster
        config.stash.setdefault(ASKED_ELSEWHERE, []).extend(cluster.audit_events())


@pytest.fixture(scope="module")
def cluster_with_controllers(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Cluster]:
    """A control plane for one file, with the controllers that the file names as CONTROLLERS."""
    options = Options(controller_manager=True, controllers=",".join(request.module.CONTROLLERS))
    with control_plane_of_file(options, tmp_path_factory, pytestconfig) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster without nodes and pods of other tests."""
    request.node.stash.setdefault(REPORTERS, []).append(shared_cluster.report)
    yield shared_cluster
    shared_cluster.reset()


@pytest.fixture
def devices(cluster: Cluster) -> Iterator[Devices]:
    """Slices and a class that go with the test."""
    made = Devices(cluster)
    yield made
    made.remove()


@pytest.fixture
def own_cluster(cluster: Cluster) -> ControlPlane:
    """The control plane behind ``cluster``, for tests of what only we can start or read there."""
    if cluster.control_plane is None:
        pytest.skip(f"{cluster.description} is not run by the harness")
    return cluster.control_plane


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A namespace of this test's own."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(name)
    return name


@pytest.fixture
def run_stowage(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[StartStowage]:
    """Starts instances of the daemon that end with the test; takes what ``start_stowage`` does.

    They have the rights the manifests grant, unless a kubeconfig says otherwise.
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
    """The daemon, running with its defaults against ``cluster``."""
    return run_stowage()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the test of what the whole run asked for at its end."""
    items.sort(key=lambda item: item.path.name == "test_rights.py")
    for item in items:
        home = _home(item.path)
        if home and not item.config.getoption("--harness"):
            item.add_marker(pytest.mark.skip(reason=f"asked for: make e2e HARNESS={home}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds what the cluster and the programs say to the report of a failed test."""
    report = yield
    if report.skipped and item.config.getoption("--harness"):
        report.outcome = "failed"
    if report.failed:
        for reporter in item.stash.get(REPORTERS, []):
            try:
                report.sections.append(("cluster", reporter()))
            except Exception as error:  # noqa: BLE001 -- the test's own failure matters more
                report.sections.append(("cluster", f"could not be asked: {error!r}"))
    return report


@pytest.fixture
def storage(cluster: Cluster) -> Iterator[Storage]:
    """Storage objects that go with the test."""
    made = Storage(cluster)
    yield made
    made.remove()


@pytest.fixture
def priority_classes(cluster: Cluster) -> Iterator[None]:
    """The priorities pods name; they belong to no namespace and must be removed again."""
    with cluster.priority_classes(PRIORITIES):
        yield
