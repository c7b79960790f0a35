"""/metrics/resources: what every pod requests, in the words of kube-scheduler."""

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from scheduler.api.pods import PodInfo
from scheduler.daemon.serving.pod_resources import pod_resource_slices
from tests.support.builders import make_pod_info
from tests.unit.serving.harness import serving

BIG = {"cpu": "1500m", "memory": "1Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"}


def samples(pods: dict[str, PodInfo]) -> list[tuple[dict[str, str], float]]:
    """The labels and the value of every series."""
    text = b"".join(pod_resource_slices(pods)).decode()
    (family,) = text_string_to_metric_families(text)
    assert (family.name, family.type) == ("kube_pod_resource_request", "gauge")
    return [(sample.labels, sample.value) for sample in family.samples]


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


def test_pods_may_go_while_others_are_written() -> None:
    """Slices leave the loop room; a pod that is gone by then has no series."""
    pods = {f"{i}": make_pod_info(f"p{i}", requests={"cpu": "1"}) for i in range(2_000)}
    slices = pod_resource_slices(pods)

    first = next(slices)
    pods.clear()

    assert len(first) < 2**16
    assert b"".join(slices) == b""


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
