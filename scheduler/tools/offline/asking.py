"""Calls extenders about clusters in files, with the same requests as the daemon, synchronously.

Extenders are never called to bind: an explanation must have no effect.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from scheduler.api.pods import PodInfo
from scheduler.clock import Clock
from scheduler.kernel.extender import (
    Advice,
    Answer,
    ExtenderCalls,
    Extenders,
    Question,
)
from scheduler.kernel.extender.bodies import object_body
from scheduler.kernel.extender.calls import PodsOn
from scheduler.kernel.framework.results import Candidate
from scheduler.kernel.framework.runtime.diagnosis import Reviewed
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.extender_metrics import ExtenderMetrics
from scheduler.observability.instruments import Instruments
from scheduler.tools.offline.reading import Written

if TYPE_CHECKING:
    from scheduler.daemon.client.extenders import ExtenderClient

NOT_ASKED: Final = "Extenders are not asked: pods are placed as if there were none."


class WrittenObjects:
    """The objects of files with all fields; see `client.extenders.WholeObjects`."""

    def __init__(self, pods: Mapping[str, Written], nodes: Mapping[str, Written]) -> None:
        self._pods = pods
        self._nodes = nodes

    def pod(self, uid: str) -> bytes | None:
        """Return the pod with this UID, or None."""
        return None if uid not in self._pods else object_body(self._pods[uid])

    def node(self, name: str) -> bytes | None:
        """Return the node of this name, or None."""
        return None if name not in self._nodes else object_body(self._nodes[name])


class OfflineExtenders:
    """Calls the extenders of a configuration.

    Attributes:
        extenders: all extenders.
    """

    def __init__(self, extenders: Extenders, objects: WrittenObjects, clock: Clock) -> None:
        """Build the clients of the extenders.

        Raises:
            ConnectionConfigError: the address or a certificate of an extender cannot be used.
        """
        self.extenders = extenders
        self._objects = objects
        self._clock = clock
        self._metrics = ExtenderMetrics(Instruments())
        asyncio.run(self._client().close())

    def ask(self, question: Question, uid: str) -> Answer:
        """Send one question over a new connection; return the answer."""
        return asyncio.run(self._ask(question, uid))

    def about_nodes(self, pod: PodInfo, names: tuple[str, ...]) -> Advice | None:
        """Ask extenders about feasible nodes; return None if no extender handles the pod.

        Raises:
            ExtenderError: an extender that is not ignorable has failed.
        """
        asked = self.extenders.about_nodes(pod)
        if not asked or not names:
            return None
        calls = ExtenderCalls(self.extenders)
        calls.begin_nodes(asked, names)
        self._make(calls, pod, lambda _: None)
        return calls.advice()

    def about_candidates(
        self, pod: PodInfo, candidates: tuple[Candidate, ...], snapshot: Snapshot
    ) -> Reviewed | None:
        """Ask extenders to filter candidates of a preemption; None if no extender handles it."""
        asked = self.extenders.about_candidates(pod)
        if not asked or not candidates:
            return None

        def pods_on(name: str) -> Mapping[str, PodInfo] | None:
            row = snapshot.table.row_of.get(name)
            return None if row is None else snapshot.info(row).pods

        calls = ExtenderCalls(self.extenders)
        calls.begin_candidates(asked, candidates)
        self._make(calls, pod, pods_on)
        return calls.reviewed

    def _make(self, calls: ExtenderCalls, pod: PodInfo, pods_on: PodsOn) -> None:
        while questions := calls.next_calls(0.0):
            for question in questions:
                calls.take(question, self.ask(question, pod.uid), pods_on)

    async def _ask(self, question: Question, uid: str) -> Answer:
        client = self._client()
        try:
            return await client.ask(question, uid)
        finally:
            await client.close()

    def _client(self) -> "ExtenderClient":
        from scheduler.daemon.client.extenders import ExtenderClient  # noqa: PLC0415 - a tenth of a second that files need not wait for

        return ExtenderClient(
            self.extenders.all, self._objects, clock=self._clock, metrics=self._metrics
        )
