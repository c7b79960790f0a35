"""Promise: a real Prometheus accepts the files of deploy/monitoring, and its queries have results.

Prometheus is Debian's package. It scrapes as the ServiceMonitor says: with a token for its own
audience, and with certificate verification.
"""

import json
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.support.certificates import Authority
from e2e.support.cluster import Cluster
from e2e.support.debian import ProgramNotFoundError, libraries, program
from e2e.support.objects import Json
from e2e.support.probing import status_of
from e2e.support.processes import Program
from e2e.support.rights import grant, scheduler_kubeconfig, service_account
from e2e.support.scraping import create_workload_nodes, fetch, run_workload
from e2e.support.stowage import start_stowage
from e2e.support.waiting import wait_for
from e2e.test_monitoring import MONITORING, alerts, panels
from tests.support.ports import free_port

NAMESPACE = "watched"
RANGE = "20s"
"""Value for Grafana's $__rate_interval at this scrape interval."""


def tool(name: str) -> str:
    try:
        return str(program(name, "prometheus"))
    except ProgramNotFoundError as problem:
        pytest.skip(str(problem))


def rules() -> Json:
    """Return the content of the PrometheusRule, as the operator writes it to a file."""
    found: Json = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())["spec"]
    return found


def promtool(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        [tool("promtool"), *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    """The check of promtool includes the templates in annotations."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules()))

    output = promtool(tmp_path, "check", "rules", "rules.yaml")

    assert f"{len(list(alerts()))} rules found" in output


def test_every_alert_fires_for_what_it_is_about(tmp_path: Path) -> None:
    """Each alert fires under its condition only; annotations may be reworded."""
    found = rules()
    for group in found["groups"]:
        for rule in group["rules"]:
            assert rule.pop("annotations").keys() == {"summary", "runbook"}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(found))
    cases = (MONITORING / "tests" / "alerts.yaml").read_text()
    (tmp_path / "alerts.yaml").write_text(cases)

    assert "SUCCESS" in promtool(tmp_path, "test", "rules", "alerts.yaml")


class Watch:
    """A running Stowage, scraped by Prometheus.

    Attributes:
        stowage: the leader.
        url: URL of Prometheus.
    """

    def __init__(self, stowage: Program, url: str) -> None:
        self.stowage = stowage
        self.url = url

    def ask(self, path: str, **query: str) -> Any:
        answer = json.loads(fetch(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"))
        assert answer["status"] == "success"
        return answer["data"]

    def rules(self) -> dict[str, Json]:
        groups = self.ask("rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}


@pytest.fixture(scope="module")
def watch(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    directory: Path = tmp_path_factory.mktemp("prometheus")
    binary = tool("prometheus")
    monitor = yaml.safe_load((MONITORING / "servicemonitor.yaml").read_text())
    [endpoint] = monitor["spec"]["endpoints"]
    authority = Authority()
    pair = authority.serving([endpoint["tlsConfig"]["serverName"]], [])
    (directory / "ca.crt").write_bytes(authority.certificate)
    (directory / "tls.crt").write_bytes(pair.public)
    (directory / "tls.key").write_bytes(pair.key)
    (directory / "token").write_text(token(shared_cluster))
    daemon = start_stowage(
        scheduler_kubeconfig(shared_cluster),
        directory,
        leader_elect=True,
        arguments=[
            f"--tls-cert-file={directory / 'tls.crt'}",
            f"--tls-private-key-file={directory / 'tls.key'}",
            "--authentication-token-audiences=stowage",
        ],
    )
    port = free_port()
    config = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {
                "job_name": monitor["metadata"]["labels"][monitor["spec"]["jobLabel"]],
                "scheme": endpoint["scheme"],
                "metrics_path": endpoint["path"],
                "authorization": {"credentials_file": str(directory / "token")},
                "tls_config": {
                    "ca_file": str(directory / "ca.crt"),
                    "server_name": endpoint["tlsConfig"]["serverName"],
                },
                "static_configs": [{"targets": [daemon.url.removeprefix("https://")]}],
            }
        ],
    }
    (directory / "rules.yaml").write_text(yaml.safe_dump(rules()))
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{port}"
    with (
        daemon,
        Program(
            "prometheus",
            [
                binary,
                "--config.file=prometheus.yaml",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            directory / "prometheus.log",
            libraries(),
            directory,
        ) as prometheus,
    ):
        prometheus.wait_ready(lambda: status_of(f"{url}/-/ready") == 200)
        create_workload_nodes(shared_cluster)
        run_workload(shared_cluster, NAMESPACE, "stowage")
        yield Watch(daemon, url)
    shared_cluster.reset()


def token(cluster: Cluster) -> str:
    """Return a token with the audience `stowage`, of an account that may read metrics."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    cluster.run(cluster.api.post(accounts, {"metadata": {"name": "prometheus"}}))
    documents = yaml.safe_load_all((MONITORING.parent / "base" / "rbac.yaml").read_text())
    [role] = [d for d in documents if d["metadata"]["name"] == "stowage-metrics-reader"]
    grant(cluster, "e2e-metrics-reader", role["rules"], service_account("default", "prometheus"))
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "audiences": ["stowage"]},
    }
    answer = cluster.run(cluster.api.post(f"{accounts}/prometheus/token", request))
    return str(answer["status"]["token"])


def test_it_scrapes_with_its_token_and_checks_the_certificate(watch: Watch) -> None:
    """The scrape target becomes healthy."""
    problems: set[str] = set()

    def is_up() -> bool:
        # A slow machine may miss the time limit of one scrape.
        targets = watch.ask("targets")["activeTargets"]
        problems.update(target["lastError"] for target in targets)
        return [target["health"] for target in targets] == ["up"]

    try:
        wait_for(is_up, "the target to be up")
    finally:
        print(*problems, sep="\n")


def test_all_rules_are_evaluated(watch: Watch) -> None:
    """Every alert is evaluated without error, and the leader alert is inactive."""
    wait_for(
        lambda: all(rule["health"] != "unknown" for rule in watch.rules().values()),
        "each rule to be evaluated",
    )
    found = watch.rules()

    assert found.keys() == {name for name, _ in alerts()}
    assert {rule["health"] for rule in found.values()} == {"ok"}
    wait_for(lambda: watch.rules()["StowageHasNoLeader"]["state"] == "inactive", "a leader")


@pytest.mark.parametrize(("name", "query"), list(panels()), ids=[name for name, _ in panels()])
def test_a_panel_shows_something(watch: Watch, name: str, query: str) -> None:
    """The query of each panel has a result after some work."""
    asked = query.replace("$__rate_interval", RANGE)

    found = wait_for(lambda: watch.ask("query", query=asked)["result"], f"{name} to show")

    assert all("value" in each for each in found)


def test_a_leader_that_is_gone_is_noticed(watch: Watch) -> None:
    """The alert becomes pending or fires."""
    assert watch.stowage.stop() == 0

    wait_for(
        lambda: watch.rules()["StowageHasNoLeader"]["state"] in ("pending", "firing"),
        "the alert to be pending",
    )
