"""The steps of histories: what is done is drawn, from what there is to do."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from scheduler.kernel.engine.events import Decide, Tick
from tests.parity.generator.draw import NAMESPACE_LABELS, NODE_LABELS, POD_LABELS, Object
from tests.parity.generator.histories import CPU, shape_room, start_at
from tests.parity.generator.placement import EFFECTS, TAINT_KEYS
from tests.parity.history_state import BEGINNING, UNITS, state_of
from tests.parity.living import Living
from tests.parity.world import is_leaving, key_of, leave, node_of

STEPS: Final = 110
"""The number of steps after the beginning."""


def live_through(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history; return its steps, and what each has led to.

    Args:
        case: configuration and objects as the API server holds them.
        seed: that of the steps.
        steps: how many there are after the beginning.
    """
    history = History(case, seed)
    return history.lived(steps)


class History(Living):
    """A life whose steps are drawn."""

    def lived(self, steps: int = STEPS) -> Object:
        """Live through the beginning and as many steps; return all steps, and their results."""
        self.begin()
        for _ in range(steps):
            self.go_on()
        return {"steps": self.steps, "answers": self.answers}

    def begin(self) -> None:
        """Create the namespaces, most of the nodes, the running pods and some others."""
        to_come = self.world.to_come
        while to_come["Namespace"]:
            self.create("Namespace")
        later = self.draw.pick((0, 0, 0, 1, 1, 2, 2, len(to_come["Node"])))
        for _ in range(len(to_come["Node"]) - later):
            self.create("Node")
        for _ in range(len(to_come["Pod"]) // 2):
            self.create("Pod")

    def go_on(self) -> None:
        """Do something of the kinds that there are, those that matter most often."""
        draw, ways = self.draw, self.ways()
        weights = [weight for weight, _ in ways]
        [(_, way)] = draw.choices(ways, weights)
        way()

    def ways(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            (self.pace, self._try),
            (10, self._answer_binding),
            *([(10, self._answer_eviction)] if self.evictions else []),
            (10, self.show_owed),
            (12, self._pass_time),
            *self.changes(),
        ]

    def changes(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            (16 + self.pace / 4 if self.preempts else 8, lambda: self.create("Pod")),
            (1.5, lambda: self.create("Node")),
            (8, self._change_pending),
            (1.5, self._end_pending),
            (0.7, self._bind_by_others),
            (3, self._change_running),
            (5, self._end_running),
            *([(6, self._end_leaving)] if self.preempts else []),
            (7, self._change_node),
            (1, self._delete_node),
            (1, self._change_namespace),
        ]

    def meanwhile(self) -> None:
        """What happens between the decision about a pod that fits nowhere and its return."""
        if not self.preempts and self.draw.maybe(0.3):
            self.during = []
            for _ in range(self.draw.randint(1, 3)):
                ways = self.changes()
                [(_, way)] = self.draw.choices(ways, [weight for weight, _ in ways])
                way()
            self.units += 1
            self.engine.core.time.now = BEGINNING + self.units / UNITS

    def _answer_eviction(self) -> None:
        if self.evictions:
            self.answer_eviction(self.draw.pick(sorted(self.evictions)))

    def _try(self) -> None:
        if self.evictions and self._may_displace():
            self._answer_eviction()
            return
        step: Object = {"do": "try"}
        self.step(step, lambda: self.handle(Decide()) if self.engine.has_ready else None)

    def _answer_binding(self) -> None:
        if self.bindings:
            self.answer(self.draw.pick(sorted(self.bindings)))

    def _may_displace(self) -> bool:
        """Whether the next pod is more important than one whose victims are being evicted."""
        core, held = self.engine.core, self.world.held["Pod"]
        waiting = map(core.queue.get, self.engine.preemption_executor._runs)
        least = min((pod.priority for pod in waiting if pod is not None), default=2**31)
        following = state_of(core)["next"][:1]
        return any(held[pod]["spec"]["priority"] > least for pod in following)

    def show_owed(self) -> None:
        if self.owed:
            self.show(self.world.held["Pod"][self.draw.pick(sorted(self.owed))])

    def _pass_time(self) -> None:
        seconds = self.draw.pick((0.1, 0.5, 1, 1, 2, 3, 5, 10, 20, 31, 100, 301, 400))
        self.units += int(seconds * UNITS)
        self.step({"do": "flush"}, lambda: self.handle(Tick()))

    def create(self, kind: str) -> None:
        if self.world.to_come[kind]:
            raw = self.world.to_come[kind].pop(0)
            self.show(self.world.write(raw))

    def changing(self) -> list[Object]:
        """The pods without a node that may change."""
        return self.world.pods(assigned=False)

    def _change_pending(self) -> None:
        raw = self.any(self.changing())
        if raw is None:
            return
        draw, spec, status = self.draw, raw["spec"], raw["status"]
        if spec.get("schedulingGates") and draw.maybe(0.6):
            spec["schedulingGates"].pop(draw.randrange(len(spec["schedulingGates"])))
        elif draw.maybe(0.3):
            self.label(raw, POD_LABELS)
        elif draw.maybe(0.4):
            _requests_of(raw)["cpu"] = draw.pick(CPU)
        elif draw.maybe(0.4):
            spec.setdefault("tolerations", []).append(
                {"key": draw.pick(TAINT_KEYS), "operator": "Exists"}
            )
        elif draw.maybe(0.5) and self.may_nominate(raw):
            nominated = draw.pick(("", "n0", "n1", "n2", "gone"))
            status["nominatedNodeName"] = nominated
            if not nominated:
                del status["nominatedNodeName"]
        else:
            raw["metadata"].setdefault("annotations", {})["changed"] = str(self.units)
        self.show(self.world.write(raw))

    def _end_pending(self) -> None:
        raw = self.any(self.world.pods(assigned=False))
        if raw is not None:
            self._end(raw, "Failed")

    def _end_running(self) -> None:
        raw = self.any(self.world.pods(assigned=True))
        if raw is not None:
            self._end(raw, "Succeeded")

    def _end_leaving(self) -> None:
        raw = self.any([each for each in self.world.pods(assigned=True) if is_leaving(each)])
        if raw is not None:
            self._end(raw, "Failed")

    def _end(self, raw: Object, phase: str) -> None:
        """A pod is being deleted, is gone, or is done, which to the scheduler is the same."""
        is_binding = key_of(raw) in self.bindings
        is_victim = raw["metadata"]["uid"] in self.engine.preemption_executor._wanted
        if self._is_in_flight(raw) or self._preempts_now(raw) or self.must_stay(raw):
            return
        if self.opens_gate(raw["metadata"]["uid"]):
            return
        if is_binding and (is_victim or self.during is not None):
            return
        is_nominated = "nominatedNodeName" in raw["status"] and not node_of(raw)
        if self.draw.maybe(0.4) and not (is_binding or is_nominated or is_leaving(raw)):
            leave(raw)
            self.show(self.world.write(raw))
            return
        if self.draw.maybe(0.3):
            raw["status"]["phase"] = phase
        self.delete(raw)
        if self.draw.maybe(0.3) and not node_of(raw):
            again = copy.deepcopy(raw)
            again["metadata"].pop("deletionTimestamp", None)
            again["metadata"].pop("deletionGracePeriodSeconds", None)
            again["metadata"]["uid"] += "+"
            again["status"] = {"phase": "Pending"}
            if self.preempts:
                start_at(again, 100 + len(self.steps))
            self.world.to_come["Pod"].append(again)

    def _bind_by_others(self) -> None:
        raw = self.any(self.world.pods(assigned=False))
        nodes = sorted(self.world.held["Node"])
        if raw is None or not nodes or self._is_in_flight(raw) or is_leaving(raw):
            return
        if self._preempts_now(raw) or self.must_stay(raw):
            return
        if key_of(raw) in self.bindings or "hostPort" in json.dumps(raw["spec"]):
            return
        if self.engine.core.queue.nominator.nodes.get(raw["metadata"]["uid"]) is None:
            raw["spec"]["nodeName"] = self.draw.pick(nodes)
            raw["spec"].pop("schedulingGates", None)
            self.show(self.world.write(raw))

    def _change_running(self) -> None:
        raw = self.any(self.world.pods(assigned=True))
        if raw is None:
            return
        if self.draw.maybe(0.5):
            self.label(raw, POD_LABELS)
        else:
            _requests_of(raw)["cpu"] = self.draw.pick(CPU)
        self.show(self.world.write(raw))

    def _change_node(self) -> None:
        raw = self.any(list(self.world.held["Node"].values()))
        if raw is None:
            return
        draw, spec = self.draw, raw["spec"]
        if draw.maybe(0.3):
            shape_room(draw, raw)
        elif draw.maybe(0.4):
            self.label(raw, NODE_LABELS)
        elif draw.maybe(0.3):
            spec["unschedulable"] = not spec.get("unschedulable", False)
        elif draw.maybe(0.8):
            taint = {"key": draw.pick(TAINT_KEYS), "effect": draw.pick(EFFECTS)}
            taints = [taint] if draw.maybe(0.5) else []
            spec["taints"] = taints
        else:
            raw["metadata"].setdefault("annotations", {})["changed"] = str(self.units)
        self.show(self.world.write(raw))

    def _delete_node(self) -> None:
        raw = self.any(list(self.world.held["Node"].values()))
        if raw is not None and not self.must_stay(raw):
            self.delete(raw)
            again = copy.deepcopy(raw)
            again["metadata"]["uid"] += "+"
            self.world.to_come["Node"].append(again)

    def _change_namespace(self) -> None:
        raw = self.any(list(self.world.held["Namespace"].values()))
        if raw is not None:
            self.label(raw, NAMESPACE_LABELS)
            self.show(self.world.write(raw))

    def label(self, raw: Object, vocabulary: Mapping[str, Sequence[str]]) -> None:
        labels = raw["metadata"].setdefault("labels", {})
        label = self.draw.pick(sorted(vocabulary))
        if label in labels and self.draw.maybe(0.3):
            del labels[label]
        else:
            labels[label] = self.draw.pick(vocabulary[label])

    def any(self, found: list[Object]) -> Object | None:
        return copy.deepcopy(self.draw.pick(found)) if found else None

    def _is_in_flight(self, raw: Object) -> bool:
        """Whether it is the pod about which is being decided."""
        tried = self.tried
        return self.during is not None and tried is not None and tried["pod"] == key_of(raw)

    def must_stay(self, raw: Object) -> bool:
        """Whether a pod or node may not be deleted now."""
        del raw
        return False

    def may_nominate(self, raw: Object) -> bool:
        """Whether the nomination of a pod without a node may change."""
        return not (is_leaving(raw) or self._preempts_now(raw))

    def _preempts_now(self, raw: Object) -> bool:
        """Whether the victims of a pod are being evicted."""
        return raw["metadata"]["uid"] in self.engine.preemption_executor._runs


def _requests_of(pod: Object) -> Object:
    """The requests of the first container of a pod."""
    resources = pod["spec"]["containers"][0].setdefault("resources", {})
    requests: Object = resources.setdefault("requests", {})
    return requests
