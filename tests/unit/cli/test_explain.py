"""`stowage explain`: what people and programs get to see."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.tools.cli.explain import explain
from scheduler.tools.cli.inputs import BAD_INPUT
from tests.support.device_manifests import (
    claim_manifest,
    class_manifest,
    request,
    slice_manifest,
    using,
)
from tests.support.manifests import node_manifest, pod_manifest, write_list

TAINTS = [{"key": "k", "effect": "NoSchedule"}]
CLUSTER = (
    node_manifest("big", allocatable={"cpu": "8"}),
    node_manifest("small"),
    node_manifest("tainted", taints=TAINTS),
    node_manifest("tiny", allocatable={"cpu": "500m"}, taints=TAINTS),
    pod_manifest("running", requests={"cpu": "3", "memory": "1Gi"}, nodeName="small"),
    pod_manifest("fits", requests={"cpu": "1"}),
    pod_manifest("huge", requests={"cpu": "9", "memory": "9Gi"}),
    pod_manifest("held", schedulingGates=[{"name": "example.com/later"}]),
    pod_manifest("theirs", schedulerName="somebody-else"),
)


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(explain, arguments, input=stdin, catch_exceptions=False)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    return write_list(tmp_path / "cluster.json", *CLUSTER)


def answers(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    return {pod["pod"]: pod for pod in json.loads(result.stdout)["pods"]}


def test_people_read_the_verdict_the_groups_and_the_best_nodes(cluster: str) -> None:
    """The whole text for a pod that fits somewhere."""
    result = run("-f", cluster, "--pod", "fits")

    assert result.exit_code == 0
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        "default/fits  (profile default-scheduler)",
        "  Fits on 2 of 4 nodes; goes to big.",
        "",
        "  nodes  plugin           reasons",
        "      2  TaintToleration  node(s) had untolerated taint(s)",
        "                            taint k:NoSchedule on 2 nodes",
        "                            on tainted, tiny",
        "",
        "                                                           Node",
        "                                                      Resources",
        "                     Taint          Node    Dynamic    Balanced     Image",
        "                Toleration  ResourcesFit  Resources  Allocation  Locality",
        "  node   total          x3            x1         x2          x1        x1",
        "  big      463         300            92          0          71         0",
        "  small    411         300            42          0          69         0",
        "",
    ]


def test_people_read_how_close_it_was(cluster: str) -> None:
    """Per resource the smallest shortage, on how many nodes, and where."""
    result = run("-f", cluster, "--pod", "default/huge")

    assert "  Fits nowhere: 0/4 nodes are available: 2 Insufficient cpu" in result.stdout
    assert "      2  NodeResourcesFit  Insufficient cpu, Insufficient memory\n" in result.stdout
    expected = "asked for: 4 nodes short, by {} on the nearest (big); too small even when empty\n"
    assert f"      9 cpu {expected.format('1')}" in result.stdout
    assert f"      9Gi memory {expected.format('1Gi')}" in result.stdout


def test_all_reasons_ask_beyond_the_first_plugin(cluster: str) -> None:
    """Nodes that a taint rejects may be too small as well."""
    result = run("-f", cluster, "--pod", "huge", "--all-reasons", "--node", "tiny")

    assert "      1  TaintToleration   node(s) had untolerated taint(s)\n" in result.stdout
    assert "         NodeResourcesFit  Insufficient cpu, Insufficient memory\n" in result.stdout
    assert "  short by 8500m cpu on 1 node; too small even when empty\n" in result.stdout
    assert "big" not in result.stdout


def test_all_reasons_in_json(cluster: str) -> None:
    """Rejected nodes have a list of rejections beside the first one."""
    (tiny,) = answers("-f", cluster, "--pod", "huge", "--node", "tiny", "--all-reasons")[
        "default/huge"
    ]["nodes"]

    assert tiny["plugin"] == "TaintToleration"
    assert [(r["plugin"], r["code"]) for r in tiny["rejections"]] == [
        ("TaintToleration", "UnschedulableAndUnresolvable"),
        ("NodeResourcesFit", "UnschedulableAndUnresolvable"),
    ]
    assert "rejections" not in answers("-f", cluster)["default/huge"]["nodes"][0]


def test_json_has_every_pod_of_the_profiles(cluster: str) -> None:
    """Sorted; gated pods have no nodes, pods of other schedulers are not there."""
    found = answers("-f", cluster)

    assert list(found) == ["default/fits", "default/held", "default/huge"]
    assert found["default/held"] == {
        "pod": "default/held",
        "profile": "default-scheduler",
        "preEnqueue": {
            "plugin": "SchedulingGates",
            "reasons": ["waiting for scheduling gates: [example.com/later]"],
        },
        "preFilter": None,
        "nodes": [],
        "message": "",
    }
    assert [node["node"] for node in found["default/fits"]["nodes"]] == [
        "big", "small", "tainted", "tiny",
    ]  # fmt: skip


def test_people_are_told_of_pods_that_are_not_judged(cluster: str) -> None:
    """Those of other schedulers, and why a pod is held back."""
    result = run("-f", cluster)

    assert (
        "Held back by SchedulingGates before any node is looked at: "
        "waiting for scheduling gates: [example.com/later]"
    ) in result.stdout
    assert result.stderr == (
        "note: Pods of other schedulers also wait and are not judged here: somebody-else (1); "
        "--profile NAME judges them.\n"
    )


def test_pods_of_other_namespaces_are_not_counted(tmp_path: Path) -> None:
    """With --namespace the note about other schedulers is about that namespace."""
    theirs = pod_manifest("theirs", namespace="a", schedulerName="somebody-else")
    held = pod_manifest("held", namespace="b", schedulingGates=[{"name": "example.com/later"}])
    file = write_list(tmp_path / "c.json", node_manifest("n"), theirs, held)

    assert "somebody-else (1)" in run("-f", file, "-n", "a").stderr
    assert run("-f", file, "-n", "b").stderr == ""


def test_ties_and_the_rest_of_the_nodes_are_told(tmp_path: Path) -> None:
    """--top limits the table; equally good nodes are one answer."""
    nodes = [node_manifest(f"n{i}") for i in range(6)]
    file = write_list(tmp_path / "c.json", *nodes, pod_manifest("p"))

    result = run("-f", file, "--top", "2")

    assert "Fits on 6 of 6 nodes; goes to one of n0, n1, n2 and 3 more (a tie).\n" in result.stdout
    assert "... and 4 more nodes (--top)\n" in result.stdout


def test_several_files_and_standard_input_are_one_cluster(tmp_path: Path) -> None:
    """As -f, again, and as a dash."""
    nodes = write_list(tmp_path / "nodes.json", *CLUSTER[:4])
    pods = write_list(tmp_path / "pods.json", CLUSTER[5])
    text = json.dumps(CLUSTER[4])

    result = run("-f", nodes, "-f", pods, "-f", "-", "-o", "json", stdin=text)

    (pod,) = json.loads(result.stdout)["pods"]
    assert {n["node"]: n.get("total") for n in pod["nodes"]} == {
        "big": 463, "small": 411, "tainted": None, "tiny": None,
    }  # fmt: skip


def test_a_directory_is_read_as_its_files(tmp_path: Path) -> None:
    """As `kubectl cluster-info dump` writes it: lists, of which empty ones are null, and logs."""
    dump = tmp_path / "dump"
    (dump / "default" / "web-0").mkdir(parents=True)
    (dump / "default" / "named.json").mkdir()
    (dump / "default" / "web-0" / "logs.txt").write_text("listening on {}\n")
    (dump / "default" / "services.json").write_text('{"kind": "ServiceList", "items": null}')
    lists = {"nodes.json": ("Node", CLUSTER[:4]), "default/pods.json": ("Pod", CLUSTER[4:])}
    for name, (kind, objects) in lists.items():
        items = [{field: each[field] for field in each if field != "kind"} for each in objects]
        (dump / name).write_text(
            json.dumps({"kind": f"{kind}List", "apiVersion": "v1", "items": items})
        )

    assert run("-f", str(dump)).stdout == run("-f", write_list(tmp_path / "c", *CLUSTER)).stdout


@pytest.mark.parametrize("is_piped", [False, True], ids=["file", "standard input"])
def test_a_compressed_file_is_read_as_its_text(
    tmp_path: Path, cluster: str, *, is_piped: bool
) -> None:
    compressed = gzip.compress(Path(cluster).read_bytes())
    (tmp_path / "c.json.gz").write_bytes(compressed)

    output = (
        run("-f", "-", stdin=compressed) if is_piped else run("-f", str(tmp_path / "c.json.gz"))
    )

    assert output.stdout == run("-f", cluster).stdout


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        pytest.param("", b"", "no file in this directory ends in .json, ", id="no objects"),
        pytest.param(
            "cut.json.gz",
            gzip.compress(b"{}")[:12],
            "cut.json.gz: cannot be decompressed: ",
            id="cut",
        ),
        pytest.param("x.yaml", b"{}}", "x.yaml:1:3: not valid YAML: ", id="a file of a directory"),
    ],
)
def test_a_directory_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, data: bytes, problem: str
) -> None:
    if name:
        (tmp_path / name).write_bytes(data)

    result = run("-f", str(tmp_path))

    assert result.exit_code == BAD_INPUT
    assert problem in result.stderr


def test_profiles_of_a_configuration_decide_which_pods(tmp_path: Path, cluster: str) -> None:
    """Also what has no effect of it is told, and not on standard output."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "parallelism: 3\nprofiles:\n- schedulerName: somebody-else\n"
    )

    result = run("-f", cluster, "--config", str(config))

    assert result.stdout.startswith("default/theirs  (profile somebody-else)\n")
    assert "stowage (3)" in result.stderr
    assert "note: parallelism has no effect" in result.stderr
    (only,) = answers_ignoring_notes("-f", cluster, "--config", str(config))
    assert only["pod"] == "default/theirs"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("", ["default/a", "default/b"], id="no name"),
        pytest.param("stowage", ["default/a"], id="ours"),
        pytest.param("default-scheduler", ["default/b"], id="upstream's"),
    ],
)
def test_a_profile_without_a_name_answers_to_both(
    tmp_path: Path, name: str, expected: list[str]
) -> None:
    """As the default profile does; one with a name answers to that."""
    file = write_list(
        tmp_path / "c.json",
        node_manifest("n"),
        pod_manifest("a"),
        pod_manifest("b", schedulerName="default-scheduler"),
    )
    config = tmp_path / "config.yaml"
    named = f"schedulerName: {name}, " if name else ""
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{{named}percentageOfNodesToScore: 100}}]\n"
    )

    found = answers_ignoring_notes("-f", file, "--config", str(config))

    assert [pod["pod"] for pod in found] == expected


def answers_ignoring_notes(*arguments: str) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = json.loads(run(*arguments, "-o", "json").stdout)["pods"]
    return pods


def test_nominated_pods_are_left_room(tmp_path: Path) -> None:
    """The shortage counts them as well; the pod itself is told where it goes."""
    file = write_list(
        tmp_path / "c.json",
        node_manifest("n"),
        pod_manifest("first", requests={"cpu": "3"}, nominated="n", priority=10),
        pod_manifest("second", requests={"cpu": "2"}),
    )

    result = run("-f", file)

    assert "Fits on 1 of 1 nodes; goes to n, where it is nominated, whatever" in result.stdout
    assert "2 cpu asked for: 1 node short, by 1 on the nearest (n)\n" in result.stdout


def test_a_nominated_node_that_does_not_fit_is_told(tmp_path: Path) -> None:
    """Room was made there for nothing."""
    pod = pod_manifest("p", requests={"cpu": "5"}, nominated="n")

    result = run("-f", write_list(tmp_path / "c.json", node_manifest("n"), pod))

    assert "It is nominated to n, which is tried first, and does not fit there.\n" in result.stdout


def test_the_claim_that_keeps_a_pod_from_nodes_is_named(tmp_path: Path) -> None:
    """Claim, volume, reason and nodes, as text and as data."""
    terms = [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "pv-1"},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
    }
    completed = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "annotations": completed},
        "spec": {"volumeName": "pv-1"},
    }
    pod = pod_manifest("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    file = write_list(tmp_path / "c.json", node_manifest("n"), volume, claim, pod)
    reason = "node(s) didn't match PersistentVolume's node affinity"

    expected = f"Claim data (volume pv-1): {reason}, on 1 node: n\n"
    assert expected in run("-f", file).stdout
    (answer,) = json.loads(run("-f", file, "-o", "json").stdout)["pods"]
    assert answer["claims"] == [
        {"claim": "data", "volume": "pv-1", "reason": reason, "nodes": 1, "examples": ["n"]}
    ]


def test_a_claim_is_no_obstacle_to_a_profile_without_the_plugin(tmp_path: Path) -> None:
    """The pod fits; nothing else may be said of its volume."""
    zone = "topology.kubernetes.io/zone"
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "pv-1", "labels": {zone: "b"}},
        "spec": {},
    }
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "pv-1"},
    }
    pod = pod_manifest("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    node = node_manifest("n", labels={zone: "a"})
    file = write_list(tmp_path / "c.json", node, volume, claim, pod)
    plugins = {"multiPoint": {"disabled": [{"name": "VolumeZone"}]}}
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"schedulerName": "stowage", "plugins": plugins}],
            }
        )
    )

    with_it, without = run("-f", file).stdout, run("-f", file, "--config", str(config)).stdout

    assert "Claim data (volume pv-1): node(s) had no available volume zone, on 1 node: n" in with_it
    assert "Fits on 1 of 1 nodes; goes to n." in without
    assert "Claim data" not in without


def test_a_claim_that_the_scheduler_frees_is_told(tmp_path: Path) -> None:
    """It has devices of a node that is gone; nothing has to be done about it."""
    objects = (
        node_manifest("a"),
        slice_manifest("a", "x"),
        class_manifest(),
        claim_manifest("c", has=("gone/x",)),
        pod_manifest("p", resourceClaims=using("c")),
    )
    file = write_list(tmp_path / "c.json", *objects)
    [told] = json.loads(run("-f", file, "-o", "json").stdout)["pods"]
    text = run("-f", file).stdout

    assert told["frees"] == "default/c"
    assert "The scheduler frees claim default/c, which no other pod uses, and tries this" in text
    assert "Nothing that was tried would help" not in text


def test_a_claim_that_another_pod_uses_is_not_freed(tmp_path: Path) -> None:
    """Nor is one of which the nodes have too little."""
    objects = (
        node_manifest("a"),
        slice_manifest("a", "x"),
        class_manifest(),
        claim_manifest("c", has=("gone/x",), users=("other",)),
        claim_manifest("large", request("gpu", 9)),
        pod_manifest("p", resourceClaims=using("c")),
        pod_manifest("q", resourceClaims=using("large")),
    )
    file = write_list(tmp_path / "c.json", *objects)

    found = json.loads(run("-f", file, "-o", "json").stdout)["pods"]

    assert [each.get("frees") for each in found] == [None, None]


GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"


def pod_group(name: str, least: int, version: str = "v1alpha2") -> dict[str, Any]:
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        pytest.param(pod_group("train", 1), "Fits on 1 of 1 nodes; goes to n.", id="whole"),
        pytest.param(pod_group("train", 1, "v1beta1"), "Fits on 1 of 1 nodes", id="of 1.37"),
        pytest.param(
            pod_group("train", 2),
            "Held back by GangScheduling before any node is looked at: waiting for minCount pods "
            "from a gang to appear in scheduling queue",
            id="too few pods",
        ),
        pytest.param(
            pod_group("trian", 1),
            "Held back by GangScheduling before any node is looked at: waiting for pods's pod "
            'group "train" to appear in scheduling queue',
            id="another name",
        ),
    ],
)
def test_a_member_is_explained_with_its_group(
    tmp_path: Path, group: dict[str, Any], expected: str
) -> None:
    """The group is read from the files; one that is not there is named."""
    member = pod_manifest("p", schedulingGroup={"podGroupName": "train"})
    file = write_list(tmp_path / "c.json", node_manifest("n"), group, member)

    result = run("-f", file, GATES)

    assert (result.exit_code, result.stderr) == (0, "")
    assert expected in result.stdout


@pytest.mark.parametrize(
    ("least", "pods", "expected"),
    [
        pytest.param(2, 2, "Member of pod group default/train: 2 of 2 fit\n", id="whole"),
        pytest.param(
            3,
            3,
            "Member of pod group default/train: 2 of 3 fit; the first of the others: 0/1 nodes are "
            "available: 1 Too many pods.",
            id="does not fit",
        ),
        pytest.param(
            4,
            2,
            "Member of pod group default/train: 2 of at least 4 pods are there",
            id="too few pods",
        ),
    ],
)
def test_it_is_said_how_much_of_a_group_fits(
    tmp_path: Path, least: int, pods: int, expected: str
) -> None:
    """Each member by itself may fit; the group is what is placed."""
    members = [
        pod_manifest(f"p{i}", schedulingGroup={"podGroupName": "train"}) for i in range(pods)
    ]
    node = node_manifest("n")
    node["status"]["allocatable"]["pods"] = "2"
    file = write_list(tmp_path / "c.json", node, pod_group("train", least), *members)

    result = run("-f", file, GATES)

    assert (result.exit_code, result.stderr) == (0, "")
    assert expected in " ".join(result.stdout.split()) or expected in result.stdout


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([pod_manifest("p")], "Fits nowhere: no nodes available to schedule pods"),
        pytest.param([node_manifest("n")], "No pod waits for a node."),
        pytest.param(
            [node_manifest("n"), pod_manifest("p", resourceClaims=[{"name": "gpu"}])],
            'Held back by DynamicResources before any node is looked at: pod "default/p", '
            'spec.resourceClaim "gpu": none of the supported fields are set',
        ),
        pytest.param(
            [node_manifest("n"), pod_manifest("p", schedulingGroup={"podGroupName": "train"})],
            "Rejected by GangScheduling on all 1 nodes at once: 0/1 nodes are available: pod "
            "groups wait for the feature gates GenericWorkload and GangScheduling.",
        ),
    ],
    ids=["no nodes", "no pods", "devices", "pod group"],
)
def test_there_may_be_nothing_to_look_at(
    tmp_path: Path, objects: list[dict[str, Any]], expected: str
) -> None:
    """Which is no error."""
    result = run("-f", write_list(tmp_path / "c.json", *objects))

    assert result.exit_code == 0
    assert expected in result.stdout


def test_a_scheduler_name_that_none_serves_is_said_first(tmp_path: Path) -> None:
    """Also where no pod is named, if the name looks misspelt; a scheduler at work is known."""
    file = write_list(
        tmp_path / "c.json",
        node_manifest("n"),
        pod_manifest("slip", schedulerName="stowge"),
        pod_manifest("runs", schedulerName="volcano", nodeName="n"),
        pod_manifest("waits", schedulerName="volcano"),
        pod_manifest("other", schedulerName="nothing-alike"),
    )

    lines = run("-f", file).stdout.splitlines()
    [answer] = answers_of(run("-f", file, "other", "-o", "json"))

    assert lines[:2] == [
        "default/slip  (profile default-scheduler)",
        "  No scheduler serves `stowge`; did you mean `stowage`?",
    ]
    assert not any("waits" in line for line in lines)
    assert answer["unserved"] == {"schedulerName": "nothing-alike", "meant": ""}
    assert "unserved" not in answers_of(run("-f", file, "waits", "-o", "json"))[0]


def test_a_misspelt_label_comes_before_the_advice_to_label_nodes(tmp_path: Path) -> None:
    """What the person can change is read first; and a section without an entry is a sentence."""
    file = write_list(
        tmp_path / "c.json",
        node_manifest("n", labels={"disk": "ssd"}),
        pod_manifest("p", nodeSelector={"disk": "sdd"}),
        pod_manifest("q", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]),
    )

    slip = run("-f", file, "p").stdout
    missing = run("-f", file, "q").stdout

    assert 0 < slip.index("Misspelt: ") < slip.index("label node n disk=sdd")
    assert "Nothing that was tried would help." in missing
    assert "What would help" not in missing


def answers_of(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result.stdout)["pods"]
    return found


def test_equal_pods_are_placed_together(tmp_path: Path) -> None:
    """Each by itself fits; the order in which they are placed is said."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "parallelism": 4,
            "template": {"spec": pod_manifest("t", requests={"cpu": "2"})["spec"]},
        },
    }
    file = write_list(tmp_path / "c.json", node_manifest("n", cpu="4"), job)

    output = run("-f", file).stdout

    assert "Fits on 1 of 1 nodes" in output
    order = "Placed one after the other, by priority and then by age, 2 of 4 find a node: n (2);"
    assert f"{order} the others wait: 0/1 nodes are available: 1 Insufficient cpu." in output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["-f", "gone"], "gone: cannot be read: no such file or directory", id="gone"),
        pytest.param(
            ["-f", "x" * 999], "x: cannot be read: file name too long", id="no possible name"
        ),
        pytest.param(
            ["-f", "-", "-f", "-"], "standard input can be read once only", id="stdin twice"
        ),
        pytest.param(
            ["x" * 999, "--top", "1"],
            "x: there is no such pod, or it has ended\n",
            id="a long name",
        ),
        pytest.param(["--pod", "x"], "x: there is no such pod, or it has ended\n", id="pod"),
        pytest.param(["x", "--top", "1"], "x: there is no such pod, or it has ended\n", id="name"),
        pytest.param(
            ["a/b/c", "--top", "1"], "expected the name of a pod, [NAMESPACE/]POD, got", id="form"
        ),
        pytest.param(
            ["", "--top", "1"], "expected the name of a pod, [NAMESPACE/]POD, got ''", id="no name"
        ),
        pytest.param(
            [__file__, "--top", "1"],
            "test_explain.py: there is no such pod, or it has ended; a file is given with -f\n",
            id="a file without -f",
        ),
        pytest.param(
            ["--profile", "x"],
            "--profile x: the profiles here are default-scheduler, stowage\n",
            id="profile",
        ),
        pytest.param(
            ["--context", "x"], "--kubeconfig and --context a cluster: give one\n", id="both"
        ),
        pytest.param(["--node", "x"], "--node x: there is no such node", id="node"),
        pytest.param(
            ["-n", "defalt", "--top", "1"],
            '--namespace defalt: there is no such namespace; did you mean "default"?\n',
            id="namespace",
        ),
        pytest.param(["--config", "gone"], "gone: cannot be read: no such file", id="config"),
    ],
)
def test_what_is_wrong_is_said_in_one_message(
    cluster: str, arguments: list[str], expected: str
) -> None:
    """On standard error, with exit status 2 and nothing on standard output."""
    files = ["-f", cluster] if any("--" in a for a in arguments) else []

    result = run(*files, *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert expected in result.stderr


@pytest.mark.parametrize("name", ["web-0", "shop/web-0"])
def test_a_pod_of_another_namespace_is_pointed_out(tmp_path: Path, name: str) -> None:
    """Its name is right, and --namespace is not."""
    pods = pod_manifest("web-0", namespace="shop"), pod_manifest("p")
    file = write_list(tmp_path / "c.json", node_manifest("n"), *pods)

    result = run("-f", file, "-n", "default", name)

    assert result.stderr == (
        f"stowage explain: {name}: there is no such pod, or it has ended; namespace shop has one\n"
    )


def test_broken_input_names_file_document_and_field(tmp_path: Path) -> None:
    """So that it can be found in a file of ten thousand lines."""
    file = tmp_path / "broken.yaml"
    file.write_text(
        "kind: ConfigMap\n---\nkind: Pod\nmetadata: {name: p}\nspec: {priority: high}\n"
    )

    result = run("-f", str(file))

    assert result.exit_code == 2
    assert result.stderr == (
        f"stowage explain: {file}: document 2: Pod p: spec.priority: "
        "expected a whole number, got a text\n"
    )


def test_cases_are_answered_line_by_line() -> None:
    """A broken line gives an error of its own, and the next one is answered."""
    case = {"objects": [node_manifest("n"), pod_manifest("p")]}
    cases = ({"objects": 5}, case, {"objects": []}, {"object": []}, {})
    lines = [b"{", b"5", b'"\xff"', b"[" * 100_000, *(json.dumps(case).encode() for case in cases)]

    result = run("--jsonl", stdin=b"\n".join(lines) + b"\n\n")

    replies = [json.loads(line) for line in result.stdout.splitlines()]
    assert [reply.get("error", "") for reply in replies] == [
        "not valid JSON: Input data was truncated",
        'expected an object with "objects"',
        "not valid JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "not valid JSON: maximum recursion depth exceeded while deserializing an object",
        "objects: expected a list",
        "",
        "",
        "objects: required, got object",
        "objects: required, got nothing",
    ]
    assert [len(reply["pods"]) for reply in replies] == [0, 0, 0, 0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("-f", "cluster.json"), "--filename"),
        (("shop/web-0",), "names of pods"),
        (("-n", "shop"), "--namespace"),
        (("-o", "html"), "--output"),
        (("-n", "json"), "--namespace"),
        (("--config", "config.yaml"), "--config"),
        (("--fail-on-pending",), "--fail-on-pending"),
    ],
)
def test_what_cases_would_ignore_is_refused(options: tuple[str, ...], named: str) -> None:
    """An answer about something else would look like an answer."""
    result = run("--jsonl", *options)

    assert result.exit_code == 2
    assert f"reads whole cases from standard input: leave out {named}\n" in result.stderr


def test_options_that_cases_heed_are_taken() -> None:
    """As the judge of parity gives them."""
    result = run("--jsonl", "-o", "json", "--preempt", "--feature-gates", "GenericWorkload=true")

    assert (result.exit_code, result.stdout) == (0, "")


def test_a_pod_with_a_node_is_told_why_there(cluster: str) -> None:
    """It is judged as if it had none: the room that it takes is its own."""
    answer = answers("-f", cluster, "running")["default/running"]

    assert answer["placed"] == {
        "node": "small",
        "fits": True,
        "rank": 2,
        "total": 415,
        "ahead": -27,
        "next": {"node": "big", "total": 442},
        "scores": {
            "TaintToleration": 0,
            "NodeResourcesFit": -18,
            "DynamicResources": 0,
            "NodeResourcesBalancedAllocation": -9,
            "ImageLocality": 0,
        },
    }
    output = run("-f", cluster, "running").stdout
    assert (
        "Is on small. Placed again now it would fit on 2 of 4 nodes; small is number 2 (415), 27 "
        "behind big (442): NodeResourcesFit -18, NodeResourcesBalancedAllocation -9.\n"
    ) in output


def test_a_pod_with_a_node_is_told_as_such_whatever_rejects_it(tmp_path: Path) -> None:
    """Its claim is gone, but it runs."""
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}
    pod = pod_manifest("runs", nodeName="a", volumes=[volume], nominated="b")
    file = write_list(tmp_path / "c.json", node_manifest("a"), node_manifest("b"), pod)

    told = run("runs", "-f", file).stdout

    assert "  Is on a. Placed again now it would be rejected by VolumeRestrictions on all 2" in told
    assert "is nominated" not in told


def test_nothing_is_said_of_the_nominated_node_of_a_gated_pod(tmp_path: Path) -> None:
    """No node was looked at."""
    gated = pod_manifest("p", schedulingGates=[{"name": "later"}], nominated="a")
    file = write_list(tmp_path / "c.json", node_manifest("a"), gated)

    told = run("p", "-f", file).stdout

    assert "  Held back by SchedulingGates before any node is looked at" in told
    assert "does not fit there" not in told


def test_a_pod_with_a_node_is_told_beside_an_equal_one_that_waits(tmp_path: Path) -> None:
    """Both are asked for; one answer is not that of the other."""
    pods = [pod_manifest("waits"), pod_manifest("runs", nodeName="a")]
    file = write_list(tmp_path / "c.json", node_manifest("a"), *pods)

    told = run("waits", "runs", "-f", file).stdout

    assert "default/waits  (profile default-scheduler)\n  Fits on 1 of 1 nodes; goes to a." in told
    assert "default/runs  (profile default-scheduler)\n  Is on a. Placed again now" in told


def test_a_pod_that_would_not_fit_where_it_is(tmp_path: Path) -> None:
    """The node has been tainted since, or is gone."""
    file = write_list(
        tmp_path / "c.json",
        node_manifest("tainted", taints=TAINTS),
        node_manifest("other"),
        pod_manifest("p", nodeName="tainted"),
        pod_manifest("q", nodeName="gone"),
    )

    result = run("-f", file, "p", "q")

    assert (
        "Is on tainted. Placed again now it would fit on 1 of 2 nodes, not on tainted, and other "
        "would be the best"
    ) in result.stdout
    assert "Is on gone. Placed again now it would fit on 1 of 2 nodes, not on gone" in result.stdout
    assert result.stderr == "note: there is no node gone, on which there are pods: default/q\n"


def test_equal_pods_are_one_answer(tmp_path: Path) -> None:
    """Pods that differ in their names only; one with another size is another page."""
    small = [pod_manifest(f"small-{i}", requests={"cpu": "9"}) for i in range(5)]
    file = write_list(
        tmp_path / "c.json", node_manifest("n"), *small, pod_manifest("one", requests={"cpu": "8"})
    )

    output = run("-f", file).stdout

    assert output.count("Fits nowhere") == 2
    assert (
        "default/small-0  (profile default-scheduler)\n  and 4 more like it: default/sma" in output
    )
    assert len(answers("-f", file)) == 6


def test_a_long_page_is_short_and_quick(tmp_path: Path) -> None:
    """Three hundred pods of one shape on many nodes are a page that fits a screen."""
    nodes = [node_manifest(f"n{i}", allocatable={"cpu": f"{1 + i % 7}"}) for i in range(300)]
    pods = [pod_manifest(f"p{i}", requests={"cpu": "8"}) for i in range(300)]

    output = run("-f", write_list(tmp_path / "c.json", *nodes, *pods)).stdout

    assert len(output.splitlines()) < 20


@pytest.mark.parametrize(
    ("pods", "status"),
    [
        pytest.param(["fits"], 0, id="fits"),
        pytest.param(["running"], 0, id="has a node"),
        pytest.param(["fits", "huge"], 3, id="fits nowhere"),
        pytest.param(["held"], 3, id="held back"),
    ],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_pipeline_can_fail_on_pending_pods(
    cluster: str, pods: list[str], status: int, output: str
) -> None:
    """Only when it asks for it."""
    assert run("-f", cluster, *pods, "-o", output).exit_code == 0
    assert run("-f", cluster, *pods, "-o", output, "--fail-on-pending").exit_code == status


def test_pods_of_other_schedulers_are_judged_when_they_are_meant(cluster: str) -> None:
    """By name, or by a profile that is named for all."""
    named = run("-f", cluster, "theirs")
    by_profile = answers("-f", cluster, "--profile", "stowage")

    assert "default/theirs  (profile default-scheduler)\n" in named.stdout
    assert "note: default/theirs is somebody-else's; it was judged by default-s" in named.stderr
    assert sorted(by_profile) == ["default/fits", "default/held", "default/huge", "default/theirs"]


def test_a_thousand_pods_with_a_misspelt_scheduler_are_one_note(tmp_path: Path) -> None:
    """A note for each would hide the others."""
    slips = [pod_manifest(f"p{i}", schedulerName="stowgae") for i in range(1000)]
    file = write_list(tmp_path / "slips.json", node_manifest("n"), *slips)

    told = run("-f", file, "--no-changes").stderr.splitlines()

    [note] = [line for line in told if "stowgae" in line]
    assert note.startswith("note: default/p0 and 999 more are stowgae's; they were judged by def")


def test_a_namespace_narrows(tmp_path: Path) -> None:
    """Both what waits, and what a bare name means."""
    pods = [pod_manifest("p", namespace=name) for name in ("a", "b")]
    file = write_list(tmp_path / "c.json", node_manifest("n"), *pods)

    assert list(answers("-f", file, "-n", "a")) == ["a/p"]
    assert list(answers("-f", file, "-n", "b", "p")) == ["b/p"]
    assert sorted(answers("-f", file, "p")) == ["a/p", "b/p"]


def test_slips_are_said_beside_the_answer(tmp_path: Path) -> None:
    """On standard error for people, as `warnings` for programs."""
    pod = pod_manifest("p", nodeSelectr={"disk": "ssd"})
    file = write_list(tmp_path / "c.json", pod)
    expected = [
        f"{file}: items[0]: Pod p: spec.nodeSelectr: unknown field (did you mean nodeSelector?)",
        "there are no nodes: no pod can have one",
    ]

    assert run("-f", file).stderr == "".join(f"note: {text}\n" for text in expected)
    assert json.loads(run("-f", file, "-o", "json").stdout)["warnings"] == expected


def test_without_files_or_a_cluster_it_says_what_it_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One message, no trace."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    result = run()

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("stowage explain: no API server given: expected --kubeconfig")


def test_on_a_terminal_nothing_is_wider_than_it(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tells no node apart goes first; sentences are wrapped; the numbers stay whole."""
    monkeypatch.setattr("scheduler.tools.cli.tables.terminal_width", lambda: 60)
    monkeypatch.setattr("scheduler.tools.cli.explain_text.terminal_width", lambda: 60)
    monkeypatch.setenv("NO_COLOR", "1")

    lines = run("-f", cluster).stdout.splitlines()

    assert max(len(line) for line in lines) <= 60
    assert "  The same on all of these: TaintToleration 300," in lines
    assert any("92" in line and "71" in line and "big" in line for line in lines)


def test_a_narrow_terminal_shows_every_number_and_name_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores become a sum if their table does not fit, and no name breaks at a hyphen."""
    monkeypatch.setattr("scheduler.tools.cli.tables.terminal_width", lambda: 40)
    monkeypatch.setattr("scheduler.tools.cli.explain_text.terminal_width", lambda: 40)
    monkeypatch.setenv("NO_COLOR", "1")
    node = "ip-10-0-0-200.eu-west-1.internal"
    file = write_list(tmp_path / "c.json", node_manifest(node), pod_manifest("p"))

    lines = run("-f", file).stdout.splitlines()

    assert f"    {node}." in lines
    total = next(line for line in lines if line.startswith(f"  {node}: "))
    text = " ".join(lines[lines.index(total) :])
    addends = re.findall(r"(\d+)\s+[A-Z]", text)
    assert int(total.split()[1]) == sum(map(int, addends))
    assert "300 TaintToleration" in " ".join(text.split())


def test_pods_that_are_alike_are_told_how_many_nodes_they_need(tmp_path: Path) -> None:
    """As many as are enough for all of them together."""
    pods = (pod_manifest(f"w{i}", requests={"cpu": "3"}) for i in range(3))
    running = pod_manifest("r", requests={"cpu": "3"}, nodeName="n")
    file = write_list(tmp_path / "c.json", node_manifest("n"), running, *pods)

    result = run("-f", file)

    assert "    for all 3: add 3 nodes like n\n" in result.stdout
    assert "add" not in run("-f", file, "--no-changes").stdout


def test_people_read_who_would_have_to_go(tmp_path: Path) -> None:
    """With --preempt; who nobody would have to go for is told why."""
    urgent = {"priority": 10, "requests": {"cpu": "2"}}
    file = write_list(
        tmp_path / "cluster.json",
        node_manifest("n", allocatable={"cpu": "2"}),
        pod_manifest("low", requests={"cpu": "1"}, nodeName="n"),
        pod_manifest("urgent", **urgent),
        pod_manifest("patient", **{**urgent, "preemptionPolicy": "Never"}),
    )

    result = run("-f", file, "--preempt")

    assert result.exit_code == 0
    assert "  Room could be made on n by evicting default/low; candidates: 1 node." in result.stdout
    assert "  No room can be made: " in result.stdout


def test_it_is_said_when_a_pod_fits(tmp_path: Path) -> None:
    """And which pods have to end for it, by what their ends are known."""
    running = pod_manifest("running", requests={"cpu": "4"}, nodeName="n")
    running["metadata"]["annotations"] = {"stowage.dev/expected-end": "2126-01-01T00:00:00Z"}
    waiting = pod_manifest("waiting", requests={"cpu": "2"})
    file = write_list(tmp_path / "c.json", node_manifest("n"), running, waiting)

    text = run("-f", file, "--pod", "waiting").stdout
    told = answers("-f", file, "--pod", "waiting")["default/waiting"]["estimate"]

    assert (
        "  Fits about 2126-01-01 00:00 UTC, if this pod ends as expected and nothing else takes "
        "the room: pod default/running (as annotated).\n"
    ) in text
    assert told == {
        "text": told["text"],
        "time": "2126-01-01T00:00:00Z",
        "count": 1,
        "known": 1,
        "ends": [
            {
                "pod": "default/running",
                "node": "n",
                "end": "2126-01-01T00:00:00Z",
                "source": "annotation",
            }
        ],
    }


def test_without_known_ends_nothing_is_said_of_when_a_pod_fits(tmp_path: Path) -> None:
    """The answer as data has it; people would read it for nearly every pod."""
    running = pod_manifest("running", requests={"cpu": "4"}, nodeName="n")
    waiting = pod_manifest("waiting", requests={"cpu": "2"})
    file = write_list(tmp_path / "c.json", node_manifest("n"), running, waiting)

    told = answers("-f", file, "--pod", "waiting")["default/waiting"]["estimate"]

    assert told["text"] == "When it fits is not known: no running pod has a known end."
    assert told["text"] not in run("-f", file, "--pod", "waiting").stdout


def test_it_is_said_when_a_running_pod_ends(tmp_path: Path) -> None:
    """Or that what is written about it cannot be read."""
    running = pod_manifest("running", nodeName="n")
    running["metadata"]["annotations"] = {"stowage.dev/expected-end": "2126-01-01T00:00:00Z"}
    odd = pod_manifest("odd", nodeName="n")
    odd["metadata"]["annotations"] = {"stowage.dev/expected-duration": "soon"}
    file = write_list(tmp_path / "c.json", node_manifest("n"), running, odd)

    text = run("-f", file, "running", "odd").stdout
    told = answers("-f", file, "running", "odd")

    assert "  It is expected to end about 2126-01-01 00:00 UTC (as annotated).\n" in text
    assert "  An annotation cannot be read: stowage.dev/expected-duration: soon\n" in text
    assert told["default/running"]["expectedEnd"] == {
        "pod": "default/running",
        "node": "n",
        "end": "2126-01-01T00:00:00Z",
        "source": "annotation",
    }
    assert "expectedEnd" not in told["default/odd"]
