"""Objects of kinds that only an installed plugin knows, in the commands that read files."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.tools.cli.main import main
from tests.support.manifests import Manifest, node_manifest, pod_manifest, write_list

_PLUGIN = """
from scheduler.plugin import SUCCESS, NodeFilterPlugin, ObjectKind, unresolvable

TABLE = ObjectKind("ConfigMap", "v1", "configmaps")
PRICES = ObjectKind("Service", "prices.example/v1", "services")

class KindPrices(NodeFilterPlugin):
    NAME = "KindPrices"
    WATCHES = (TABLE, PRICES)

    def __init__(self, args, handle):
        self._handle = handle

    def filter(self, state, pod, node):
        table = self._handle.lister(TABLE).get("prices", "default")
        extra = self._handle.lister(PRICES).get("extra")
        price = table and table["data"].get(node.node.metadata.name)
        if price is None or int(price) + (extra or {"more": 0})["more"] > 10:
            return unresolvable("node(s) were too expensive")
        return SUCCESS
"""
_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: KindPrices}]}}
"""


def table(**prices: str) -> Manifest:
    metadata = {"name": "prices", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": prices}


def extra(more: int) -> Manifest:
    """An object of a cluster-wide kind, whose name Kubernetes uses for another one."""
    kind = {"apiVersion": "prices.example/v1", "kind": "Service"}
    return {**kind, "metadata": {"name": "extra"}, "more": more}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nodes a and b, a pod that waits, and a plugin by whose table only a is cheap enough."""
    (tmp_path / "kind_prices.py").write_text(_PLUGIN)
    info = tmp_path / "kind_prices-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kind-prices\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[stowage.plugins]\nKindPrices = kind_prices:KindPrices\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kind_prices", raising=False)
    (tmp_path / "config.yaml").write_text(_CONFIG)
    pod = pod_manifest("p", requests={"cpu": "1"})
    nodes = [node_manifest(name) for name in ("a", "b")]
    write_list(tmp_path / "cluster.json", *nodes, pod, table(a="3", b="30"), extra(1))
    return tmp_path


def call(folder: Path, *words: str) -> str:
    cluster, config = str(folder / "cluster.json"), str(folder / "config.yaml")
    command, *options = words
    result = CliRunner().invoke(
        main,
        [command, "-f", cluster, "--config", config, *options],
        prog_name="stowage",
        catch_exceptions=False,
    )
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_every_command_that_reads_files_gives_them_to_the_plugin(folder: Path) -> None:
    assert "Fits on 1 of 2 nodes; goes to a." in call(folder, "explain")
    assert json.loads(call(folder, "simulate", "-o", "json"))["placements"][0]["node"] == "a"
    assert "4 more pods like default/p fit" in call(folder, "capacity")


def test_one_can_be_applied(folder: Path) -> None:
    """It takes the place of the one of its kind and name."""
    cheap_b = write_list(folder / "b.json", table(a="11", b="1"))
    dear = write_list(folder / "dear.json", extra(20))

    def goes_to(*applied: str) -> list[str]:
        options = [word for file in applied for word in ("--apply", file)]
        found = json.loads(call(folder, "what-if", *options, "-o", "json"))
        return [placement["node"] for placement in found["placements"]]

    assert goes_to(cheap_b) == ["b"]
    assert goes_to(cheap_b, dear) == []


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, "metadata.name: required"),
        ({"name": 3}, "metadata.name: expected a text, got a whole number"),
        (None, "metadata: expected a mapping, got nothing"),
    ],
)
def test_one_without_a_name_is_refused(folder: Path, metadata: object, expected: str) -> None:
    """With its place."""
    broken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    nameless = write_list(folder / "nameless.json", broken)

    result = CliRunner().invoke(
        main, ["simulate", nameless, "--config", str(folder / "config.yaml")], prog_name="stowage"
    )

    assert result.exit_code == 2
    assert f"nameless.json: items[0]: ConfigMap: {expected}" in result.stderr
