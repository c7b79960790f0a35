"""Objects for histories in which a sample of many nodes is enough.

The start of the next search depends on all searches before it, so it is the same only if they are.
"""

from tests.parity.generator.draw import REGION, ZONE, Draw, Object
from tests.parity.generator.histories import make_case_of

NODES = (98, 118)
"""The least and most nodes; below 100 all are evaluated."""
PERCENTAGES = (1, 50, 85, 95)


def make_sampling_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects.

    Pods preempt no others: of more than 100 candidates kube-scheduler takes any first.
    """
    return with_samples(Draw(f"history with samples:{seed}"), make_case_of(seed, None, nodes=NODES))


def with_samples(draw: Draw, case: Object) -> Object:
    """Let profiles need a part of the nodes only, half of the time of nodes without zones."""
    config = case["config"]
    # With several workers the end of a search is chance.
    config |= {"percentageOfNodesToScore": draw.pick(PERCENTAGES), "parallelism": 1}
    if draw.maybe(0.5):
        config["profiles"][1]["percentageOfNodesToScore"] = draw.pick((*PERCENTAGES, 100))
    if draw.maybe(0.5):
        for node in _nodes_of(case):
            for label in (ZONE, REGION):
                node["metadata"]["labels"].pop(label, None)
    return case


def has_samples(case: Object) -> bool:
    """Whether a case is one of those with samples."""
    return "percentageOfNodesToScore" in case["config"]


def has_zones(case: Object) -> bool:
    """Whether any node is in a zone."""
    return any({ZONE, REGION} & set(node["metadata"].get("labels", ())) for node in _nodes_of(case))


def _nodes_of(case: Object) -> list[Object]:
    return [each for each in case["objects"] if each["kind"] == "Node"]
