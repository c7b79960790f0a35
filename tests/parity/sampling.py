"""Compare the search among many nodes with kube-scheduler's own, where some nodes are enough.

    python -m tests.parity.sampling --seeds 0:500

Each case is a random cluster of 100 nodes and more, and a configuration that samples. Its pods are
tried one after the other, and none is added. Compared are the order of the nodes, the number of
nodes that fit, the start of the next search, and the choice, which must be among our best nodes.
One worker filters in kube-scheduler: with more of them the end of a search is chance.
"""

import argparse
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

from scheduler.kernel.engine.algorithm import ScheduleResult, SchedulingAlgorithm
from scheduler.kernel.framework.runtime import PluginError
from scheduler.tools.offline.cases import load_case
from tests.parity.answering import oracle_command, pipelined, running
from tests.parity.generator.cluster import Cluster, new_namespaces
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.families import fill
from tests.parity.generator.placement import NodeAffinity, NodeLabels, Ports, Taints
from tests.parity.generator.queueing import Queueing
from tests.parity.generator.resources import Resources
from tests.parity.generator.topology import PodAffinity, Spread

NODE_COUNTS = (99, 100, 101, 120, 150, 150, 260)
PERCENTAGES = (1, 20, 50, 70, 90, 99)
PRINTED = 20


def sampling_command() -> list[str]:
    """Return the command line of the oracle that searches."""
    return [*oracle_command(admit=False), "-sampling"]


def make_sampling_case(seed: int) -> Object:
    """Make the case of a seed."""
    draw = Draw(f"sampling:{seed}")
    cluster = Cluster(others=new_namespaces(draw))
    features = (
        Queueing(0.3, foreign=0.0),
        NodeLabels(draw.pick((0.2, 0.7))),
        Resources(0.1),
        Taints(draw.pick((0.1, 0.4))),
        NodeAffinity(0.3),
        Ports(0.1),
        Spread(0.1),
        PodAffinity(0.1),
    )
    percentages = draw.pick(PERCENTAGES), draw.pick((None, *PERCENTAGES))
    cluster.profiles = [{"schedulerName": "default-scheduler"}]
    if percentages[1] is not None:
        cluster.profiles[0]["percentageOfNodesToScore"] = percentages[1]
    fill(draw, cluster, features, draw.pick(NODE_COUNTS), 60)
    for pod in cluster.pending:
        if "affinity" not in pod["spec"] and draw.maybe(0.15):
            pod["spec"]["affinity"] = _named(draw, cluster)
    case = cluster.case()
    case["config"] |= {"percentageOfNodesToScore": percentages[0], "parallelism": 1}
    return case


def _named(draw: Draw, cluster: Cluster) -> Object:
    """The affinity of a pod of a DaemonSet, or of one that wants one of a few nodes."""
    names = draw.some([node["metadata"]["name"] for node in cluster.nodes], 1, 3)
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in names
    ]
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def is_sample(attempt: Object, admitted: Object) -> bool:
    """Whether a search ended before all nodes were evaluated, with enough of them."""
    return bool(attempt["feasible"] >= 100 and attempt["evaluated"] < len(admitted["order"]))


def differences(admitted: Object) -> Iterator[str]:
    """Say where the searches part."""
    profiles, cluster = load_case(admitted)
    algorithm = SchedulingAlgorithm(Random(0), profiles.config.percentage_of_nodes_to_score)
    snapshot, waiting = cluster.snapshot, {pod.key: pod for pod in cluster.waiting}
    names = snapshot.table.names
    if admitted["order"] is None:
        return
    order = [names[row] for row in snapshot.table.node_order().tolist()]
    if order != admitted["order"]:
        yield f"order: expected {admitted['order']}, got {order}"
    for theirs in admitted["attempts"]:
        pod = waiting[theirs["pod"]]
        framework = profiles.framework_of(pod)
        try:
            result: Any = algorithm.schedule_pod(framework, pod, snapshot, cluster.nominator)
        except PluginError:
            result = None
        if (result is None) != ("error" in theirs):
            yield f"{pod.key}: expected {theirs}, got {result}"
        feasible, best = 0, {""}
        if isinstance(result, ScheduleResult):
            feasible = result.best.feasible
            best = {names[row] for row in result.best.rows.tolist()}
        ours = feasible, algorithm.next_start_node_index
        if (theirs["feasible"], theirs["next"]) != ours or theirs["host"] not in best:
            yield f"{pod.key}: expected {theirs}, got {ours} and {sorted(best)}"
            # Later searches would differ as well.
            return


def main() -> int:
    """Compare the searches of all seeds, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:250", metavar="A:B")
    first, last = (int(part) for part in parser.parse_args().seeds.split(":"))
    seeds = range(first, last)
    attempts = sampled = differing = 0
    with running(sampling_command()) as oracle:
        answers = pipelined(oracle, map(make_sampling_case, seeds))
        for seed, admitted in zip(seeds, answers, strict=True):
            if admitted.get("error") or admitted.get("invalid"):
                raise SystemExit(f"{seed}: {admitted.get('error') or admitted['invalid'][0]}")
            attempts += len(admitted["attempts"] or ())
            sampled += sum(is_sample(each, admitted) for each in admitted["attempts"] or ())
            found = list(differences(admitted))
            differing += bool(found)
            if found and differing <= PRINTED:
                print(f"{seed}: {found[0]}", flush=True)
    print(f"{len(seeds)} cases, {attempts} attempts, {sampled} of them sampled, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
