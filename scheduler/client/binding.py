"""Writes about pods: the binding, and the status of a pod that could not be placed.

Bodies are put together from bytes, because these are the scheduler's most frequent requests.
"""

from typing import Any

import msgspec

from scheduler.client.direct import JSON, Fence
from scheduler.client.patches import ConditionPatch, pod_status_patch
from scheduler.client.session import (
    REQUEST_TIMEOUT_SECONDS,
    STRATEGIC_MERGE_PATCH,
    ApiSession,
)
from scheduler.client.wire import json_string, segment


class PodClient:
    """What the scheduler writes about pods.

    Args:
        session: where requests go.
        fence: whether this scheduler still holds the lease; asked as the bytes leave.
        timeout: seconds for one write, repetitions asked for by the server included.

    Attributes:
        binds_in_flight: bindings that were sent and not answered.
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
        self.binds_in_flight = 0

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Binds the pod to the node.

        Raises:
            ApiError: see `scheduler.client.errors`; ConflictError also when the pod is bound
                already, or is another pod than `uid` says.
            FencedError: this scheduler may not bind any more.

        Source: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go (Bind) v1.36.
        """
        self.binds_in_flight += 1
        try:
            await self._session.request(
                "POST",
                _path(namespace, name, "binding"),
                binding_body(namespace, name, uid, node),
                fence=self._fence,
                timeout=self._timeout,
            )
        finally:
            self.binds_in_flight -= 1

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """Sends a request with a JSON body, or none; for plugins.

        Args:
            method: the HTTP method; PATCH is a strategic merge patch.
            path: path and query, already quoted.
            body: what JSON can say; None for no body.

        Returns:
            The decoded answer.

        Raises:
            ApiError: see `scheduler.client.errors`.
            FencedError: this scheduler may not write any more.
        """
        answer = await self._session.request(
            method,
            path,
            None if body is None else msgspec.json.encode(body),
            content_type=STRATEGIC_MERGE_PATCH if method == "PATCH" else JSON,
            fence=None if method == "GET" else self._fence,
            timeout=self._timeout,
        )
        return msgspec.json.decode(answer.body)

    async def patch_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        condition: ConditionPatch | None = None,
        nominated_node_name: str | None = None,
    ) -> None:
        """Changes the status of a pod.

        Args:
            namespace: of the pod.
            name: of the pod.
            uid: of the pod; a successor of the same name is left alone.
            condition: the condition to set, or None.
            nominated_node_name: None leaves it, an empty string clears it.

        Raises:
            ApiError: see `scheduler.client.errors`.
            FencedError: this scheduler may not write any more.
        """
        await self._session.request(
            "PATCH",
            _path(namespace, name, "status"),
            pod_status_patch(uid, condition, nominated_node_name),
            content_type=STRATEGIC_MERGE_PATCH,
            fence=self._fence,
            timeout=self._timeout,
        )


def binding_body(namespace: str, name: str, uid: str, node: str) -> bytes:
    """A core/v1 Binding. The UID keeps it from binding another pod of the same name."""
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
    return f"/api/v1/namespaces/{segment(namespace)}/pods/{segment(name)}/{subresource}"
