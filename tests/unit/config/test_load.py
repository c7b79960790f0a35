"""What `load` and its neighbours promise beyond single files."""

import pytest

from scheduler.config.args import (
    STORAGE_SHAPE,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from scheduler.config.expansion import expand
from scheduler.config.feature_gates import STORAGE_CAPACITY_SCORING
from scheduler.config.load import default_configuration, load, load_object
from scheduler.config.notices import not_in_effect, unsupported
from scheduler.config.plugin_sets import DEFAULT_MULTI_POINT, IN_TREE
from scheduler.config.problems import ConfigError
from scheduler.config.types import ExtensionPoint
from scheduler.config.write import to_yaml

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def test_without_a_file_one_profile_named_stowage_runs_the_default_plugins() -> None:
    """The default is ours by name and upstream's by plugins."""
    config = default_configuration()

    assert [profile.scheduler_name for profile in config.profiles] == ["stowage"]
    assert config.profiles[0].plugins.multi_point.enabled == DEFAULT_MULTI_POINT
    assert config == load(to_yaml(config))


def test_a_single_profile_without_a_name_gets_the_callers() -> None:
    """`explain` calls it `default-scheduler`."""
    config = load_object(HEAD, default_scheduler_name="default-scheduler")

    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]


def test_a_name_that_is_written_must_not_be_empty() -> None:
    """kube-scheduler refuses it as well: only a missing name has a default."""
    with pytest.raises(ConfigError, match=r"profiles\[0\].schedulerName: expected a name"):
        load_object({**HEAD, "profiles": [{"schedulerName": ""}]})


def test_arguments_are_found_by_their_type() -> None:
    """Where nothing is said the defaults are given, also for a plugin that is off."""
    config = load_object(
        {
            **HEAD,
            "profiles": [
                {
                    "plugins": {"multiPoint": {"disabled": [{"name": "NodeAffinity"}]}},
                    "pluginConfig": [
                        {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 9}},
                        {"name": "Mine", "args": {"a": [1]}},
                    ],
                }
            ],
        }
    )
    profile = config.profiles[0]

    assert profile.args(InterPodAffinityArgs) == InterPodAffinityArgs(hard_pod_affinity_weight=9)
    assert profile.args(NodeResourcesFitArgs) == NodeResourcesFitArgs()
    assert profile.args(NodeAffinityArgs) == NodeAffinityArgs()
    assert profile.args(PodTopologySpreadArgs) == PodTopologySpreadArgs()
    assert profile.raw_args("Mine") == {"a": [1]}
    assert profile.raw_args("NotThere") is None


SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]


@pytest.mark.parametrize(
    ("gates", "written", "shape"),
    [
        pytest.param((), {}, None, id="off"),
        pytest.param((STORAGE_CAPACITY_SCORING,), {}, STORAGE_SHAPE, id="on"),
        pytest.param((STORAGE_CAPACITY_SCORING,), {"shape": []}, STORAGE_SHAPE, id="on, empty"),
        pytest.param(
            (STORAGE_CAPACITY_SCORING,),
            {"shape": SHAPE},
            (UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10)),
            id="on, with a shape of its own",
        ),
    ],
)
def test_storage_has_scores_behind_its_feature_gate(
    gates: tuple[str, ...], written: dict[str, object], shape: object
) -> None:
    """The default of the arguments says it, so a configuration in effect can be read again."""
    profile = {"pluginConfig": [{"name": "VolumeBinding", "args": written}]}
    config = load_object({**HEAD, "profiles": [profile]}, feature_gates=gates)

    assert config.profiles[0].args(VolumeBindingArgs).shape == shape
    assert load(to_yaml(config), feature_gates=gates) == config


def test_a_shape_of_storage_is_checked_like_any_other() -> None:
    """Also with the gate."""
    profile = {"pluginConfig": [{"name": "VolumeBinding", "args": {"shape": SHAPE[::-1]}}]}

    with pytest.raises(ConfigError, match=r"args\.shape\[1\]\.utilization: expected more than 100"):
        load_object({**HEAD, "profiles": [profile]}, feature_gates=(STORAGE_CAPACITY_SCORING,))


def test_an_empty_defaulting_type_is_the_default() -> None:
    """As in kube-scheduler."""
    args = {"defaultingType": ""}
    profile = {"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}

    config = load_object({**HEAD, "profiles": [profile]})

    assert config.profiles[0].args(PodTopologySpreadArgs) == PodTopologySpreadArgs()


@pytest.mark.parametrize(
    ("value", "is_refused"),
    [
        pytest.param("9" * 5000, True, id="more digits than Python reads"),
        pytest.param("-" + "0" * 5000 + "7", False, id="leading zeros"),
        pytest.param(str(2**63 - 1), False, id="the largest"),
        pytest.param(str(2**63), True, id="one more"),
        pytest.param("-", True, id="no digits"),
    ],
)
def test_a_number_that_nodes_are_compared_with(value: str, is_refused: bool) -> None:
    """Is one of 64 bits, however many digits it has. A label has 63 characters at most."""
    requirement = {"key": "cores", "operator": "Gt", "values": [value]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    args = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    profile = {"pluginConfig": [{"name": "NodeAffinity", "args": args}]}

    try:
        load_object({**HEAD, "profiles": [profile]})
        told = ""
    except ConfigError as refused:
        told = str(refused)

    assert ("expected a whole number as text" in told) == is_refused


def test_a_profile_without_a_percentage_is_told_from_one_with_0() -> None:
    """The former takes the global one."""
    config = load_object(
        {
            **HEAD,
            "percentageOfNodesToScore": 30,
            "profiles": [
                {"schedulerName": "a"},
                {"schedulerName": "b", "percentageOfNodesToScore": 0},
            ],
        }
    )

    assert config.percentage_of_nodes_to_score == 30
    assert [p.percentage_of_nodes_to_score for p in config.profiles] == [None, 0]


def test_expansion_leaves_out_what_is_not_implemented() -> None:
    """Plugins only kube-scheduler has do not disturb; their order does not matter."""
    implements = {name: IN_TREE[name] for name in ("PrioritySort", "NodeName", "ImageLocality")}

    expansion = expand(default_configuration().profiles[0], implements)

    assert {point: plugins for point, plugins in expansion.items() if plugins} == {
        ExtensionPoint.QUEUE_SORT: (("PrioritySort", 0),),
        ExtensionPoint.FILTER: (("NodeName", 0),),
        ExtensionPoint.SCORE: (("ImageLocality", 1),),
    }


def test_out_of_tree_plugins_may_be_named() -> None:
    """They are checked by the points they implement, like in-tree ones."""
    plugins = {
        "multiPoint": {"enabled": [{"name": "Mine", "weight": 4}]},
        "bind": {"enabled": [{"name": "Mine"}]},
    }
    document = {**HEAD, "profiles": [{"plugins": plugins}]}
    mine = {"Mine": frozenset((ExtensionPoint.FILTER, ExtensionPoint.SCORE))}

    with pytest.raises(ConfigError, match='"Mine" cannot run at bind; it runs at filter, score'):
        load_object(document, out_of_tree=mine)
    del plugins["bind"]
    expansion = expand(load_object(document, out_of_tree=mine).profiles[0], {**IN_TREE, **mine})

    assert expansion[ExtensionPoint.SCORE][-1] == ("Mine", 4)
    assert expansion[ExtensionPoint.FILTER][-1] == ("Mine", 0)


def test_expand_refuses_a_plugin_that_went_away() -> None:
    """`expand` checks by itself, for a profile that was loaded with other plugins around."""
    mine = {"Mine": frozenset((ExtensionPoint.FILTER,))}
    document = {
        **HEAD,
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Mine"}]}}}],
    }
    profile = load_object(document, out_of_tree=mine).profiles[0]

    with pytest.raises(ConfigError, match=r'profile stowage: plugins\.filter.*no plugin "Mine"'):
        expand(profile, IN_TREE)


@pytest.mark.parametrize(
    ("profile", "place"),
    [
        (
            {"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourceFit"}]}}},
            "profiles[0].plugins.multiPoint.disabled[0].name",
        ),
        (
            {"pluginConfig": [{"name": "NodeResourceFit", "args": {}}]},
            "profiles[0].pluginConfig[0].name",
        ),
    ],
)
def test_a_misspelt_plugin_is_refused_where_kube_scheduler_takes_any_name(
    profile: dict[str, object], place: str
) -> None:
    """What was to be off would run on, and arguments would be those by default."""
    with pytest.raises(ConfigError) as refused:
        load_object({**HEAD, "profiles": [profile]})

    expected = 'there is no plugin "NodeResourceFit"; did you mean "NodeResourcesFit"?'
    assert [str(problem) for problem in refused.value.problems] == [f"{place}: {expected}"]


def test_notices_name_what_has_no_effect() -> None:
    """Each is a sentence; a configuration that is fully in effect has none."""
    config = load_object(
        {
            **HEAD,
            "delayCacheUntilActive": True,
            "parallelism": 4,
            "clientConnection": {"contentType": "application/cbor"},
            "extenders": [
                {"urlPrefix": "http://x", "enableHTTPS": True, "tlsConfig": {"insecure": True}},
                {"urlPrefix": "https://x", "enableHTTPS": True, "tlsConfig": {"insecure": True}},
            ],
            "profiles": [
                {
                    "plugins": {"score": {"disabled": [{"name": "*"}, {"name": "OldOne"}]}},
                    "pluginConfig": [{"name": "Another", "args": {}}],
                }
            ],
        }
    )

    notices = not_in_effect(config, IN_TREE)
    lacking = unsupported(config, IN_TREE.keys() - {"VolumeZone", "VolumeBinding"})

    assert [notice.split()[0] for notice in notices] == [
        "profiles[0].plugins.score.disabled[1].name:",
        "profiles[0].pluginConfig[0].name:",
        "extenders[0].enableHTTPS",
        "extenders[0].tlsConfig",
        "delayCacheUntilActive",
        "parallelism",
        "clientConnection.contentType",
    ]
    assert [str(problem).partition(";")[0] for problem in lacking] == [
        'profiles[0].plugins.multiPoint.enabled: "VolumeBinding" is not part of this version',
        'profiles[0].plugins.multiPoint.enabled: "VolumeZone" is not part of this version',
    ]
    assert list(not_in_effect(default_configuration(), IN_TREE)) == []
    assert list(unsupported(default_configuration(), IN_TREE)) == []
