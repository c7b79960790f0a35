"""The manifests let the daemon list and watch what its plugins read, and nothing else.

What it writes is held against the API server's audit log by e2e/test_rights.py.
"""

from pathlib import Path

import yaml

from scheduler.config.feature_gates import POD_GROUPS
from scheduler.config.load import default_configuration
from scheduler.daemon.bootstrap import FrameworkBuilder
from scheduler.daemon.informers.kinds import NAMESPACES, NODES, PODS, watched_kind
from scheduler.kernel.framework.runtime.shared_states import kinds_to_watch

MANIFEST = Path(__file__).parents[3] / "deploy" / "base" / "rbac.yaml"


def test_what_is_watched_is_what_may_be_watched() -> None:
    """Kinds of objects by their path; a plugin that comes or goes changes both."""
    config = default_configuration(feature_gates=POD_GROUPS)
    frameworks = FrameworkBuilder(lambda: 0.0).build(config).values()
    kinds = (PODS, NODES, NAMESPACES, *map(watched_kind, kinds_to_watch(frameworks)))
    role = next(
        document
        for document in yaml.safe_load_all(MANIFEST.read_text())
        if document["kind"] == "ClusterRole" and document["metadata"]["name"] == "stowage"
    )

    granted = {
        (group, resource)
        for rule in role["rules"]
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }

    assert granted == {(kind.path.split("/")[-3].removeprefix("api"), kind.name) for kind in kinds}
