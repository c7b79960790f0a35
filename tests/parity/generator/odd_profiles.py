"""Configurations on the border of what kube-scheduler accepts; some lie beyond it.

Where kube-scheduler refuses a configuration, Stowage must refuse it as well.
"""

from collections.abc import Callable, Sequence

from typing_extensions import override

from tests.parity.generator.cluster import PLUGIN_ARGS, Cluster
from tests.parity.generator.configuration import FILTERS, SCORERS
from tests.parity.generator.draw import RACK, ZONE, Draw, Object
from tests.parity.generator.feature import Feature


class OddProfiles(Feature):
    """One or two profiles with odd plugin sets and arguments."""

    @override
    def shape_cluster(self, draw: Draw, cluster: Cluster) -> None:
        if not draw.maybe(self.density):
            return
        names = ["default-scheduler", "second"][: draw.pick((1, 1, 2))]
        cluster.profiles = [_profile(draw, name) for name in names]

    @override
    def shape_pod(self, draw: Draw, pod: Object, cluster: Cluster) -> None:
        if cluster.profiles:
            pod["spec"]["schedulerName"] = draw.pick(cluster.profiles)["schedulerName"]


def _profile(draw: Draw, name: str) -> Object:
    profile: Object = {"schedulerName": name}
    if draw.maybe(0.1):
        profile["percentageOfNodesToScore"] = draw.pick((0, 100, 0, 100, 101, -1))
    plugins: Object = {}
    for change in draw.some(PLUGIN_CHANGES, 0, 2):
        change(draw, plugins)
    if plugins:
        profile["plugins"] = plugins
    arguments = [_arguments(draw, kind) for kind in draw.some(tuple(ARGUMENTS), 0, 3)]
    if arguments and draw.maybe(0.03):
        arguments.append(arguments[0])
    if arguments:
        profile["pluginConfig"] = arguments
    return profile


def _arguments(draw: Draw, name: str) -> Object:
    header: Object = {"apiVersion": PLUGIN_ARGS, "kind": f"{name}Args"}
    known = REFUSED if name in REFUSED and draw.maybe(0.07) else ARGUMENTS
    return {"name": name, "args": {**header, **draw.pick(known[name])}}


def _weight_zero(draw: Draw, plugins: Object) -> None:
    entry = {"name": draw.pick(SCORERS), "weight": draw.pick((0, 0, 2**31 - 1, 1000))}
    plugins.setdefault(draw.pick(("score", "multiPoint")), {})["enabled"] = [entry]


def _twice(draw: Draw, plugins: Object) -> None:
    name = draw.pick(SCORERS)
    entries = [{"name": name, "weight": 2}, {"name": name, "weight": 3}]
    if draw.maybe(0.6):
        # In two places, which is allowed.
        plugins["multiPoint"] = {"enabled": entries[:1]}
        entries = entries[1:]
    plugins["score"] = {"enabled": entries}


def _all_off_and_some_on(draw: Draw, plugins: Object) -> None:
    point = draw.pick(("filter", "score", "preScore", "preFilter"))
    names = draw.some(SCORERS if "core" in point else FILTERS, 0, 3)
    if point == "preScore":
        names = [name for name in names if name != "ImageLocality"]
    if point == "preFilter":
        names = ["NodeAffinity", "NodePorts", "NodeResourcesFit", "DynamicResources"]
    disabled = draw.pick(
        ([{"name": "*"}], [{"name": "*"}, {"name": names[0] if names else "*"}], [{"name": "None"}])
    )
    plugins[point] = {"disabled": disabled, "enabled": [{"name": name} for name in names]}


def _off_and_on_again(draw: Draw, plugins: Object) -> None:
    names = draw.some(FILTERS, 1, 2)
    entries = [{"name": name} for name in names]
    plugins["multiPoint"] = {"disabled": entries}
    plugins["filter"] = {"enabled": entries}


def _where_it_has_no_part(draw: Draw, plugins: Object) -> None:
    point, name = draw.pick(
        (
            ("filter", "ImageLocality"),
            ("score", "NodeName"),
            ("permit", "NodeName"),
            ("filter", "NoSuchPlugin"),
            ("multiPoint", "NoSuchPlugin"),
            ("queueSort", "PrioritySort"),
            ("bind", "DefaultBinder"),
            ("preEnqueue", "SchedulingGates"),
        )
    )
    plugins[point] = {"enabled": [{"name": name}]}


def _gates_off(draw: Draw, plugins: Object) -> None:
    point = draw.pick(("preEnqueue", "reserve", "preBind", "postFilter", "permit", "queueSort"))
    plugins[point] = {"disabled": [{"name": "*"}]}


PLUGIN_CHANGES: Sequence[Callable[[Draw, Object], None]] = (
    _weight_zero,
    _twice,
    _all_off_and_some_on,
    _off_and_on_again,
    _where_it_has_no_part,
    _gates_off,
)


def _ratio(*points: tuple[int, int], resources: Sequence[Object] | None = None) -> Object:
    shape = [{"utilization": at, "score": score} for at, score in points]
    strategy: Object = {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {"shape": shape},
    }
    if resources is not None:
        strategy["resources"] = resources
    return {"scoringStrategy": strategy}


def _least(*resources: Object) -> Object:
    return {"scoringStrategy": {"type": "LeastAllocated", "resources": list(resources)}}


def _constraint(**fields: object) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway",
        **fields,
    }


def _rank(operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": "rank", "operator": operator, "values": list(values)}]}


CPU, GPU = {"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 3}
ARGUMENTS: dict[str, Sequence[Object]] = {
    "NodeResourcesFit": (
        _ratio((0, 0)),
        _ratio((100, 10)),
        _ratio((50, 3)),
        _ratio((0, 10), (100, 0)),
        _ratio((0, 5), (1, 5), (2, 10), (99, 0), (100, 10)),
        _ratio((0, 0), (100, 10), resources=[]),
        _ratio((0, 0), (70, 10), resources=[CPU, CPU]),
        _ratio((0, 0), (70, 10), resources=[GPU, {"name": "pods", "weight": 1}]),
        _least({"name": "cpu"}),
        _least({"name": "cpu", "weight": 0}, GPU),
        _least(),
        _least({"name": "ephemeral-storage", "weight": 100}, CPU),
        _least({"name": "kubernetes.io/batch", "weight": 1}),
        {"scoringStrategy": {"type": "MostAllocated"}},
        {"scoringStrategy": {}},
        {"scoringStrategy": None},
        {"ignoredResources": ["cpu", "memory"]},
        {"ignoredResources": ["example.com/gpu"], "ignoredResourceGroups": ["vendor.io"]},
    ),
    "NodeResourcesBalancedAllocation": (
        {"resources": []},
        {"resources": [CPU]},
        {"resources": [{"name": "cpu"}, {"name": "pods"}]},
        {"resources": [{"name": n, "weight": 1} for n in ("example.com/gpu", "memory", "cpu")]},
    ),
    "InterPodAffinity": (
        {"hardPodAffinityWeight": 0},
        {"hardPodAffinityWeight": 100, "ignorePreferredTermsOfExistingPods": True},
    ),
    "NodeAffinity": (
        {"addedAffinity": {}},
        {"addedAffinity": None},
        *(
            {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
            for required in (
                {"nodeSelectorTerms": []},
                {"nodeSelectorTerms": [{}]},
                {"nodeSelectorTerms": [_rank("Gt", "x")]},
                {"nodeSelectorTerms": [_rank("Gt", "2"), {}]},
                {"nodeSelectorTerms": [_rank("NotIn", "x")]},
            )
        ),
        *(
            {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
            for preferred in (
                [],
                [{"weight": 0, "preference": _rank("Exists")}],
                [{"weight": 100, "preference": _rank("Exists")}, {"weight": 1, "preference": {}}],
                [{"weight": 1, "preference": _rank("Lt", "x")}],
                [{"weight": 1, "preference": _rank("In", "no such/value")}],
            )
        ),
    ),
    "PodTopologySpread": (
        {"defaultingType": "List"},
        {"defaultingType": "List", "defaultConstraints": []},
        {"defaultingType": "List", "defaultConstraints": [_constraint(maxSkew=2**31 - 1)]},
        {"defaultingType": "List", "defaultConstraints": [_constraint(topologyKey="absent")]},
        {
            "defaultingType": "List",
            "defaultConstraints": [
                _constraint(whenUnsatisfiable="DoNotSchedule", minDomains=3, topologyKey=RACK),
                _constraint(nodeTaintsPolicy="Honor", nodeAffinityPolicy="Ignore"),
            ],
        },
    ),
    "DefaultPreemption": ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1},),
    "VolumeBinding": ({"bindTimeoutSeconds": 0},),
}
"""By plugin, arguments most of which are accepted."""
REFUSED: dict[str, Sequence[Object]] = {
    "NodeResourcesFit": (
        _ratio((10, 0), (5, 3)),
        _ratio((0, 11)),
        _ratio((0, 0), (101, 1)),
        _ratio((20, 1), (20, 2)),
        _ratio(),
        _least({"name": "cpu", "weight": 101}),
        _least({"name": "memory", "weight": -1}),
        {"ignoredResourceGroups": ["example.com/gpu"]},
        {"ignoredResourceGroups": ["", "example.com"]},
        {"ignoredResources": ["not a name"]},
    ),
    "NodeResourcesBalancedAllocation": (
        {"resources": [CPU, CPU]},
        {"resources": [{"name": "cpu", "weight": 2}]},
    ),
    "InterPodAffinity": ({"hardPodAffinityWeight": 101},),
    "PodTopologySpread": (
        {"defaultingType": "System", "defaultConstraints": [_constraint()]},
        {"defaultConstraints": [_constraint()]},
        {"defaultingType": "List", "defaultConstraints": [_constraint(maxSkew=0)]},
        {"defaultingType": "List", "defaultConstraints": [_constraint(), _constraint()]},
        {"defaultingType": "List", "defaultConstraints": [_constraint(topologyKey="")]},
        {"defaultingType": "List", "defaultConstraints": [_constraint(labelSelector={})]},
        {"defaultingType": "List", "defaultConstraints": [_constraint(minDomains=3)]},
        {"defaultingType": "List", "defaultConstraints": [_constraint(matchLabelKeys=["ver"])]},
    ),
    "DefaultPreemption": (
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        {"minCandidateNodesPercentage": 101},
        {"minCandidateNodesAbsolute": -1},
    ),
    "VolumeBinding": (
        {"bindTimeoutSeconds": -1},
        {"shape": [{"utilization": 0, "score": 0}]},
    ),
}
"""By plugin, arguments most of which are refused."""
