"""The registry offers what the configuration knows."""

import pytest

from scheduler.config.args import ARGS_TYPES
from scheduler.config.load import default_configuration, load_object
from scheduler.config.plugin_sets import IN_TREE as KNOWN
from scheduler.config.problems import ConfigError
from scheduler.config.write import to_object
from scheduler.daemon.bootstrap.frameworks import FrameworkBuilder
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.runtime.plugin_set import extension_points
from scheduler.kernel.plugins.registry import BEHIND_GATES, IN_TREE

WHOLE = [plugin_type for plugin_type in IN_TREE.values() if plugin_type.NAME != "DynamicResources"]
"""DynamicResources only refuses pods that claim devices."""


@pytest.mark.parametrize(
    "plugin_type", [pytest.param(plugin_type, id=plugin_type.NAME) for plugin_type in WHOLE]
)
def test_a_plugin_implements_the_points_upstreams_does(plugin_type: type[Plugin]) -> None:
    """Or else a configuration would be accepted here and refused there."""
    expected = {point.value for point in KNOWN[plugin_type.NAME]}

    assert extension_points(plugin_type) == expected


@pytest.mark.parametrize(
    "plugin_type", [pytest.param(plugin_type, id=plugin_type.NAME) for plugin_type in WHOLE]
)
def test_a_plugin_takes_the_arguments_of_its_name(plugin_type: type[Plugin]) -> None:
    """The type of arguments that the configuration reads is the one the plugin is made with."""
    assert getattr(plugin_type, "ARGS", None) is ARGS_TYPES.get(plugin_type.NAME)


def test_what_is_behind_a_gate_takes_the_place_of_an_in_tree_plugin() -> None:
    """By its name, when the gate is on; other gates and plugins have nothing to do with it."""
    gate = "VolumeLimitScaling"
    (plugin_type,) = BEHIND_GATES[gate]
    config = default_configuration("s", {gate, "StorageCapacityScoring"})

    (framework,) = FrameworkBuilder(lambda: 0.0).build(config).values()

    found = {type(plugin) for plugin in framework.plugins.by_name.values()}
    assert plugin_type in found
    assert IN_TREE[plugin_type.NAME] not in found
    assert IN_TREE["TaintToleration"] in found


def test_a_configuration_in_effect_does_not_write_its_gates() -> None:
    """They are flags; the file of a recording is read with them."""
    gates = frozenset({"TaintTolerationComparisonOperators"})
    config = default_configuration("s", gates)

    assert config.feature_gates == gates
    assert "featureGates" not in to_object(config)
    assert load_object(to_object(config), feature_gates=gates) == config
    with pytest.raises(ConfigError, match="featureGates"):
        load_object({**to_object(config), "featureGates": []})
