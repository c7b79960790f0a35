"""/metrics/resources: what every pod requests and may use, in the words of kube-scheduler."""

import pytest
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from scheduler.api.objects import Container, ResourceRequirements
from scheduler.api.pods import PodInfo
from scheduler.daemon.serving.pod_resources import LIMIT, REQUEST, pod_resource_slices
from tests.support.builders import make_pod_info
from tests.unit.serving.harness import serving

BIG = {"cpu": "1500m", "memory": "1Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"}


def samples(pods: dict[str, PodInfo], name: str = REQUEST) -> list[tuple[dict[str, str], float]]:
    """The labels and the value of every series of a family."""
    text = b"".join(pod_resource_slices(pods)).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {name: family.type for name, family in families.items()} == {
        LIMIT: "gauge",
        REQUEST: "gauge",
    }
    return [(sample.labels, sample.value) for sample in families[name].samples]


def limited(name: str = "main", restart: str | None = None, **limits: str) -> Container:
    resources = ResourceRequirements(requests={"cpu": "1m"}, limits=dict(limits))
    return Container(name=name, resources=resources, restart_policy=restart)


def test_each_resource_of_each_pod_is_a_series() -> None:
    """With node, scheduler and priority as they are written, and the unit of the resource."""
    running = make_pod_info("run", node_name="n", requests=BIG, priority=7)
    waiting = make_pod_info("wait", requests={"ephemeral-storage": "10"})
    best_effort = make_pod_info("none")

    found = samples({each.key: each for each in (running, waiting, best_effort)})

    told = {
        "namespace": "default", "pod": "run", "node": "n",
        "scheduler": running.spec.scheduler_name, "priority": "7",
    }  # fmt: skip
    assert found == [
        ({**told, "resource": "cpu", "unit": "cores"}, 1.5),
        ({**told, "resource": "memory", "unit": "bytes"}, 2.0**30),
        ({**told, "resource": "hugepages-2Mi", "unit": "bytes"}, 2.0**22),
        ({**told, "resource": "example.com/gpu", "unit": ""}, 2.0),
        (
            {
                **told, "pod": "wait", "node": "", "priority": "",
                "resource": "ephemeral-storage", "unit": "bytes",
            },
            10.0,
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"requests": {"cpu": "1"}}, {}, id="no limits"),
        pytest.param(
            {"containers": (limited(cpu="250m", memory="1Ki"), limited("b", cpu="1"))},
            {"cpu": 1.25, "memory": 1024.0},
            id="containers add up",
        ),
        pytest.param(
            {
                "containers": (limited(cpu="1"),),
                "init_containers": (
                    limited("i", cpu="3"),
                    limited("s", restart="Always", cpu="1", memory="10"),
                    limited("j", cpu="1500m"),
                ),
            },
            {"cpu": 3.0, "memory": 10.0},
            id="the largest step of initialisation, sidecars before it included",
        ),
        pytest.param(
            {
                "containers": (limited(cpu="1", memory="10"),),
                "resources": ResourceRequirements(limits={"cpu": "4", "example.com/gpu": "1"}),
            },
            {"cpu": 4.0, "memory": 10.0},
            id="limits of the pod replace those of its containers",
        ),
        pytest.param(
            {"containers": (limited(cpu="1", memory="0"),), "overhead": {"cpu": 1, "memory": 5}},
            {"cpu": 2.0},
            id="the overhead counts beside a limit",
        ),
        pytest.param({"containers": (limited(cpu="many"),)}, {}, id="unreadable limits"),
    ],
)
def test_limits_are_summed_as_kube_scheduler_sums_them(
    fields: dict[str, object], expected: dict[str, float]
) -> None:
    """Source: component-helpers resource/helpers.go (PodLimits)."""
    pod = make_pod_info("p", **fields)

    found = samples({pod.key: pod}, LIMIT)

    assert {labels["resource"]: value for labels, value in found} == expected


def test_pods_may_go_while_others_are_written() -> None:
    """Slices leave the loop room; a pod that is gone by then has no series."""
    pods = {f"{i}": make_pod_info(f"p{i}", requests={"cpu": "1"}) for i in range(2_000)}
    slices = pod_resource_slices(pods)

    first = next(slices)
    pods.clear()

    assert len(first) < 2**16
    assert b"cpu" not in b"".join(slices)


def test_pods_without_series_take_time_as_well() -> None:
    """A cluster without limits is not gone through in one step."""
    pods = {f"{i}": make_pod_info(f"p{i}") for i in range(5_000)}

    assert len(list(pod_resource_slices(pods))) > 4


def test_the_port_serves_it() -> None:
    """To clients that may read it, like all metrics."""

    async def scrape() -> tuple[int, str]:
        pod = make_pod_info("p", requests={"cpu": "250m"})
        async with serving(pods={pod.key: pod}) as instance:
            denied, _, _ = await instance.get("/metrics/resources", "nobody-token")
            status, text, _ = await instance.get("/metrics/resources", "operator-token")
        assert denied == 403
        return status, text

    status, text = uvloop.run(scrape())

    assert status == 200
    assert text.endswith('resource="cpu",scheduler="stowage",unit="cores"} 0.25\n')


def test_a_standby_serves_no_series() -> None:
    """Those of all replicas would add up; source: server.go (installMetricHandler) v1.36.3."""

    async def scrape() -> tuple[int, str]:
        pod = make_pod_info("p", requests={"cpu": "250m"})
        async with serving(pods={pod.key: pod}) as instance:
            instance.state["leads"] = False
            status, text, _ = await instance.get("/metrics/resources", "operator-token")
        return status, text

    assert uvloop.run(scrape()) == (200, "")
