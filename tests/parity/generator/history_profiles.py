"""Objects for histories with two or three profiles that differ in all that a profile may say.

Each has weights, arguments and scoring strategies of its own, and lacks other plugins. Nodes start
as they do in a cluster: first without room and topology, and tainted.
"""

from tests.parity.generator.cluster import PLUGIN_ARGS
from tests.parity.generator.configuration import SCORERS, WEIGHTS
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.histories import PREEMPTION, make_case_of
from tests.parity.generator.history_more import MARK
from tests.parity.generator.placement import DeclaredFeatures, NodeAffinity, node_affinity
from tests.parity.generator.resources import SCORED, Resources, scoring_strategy
from tests.parity.generator.topology import PodAffinity, Spread, spread_constraints

PREEMPTING = 0.4
"""The share of cases whose pods may preempt others."""
_MARK = "profiles"
"""The name of a namespace that only these cases have."""
NAMES = ("default-scheduler", "second", "third")
LEFT_OUT = (
    "PodTopologySpread",
    "InterPodAffinity",
    "TaintToleration",
    "NodeResourcesFit",
    "NodeAffinity",
    "NodeUnschedulable",
    "ImageLocality",
    "NodeDeclaredFeatures",
)
"""Plugins that a profile may lack.

Without NodePorts two pods of a node may have one port: it is free for the judge once one is gone.
"""


def make_profiles_history_case(seed: int) -> Object:
    """Make the objects of one seed; the same seed always makes the same objects."""
    preemption = Draw(f"history with profiles and preemption:{seed}")
    draw = Draw(f"history with profiles:{seed}")
    may = preemption.maybe(PREEMPTING)
    features = [
        Resources(0.3),
        NodeAffinity(0.2),
        Spread(0.3, owned=0.8),
        PodAffinity(0.3),
        DeclaredFeatures(0.1),
    ]
    case = make_case_of(seed, preemption if may else None, draw.some(features, 2, 5))
    names = NAMES[: draw.pick((2, 2, 3))]
    # Some profiles of those whose pods may preempt do not.
    case["config"]["profiles"] = [
        _profile(draw, name, preempts=may and (name == NAMES[0] or draw.maybe(0.7)))
        for name in names
    ]
    for each in case["objects"]:
        if each["kind"] == "Pod":
            each["spec"]["schedulerName"] = draw.pick((*names, *names, *names, "unserved"))
    kind = {"apiVersion": "v1", "kind": "Namespace"}
    marks = [{**kind, "metadata": {"name": name}} for name in (MARK, _MARK)]
    return {**case, "objects": [*marks, *case["objects"]]}


def has_profiles(case: Object) -> bool:
    """Whether a case is one of those with several profiles."""
    return any(
        each["kind"] == "Namespace" and each["metadata"]["name"] == _MARK
        for each in case["objects"]
    )


def _profile(draw: Draw, name: str, *, preempts: bool) -> Object:
    # One profile spreads pods, so that services and controllers are watched.
    lacks = draw.some(LEFT_OUT[1:] if name == NAMES[0] else LEFT_OUT, 0, 2)
    off = [{"name": each} for each in (*lacks, *(() if preempts else (PREEMPTION,)))]
    scorers = [each for each in SCORERS if each not in lacks]
    weights = [{"name": n, "weight": draw.pick(WEIGHTS)} for n in draw.some(scorers, 1, 3)]
    plugins = {"multiPoint": {"disabled": off}, "score": {"enabled": weights}}
    return {"schedulerName": name, "plugins": plugins, "pluginConfig": _arguments(draw)}


def _arguments(draw: Draw) -> list[Object]:
    spread: Object = {"defaultingType": "System"}
    if draw.maybe(0.7):
        constraints = spread_constraints(draw, selector=False)
        spread = {"defaultingType": "List", "defaultConstraints": constraints}
    args: dict[str, Object] = {
        "NodeResourcesFit": {"scoringStrategy": scoring_strategy(draw)},
        "PodTopologySpread": spread,
    }
    if draw.maybe(0.5):
        scored = [{"name": name, "weight": 1} for name in draw.some(SCORED, 1, 4)]
        args["NodeResourcesBalancedAllocation"] = {"resources": scored}
    if draw.maybe(0.5):
        args["NodeAffinity"] = {"addedAffinity": node_affinity(draw, ["n0", "n1", "n2"])}
    if draw.maybe(0.5):
        args["InterPodAffinity"] = {
            "hardPodAffinityWeight": draw.pick((0, 1, 5, 100)),
            "ignorePreferredTermsOfExistingPods": draw.maybe(0.5),
        }
    return [
        {"name": name, "args": {"apiVersion": PLUGIN_ARGS, "kind": f"{name}Args", **some}}
        for name, some in args.items()
    ]
