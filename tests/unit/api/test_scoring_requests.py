"""What a pod counts for when nodes are scored by the room left."""

import pytest

from scheduler.api.objects import Container, Pod, PodCondition, ResourceRequirements
from scheduler.api.resources import scoring_requests
from tests.support.builders import make_pod

MIB = 1024 * 1024
GPU = "example.com/gpu"


def container(
    name: str = "c", restart_policy: str | None = None, **requests: str | int
) -> Container:
    return Container(
        name=name,
        resources=ResourceRequirements(requests=dict(requests)),
        restart_policy=restart_policy,
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            make_pod(), {"cpu": 100, "memory": 200 * MIB}, id="defaults where nothing is requested"
        ),
        pytest.param(
            make_pod(requests={"cpu": 0, GPU: 2}),
            {"cpu": 0, "memory": 200 * MIB, GPU: 2},
            id="an explicit 0 stays",
        ),
        pytest.param(
            make_pod(containers=[container("a", cpu=1), container("b", memory=5)]),
            {"cpu": 1100, "memory": 200 * MIB + 5},
            id="defaults per container",
        ),
        pytest.param(
            make_pod(requests={"cpu": "50m", "memory": 1}, init_containers=[container()]),
            {"cpu": 100, "memory": 200 * MIB},
            id="an init container has defaults too",
        ),
        pytest.param(
            make_pod(
                requests={"cpu": "50m", "memory": 1}, init_containers=[container("s", "Always")]
            ),
            {"cpu": 150, "memory": 200 * MIB + 1},
            id="a sidecar is added",
        ),
        pytest.param(
            make_pod(requests={"cpu": 1, "memory": 1}, overhead={"cpu": "250m", GPU: 1}),
            {"cpu": 1250, "memory": 1, GPU: 1},
            id="overhead is added",
        ),
        pytest.param(
            make_pod(
                requests={"cpu": 1},
                resources=ResourceRequirements(requests={"cpu": 9, "memory": 9}),
            ),
            {"cpu": 1000, "memory": 200 * MIB},
            id="pod-level requests are not looked at",
        ),
        pytest.param(
            make_pod(
                requests={"cpu": 1, "memory": 1},
                conditions=[PodCondition("PodResizePending", "True", "Infeasible")],
            ),
            {"cpu": 1000, "memory": 1},
            id="nor the state of a resize",
        ),
    ],
)
def test_scoring_requests(pod: Pod, expected: dict[str, int]) -> None:
    """Containers with their defaults, and overhead."""
    assert scoring_requests(pod) == expected
