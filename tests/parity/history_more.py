"""Histories with more: pods are resized, nodes get other resources, and pods ask for all sorts.

Services, controllers, budgets and namespaces come, change and go. The differences that are meant
are those of `tests.parity.living`.
"""

from collections.abc import Callable

from typing_extensions import override

from tests.parity.generator.draw import NAMESPACE_LABELS, POD_LABELS, Object
from tests.parity.hints import change_node, resize
from tests.parity.history_steps import STEPS, History
from tests.parity.world import SELECTING_KINDS


def live_through_more(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with more; see `history_steps.live_through`."""
    return HistoryWithMore(case, seed).lived(steps)


class HistoryWithMore(History):
    """A life in which more changes than the room of nodes and the labels of pods."""

    @override
    def begin(self) -> None:
        for kind in SELECTING_KINDS:
            for _ in range(len(self.world.to_come[kind])):
                if self.draw.maybe(0.7):
                    self.create(kind)
                else:
                    self.world.to_come[kind].append(self.world.to_come[kind].pop(0))
        super().begin()

    @override
    def changes(self) -> list[tuple[float, Callable[[], None]]]:
        kinds = [kind for kind in (*SELECTING_KINDS, "Namespace") if self._is_there(kind)]
        selecting = (
            (3, lambda: self._change_selecting(self.draw.pick(kinds))),
            (2, lambda: self.create(self.draw.pick(kinds))),
        )
        return [*super().changes(), *(selecting if kinds else ())]

    def _is_there(self, kind: str) -> bool:
        return bool(self.world.held[kind] or self.world.to_come[kind])

    def _change_selecting(self, kind: str) -> None:
        raw = self.any(list(self.world.held[kind].values()))
        if raw is None:
            return
        draw = self.draw
        if draw.maybe(0.4):
            self.delete(raw)
            self.world.to_come[kind].append(raw)
        elif kind == "Namespace":
            self.label(raw, NAMESPACE_LABELS)
            self.show(self.world.write(raw))
        else:
            if kind == "PodDisruptionBudget" and draw.maybe(0.7):
                raw["status"]["disruptionsAllowed"] = draw.pick((0, 0, 1, 2))
            elif kind in ("Service", "ReplicationController"):
                raw["spec"]["selector"] = draw.labels(POD_LABELS, 0.4)
            else:
                raw["spec"]["selector"] = draw.label_selector(POD_LABELS)
            self.show(self.world.write(raw))

    @override
    def _change_running(self) -> None:
        raw = self.any(self.world.pods(assigned=True))
        if raw is None or self.draw.maybe(0.3):
            super()._change_running()
            return
        if self.draw.maybe(0.6):
            resize(self.draw, raw)
        else:
            self._ask_as_another(raw)
        self.show(self.world.write(raw))

    @override
    def _change_pending(self) -> None:
        raw = self.any(self.world.pods(assigned=False))
        if raw is None or self.draw.maybe(0.5):
            super()._change_pending()
            return
        if self.draw.maybe(0.3):
            resize(self.draw, raw)
        elif self.draw.maybe(0.3):
            raw["spec"].pop("resources", None)
        else:
            self._ask_as_another(raw)
        self.show(self.world.write(raw))

    @override
    def _change_node(self) -> None:
        raw = self.any(list(self.world.held["Node"].values()))
        other = self.any(list(self.world.held["Node"].values()))
        if raw is None or other is None or self.draw.maybe(0.3):
            super()._change_node()
            return
        for _ in range(self.draw.pick((1, 1, 2))):
            change_node(self.draw, raw, other)
        self.show(self.world.write(raw))

    def _ask_as_another(self, raw: Object) -> None:
        """Give a container the resources of another pod's."""
        other = self.any(list(self.world.held["Pod"].values()))
        assert other is not None
        asked = other["spec"]["containers"][0].get("resources", {})
        container = self.draw.pick(
            [*raw["spec"]["containers"], *raw["spec"].get("initContainers", ())]
        )
        container["resources"] = {**asked, "requests": asked.get("requests", {})}
