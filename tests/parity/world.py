"""The API server of a history, and the objects that it holds."""

import copy
from typing import Any, Final

from scheduler.tools.offline.reading import objects_from_documents
from tests.parity.generator.draw import Object
from tests.parity.generator.history_more import has_more
from tests.parity.generator.storage_changes import STORAGE_KINDS

CLAIM_KINDS: Final = ("DeviceClass", "ResourceSlice", "ResourceClaim")
"""Those of devices, which some histories have."""
STEP_KINDS: Final = ("Namespace", "Node", "Pod", "PodGroup", *CLAIM_KINDS, *STORAGE_KINDS)
"""The kinds of objects that steps are about."""
SELECTING_KINDS: Final = (
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
    "PodDisruptionBudget",
)
"""Those that select pods, and that steps are about in the histories with more."""


def kinds_of_steps(case: Object) -> tuple[str, ...]:
    """The kinds of the objects that the steps of a case are about."""
    return (*STEP_KINDS, *SELECTING_KINDS) if has_more(case) else STEP_KINDS


class World:
    """The API server: the objects that it holds, as raw objects by kind and key."""

    def __init__(self, case: Object) -> None:
        kinds = kinds_of_steps(case)
        self.held: dict[str, dict[str, Object]] = {kind: {} for kind in kinds}
        self.shown: dict[str, dict[str, Object]] = {kind: {} for kind in kinds}
        """The objects as the scheduler has seen them."""
        self.to_come: dict[str, list[Object]] = {kind: [] for kind in kinds}
        self._version = 0
        for raw in case["objects"]:
            if raw["kind"] in kinds:
                self.to_come[raw["kind"]].append(raw)

    def write(self, raw: Object) -> Object:
        """Hold a new version of an object."""
        self._version += 1
        raw = copy.deepcopy(raw)
        before = self.held[raw["kind"]].get(key_of(raw), raw)
        if before.get("spec") != raw.get("spec"):
            raw["metadata"]["generation"] = raw["metadata"].get("generation", 0) + 1
        raw["metadata"]["resourceVersion"] = str(self._version)
        self.held[raw["kind"]][key_of(raw)] = raw
        return raw

    def pods(self, *, assigned: bool) -> list[Object]:
        """The pods that have a node, or those that have none."""
        return [raw for raw in self.held["Pod"].values() if bool(node_of(raw)) == assigned]


def key_of(raw: Object) -> str:
    """Namespace and name of an object, or its name."""
    meta = raw["metadata"]
    namespace = meta.get("namespace", "")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def node_of(raw: Object) -> str:
    return str(raw["spec"].get("nodeName", ""))


def is_leaving(raw: Object) -> bool:
    return "deletionTimestamp" in raw["metadata"]


def leave(raw: Object) -> None:
    """Begin to delete a pod gracefully."""
    raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    raw["metadata"]["deletionGracePeriodSeconds"] = 30


def decoded(raw: Object) -> Any:
    """An object as the engine takes it."""
    objects = objects_from_documents([("step", copy.deepcopy(raw))], is_whole=False)
    watched = [each for _, each in objects.watched]
    [found] = [*objects.nodes, *objects.pods, *objects.namespaces, *watched]
    return found
