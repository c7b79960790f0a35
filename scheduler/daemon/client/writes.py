"""Requests about pods: bindings, status patches, evictions, events, reads; requests of plugins.

Status patches of pod groups are here too.

Bodies of bindings are joined from bytes, because bindings are the most frequent requests.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from scheduler.api.written import Condition
from scheduler.daemon.client.direct import JSON, Fence
from scheduler.daemon.client.errors import ConflictError, InvalidError, NotFoundError
from scheduler.daemon.client.event_series import Occurrence
from scheduler.daemon.client.events import event_body, events_path, series_body
from scheduler.daemon.client.patches import pod_group_status_patch, pod_status_patch
from scheduler.daemon.client.session import (
    REQUEST_TIMEOUT_SECONDS,
    STRATEGIC_MERGE_PATCH,
    ApiSession,
)
from scheduler.daemon.client.status_tries import in_tries
from scheduler.daemon.client.turns import ObjectTurns, RequestTurns
from scheduler.daemon.client.wire import json_string, segment

PLUGIN_REQUESTS: Final = 32
"""Plugins' requests under way at most. Thousands of pods may be in PreBind; a connection for each
would exhaust the process's file descriptors and overload the server."""
EVENT_TIMEOUT_SECONDS: Final = 5.0
"""Time limit for the request of an event: binds may wait for the room that the event takes.

If all requests of events hang, some 300 pods a minute are still bound.
"""


class PodWrites:
    """Sends the scheduler's requests about pods.

    Args:
        session: sends the requests.
        fence: returns whether this scheduler holds the lease; called right before each write.
        timeout: seconds for one request and its repetitions after Retry-After; for events at most
            `EVENT_TIMEOUT_SECONDS`.

    Attributes:
        plugin_requests: number of plugins' requests under way.
        object_turns: the turns to write objects.
        turn: waits for the turn to write an object; for plugins, see `framework.services.Api`.
    """

    def __init__(
        self,
        session: ApiSession,
        *,
        fence: Fence | None = None,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        self._session = session
        self._fence = fence
        self._timeout = timeout
        self._event_timeout = min(timeout, EVENT_TIMEOUT_SECONDS)
        self.plugin_requests = 0
        self._for_plugins = RequestTurns(PLUGIN_REQUESTS)
        self.object_turns = ObjectTurns()
        self.turn = self.object_turns.turn

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod to the node.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`; ConflictError if the pod is bound
                already, or has another UID than `uid`.
            FencedError: this scheduler may not bind any more.

        Source: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go (Bind) v1.36.
        """
        await self._session.request(
            "POST",
            _path(namespace, name, "/binding"),
            binding_body(namespace, name, uid, node),
            fence=self._fence,
            timeout=self._timeout,
        )

    async def request(self, method: str, path: str, body: object = None) -> bytes:
        """Send a plugin's request with a JSON body, or none; it waits for its turn (`turns.py`).

        Args:
            method: the HTTP method; PATCH is a strategic merge patch.
            path: path and query, already quoted.
            body: a JSON value; None for no body.

        Returns:
            The body of the answer.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
            FencedError: this scheduler may not write any more.
            NotSentError: the attempt was cancelled before its first request.
        """
        async with self._for_plugins.turn():
            self.plugin_requests += 1
            try:
                answer = await self._session.request(
                    method,
                    path,
                    None if body is None else msgspec.json.encode(body),
                    content_type=STRATEGIC_MERGE_PATCH if method == "PATCH" else JSON,
                    fence=None if method == "GET" else self._fence,
                    timeout=self._timeout,
                )
            finally:
                self.plugin_requests -= 1
        return answer.body

    @staticmethod
    async def until(
        holds: Callable[[], bool],
        listen: Callable[[Callable[[], None]], Callable[[], None]],
        seconds: float,
    ) -> bool:
        """Wait until a condition of a plugin holds; see `framework.services.Api.until`."""
        changed = asyncio.Event()
        end = listen(changed.set)
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            return False
        finally:
            end()
        return True

    async def patch_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        now: datetime,
        *,
        condition: Condition | None = None,
        nominated_node_name: str | None = None,
    ) -> None:
        """Patch the status of a pod; do not change another pod of the same name.

        A nominated node of None keeps the present one, an empty one clears it.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
            FencedError: this scheduler may not write any more.
        """
        await self._session.request(
            "PATCH",
            _path(namespace, name, "/status"),
            pod_status_patch(uid, condition, nominated_node_name, now),
            content_type=STRATEGIC_MERGE_PATCH,
            fence=self._fence,
            timeout=self._timeout,
        )

    async def patch_group_status(
        self,
        api_version: str,
        namespace: str,
        name: str,
        uid: str,
        now: datetime,
        condition: Condition,
    ) -> None:
        """Set a condition of a pod group; do not change another group of the same name.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
            FencedError: this scheduler may not write any more.
        """
        place = f"/apis/{api_version}/namespaces/{segment(namespace)}"
        await self._session.request(
            "PATCH",
            f"{place}/podgroups/{segment(name)}/status",
            pod_group_status_patch(uid, condition, now),
            content_type=STRATEGIC_MERGE_PATCH,
            fence=self._fence,
            timeout=self._timeout,
        )

    async def evict(
        self, namespace: str, name: str, uid: str, now: datetime, condition: Condition | None
    ) -> bool:
        """Patch the condition of a victim, then delete it with its own grace period.

        Returns:
            False if the pod is gone; another pod of the same name is not deleted.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
            FencedError: this scheduler may not write any more.
        """
        try:
            if condition is not None:
                problem = await in_tries(
                    lambda: self.patch_status(namespace, name, uid, now, condition=condition)
                )
                # The pod may change all the time; for another pod of the name, the UID in the
                # patch is invalid. The deletion checks the UID as well.
                if problem is not None and not isinstance(problem, ConflictError | InvalidError):
                    raise problem
            await self._session.request(
                "DELETE",
                _path(namespace, name, ""),
                json_string(
                    {
                        "apiVersion": "v1",
                        "kind": "DeleteOptions",
                        "preconditions": {"uid": uid},
                    }
                ),
                fence=self._fence,
                timeout=self._timeout,
            )
        except (NotFoundError, ConflictError):
            return False
        return True

    async def event(self, occurrence: Occurrence) -> None:
        """Create an event, or patch its series if it was repeated.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        event, count, last_observed = occurrence.event, occurrence.count, occurrence.last_observed
        path = events_path(event)
        if count == 1:
            await self._session.request(
                "POST", path, event_body(event), timeout=self._event_timeout
            )
            return
        try:
            await self._session.request(
                "PATCH",
                f"{path}/{segment(event.name)}",
                series_body(count, last_observed),
                content_type=STRATEGIC_MERGE_PATCH,
                timeout=self._event_timeout,
            )
        except NotFoundError:
            # The first event has expired, or never arrived.
            body = event_body(event, count=count, last_observed=last_observed)
            await self._session.request("POST", path, body, timeout=self._event_timeout)

    async def read(self, namespace: str, name: str) -> bytes | None:
        """Read the pod of this name; None if it does not exist.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        try:
            answer = await self._session.request(
                "GET", _path(namespace, name, ""), timeout=self._timeout
            )
        except NotFoundError:
            return None
        return answer.body


def binding_body(namespace: str, name: str, uid: str, node: str) -> bytes:
    """Encode a core/v1 Binding; with the UID it does not bind another pod of the same name."""
    return b"".join(
        (
            b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":',
            json_string(name),
            b',"namespace":',
            json_string(namespace),
            b',"uid":',
            json_string(uid),
            b'},"target":{"kind":"Node","name":',
            json_string(node),
            b"}}",
        )
    )


def _path(namespace: str, name: str, subresource: str) -> str:
    return f"/api/v1/namespaces/{segment(namespace)}/pods/{segment(name)}{subresource}"
