"""Provides a control plane with pod groups, Stowage, and third-party job controllers."""

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
    """A new cluster for each test, since CRDs and webhooks are cluster-wide."""
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
    """A daemon with pod group scheduling enabled."""
    return run_stowage(arguments=SCHEDULER_GATES)


@pytest.fixture
def start_controller(cluster: Cluster, tmp_path: Path) -> Iterator[StartController]:
    """Start the controllers of projects in call order; they stop after the test."""
    with ExitStack() as stack:
        yield lambda project: stack.enter_context(JobController(project, cluster, tmp_path))
