"""A control plane that keeps pod groups, with Stowage and job controllers of others beside it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.conftest import StartStowage, module_control_plane
from e2e.support.cluster import Cluster
from e2e.support.controlplane import Options
from e2e.support.go_programs import CHECKOUT
from e2e.support.job_controllers import JobController, Project
from e2e.support.pod_groups import API_SERVER_ARGUMENTS, SCHEDULER_GATES
from e2e.support.processes import Program

NAMESPACE = "ml"
EXAMPLES = CHECKOUT / "examples" / "groups"

StartController = Callable[[Project], Program]


@pytest.fixture
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """Of its own for each test, as definitions and webhooks are for the whole cluster."""
    options = Options(
        controller_manager=True,
        controllers=(
            "podgroup-protection-controller,job-controller,garbage-collector-controller,"
            "serviceaccount-controller,node-lifecycle-controller"
        ),
        api_server_arguments=API_SERVER_ARGUMENTS,
        controller_manager_arguments=("--feature-gates=GenericWorkload=true",),
    )
    with module_control_plane(options, tmp_path_factory, pytestconfig) as cluster:
        cluster.create_namespace(NAMESPACE)
        yield cluster


@pytest.fixture
def stowage(run_stowage: StartStowage) -> Program:
    """A daemon that schedules groups."""
    return run_stowage(arguments=SCHEDULER_GATES)


@pytest.fixture
def start_controller(cluster: Cluster, tmp_path: Path) -> Iterator[StartController]:
    """Starts the controllers of projects, in the order of the calls; they end with the test."""
    with ExitStack() as stack:
        yield lambda project: stack.enter_context(JobController(project, cluster, tmp_path))
