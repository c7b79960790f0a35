"""The client of the Lease of leader election: read, create, replace.

Source: k8s.io/client-go tools/leaderelection/resourcelock/leaselock.go v0.36.
"""

from typing import Final

import msgspec

from scheduler.daemon.client.errors import NotFoundError, UnavailableError
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.wire import UNREADABLE, json_string, segment


class LeaseSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """coordination.k8s.io/v1 LeaseSpec.

    Every field is written, an empty holder as well, as client-go does. With the gate
    CoordinatedLeaderElection the API server 1.36 panics at a Lease without `holderIdentity`
    (leaderelection_controller.go, reconcileElectionStep).
    """

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A Lease as the server sent it.

    An update sends the same metadata: with its `resourceVersion` the server refuses the update if
    another client has changed the Lease.
    """

    metadata: msgspec.Raw
    spec: LeaseSpec = LeaseSpec()

    @property
    def uid(self) -> str:
        """The UID of the Lease; empty before it is created, or if it is no text."""
        try:
            return msgspec.json.decode(self.metadata, type=_Uid).uid
        except UNREADABLE:
            return ""


class _Uid(msgspec.Struct):
    uid: str = ""


_decoder: Final = msgspec.json.Decoder(Lease)


class LeaseLock:
    """One Lease on one API server. Every call is one request: no retries, no throttle.

    Attributes:
        namespace: the namespace of the Lease.
        name: the name of the Lease.
    """

    def __init__(self, session: ApiSession, namespace: str, name: str) -> None:
        self._session = session
        self.namespace = namespace
        self.name = name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{segment(namespace)}/leases"
        self._path = f"{self._collection}/{segment(name)}"

    async def get(self, timeout: float) -> Lease | None:
        """Read the Lease; None if it does not exist.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        body = await body_if_there(self._session, self._path, timeout)
        return None if body is None else _decoded(body)

    async def create(self, spec: LeaseSpec, timeout: float) -> Lease:
        """Create the Lease.

        Raises:
            ConflictError: the Lease exists already.
            ApiError: see `scheduler.daemon.client.errors`.
        """
        metadata = msgspec.Raw(json_string({"name": self.name, "namespace": self.namespace}))
        body = _body(Lease(metadata, spec))
        answer = await self._session.request(
            "POST", self._collection, body, timeout=timeout, is_urgent=True
        )
        return _decoded(answer.body)

    async def update(self, lease: Lease, spec: LeaseSpec, timeout: float) -> Lease:
        """Replace the Lease, if it has not changed since `lease` was read.

        Raises:
            ConflictError: another client has changed the Lease.
            ApiError: see `scheduler.daemon.client.errors`.
        """
        body = _body(Lease(lease.metadata, spec))
        answer = await self._session.request(
            "PUT", self._path, body, timeout=timeout, is_urgent=True
        )
        return _decoded(answer.body)


async def body_if_there(session: ApiSession, path: str, timeout: float) -> bytes | None:
    """Read the bytes of an object for an election, without throttle; None if it does not exist.

    Raises:
        ApiError: see `scheduler.daemon.client.errors`.
    """
    try:
        answer = await session.request("GET", path, timeout=timeout, is_urgent=True)
    except NotFoundError:
        return None
    return answer.body


def _decoded(body: bytes) -> Lease:
    try:
        return _decoder.decode(body)
    except UNREADABLE as problem:
        raise UnavailableError("lease", message=f"not a Lease: {problem}") from problem


def _body(lease: Lease) -> bytes:
    return b"".join(
        (
            b'{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":',
            lease.metadata,
            b',"spec":',
            json_string(lease.spec),
            b"}",
        )
    )
