"""`-o html`: one page for a browser, with the answer of `-o json` in it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.tools.cli.explain import explain
from scheduler.tools.cli.replay import replay
from scheduler.tools.cli.what_if import what_if
from tests.support.manifests import node_manifest, pod_manifest, write_list

NODES = (node_manifest("n1"), node_manifest("n2"))


def data_of(result: Result) -> Any:
    """What the modules of a saved page are given."""
    assert result.exit_code == 0, result.output
    text = result.stdout.partition('id="saved">')[2].partition("</script>")[0]
    return json.loads(text)


def test_explain_writes_all_pods_that_wait_into_one_page(tmp_path: Path) -> None:
    """Those that are alike once, with the names of the others."""
    pods = [pod_manifest(f"p{i}", requests={"cpu": "9"}) for i in range(8)]
    odd = pod_manifest("odd", requests={"cpu": "1"})
    file = write_list(tmp_path / "c.json", *NODES, odd, *pods)
    options = ["-f", file, "--all-reasons", "-o", "json"]
    printed = json.loads(CliRunner().invoke(explain, options).stdout)["pods"]

    saved = data_of(CliRunner().invoke(explain, ["-f", file, "-o", "html"]))

    assert saved["page"] == "pod"
    pages = saved["data"]["each"]
    assert [page["pods"] for page in pages] == [[printed[0]], [printed[1]]]
    remark = pages[1]["words"]["remarks"][0]
    assert remark.startswith("It stands for 7 more like it: default/p1, default/p2")
    assert remark.endswith("and 2 more.")


def test_a_page_lists_only_the_nodes_that_are_asked_for(tmp_path: Path) -> None:
    """As the other outputs do."""
    file = write_list(tmp_path / "c.json", *NODES, pod_manifest("p", requests={"cpu": "9"}))

    saved = data_of(CliRunner().invoke(explain, ["-f", file, "--node", "n2", "-o", "html"]))

    [page] = saved["data"]["each"]
    [answer] = page["pods"]
    assert [node["node"] for node in answer["nodes"]] == ["n2"]


def test_explain_without_a_pod_to_speak_of_writes_no_page(tmp_path: Path) -> None:
    """It says what is missing."""
    result = CliRunner().invoke(explain, ["-f", write_list(tmp_path / "c", *NODES), "-o", "html"])

    assert result.exit_code == 2
    assert result.stderr == "stowage explain: no pod waits for a node: name a pod\n"
    assert result.stdout == ""


def test_what_if_writes_the_nodes_before_and_after(tmp_path: Path) -> None:
    """Beside what it prints as JSON."""
    pod = pod_manifest("p", requests={"cpu": "1"}, nodeName="n1")
    options = ["-f", write_list(tmp_path / "c.json", *NODES, pod), "--drain", "n1", "-o"]
    printed = json.loads(CliRunner().invoke(what_if, [*options, "json"]).stdout)

    saved = data_of(CliRunner().invoke(what_if, [*options, "html"]))

    heat = saved["data"].pop("heat")
    assert saved["data"].pop("asked") == ["--drain n1"]
    assert saved == {"page": "what-if", "data": printed}
    assert heat["before"]["shares"]["cpu"] == [0.25, 0.0]
    assert heat["after"]["shares"]["cpu"] == [0.0, 0.0]


@pytest.mark.parametrize("output", ["json", "html"])
def test_a_dump_is_text(output: str) -> None:
    """Other outputs are about what came of a replay."""
    result = CliRunner().invoke(replay, ["r", "--dump", "-o", output])

    assert result.exit_code == 2
    assert "--dump prints text" in result.stderr


def test_a_replay_alone_has_no_page() -> None:
    """It is identical or it is not; the message says what has one."""
    result = CliRunner().invoke(replay, ["r", "-o", "html"])

    assert result.exit_code == 2
    assert "--config, --plugin, --explain" in result.stderr
