"""Which requests came in, for tests that ask what a client did."""

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

from scheduler.sandbox.request_info import RequestInfo

_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request and how it ended."""

    info: RequestInfo
    code: int
    """The HTTP status; 0 when there was no answer."""
    user_agent: str
    user: str


class RequestLog:
    """The latest requests, and counts of all."""

    def __init__(self) -> None:
        self.recent: deque[LoggedRequest] = deque(maxlen=_REMEMBERED)
        self._counts: Counter[tuple[str, str, str, int]] = Counter()

    def record(self, request: LoggedRequest) -> None:
        """Notes a request that has ended, or a watch that has begun."""
        info = request.info
        self.recent.append(request)
        self._counts[info.verb, info.resource or info.path, info.subresource, request.code] += 1

    def count(
        self,
        *,
        verb: str = "*",
        resource: str = "*",
        subresource: str = "*",
        code: int | None = None,
    ) -> int:
        """How many requests there were; resource is the path where there is no resource."""
        return sum(
            number
            for (its_verb, its_resource, its_subresource, its_code), number in self._counts.items()
            if verb in {"*", its_verb}
            and resource in {"*", its_resource}
            and subresource in {"*", its_subresource}
            and code in {None, its_code}
        )

    def clear(self) -> None:
        """Starts counting anew."""
        self.recent.clear()
        self._counts.clear()
