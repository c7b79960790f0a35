"""What Permit plugins would do is part of an answer where nothing can come of the question."""

import json
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from scheduler.config.load import load_object
from scheduler.daemon.bootstrap import implemented_plugins
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.model import Permitting
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import PermitPlugin
from scheduler.kernel.framework.status import Code, Status, unschedulable
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import documents_from_text, objects_from_documents
from tests.support.manifests import node_manifest, pod_manifest


class Guard(PermitPlugin):
    """Holds, rejects or lets go, as the pod is called."""

    NAME = "Guard"

    @override
    def permit(self, state: CycleState, pod: Any, node_name: str) -> tuple[Status, float]:
        if pod.name == "held":
            return Status(Code.WAIT), 30.0
        return (unschedulable("not today") if pod.name == "rejected" else Status()), 0.0


def judged(name: str, *, asks_permit: bool = True) -> Any:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "stowage",
                "plugins": {"multiPoint": {"enabled": [{"name": "Guard"}]}},
            }
        ],
    }
    plugins = {"Guard": Guard}
    own = {"Guard": implemented_plugins(plugins)["Guard"]}
    profiles = Profiles(load_object(document, out_of_tree=own), plugins)
    text = json.dumps({"kind": "List", "items": [node_manifest("n"), pod_manifest(name)]})
    cluster = profiles.load(objects_from_documents(documents_from_text(text, "test")))
    explainer = Explainer(cluster.engine, profiles.framework_of, asks_permit=asks_permit)
    return json.loads(bytes(explainer.judge(cluster.waiting[0]).json())).get("permit")


@pytest.mark.parametrize(
    ("name", "permitting"),
    [
        ("held", Permitting("n", "Wait", ("Guard",), 30.0)),
        ("rejected", Permitting("n", "Unschedulable", ("Guard",), reasons=("not today",))),
        ("free", None),
    ],
)
def test_permit_is_asked(name: str, permitting: Permitting | None) -> None:
    expected = None if permitting is None else json.loads(msgspec.json.encode(permitting))

    assert judged(name) == expected
    assert judged(name, asks_permit=False) is None
