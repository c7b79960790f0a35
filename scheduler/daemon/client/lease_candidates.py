"""The client of a process's LeaseCandidate: read, create, replace, delete.

Source: k8s.io/client-go tools/leaderelection/leasecandidate.go v0.36 (KEP-4355).
"""

from typing import Final

import msgspec

from scheduler.daemon.client.errors import NotFoundError, UnavailableError
from scheduler.daemon.client.leases import body_if_there
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.wire import UNREADABLE, json_string, segment


class LeaseCandidateSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """coordination.k8s.io/v1beta1 LeaseCandidateSpec."""

    lease_name: str = ""
    ping_time: str | None = None
    renew_time: str | None = None
    binary_version: str = ""
    emulation_version: str = ""
    strategy: str = ""


class LeaseCandidate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A LeaseCandidate as the server sent it; an update sends the same metadata."""

    metadata: msgspec.Raw
    spec: LeaseCandidateSpec = LeaseCandidateSpec()


_decoder: Final = msgspec.json.Decoder(LeaseCandidate)
_HEAD: Final = b'{"apiVersion":"coordination.k8s.io/v1beta1","kind":"LeaseCandidate","metadata":'


class CandidateRecord:
    """One LeaseCandidate on one API server. Every call is one request: no retries, no throttle.

    Attributes:
        name: the name of the candidate, which is the identity of the process.
    """

    def __init__(self, session: ApiSession, namespace: str, name: str) -> None:
        self._session = session
        self.name = name
        self._metadata = msgspec.Raw(json_string({"name": name, "namespace": namespace}))
        self._collection = (
            f"/apis/coordination.k8s.io/v1beta1/namespaces/{segment(namespace)}/leasecandidates"
        )
        self._path = f"{self._collection}/{segment(name)}"

    async def get(self, timeout: float) -> LeaseCandidate | None:
        """Read the candidate; None if it does not exist.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        body = await body_if_there(self._session, self._path, timeout)
        try:
            return None if body is None else _decoder.decode(body)
        except UNREADABLE as problem:
            told = f"not a LeaseCandidate: {problem}"
            raise UnavailableError("lease candidate", message=told) from problem

    async def put(
        self, candidate: LeaseCandidate | None, spec: LeaseCandidateSpec, timeout: float
    ) -> None:
        """Replace `candidate` if it is unchanged on the server; create one if it is None.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        metadata = self._metadata if candidate is None else candidate.metadata
        body = b"".join((_HEAD, metadata, b',"spec":', json_string(spec), b"}"))
        verb, path = ("POST", self._collection) if candidate is None else ("PUT", self._path)
        await self._session.request(verb, path, body, timeout=timeout, is_urgent=True)

    async def delete(self, timeout: float) -> None:
        """Delete the candidate, if it exists.

        Raises:
            ApiError: see `scheduler.daemon.client.errors`.
        """
        try:
            await self._session.request("DELETE", self._path, timeout=timeout, is_urgent=True)
        except NotFoundError:
            return
