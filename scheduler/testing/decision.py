"""The decision about a pod, with assertions that explain it when they fail."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

import msgspec

from scheduler.kernel.answers.model import PodAnswer, RejectedNode
from scheduler.kernel.answers.report import best_nodes

_SHOWN: Final = 10
"""Nodes at most that are named; the others are counted."""


class Decision(msgspec.Struct, frozen=True):
    """The decision about one pod.

    Attributes:
        pod: `namespace/name`.
        node: its node, if it is bound or waits in Permit; empty if it is pending.
        message: the reason why it is pending.
        held_by: the Permit plugins for which it waits.
        victims: the pods that were evicted for it, as `namespace/name`.
        answer: every plugin's verdict on every node before the decision.
    """

    pod: str
    node: str
    message: str
    held_by: tuple[str, ...]
    victims: tuple[str, ...]
    answer: PodAnswer

    @property
    def best(self) -> tuple[str, ...]:
        """The nodes with the highest total score; of several, one is chosen at random."""
        fitting = best_nodes(self.answer)
        return tuple(found.node for found in fitting if found.total == fitting[0].total)

    # --- assertions -----------------------------------------------------------------------------

    def must_land_on(self, *nodes: str) -> None:
        """Assert that the pod is bound to one of these nodes, and no other node is as good."""
        __tracebackhide__ = True
        wanted = _either(nodes)
        if self.held_by:
            self._fail(f"should be bound to {wanted}, and is held on {self.node}")
        if self.node not in nodes:
            self._fail(f"should land on {wanted}, and {self._where}")
        others = [name for name in self.best if name not in nodes]
        if others and not self.victims:
            self._fail(
                f"should land on {wanted}, and did so by chance only: {_either(others)} as good"
            )

    def must_not_land_on(self, *nodes: str) -> None:
        """Assert that the pod is on none of these nodes, nor is one of them as good as its node."""
        __tracebackhide__ = True
        for name in nodes:
            if name == self.node or (self.node in self.best and name in self.best):
                how = "is" if name == self.node else "could be as well"
                self._fail(f"must not land on {_either(nodes)}, and {how} on {name}")

    def must_wait(self, because: str = "") -> None:
        """Assert that the pod is pending, with a message that contains `because`."""
        __tracebackhide__ = True
        if self.node:
            self._fail(f"should wait, and {self._where}")
        if because not in self.message:
            self._fail(f'should wait because of "{because}", and waits because of something else')

    def must_be_held(self, by: str) -> None:
        """Assert that the pod has a node, and waits there for this Permit plugin."""
        __tracebackhide__ = True
        if by not in self.held_by:
            self._fail(f"should be held by {by}, and {self._where}")

    def must_evict(self, *pods: str) -> None:
        """Assert that exactly these pods, `namespace/name`, were evicted for the pod."""
        __tracebackhide__ = True
        if set(pods) != set(self.victims):
            evicted = ", ".join(self.victims) or "no pod"
            wanted = ", ".join(pods) or "no pod"
            self._fail(f"should evict {wanted}, and evicted {evicted}")

    def _fail(self, what: str) -> NoReturn:
        __tracebackhide__ = True
        raise AssertionError(f"{self.pod} {what}\n{self.explain()}")

    # --- in words -------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        if not self.node:
            return "waits"
        held = f", held by {', '.join(self.held_by)}" if self.held_by else ""
        return f"is on {self.node}{held}"

    def explain(self) -> str:
        """Describe the decision: the best nodes with scores, the plugins that rejected others."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        answer = self.answer
        yield f"  {self.pod} {self._where}"
        if self.message:
            yield f"  message: {self.message}"
        if self.victims:
            yield f"  evicted: {', '.join(self.victims)}"
        if isinstance(answer.error, str):
            yield f"  a plugin failed: {answer.error}"
        for rejected in (answer.pre_enqueue, answer.pre_filter):
            if rejected is not None:
                yield f"  {rejected.plugin} rejects the pod: {', '.join(rejected.reasons)}"
        fitting = best_nodes(answer)
        for found in fitting[:_SHOWN]:
            points = (f"{name} {s.weighted}" for name, s in found.scores.items() if s.weighted)
            yield f"  fits on {found.node}, {found.total} points: {', '.join(points) or 'none'}"
        if len(fitting) > _SHOWN:
            yield f"  fits on {len(fitting) - _SHOWN} more nodes"
        yield from _rejections(answer)


def _rejections(answer: PodAnswer) -> Iterator[str]:
    by_reason: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for node in answer.nodes:
        if isinstance(node, RejectedNode):
            by_reason[node.plugin, ", ".join(node.reasons)].append(node.node)
    for (plugin, reasons), names in by_reason.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"  not on {', '.join(names[:_SHOWN])}{more}: {plugin}: {reasons}"


def _either(names: Sequence[str]) -> str:
    *others, last = names or ("no node",)
    return f"{', '.join(others)} or {last}" if others else last
