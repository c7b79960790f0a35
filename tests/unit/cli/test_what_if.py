"""`stowage what-if` and `stowage capacity`: options, output and exit status."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.config.write import to_object
from scheduler.daemon.recording.files import whole_file
from scheduler.daemon.recording.records import Writer
from scheduler.tools.cli.capacity import capacity
from scheduler.tools.cli.what_if import what_if
from scheduler.tools.offline.cluster import Profiles, events_of
from scheduler.tools.offline.reading import objects_from_documents
from tests.support.manifests import Manifest, node_manifest, pod_manifest, write_list
from tests.support.recordings import make_header


def run(*arguments: str) -> Result:
    return CliRunner().invoke(what_if, arguments, catch_exceptions=False)


def count(*arguments: str) -> Result:
    return CliRunner().invoke(capacity, arguments, catch_exceptions=False)


def replica(number: int, node: str) -> Manifest:
    pod = pod_manifest(f"web-{number}", requests={"cpu": "3"}, nodeName=node)
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    ]
    return pod


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Two nodes of four cores with a pod of three cores each."""
    nodes = [node_manifest(name) for name in ("a", "b")]
    return write_list(tmp_path / "cluster.json", *nodes, replica(0, "a"), replica(1, "b"))


def test_json_says_who_moves_and_who_cannot(cluster: str) -> None:
    """Field by field as the design has them."""
    result = run("-f", cluster, "--drain", "a", "--add-nodes", "1", "--like", "b", "-o", "json")
    found: dict[str, Any] = json.loads(result.stdout)

    [placement] = found["placements"]
    assert placement == {"pod": "default/web-0", "node": "b-new-0", "from": "a", "victims": []}
    assert (found["homeless"], found["victims"], found["warnings"]) == ([], [], [])
    assert found["use"]["all"]["cpu"] == {"before": 0.75, "after": 0.5}
    homeless = json.loads(run("-f", cluster, "--drain", "a", "-o", "json").stdout)["homeless"]
    assert [(pod["pod"], pod["from"], pod["waited"]) for pod in homeless] == [
        ("default/web-0", "a", False)
    ]


def test_text_says_the_same_to_people(cluster: str) -> None:
    """Who moves, who does not and why, how full it gets."""
    text = run("-f", cluster, "--drain", "a").stdout

    assert "1 pod would be homeless: 0/2 nodes are available" in text
    assert "  default/web-0\n" in text
    assert "all        75% -> 38%" in text
    assert "No pod moves" in run("-f", cluster, "--delete", "rs/web").stdout


def test_homeless_pods_fail_on_demand(cluster: str, tmp_path: Path) -> None:
    """Those that waited before are nobody's fault."""
    assert run("-f", cluster, "--drain", "a").exit_code == 0
    assert run("-f", cluster, "--drain", "a", "--fail-on-homeless").exit_code == 3
    waiting = write_list(tmp_path / "w.json", pod_manifest("w", requests={"cpu": "9"}))
    scaled = ("--scale", "rs/web=1", "--fail-on-homeless")
    assert run("-f", cluster, "-f", waiting, *scaled).exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing would change: give --drain"),
        (("--drain", "x"), "--drain: there is no node 'x'"),
        (("--add-nodes", "2"), "expected --add-nodes N and --like NODE together"),
        (("--scale", "deploy/web"), "expected KIND/[NAMESPACE/]NAME=N"),
        (("--scale", "deploy/web=-1"), "expected KIND/[NAMESPACE/]NAME=N"),
        (("--scale", "deploy/web=²"), "expected KIND/[NAMESPACE/]NAME=N"),
        (("--scale", "deploy/web=1000001"), "expected at most 100000 pods"),
        (("--scale", f"deploy/web={'9' * 5000}"), "expected at most 100000 pods"),
        (("--scale", "rs/web=1", "--scale", "rs/default/web=2"), "--scale rs/web=1 is given too"),
        (("--label", "a:k=v", "--label", "a:k-"), "--label a:k=v is given too, expected one of"),
        (("--drain", "a", "--context", "x"), "-f asks files"),
        (("--apply", "no-such-file"), "no-such-file: cannot be read"),
    ],
)
def test_what_cannot_be_is_one_message(
    cluster: str, options: tuple[str, ...], message: str
) -> None:
    """And exit status 2."""
    result = run("-f", cluster, *options)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--daemon", "localhost"), "--daemon localhost: expected a URL: https://localhost:10259"),
        (("--daemon", "ftp://x"), "--daemon ftp://x: expected a URL"),
        (("--daemon", "https://x/metrics"), "--daemon https://x/metrics: expected a URL"),
        (("--daemon", "https://x", "--at", "1"), "--at is about a recording"),
        (("--at", "1"), "--at is about a recording: expected --recording FILE"),
        (("--certificate-authority", "x"), "are about a daemon: expected --daemon URL"),
        (("--insecure-skip-tls-verify",), "are about a daemon: expected --daemon URL"),
        (("--recording", ".", "--daemon", "https://x"), "expected one of --daemon URL"),
        (("--recording", "x" * 999), "x: File name too long"),
        (("--recording", ".", "--kubeconfig", "y"), "--recording reads no cluster: leave out"),
    ],
)
def test_a_daemon_or_a_recording_is_asked_rightly(options: tuple[str, ...], message: str) -> None:
    """Before anything is asked; the same for every command that has these options."""
    result = run(*options, "--drain", "n0")

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_different_things_may_be_changed_alike(cluster: str) -> None:
    """Labels of two nodes, and two labels of one."""
    labels = ("--label", "a:k=v", "--label", "b:k=v", "--label", "a:other=v")

    assert run("-f", cluster, *labels, "--scale", "rs/web=1").exit_code == 0


def test_an_applied_file_needs_no_nodes(cluster: str, tmp_path: Path) -> None:
    """But its slips are told."""
    pod = pod_manifest("new", requests={"cpu": "1"})
    pod["spec"]["nodeSelectr"] = {}
    file = write_list(tmp_path / "new.json", pod)

    found = json.loads(run("-f", cluster, "--apply", file, "-o", "json").stdout)

    assert [placement["pod"] for placement in found["placements"]] == ["default/new"]
    [warning] = found["warnings"]
    assert "nodeSelectr" in warning


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        (("--add-nodes", "2", "--like", "a"), {"a", "b", "a-new-0", "a-new-1"}),
        (("--delete", "node/a"), {"b"}),
        (("--remove-taint", "gpu"), {"a", "b", "t"}),
        (("--label", "l:disk=ssd"), {"a", "b", "l"}),
        (("--apply", "{}/node.json"), {"a", "b", "new"}),
    ],
)
def test_an_applied_daemon_set_has_its_pods_on_the_changed_nodes(
    tmp_path: Path, options: tuple[str, ...], nodes: set[str]
) -> None:
    """--apply comes last, and its files come in their order."""
    ssd = {"labels": {"disk": "ssd"}}
    taint = {"key": "gpu", "effect": "NoSchedule"}
    cluster = write_list(
        tmp_path / "cluster.json",
        *(node_manifest(name, **ssd) for name in ("a", "b")),
        node_manifest("t", taints=[taint], **ssd),
        node_manifest("l"),
    )
    write_list(tmp_path / "node.json", node_manifest("new", **ssd))
    template = {"spec": pod_manifest("x", nodeSelector={"disk": "ssd"})["spec"]}
    daemon_set = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}}
    file = write_list(tmp_path / "ds.json", {**daemon_set, "spec": {"template": template}})
    options = tuple(option.format(tmp_path) for option in options)

    found = json.loads(run("-f", cluster, *options, "--apply", file, "-o", "json").stdout)

    assert {each["node"] for each in found["placements"]} == nodes
    assert found["homeless"] == []


def test_an_applied_file_uses_the_classes_of_earlier_ones(cluster: str, tmp_path: Path) -> None:
    """As if each were submitted after the other; each warning comes once."""
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 9}
    first = write_list(tmp_path / "1.json", {**urgent, "metadata": {"name": "urgent"}})
    pod = pod_manifest("new", requests={"cpu": "3"}, priorityClassName="urgent", typo=1)
    second = write_list(tmp_path / "2.json", pod)

    found = json.loads(run("-f", cluster, "--apply", first, "--apply", second, "-o", "json").stdout)

    [placement] = [each for each in found["placements"] if each["pod"] == "default/new"]
    assert len(placement["victims"]) == 1
    [warning] = found["warnings"]
    assert "typo" in warning


def test_a_renamed_copy_of_a_running_pod_takes_no_room_from_it(tmp_path: Path) -> None:
    """Its UID is that of the original, which stays where it is."""
    original = pod_manifest("a", requests={"cpu": "3"}, nodeName="n")
    original["metadata"]["uid"] = "u"
    copy = pod_manifest("b", requests={"cpu": "3"})
    copy["metadata"]["uid"] = "u"
    cluster = write_list(tmp_path / "cluster.json", node_manifest("n"), original)
    file = write_list(tmp_path / "new.json", copy)

    found = json.loads(run("-f", cluster, "--apply", file, "-o", "json").stdout)

    assert [each["pod"] for each in found["homeless"]] == ["default/b"]


def test_capacity_of_a_pod_of_the_cluster(cluster: str) -> None:
    """One on each node has room for one more core."""
    file = write_list(Path(cluster).parent / "p.json", pod_manifest("p", requests={"cpu": "1"}))

    found = json.loads(count("-f", cluster, "-f", file, "-o", "json").stdout)

    assert (found["fits"], found["nodes"]) == (2, {"a": 1, "b": 1})
    assert found["limits"] == {"Insufficient cpu": 2}
    assert found["isAtLeast"] is False
    assert set(found["fragmentation"]) == {"cpu", "memory", "pods"}
    text = count("-f", cluster, "--like", "web-0").stdout
    assert text.startswith("0 more pods like default/web-0 fit.\n")
    assert "Insufficient cpu      2" in text


def test_capacity_asks_which_pod_is_meant(cluster: str, tmp_path: Path) -> None:
    """When none waits, or several kinds do."""
    other = pod_manifest("other", requests={"cpu": "2"}, schedulerName="x")
    two = write_list(tmp_path / "two.json", pod_manifest("p"), other)
    namesakes = [pod_manifest("p", namespace=name) for name in ("a", "b")]
    twins = write_list(tmp_path / "twins.json", *namesakes)

    for options, message in (
        ((), "no pod waits, so name the pod that is meant"),
        (("-f", two), "pods of 2 kinds wait"),
        (("--like", "x"), "--like x: there is no such pod"),
        (("--like", "web0"), "--like web0: there is no such pod, or it has ended; did you mean"),
        (("-f", twins, "--like", "p"), "there is one in each of a, b: say NAMESPACE/p"),
        (("-f", two, "--like", "other"), "its schedulerName is x, the profiles here are"),
    ):
        result = count("-f", cluster, *options)
        assert result.exit_code == 2
        assert message in result.stderr


def test_capacity_counts_the_running_pods_of_a_described_workload(tmp_path: Path) -> None:
    """They take their room, as all pods that have a node do."""
    profiles, lines, writer = Profiles(None), bytearray(), Writer()
    engine = profiles.engine(0)
    documents = [("test", node_manifest("a")), ("test", replica(0, "a"))]
    for event in events_of(objects_from_documents(documents)):
        writer.write(lines, event, 0.0, engine.handle(event, 0.0))
    header = make_header(configuration=to_object(profiles.config), version="", clock=0.0)
    recording = tmp_path / "one.recording"
    recording.write_bytes(whole_file(header, lines))
    spec = pod_manifest("x", requests={"cpu": "1"}, schedulerName="default-scheduler")["spec"]
    workload = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}}
    file = write_list(tmp_path / "w.json", {**workload, "spec": {"template": {"spec": spec}}})

    found = json.loads(count("--recording", str(recording), "-f", file, "-o", "json").stdout)

    assert found["fits"] == 1
