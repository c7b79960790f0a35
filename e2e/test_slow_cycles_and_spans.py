"""Promise: a slow cycle logs the duration of its steps, and spans are exported when enabled."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from typing_extensions import override

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.objects import make_node, make_pod, make_pods
from e2e.support.waiting import wait_for

PODS = 30

SLOW_PLUGIN = """
import time

from scheduler.kernel.framework.interface import NodeFilterPlugin
from scheduler.kernel.framework.status import SUCCESS


class Slow(NodeFilterPlugin):
    NAME = "Slow"

    def filter(self, state, pod, node):
        time.sleep(0.15)
        return SUCCESS
"""


class Collector(ThreadingHTTPServer):
    """Receives spans as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _TakeSpans)
        self.spans: list[Span] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _TakeSpans(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector = cast("Collector", self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    collector.spans.extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Discard access logs."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_each_cycle_becomes_a_span(
    cluster: Cluster,
    namespace: str,
    run_stowage: StartStowage,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """OpenTelemetry's variable enables export; the extension points are events of the span."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    daemon = run_stowage()
    cluster.create_nodes([make_node("node")])
    cluster.create_pods(make_pods(PODS, namespace=namespace, requests={"cpu": "10m"}))
    cluster.wait_until_bound(namespace)

    assert daemon.stop() == 0

    ours = [span for span in collector.spans if attributes(span)["k8s.namespace.name"] == namespace]
    assert {attributes(span)["k8s.pod.name"] for span in ours} >= {
        pod["metadata"]["name"] for pod in cluster.pods(namespace)
    }
    assert {span.name for span in ours} == {"Scheduling"}
    has_filtered = 0
    for span in ours:
        times = [event.time_unix_nano for event in span.events]
        names = " ".join(event.name for event in span.events)
        has_filtered += "Filter" in names
        assert "Reserve" in names
        assert times == sorted(times)
        assert span.start_time_unix_nano <= times[0]
        assert times[-1] <= span.end_time_unix_nano
    # Equal pods reuse filter results, so not every span has a Filter event.
    assert has_filtered


def test_a_collector_that_is_away_hinders_nobody(
    cluster: Cluster, namespace: str, run_stowage: StartStowage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods are bound, and the shutdown is not delayed."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    daemon = run_stowage()
    cluster.create_nodes([make_node("node")])
    cluster.create_pods([make_pod("pod", namespace=namespace)])

    cluster.wait_until_bound(namespace)

    assert daemon.stop(20) == 0


def test_a_slow_cycle_logs_its_steps(
    cluster: Cluster,
    namespace: str,
    run_stowage: StartStowage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log shows the duration of a slow third-party plugin."""
    install_slow_plugin(tmp_path / "plugins")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "plugins"))
    profile = {
        "schedulerName": "stowage",
        "plugins": {"multiPoint": {"enabled": [{"name": "Slow"}]}},
    }
    daemon = run_stowage(configuration={"profiles": [profile]}, arguments=["--logging-format=json"])
    cluster.create_nodes([make_node("node")])
    cluster.create_pods([make_pod("pod", namespace=namespace)])
    cluster.wait_until_bound(namespace)
    wait_for(lambda: "Slow cycle" in daemon.log.read_text(), "the slow cycle to be told")

    lines = [json.loads(line) for line in daemon.log.read_text().splitlines()]

    (slow,) = [line for line in lines if line["msg"] == "Slow cycle"]
    assert slow["pod"] == f"{namespace}/pod"
    assert slow["duration_seconds"] > 0.15
    (step,) = [step for step in slow["steps"] if step.startswith("Filter ")]
    assert 150 <= int(step.removeprefix("Filter ").removesuffix("ms")) < 10_000


def attributes(span: Span) -> dict[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


def install_slow_plugin(directory: Path) -> None:
    """Install the plugin with its metadata, without pip."""
    info = directory / "slow-1.0.dist-info"
    info.mkdir(parents=True)
    (directory / "slow.py").write_text(SLOW_PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stowage.plugins]\nSlow = slow:Slow\n")
