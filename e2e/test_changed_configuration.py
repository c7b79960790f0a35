"""Promise: a changed configuration file takes effect without a restart; a broken one never does."""

import re
from pathlib import Path

import yaml

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.objects import make_nodes, make_pods
from e2e.support.processes import Program
from e2e.support.scraping import fetch
from e2e.support.waiting import wait_for

PACKING = {
    "schedulerName": "stowage",
    "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}},
        }
    ],
}


def test_changed_broken_and_mended_under_load(
    cluster: Cluster, namespace: str, run_stowage: StartStowage, tmp_path: Path
) -> None:
    """Pods created continuously are all bound, always according to the valid configuration."""
    cluster.create_nodes(make_nodes(10))
    start = {"profiles": [{"schedulerName": "stowage"}]}
    daemon = run_stowage(configuration=start, arguments=["--serve-without-authorization"])
    file = tmp_path / "stowage-0.yaml"
    wait_for(lambda: digest(daemon), "the file in force to be told")
    first = digest(daemon)
    nodes = nodes_of(cluster, namespace, "before")
    assert len(set(nodes)) == 10

    cluster.create_pods(named("meanwhile", namespace))
    change(file, profiles=[PACKING])
    wait_for(lambda: digest(daemon) not in ("", first), "another file to be in force")
    assert success(daemon) == 1
    nodes = nodes_of(cluster, namespace, "packed")
    assert len(set(nodes)) == 1

    second = digest(daemon)
    change(file, profiles=[{**PACKING, "plugins": {"score": {"enabled": [{"name": "Nothing"}]}}}])
    wait_for(lambda: success(daemon) == 0, "the broken file to be refused")
    assert digest(daemon) == second
    wait_for(
        lambda: any(
            'there is no plugin "Nothing"' in event["note"]
            for event in cluster.events("kube-system", "ConfigurationRefused")
        ),
        "an event that says why",
    )
    assert set(nodes_of(cluster, namespace, "still")) == set(nodes)

    change(file, profiles=[{"schedulerName": "stowage"}])
    wait_for(lambda: success(daemon) == 1, "the mended file to be in force")
    assert len(set(nodes_of(cluster, namespace, "after"))) > 1
    assert fetch(f"{daemon.url}/configz").count("MostAllocated") == 0


def change(file: Path, **fields: object) -> None:
    """Replace the file atomically, as mounts and editors do."""
    document = {**yaml.safe_load(file.read_text()), **fields}
    beside = file.with_suffix(".new")
    beside.write_text(yaml.safe_dump(document))
    beside.replace(file)


def named(prefix: str, namespace: str) -> list[dict[str, object]]:
    pods = make_pods(20, namespace=namespace, requests={"cpu": "50m"})
    for index, pod in enumerate(pods):
        pod["metadata"]["name"] = f"{prefix}-{index}"
    return pods


def nodes_of(cluster: Cluster, namespace: str, prefix: str) -> list[str]:
    """Create twenty pods and return their nodes."""
    cluster.create_pods(named(prefix, namespace))
    cluster.wait_until_bound(namespace)
    pods = cluster.pods(namespace)
    return [p["spec"]["nodeName"] for p in pods if p["metadata"]["name"].startswith(prefix)]


def digest(daemon: Program) -> str:
    found = re.search(r'stowage_config_info\{sha256="(\w+)"\}', fetch(f"{daemon.url}/metrics"))
    return found.group(1) if found else ""


def success(daemon: Program) -> float:
    text = fetch(f"{daemon.url}/metrics")
    return float(text.partition("\nstowage_config_reload_success ")[2].split()[0])
