"""The registry offers what the configuration knows."""

import pytest

from scheduler.config.args import ARGS_TYPES
from scheduler.config.plugin_sets import IN_TREE as KNOWN
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.runtime.plugin_set import extension_points
from scheduler.kernel.plugins.registry import IN_TREE

UNSUPPORTED_POINTS = {"placementScore"}
"""Needs a feature gate that is off in 1.36."""
WHOLE = [plugin_type for plugin_type in IN_TREE.values() if plugin_type.NAME != "DynamicResources"]
"""DynamicResources only refuses pods that claim devices."""


@pytest.mark.parametrize(
    "plugin_type", [pytest.param(plugin_type, id=plugin_type.NAME) for plugin_type in WHOLE]
)
def test_a_plugin_implements_the_points_upstreams_does(plugin_type: type[Plugin]) -> None:
    """Or else a configuration would be accepted here and refused there."""
    expected = {point.value for point in KNOWN[plugin_type.NAME]} - UNSUPPORTED_POINTS

    assert extension_points(plugin_type) == expected


@pytest.mark.parametrize(
    "plugin_type", [pytest.param(plugin_type, id=plugin_type.NAME) for plugin_type in WHOLE]
)
def test_a_plugin_takes_the_arguments_of_its_name(plugin_type: type[Plugin]) -> None:
    """The type of arguments that the configuration reads is the one the plugin is made with."""
    assert getattr(plugin_type, "ARGS", None) is ARGS_TYPES.get(plugin_type.NAME)
