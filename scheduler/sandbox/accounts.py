"""Who may talk to the sandbox, and the reviews other servers ask for.

Source: authentication.k8s.io/v1 (TokenReview, TokenRequest), authorization.k8s.io/v1.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from scheduler.clock import Clock
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.status import unauthorized
from scheduler.sandbox.timestamps import time_text

_TOKEN_BITS: Final = 192
_TOKEN_SECONDS: Final = 3600
ANONYMOUS: Final = "system:anonymous"


@dataclass(frozen=True, slots=True)
class Account:
    """One user."""

    name: str
    token: str
    groups: tuple[str, ...] = ("system:authenticated",)
    is_allowed: bool = True
    """What access reviews say about it; the sandbox itself lets everybody in who is known."""


class Accounts:
    """The known users. Without any, everybody may do everything and no token is looked at.

    Args:
        accounts: the users.
        clock: for the expiry of requested tokens.
        random: for requested tokens.
    """

    def __init__(self, accounts: Iterable[Account], clock: Clock, random: Random) -> None:
        self._by_token = {account.token: account for account in accounts}
        self._clock = clock
        self._random = random
        self._is_open = not self._by_token

    def user_of(self, authorization: str) -> str:
        """The name of who sends a request.

        Raises:
            StatusError: 401, tokens are required and this is not one.
        """
        account = self._by_token.get(authorization.removeprefix("Bearer "))
        if account is not None:
            return account.name
        if not self._is_open:
            raise unauthorized()
        return ANONYMOUS

    def review_token(self, review: Object) -> Object:
        """Answers a TokenReview."""
        account = self._by_token.get((review.get("spec") or {}).get("token", ""))
        if account is None:
            review["status"] = {"user": {}, "error": "invalid bearer token"}
        else:
            user = {"username": account.name, "groups": list(account.groups)}
            review["status"] = {"authenticated": True, "user": user}
        return review

    def review_access(self, review: Object) -> Object:
        """Answers a SubjectAccessReview."""
        return self._reviewed(review, (review.get("spec") or {}).get("user", ""))

    def review_own_access(self, review: Object, user: str) -> Object:
        """Answers a SelfSubjectAccessReview."""
        return self._reviewed(review, user)

    def _reviewed(self, review: Object, user: str) -> Object:
        allowed = self._is_open or any(
            account.is_allowed for account in self._by_token.values() if account.name == user
        )
        review["status"] = {"allowed": allowed}
        if not allowed:
            review["status"]["reason"] = f"the sandbox grants nothing to {user!r}"
        return review

    def request_token(self, request: Object, namespace: str, name: str) -> Object:
        """Answers a TokenRequest for a service account."""
        token = f"sandbox-{self._random.getrandbits(_TOKEN_BITS):048x}"
        user = f"system:serviceaccount:{namespace}:{name}"
        self._by_token[token] = Account(user, token)
        seconds = (request.get("spec") or {}).get("expirationSeconds") or _TOKEN_SECONDS
        expiry = self._clock.wall() + timedelta(seconds=seconds)
        request["status"] = {"token": token, "expirationTimestamp": time_text(expiry)}
        return request
