"""Extenders of a configuration are asked about clusters in files, and never asked to bind."""

import json
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
from click.testing import CliRunner

from scheduler.tools.cli.main import main
from tests.support.extender import FakeExtender, agreeing, failing, names_of, only, scores, serving
from tests.support.manifests import Manifest, node_manifest, pod_manifest, write_list

NODES = [node_manifest(name) for name in ("a", "b", "c")]


Configs: TypeAlias = Manifest | list[Manifest]
"""One extender, or several."""


def run(command: str, path: Path, config: Configs, *objects: Manifest, more: Any = ()) -> Any:
    """What a command prints as JSON."""
    printed = output(command, path, config, *objects, more=("-o", "json", *more))
    return msgspec.json.decode(printed)


def output(command: str, path: Path, config: Configs, *objects: Manifest, more: Any = ()) -> str:
    """What a command prints."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": config if isinstance(config, list) else [config],
    }
    file = path / "config.json"
    file.write_text(json.dumps(document))
    cluster = write_list(path / "cluster.json", *objects)
    words = [command, "-f", cluster, "--config", str(file), *more]
    result = CliRunner().invoke(main, words)
    assert result.exit_code in (0, 1), result.output
    return result.stdout


def test_explain_asks(tmp_path: Path) -> None:
    """Rejections, scores and totals are the extender's as well."""
    extender = FakeExtender(
        filter=only("a", "b", FailedNodes={"c": "too warm"}), prioritize=scores(a=7)
    )
    with serving(extender):
        config = extender.config("filter", "prioritize", "bind", weight=2)
        answer = run("explain", tmp_path, config, *NODES, pod_manifest("p"))

    [pod] = answer["pods"]
    a, b, c = pod["nodes"]
    assert a["scores"][extender.url] == {"normalized": 70, "weighted": 140}
    assert a["total"] == b["total"] + 140
    assert (c["plugin"], c["code"], c["reasons"]) == ("Extender", "Unschedulable", ["too warm"])
    assert [body["NodeNames"] for body in extender.bodies("filter")] == [["a", "b", "c"]]
    assert extender.bodies("filter")[0]["Pod"]["metadata"]["name"] == "p"


def test_the_scores_of_extenders_have_their_column(tmp_path: Path) -> None:
    """With their weight, as those of plugins: the columns add up to the total."""
    extender = FakeExtender(prioritize=scores(a=7))
    with serving(extender):
        config = extender.config("prioritize", weight=2)
        printed = output("explain", tmp_path, config, *NODES, pod_manifest("p"))

    lines = printed.splitlines()
    rows = [line.split() for line in lines if line.split()[:1] in (["a"], ["b"], ["c"])]
    assert [(row[0], row[-1]) for row in rows] == [("a", "140"), ("b", "0"), ("c", "0")]
    assert all(int(row[1]) == sum(map(int, row[2:])) for row in rows)
    [last] = [line for line in lines if line.split()[:2] == ["node", "total"]]
    assert last.split()[-1] == "x2"
    header = "".join(line.split()[-1] for line in lines[: lines.index(last)] if line)
    assert header.endswith(extender.url)


def test_extenders_of_one_url_have_a_column_each(tmp_path: Path) -> None:
    """Named by their places in the configuration; one of its own URL has that name alone."""
    extender, other = FakeExtender(prioritize=scores(a=7)), FakeExtender(prioritize=scores(a=1))
    with serving(extender), serving(other):
        configs = [
            extender.config("prioritize", weight=2, ignorable=True),
            extender.config("prioritize", weight=3),
            other.config("prioritize", weight=1),
        ]
        answer = run("explain", tmp_path, configs, *NODES, pod_manifest("p"))
        printed = output("explain", tmp_path, configs, *NODES, pod_manifest("p"))

    [pod] = answer["pods"]
    a, b, _ = pod["nodes"]
    weighted = {name: each["weighted"] for name, each in a["scores"].items() if each["weighted"]}
    assert {
        f"{extender.url} (extenders[0])": 140,
        f"{extender.url} (extenders[1])": 210,
        other.url: 10,
    }.items() <= weighted.items()
    assert a["total"] == b["total"] + 360
    [row] = [line.split() for line in printed.splitlines() if line.split()[:1] == ["a"]]
    assert sorted(row[-3:]) == ["10", "140", "210"]
    assert "(extenders[1])" in "".join(printed.split())


def test_explain_says_why_nothing_fits(tmp_path: Path) -> None:
    """As the scheduler would; and what failed."""
    extender = FakeExtender(filter=only(FailedAndUnresolvableNodes={"a": "never"}))
    with serving(extender):
        config = extender.config("filter", nodeCacheCapable=False)
        [pod] = run("explain", tmp_path, config, *NODES, pod_manifest("p"))["pods"]
        extender.replies["filter"] = failing(500)
        [failed] = run("explain", tmp_path, config, *NODES, pod_manifest("p"))["pods"]

    assert pod["message"] == "0/3 nodes are available: 1 never."
    assert [node["plugin"] for node in pod["nodes"]] == ["Extender"] * 3
    assert failed["error"].endswith("/filter, code 500")
    assert extender.bodies("filter")[0]["Nodes"]["items"][0]["status"]["allocatable"]["cpu"] == "4"


def test_explain_asks_whom_to_evict(tmp_path: Path) -> None:
    """With --preempt."""

    def not_a(body: Manifest) -> Manifest:
        victims = agreeing(body)["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {n: v for n, v in victims.items() if n != "a"}}

    low = [pod_manifest(f"v{n}", requests={"cpu": "4"}, nodeName=n, priority=0) for n in "ab"]
    high = pod_manifest("p", requests={"cpu": "4"}, priority=9)
    extender = FakeExtender(preempt=not_a)
    with serving(extender):
        config = extender.config("preempt")
        answer = run("explain", tmp_path, config, *NODES[:2], *low, high, more=["--preempt"])

    assert answer["pods"][0]["preemption"] == {
        "nominatedNode": "b",
        "victims": ["default/vb"],
        "candidates": [{"node": "b", "victims": ["default/vb"], "pdbViolations": 0}],
        "message": "",
    }


def test_simulate_asks_and_binds_nothing(tmp_path: Path) -> None:
    """Each decision builds on the ones before it."""

    def never(_: Manifest) -> Manifest:
        raise AssertionError("a simulation must not bind")

    extender = FakeExtender(
        filter=lambda body: {"NodeNames": names_of(body)}, prioritize=scores(b=10), bind=never
    )
    pods = [pod_manifest(f"p{number}", requests={"cpu": "2"}) for number in range(3)]
    with serving(extender):
        config = extender.config("filter", "prioritize", "bind", weight=100)
        answer = run("simulate", tmp_path, config, *NODES, *pods)

    nodes = [placement["node"] for placement in answer["placements"]]
    assert nodes[:2] == ["b", "b"]
    assert nodes[2] in ("a", "c")
    assert extender.count("filter") == 3
    assert extender.count("bind") == 0


def test_what_if_and_capacity_ask_nobody(tmp_path: Path) -> None:
    """They are about pods and nodes that are not there; people are told."""
    config = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f"}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [config],
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(document))
    cluster = write_list(tmp_path / "cluster.json", *NODES, pod_manifest("p"))

    for command, *more in (["what-if", "--drain", "a"], ["capacity"]):
        words = [command, "-f", cluster, "--config", str(file), *more]
        output = CliRunner().invoke(main, words)
        assert output.exit_code == 0, output.output
        assert "Extenders are not asked" in output.output

    objects = (*NODES, pod_manifest("p"))
    found = run("what-if", tmp_path, config, *objects, more=["--drain", "a"])
    assert [each["pod"] for each in found["placements"]] == ["default/p"]


@pytest.mark.parametrize(
    ("verb", "cpu", "is_told"),
    [("filter", "5", True), ("filter", "1", False), ("prioritize", "5", False)],
)
def test_explain_says_that_advice_is_given_without_extenders(
    tmp_path: Path, verb: str, cpu: str, *, is_told: bool
) -> None:
    """Where there is advice: an extender may reject the node that a filter would not."""
    extender = FakeExtender(
        filter=lambda body: {"NodeNames": names_of(body)}, prioritize=scores(b=10)
    )
    cluster = write_list(tmp_path / "c.json", *NODES, pod_manifest("p", requests={"cpu": cpu}))
    with serving(extender):
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [extender.config(verb)],
        }
        file = tmp_path / "config.json"
        file.write_text(json.dumps(document))
        output = CliRunner().invoke(main, ["explain", "-f", cluster, "--config", str(file)])

    assert ("Extenders are not asked about changes" in output.output) is is_told


def test_explain_with_all_reasons_names_extenders(tmp_path: Path) -> None:
    """Beside what filters say."""
    extender = FakeExtender(filter=only("a", FailedNodes={"c": "too warm"}))
    tainted = node_manifest("d", taints=[{"key": "k", "effect": "NoSchedule"}])
    with serving(extender):
        config = extender.config("filter")
        objects = (*NODES, tainted, pod_manifest("p"))
        [pod] = run("explain", tmp_path, config, *objects, more=["--all-reasons"])["pods"]

    told = {node["node"]: node.get("rejections") for node in pod["nodes"]}
    assert told["a"] is None
    assert [(each["plugin"], each["reasons"]) for each in told["c"]] == [("Extender", ["too warm"])]
    assert [each["plugin"] for each in told["d"]] == ["TaintToleration"]


@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_what_cannot_be_used_is_told(tmp_path: Path, command: str) -> None:
    """Before anything is asked."""
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "extenders": [{"urlPrefix": "ftp://x", "filterVerb": "f"}],
            }
        )
    )
    cluster = write_list(tmp_path / "cluster.json", *NODES)

    result = CliRunner().invoke(main, [command, "-f", cluster, "--config", str(config)])

    assert result.exit_code == 2
    assert result.output == (
        f"stowage {command}: {config}: line 1: extenders[0].urlPrefix: "
        'expected http://HOST or https://HOST, got "ftp://x"\n'
    )
