"""The simulated API server of a test: it carries out the engine's instructions at once."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from typing_extensions import override

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.daemon.informers.kinds import watched_kind
from scheduler.errors import SchedulerError
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import BindFailed, Decide, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Bind, Evict, Instruction, LogError
from scheduler.kernel.framework.runtime.plugin_calls import FAILS_NO_ATTEMPT, PluginError
from scheduler.kernel.queue.values import ACTIVE, BACKOFF
from scheduler.testing.decision import Decision
from scheduler.tools.offline.cluster import ARRIVAL_SECONDS, Profiles
from scheduler.tools.offline.driving import Driving

_ENGINES_OWN: Final = ("pods", "nodes", "namespaces")
_MAX_DECISIONS: Final = 100_000
"""Decisions at most: a plugin that activates pods for ever fails the test with a message."""


class ClusterError(SchedulerError):
    """A test calls a method with a wrong argument or in a wrong state."""


class SimulatedCluster(Driving):
    """An engine of these profiles, and the objects that result from its instructions."""

    def __init__(self, profiles: Profiles, engine: Engine, reports: list[str]) -> None:
        super().__init__(engine)
        self.profiles = profiles
        self.refusal = ""
        self._reports = reports
        self.engine.core.states.on_failed = self._report
        for framework in profiles.frameworks.values():
            framework.calls.on_failed = self._report_unless_logged
        self._victims: defaultdict[str, list[str]] = defaultdict(list)
        self._given: list[tuple[Any, bytes]] = []
        self._names = {*_ENGINES_OWN, *(watched_kind(kind).name for kind in profiles.watched)}

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the cluster."""
        self.engine.core.catch_up()
        snapshot = self.engine.core.snapshot
        return [snapshot.node(row) for row in snapshot.table.live_rows().tolist()]

    def take(self, events: Iterable[ObjectSet]) -> None:
        """Add objects, one after the other; leave out kinds that the engine does not read."""
        for event in events:
            if event.kind in self._names:
                self.now += ARRIVAL_SECONDS
                self._given.append((event.object, _content(event.object)))
                self.handle(event)

    def check_given(self) -> None:
        """Check that no plugin has changed an object: other pods share the parts of a pod.

        Raises:
            ClusterError: an object is not as it was added.
        """
        for given, content in self._given:
            if (now := _content(given)) != content:
                raise ClusterError(_change(msgspec.json.decode(content), msgspec.json.decode(now)))

    def settle(self) -> None:
        """Decide until no pod is active.

        Raises:
            ClusterError: pods are still active after `_MAX_DECISIONS` decisions.
        """
        for _ in range(_MAX_DECISIONS):
            if not self.engine.has_ready:
                return
            self.handle(Decide())
        entries = self.engine.core.queue.dump()
        ready = [str(entry["pod"]) for entry in entries if entry["queue"] in (ACTIVE, BACKOFF)]
        raise ClusterError(
            f"pods are ready still after {_MAX_DECISIONS} decisions; does a plugin activate pods "
            f"whose attempts fail? Ready: {', '.join(ready[:3])}"
        )

    def decide(self, pod: PodInfo) -> Decision:
        """Explain the pod, then decide; return the decision with the explanation."""
        self.handle(Tick())
        answer = Explainer(self.engine, self.profiles.framework_of).explain(pod)
        self.settle()
        core = self.engine.core
        present, held = core.cache.pods.get(pod.uid), core.waiting.get(pod.uid)
        messages = {entry["uid"]: str(entry["message"]) for entry in core.queue.dump()}
        return Decision(
            pod.key,
            "" if present is None else present.node_name,
            messages.get(pod.uid, "") if present is None else "",
            () if held is None else tuple(held.pending_plugins),
            tuple(self._victims[pod.uid]),
            answer,
        )

    def _report(self, problem: PluginError) -> None:
        self._reports.append(f"Plugin failed: {problem.pod}: {problem}")

    def _report_unless_logged(self, problem: PluginError) -> None:
        """Report a failure that fails no attempt: the others come as instructions."""
        if problem.point in FAILS_NO_ATTEMPT:
            self._report(problem)

    @override
    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, LogError):
            problem = instruction.problem
            self._reports.append(f"{instruction.message}: {instruction.pod}: {problem}")
        super().carry_out(instruction)

    @override
    def bind(self, bind: Bind) -> None:
        if self.refusal:
            self.handle(BindFailed(bind.attempt, self.refusal))
        else:
            super().bind(bind)

    @override
    def evict(self, evict: Evict) -> None:
        self._victims[evict.preemptor].append(f"{evict.namespace}/{evict.name}")
        super().evict(evict)


def _content(given: Any) -> bytes:
    """Return an object as JSON, without the parts that only the engine has."""
    return msgspec.json.encode(given.pod if isinstance(given, PodInfo) else given, enc_hook=str)


def _change(before: Any, after: Any) -> str:
    """Describe the first change of an object that plugins must not change."""
    name, path = before["metadata"]["name"], []
    while isinstance(before, dict) and isinstance(after, dict):
        both = {**before, **after}
        field = next(each for each in both if before.get(each) != after.get(each))
        path.append(field)
        before, after = before.get(field), after.get(field)
    return f"a plugin changed {'.'.join(path)} of {name}: expected {before!r}, got {after!r}"
