"""Asks the API server for the user and the rights of a request (delegated authentication).

Source: k8s.io/apiserver pkg/authentication and pkg/authorization (delegated) v0.36.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler.clock import MonotonicClock, SystemClock
from scheduler.daemon.client.errors import ApiError, UnavailableError
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.wire import UNREADABLE, json_string
from scheduler.observability.client_metrics import ReviewMetrics
from scheduler.observability.instruments import Instruments

REVIEW_QPS: Final = 200.0
REVIEW_BURST: Final = 400
"""Limit of reviews: theirs alone, so that they do not wait for binds.

Source: k8s.io/apiserver pkg/server/options authentication.go, authorization.go (getClient) v0.36.
"""

_WHO: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_MAY: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class User(msgspec.Struct, frozen=True, rename={"name": "username"}, omit_defaults=True):
    """authentication.k8s.io/v1 UserInfo: the identity of a caller."""

    name: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()
    audiences: tuple[str, ...] = ()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_token_decoder: Final = msgspec.json.Decoder(_TokenReview)
_access_decoder: Final = msgspec.json.Decoder(_AccessReview)


class ApiReviews:
    """Sends TokenReviews and SubjectAccessReviews; does not cache the answers."""

    def __init__(
        self,
        session: ApiSession,
        metrics: ReviewMetrics | None = None,
        clock: MonotonicClock | None = None,
    ) -> None:
        self._session = session
        self._metrics = metrics or ReviewMetrics(Instruments())
        self._clock = clock or SystemClock()

    async def review_token(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Return the user of a bearer token; None if the token is not valid.

        The token must be issued for one of `audiences`; without any, for the API server.

        Raises:
            ApiError: the review failed.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token} | ({"audiences": tuple(audiences)} if audiences else {}),
        }
        answer = await self._post("authn", _WHO, body)
        status = _decoded(_token_decoder, answer).status
        # An authenticator that ignores audiences returns none: its token is refused.
        is_meant = not audiences or bool(set(audiences) & set(status.audiences))
        return status.user if status.authenticated and is_meant else None

    async def review_access(self, user: User, path: str, verb: str) -> bool:
        """Return whether the user may use a verb (`get`) on a non-resource path (`/metrics`).

        Raises:
            ApiError: the review failed.
        """
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "nonResourceAttributes": {"path": path, "verb": verb},
            },
        }
        answer = await self._post("authz", _MAY, body)
        status = _decoded(_access_decoder, answer).status
        return status.allowed and not status.denied

    async def _post(self, about: str, path: str, body: dict[str, Any]) -> bytes:
        start, code = self._clock.monotonic(), "<error>"
        try:
            answer = await self._session.request("POST", path, json_string(body))
            code = str(answer.status)
        except ApiError as problem:
            code = str(problem.status or code)
            raise
        finally:
            self._metrics.requests[about][code].inc()
            self._metrics.duration[about][code].observe(self._clock.monotonic() - start)
        return answer.body


def _decoded(decoder: "msgspec.json.Decoder[Any]", body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except UNREADABLE as problem:
        raise UnavailableError("review", message=f"unexpected answer: {problem}") from problem
