"""Decides on access to paths: some are open, the API server reviews access to the others.

Source: k8s.io/apiserver pkg/server/options authorization.go, pkg/authorization/path,
plugin/pkg/authorizer/webhook (1.36.3).
"""

from collections.abc import Sequence
from typing import Final

from scheduler.clock import Clock
from scheduler.config.options import RunOptions
from scheduler.daemon.client.reviews import User
from scheduler.daemon.serving.authentication import Reviews
from scheduler.daemon.serving.errors import ServingError
from scheduler.daemon.serving.expiring import ExpiringAnswers

_ALWAYS_ALLOWED_GROUP: Final = "system:masters"
_MAX_DECISIONS: Final = 4096


class Authorizer:
    """Decides on access to non-resource paths.

    Raises:
        ServingError: a pattern in --authorization-always-allow-paths cannot be used.
    """

    def __init__(self, options: RunOptions, reviews: Reviews, clock: Clock) -> None:
        yes = options.authorization_webhook_cache_authorized_ttl
        no = options.authorization_webhook_cache_unauthorized_ttl
        self._open = OpenPaths(options.authorization_always_allow_paths)
        self._reviews = reviews
        self._decisions: ExpiringAnswers[bytes, bool] = ExpiringAnswers(
            clock, lambda allowed: yes if allowed else no, _MAX_DECISIONS
        )

    async def allows(self, user: User, path: str, verb: str) -> bool:
        """Return whether the user may use the path with this verb.

        Raises:
            ApiError: the review failed.
        """
        if path in self._open or _ALWAYS_ALLOWED_GROUP in user.groups:
            return True
        question = repr((user, path, verb)).encode()
        return await self._decisions.get(
            question, lambda: self._reviews.review_access(user, path, verb)
        )


class OpenPaths:
    """Paths that every client may use; a trailing `*` matches any rest of a path."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._paths: set[str] = set()
        self._prefixes: list[str] = []
        for pattern in patterns:
            path = pattern.removeprefix("/")
            if "*" in path[:-1]:
                raise ServingError(
                    f'--authorization-always-allow-paths: "*" may only end a path, got "{pattern}"'
                )
            if path.endswith("*"):
                self._prefixes.append(path[:-1])
            else:
                self._paths.add(path)

    def __contains__(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self._paths or any(path.startswith(prefix) for prefix in self._prefixes)
