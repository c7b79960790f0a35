"""What is said about a pod: for pods with a node as if they had none, and changing nothing."""

import copy
import json
from typing import Any

import msgspec
import pytest

from scheduler.api.limits import MAX_POD_TERMS
from scheduler.config.load import load_object
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.model import CurrentPlacement, PodAnswer
from scheduler.kernel.answers.why import Depth
from scheduler.testing.validation import validate_engine
from scheduler.tools.offline.cluster import DEFAULT_PROFILE, ClusterState, Profiles
from scheduler.tools.offline.reading import documents_from_text, objects_from_documents
from scheduler.tools.offline.simulate import simulate
from tests.parity.generator.draw import Object
from tests.parity.generator.families import make_case
from tests.support.manifests import node_manifest, pod_manifest

FAMILIES = ("mixed", "inter-pod", "spread", "volumes", "ports", "nominated")


def profiles_of(case: Object) -> Profiles:
    config = case.get("config")
    if config is None:
        return Profiles(None)
    return Profiles(load_object(config, source="case", default_scheduler_name=DEFAULT_PROFILE))


def load(profiles: Profiles, objects: list[Object]) -> ClusterState:
    text = json.dumps({"kind": "List", "items": objects})
    return profiles.load(objects_from_documents(documents_from_text(text, "case")))


def explained(case: Object, objects: list[Object], key: str) -> PodAnswer:
    profiles = profiles_of(case)
    cluster = load(profiles, objects)
    pods = [*cluster.engine.core.cache.pods.values(), *cluster.waiting]
    pod = next(pod for pod in pods if pod.key == key)
    return Explainer(cluster.engine, profiles.framework_of).explain(pod)


def plain(answer: PodAnswer) -> Any:
    return json.loads(msgspec.json.encode(answer))


def without_node(pod: Object) -> Object:
    """The same pod, waiting."""
    waiting = copy.deepcopy(pod)
    del waiting["spec"]["nodeName"]
    return waiting


@pytest.mark.parametrize("family", FAMILIES)
def test_a_placed_pod_is_judged_as_if_it_waited(family: str) -> None:
    """Verdicts and scores are those of a cluster in which it has never had a node."""
    compared = 0
    for seed in range(10):
        case = make_case(family, seed)
        names = set(profiles_of(case).frameworks)
        running = [
            o
            for o in case["objects"]
            if o["kind"] == "Pod"
            and o["spec"].get("nodeName")
            and o["spec"].get("schedulerName", DEFAULT_PROFILE) in names
            and o.get("status", {}).get("phase") not in ("Succeeded", "Failed")
            and not o["metadata"].get("deletionTimestamp")
        ][:2]
        for pod in running:
            key = f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
            others = [o for o in case["objects"] if o is not pod]

            placed = explained(case, case["objects"], key)
            waiting = explained(case, [*others, without_node(pod)], key)

            found = msgspec.structs.replace(placed, placed=msgspec.UNSET)
            assert found == waiting, f"{family} {seed} {key}"
            compared += 1
    assert compared > 5


def test_the_answer_as_json_is_the_answer() -> None:
    """Written once per verdict, it reads the same; some nodes may be left out."""
    for seed in range(12):
        case = make_case("mixed", seed)
        profiles = profiles_of(case)
        cluster = load(profiles, case["objects"])
        for all_reasons in (False, True):
            explainer = Explainer(cluster.engine, profiles.framework_of, all_reasons=all_reasons)
            for pod in cluster.waiting:
                judgement = explainer.judge(pod)
                answer = judgement.answer()

                assert json.loads(bytes(judgement.json())) == plain(answer)
                if answer.nodes:
                    narrow = json.loads(bytes(judgement.json([answer.nodes[0].node])))
                    assert narrow["nodes"] == plain(answer)["nodes"][:1]


def test_the_short_answer_is_the_long_one_with_its_nodes_counted() -> None:
    """Nothing else differs, and each number is that of nodes of the long one."""
    counted = 0
    for family, seed in [*(("mixed", seed) for seed in range(12)), ("inter-pod", 1), ("spread", 2)]:
        case = make_case(family, seed)
        profiles = profiles_of(case)
        cluster = load(profiles, case["objects"])
        pods = [*cluster.engine.core.cache.pods.values(), *cluster.waiting]
        for all_reasons in (False, True):
            explainer = Explainer(cluster.engine, profiles.framework_of, all_reasons=all_reasons)
            for pod in pods:
                judgement = explainer.judge(pod, Depth.CHECKS)
                long, short = (
                    json.loads(bytes(text)) for text in (judgement.json(), judgement.short_json())
                )

                nodes, counts = long.pop("nodes"), short.pop("counts", None)

                assert short == long
                assert counts == counts_of(nodes), f"{family} {seed} {pod.key}"
                counted += bool(counts and counts["feasible"] and counts["rejected"])
    assert counted > 5


def counts_of(nodes: list[Object]) -> Object | None:
    """What a short answer says instead of nodes."""
    if not nodes:
        return None
    fitting = [node for node in nodes if node["feasible"]]
    alike: dict[str, Object] = {}
    for node in nodes:
        if not node["feasible"]:
            reason = {name: node[name] for name in ("plugin", "code", "reasons")}
            group = alike.setdefault(json.dumps(reason), {"nodes": 0, **reason, "examples": []})
            group["nodes"] += 1
            group["examples"] = [*group["examples"], node["node"]][:5]
    return {
        "nodes": len(nodes),
        "feasible": len(fitting),
        "best": sorted(fitting, key=lambda node: (-node["total"], node["node"]))[:5],
        "rejected": sorted(alike.values(), key=lambda group: (-group["nodes"], group["examples"])),
    }


def test_explaining_changes_no_decision() -> None:
    """The columns of pod classes are those of the cluster, also after questions about forks."""
    objects: list[Any] = [node_manifest(f"n{i}") for i in range(3)]
    objects += [pod_manifest(f"r{i}", requests={"cpu": "2"}, nodeName=f"n{i}") for i in range(3)]
    objects += [pod_manifest("w", requests={"cpu": "2"})]
    profiles = Profiles(None)
    cluster = load(profiles, objects)
    explainer = Explainer(cluster.engine, profiles.framework_of)
    [waiting] = cluster.waiting
    before = explainer.explain(waiting)

    for pod in list(cluster.engine.core.cache.pods.values()):
        [own] = [n for n in explainer.explain(pod).nodes if n.node == pod.node_name]
        assert own.feasible

    assert explainer.explain(waiting) == before
    validate_engine(cluster.engine)


def test_a_pod_that_the_snapshot_does_not_know_yet_is_not_taken_from_it() -> None:
    """What came since the last decision is not in the columns."""
    profiles = Profiles(None)
    node = node_manifest("n", allocatable={"cpu": "1"})
    cluster = load(profiles, [node, pod_manifest("w", requests={"cpu": "1"})])
    core = cluster.engine.core
    [waiting] = cluster.waiting
    placed = waiting.on_node("n")
    core.cache.add_pod(placed)
    explainer = Explainer(cluster.engine, profiles.framework_of)

    new = explainer.explain(placed)
    core.catch_up()
    known = explainer.explain(placed)

    assert new == known
    assert known.placed != msgspec.UNSET
    core.cache.remove_pod(placed)
    assert explainer.explain(placed).nodes == known.nodes


def test_a_pod_over_a_limit_gets_the_sentence_of_the_scheduler() -> None:
    """No plugin judges it; a change to fewer terms is not looked for."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * (MAX_POD_TERMS + 1)}
    profiles = Profiles(None)
    cluster = load(
        profiles,
        [node_manifest("n"), pod_manifest("p", affinity={"podAntiAffinity": required})],
    )
    [waiting] = cluster.waiting
    explainer = Explainer(cluster.engine, profiles.framework_of, wall=lambda: 0.0)

    answer = explainer.explain(waiting, Depth.CHANGES)
    placed = explainer.explain(waiting.on_node("n"))

    sentence = "pod has 33 pod affinity terms, more than the 32 that are looked at"
    assert answer == PodAnswer(waiting.key, DEFAULT_PROFILE, message=sentence)
    assert placed.message == sentence
    assert placed.placed == CurrentPlacement("n", fits=False)
    assert simulate(cluster).placements[0].message == sentence
