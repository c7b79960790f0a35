"""Faults a test asks for: requests that go wrong, watches that break.

sandbox.faults.answer(409, verb="create", path="*/binding", times=2)
sandbox.faults.expire_watches("pods")
"""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, TypedDict, Unpack

from apistub.http.watching import Watch
from apistub.storage.status import StatusError

_FOR_EVER: Final = 1e6


class Requests(TypedDict, total=False):
    """Which requests go wrong."""

    verb: str
    path: str
    times: int | None
    """How often; None for every matching request."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One rule: which requests go wrong, how, and how often still."""

    verb: str = "*"
    path: str = "*"
    times: int | None = 1
    seconds: float = 0.0
    """How late the request is carried out."""
    act: Callable[[], None] | None = None
    """What happens just before it is carried out."""
    error: StatusError | None = None
    """What it is answered instead of being carried out."""
    drops_request: bool = False
    """Whether the connection is cut instead of carrying it out."""
    drops_answer: bool = False
    """Whether the connection is cut afterwards, so that the client cannot know."""
    hits: int = 0
    """How many requests it has met."""

    def matches(self, verb: str, path: str) -> bool:
        """Whether a request with this verb and path is meant."""
        return self.verb in {"*", verb} and fnmatchcase(path, self.path)


class Faults:
    """The rules in force.

    Verbs are those of authorization: get, list, watch, create, update, patch, delete,
    deletecollection. Paths are shell patterns over the path without its query.
    """

    def __init__(self) -> None:
        self.watches: dict[Watch, None] = {}
        """The open watches, in the order they began."""
        self._faults: list[Fault] = []
        self.answers_gone_as_status = False
        """Whether a watch from a forgotten version is refused with 410 instead of beginning and
        ending with an error event."""

    def answer(
        self,
        code: int,
        *,
        message: str = "",
        retry_after_seconds: int = 0,
        **requests: Unpack[Requests],
    ) -> Fault:
        """Has matching requests answered with an error status."""
        details: dict[str, object] = {"retryAfterSeconds": retry_after_seconds}
        error = StatusError(
            code, message or f"told to answer {code}", details if retry_after_seconds else None
        )
        return self._add(Fault(error=error, **requests))

    def hang(self, **requests: Unpack[Requests]) -> Fault:
        """Has matching requests never answered."""
        return self._add(Fault(seconds=_FOR_EVER, **requests))

    def drop(self, *, after_commit: bool = False, **requests: Unpack[Requests]) -> Fault:
        """Has the connections of matching requests cut."""
        fault = Fault(drops_request=not after_commit, drops_answer=after_commit, **requests)
        return self._add(fault)

    def delay(self, seconds: float, **requests: Unpack[Requests]) -> Fault:
        """Has matching requests answered late."""
        return self._add(Fault(seconds=seconds, **requests))

    def before(self, act: Callable[[], None], **requests: Unpack[Requests]) -> Fault:
        """Has `act` called just before matching requests are carried out."""
        return self._add(Fault(act=act, **requests))

    def clear(self) -> None:
        """Ends all rules; watches that are broken stay so."""
        self._faults.clear()
        self.answers_gone_as_status = False

    def close_watches(self, resource: str = "*", *, abort: bool = False) -> None:
        """Ends the open watches of a resource, or cuts their connections."""
        for watch in self._watching(resource):
            watch.close(abort=abort)

    def expire_watches(self, resource: str = "*") -> None:
        """Ends the open watches of a resource with the error event 410."""
        for watch in self._watching(resource):
            watch.expire()

    def silence_watches(self, resource: str = "*") -> None:
        """Makes the open watches of a resource half-open: no event, no end."""
        for watch in self._watching(resource):
            watch.is_silent = True

    def inject(self, line: bytes, resource: str = "*") -> int:
        """Puts a line, such as a malformed object, into the open watches of a resource.

        The answer is how many there are: none of them sees the line unless it is open.
        """
        watches = self._watching(resource)
        for watch in watches:
            watch.inject(line)
        return len(watches)

    def _watching(self, resource: str) -> list[Watch]:
        """The open watches of a resource, of all with `*`."""
        return [one for one in self.watches if resource in {"*", one.kind.resource}]

    def take(self, verb: str, path: str) -> Fault | None:
        """What is to happen to a request, if anything; counts it. The server calls this."""
        for fault in self._faults:
            if fault.matches(verb, path):
                fault.hits += 1
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                return fault
        return None

    def _add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault
