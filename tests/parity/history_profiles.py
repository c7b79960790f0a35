"""Histories with several profiles, with nodes that start, and gated pods that are sent somewhere.

A node comes without room and topology, and tainted; kubelet and controllers complete it in any
order. Opening its gates may choose the nodes of a pod. A node that was deleted comes again under
its name as another. The differences that are meant are those of `tests.parity.living`.
"""

import copy
from collections.abc import Callable

from typing_extensions import override

from tests.parity.generator.draw import HOSTNAME, NODE_LABELS, Object
from tests.parity.generator.histories import PREEMPTION
from tests.parity.history_more import HistoryWithMore
from tests.parity.history_steps import STEPS
from tests.parity.world import key_of

_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_UNINITIALIZED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}
_PARTS = ("labels", "hostname", "room", "features", "taints", "taints")


def live_through_profiles(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with profiles; see `history_steps.live_through`."""
    return HistoryWithProfiles(case, seed).lived(steps)


class HistoryWithProfiles(HistoryWithMore):
    """A life in which nodes start, and pods are of several profiles."""

    def __init__(self, case: Object, seed: int) -> None:
        super().__init__(case, seed)
        # Some profiles may lack the plugin.
        self.preempts = any(PREEMPTION not in str(each) for each in case["config"]["profiles"])
        self._starts = self.draw.pick((0.0, 0.4, 0.9))
        """How often a node comes incomplete."""
        self._starting: dict[str, Object] = {}
        """Incomplete nodes as they will be."""

    @override
    def changes(self) -> list[tuple[float, Callable[[], None]]]:
        starting = [(6.0, self._complete_node)] if self._starting else []
        return [*super().changes(), *starting]

    @override
    def create(self, kind: str) -> None:
        coming = self.world.to_come[kind]
        if kind == "Node" and coming and self.draw.maybe(self._starts):
            self._starting[key_of(coming[0])] = coming[0]
            coming[0] = self._incomplete(coming[0])
        super().create(kind)

    def _incomplete(self, whole: Object) -> Object:
        raw = copy.deepcopy(whole)
        labels = raw["metadata"].get("labels", {})
        raw["metadata"]["labels"] = {k: v for k, v in labels.items() if k not in NODE_LABELS}
        if self.draw.maybe(0.3):
            raw["metadata"]["labels"].pop(HOSTNAME, None)
        raw["spec"]["taints"] = self.draw.some((_NOT_READY, _UNINITIALIZED), 0, 2)
        if self.draw.maybe(0.6):
            raw["status"].pop("allocatable", None)
            raw["status"].pop("capacity", None)
        raw["status"].pop("declaredFeatures", None)
        return raw

    def _complete_node(self) -> None:
        """Give a node that starts one more part of what it will be."""
        name = self.draw.pick(sorted(self._starting))
        held = self.world.held["Node"].get(name)
        if held is None:
            del self._starting[name]
            return
        raw, whole = copy.deepcopy(held), self._starting[name]
        labels, theirs = raw["metadata"].setdefault("labels", {}), whole["metadata"]["labels"]
        match self.draw.pick(_PARTS):
            case "labels":
                labels |= {key: theirs[key] for key in NODE_LABELS if key in theirs}
            case "hostname":
                labels |= {key: theirs[key] for key in (HOSTNAME,) if key in theirs}
            case "room":
                raw["status"] |= {
                    key: whole["status"][key]
                    for key in ("allocatable", "capacity")
                    if key in whole["status"]
                }
            case "features":
                raw["status"]["declaredFeatures"] = whole["status"].get("declaredFeatures", [])
            case _:
                taints = raw["spec"].get("taints", [])
                raw["spec"]["taints"] = taints[1:] or whole["spec"].get("taints", [])
                if not taints[1:] and self.draw.maybe(0.4):
                    del self._starting[name]
        self.show(self.world.write(raw))

    @override
    def _change_pending(self) -> None:
        gated = [
            each
            for each in self.world.pods(assigned=False)
            if each["spec"].get("schedulingGates") and not each["metadata"].get("deletionTimestamp")
        ]
        raw = self.any(gated)
        if raw is None or self.draw.maybe(0.7):
            super()._change_pending()
            return
        key = self.draw.pick([key for key in NODE_LABELS if key != "rank"])
        if self.draw.maybe(0.5):
            raw["spec"].setdefault("nodeSelector", {})[key] = self.draw.pick(NODE_LABELS[key])
        else:
            self._send(raw, key)
        if self.draw.maybe(0.8):
            raw["spec"].pop("schedulingGates")
        self.show(self.world.write(raw))

    def _send(self, raw: Object, key: str) -> None:
        """Let a pod without a required node affinity require a label of its node."""
        affinity = raw["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        values = [self.draw.pick(NODE_LABELS[key])]
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
        affinity.setdefault(
            "requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [term]}
        )

    @override
    def _delete_node(self) -> None:
        """Delete a node; the next one of its name has the labels and the room of another."""
        super()._delete_node()
        coming = self.world.to_come["Node"]
        other = self.any([*self.world.held["Node"].values(), *coming])
        if not coming or other is None or self.draw.maybe(0.4):
            return
        again = coming[-1]
        own = {k: v for k, v in again["metadata"].get("labels", {}).items() if k == HOSTNAME}
        again["metadata"]["labels"] = {**other["metadata"].get("labels", {}), **own}
        for field in ("allocatable", "capacity", "declaredFeatures"):
            again["status"].pop(field, None)
            if field in other["status"]:
                again["status"][field] = copy.deepcopy(other["status"][field])
