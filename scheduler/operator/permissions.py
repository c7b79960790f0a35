"""The permissions of a SchedulingProfile: it may score nodes, but not change filtering. Pure.

A team cannot exempt its pods from taints, cordons, resources or affinity. Fields not listed here
require `spec.profilePermissions: All` of the Scheduler.
"""

from collections.abc import Iterator
from typing import Final

from scheduler.config.plugin_sets import IN_TREE
from scheduler.config.problems import Problem
from scheduler.operator.resources import Json

SCORING: Final = "Scoring"
"""The default of `spec.profilePermissions`."""

POINTS: Final = ("preScore", "score")
"""Extension points at which a team may choose in-tree and out-of-tree plugins."""
ARGUMENTS: Final = {
    "InterPodAffinity": ("hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"),
    "NodeResourcesBalancedAllocation": ("resources",),
    "NodeResourcesFit": ("scoringStrategy",),
    "PodTopologySpread": ("defaultConstraints", "defaultingType"),
    "VolumeBinding": ("shape",),
}
"""Arguments of in-tree plugins that affect only scores."""

_TYPE: Final = ("apiVersion", "kind")


def not_permitted(spec: Json) -> Iterator[Problem]:
    """Yield the fields of a profile that require more permissions; wrong types are not reported."""
    plugins = spec.get("plugins")
    for point, chosen in plugins.items() if isinstance(plugins, dict) else ():
        if chosen and point not in POINTS:
            yield Problem(("spec", "plugins", point), _told("extension points", POINTS))
    configs = spec.get("pluginConfig")
    for i, config in enumerate(configs if isinstance(configs, list) else ()):
        if not isinstance(config, dict) or config.get("name") not in IN_TREE:
            continue
        allowed = ARGUMENTS.get(config["name"], ())
        args = config.get("args")
        for name in args if isinstance(args, dict) else ():
            if name not in (*allowed, *_TYPE):
                place = ("spec", "pluginConfig", i, "args", name)
                yield Problem(place, _told("arguments", allowed))


def _told(what: str, allowed: tuple[str, ...]) -> str:
    listed = ", ".join(allowed) or "none"
    return f"not permitted by profilePermissions of the Scheduler; permitted {what}: {listed}"
