"""Faults a test asks for: requests that go wrong, watches that break.

sandbox.faults.answer(409, verb="create", path="*/binding", times=2)
sandbox.faults.expire_watches("pods")
"""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from apistub.http.sessions import WatchSessions
from apistub.storage.status import StatusError, told_to_answer


@dataclass(frozen=True, slots=True)
class Answer:
    """The request is answered with an error and not carried out."""

    error: StatusError


@dataclass(frozen=True, slots=True)
class Hang:
    """The request is carried out never and not answered, until its client gives up."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is cut."""

    after_commit: bool
    """Whether the request is carried out first, so that the client cannot know."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is carried out late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Before:
    """Something happens just before the request is carried out."""

    act: Callable[[], None]


Action = Answer | Hang | Drop | Delay | Before


@dataclass(slots=True)
class Fault:
    """One rule: which requests go wrong, how, and how often still."""

    verb: str
    path: str
    action: Action
    remaining: int | None
    """None for every matching request."""
    hits: int = 0
    """How many requests it has met."""

    def matches(self, verb: str, path: str) -> bool:
        """Whether a request with this verb and path is meant."""
        return self.verb in {"*", verb} and fnmatchcase(path, self.path)


class Faults:
    """The rules in force.

    Verbs are those of authorization: get, list, watch, create, update, patch, delete,
    deletecollection. Paths are shell patterns over the path without its query.

    Args:
        sessions: the open watches.
    """

    def __init__(self, sessions: WatchSessions) -> None:
        self.sessions = sessions
        self._faults: list[Fault] = []
        self.answers_gone_as_status = False
        """Whether a watch from a forgotten version is refused with 410 instead of beginning and
        ending with an error event."""

    def answer(
        self,
        code: int,
        *,
        verb: str = "*",
        path: str = "*",
        times: int | None = 1,
        message: str = "",
        retry_after_seconds: int = 0,
    ) -> Fault:
        """Has matching requests answered with an error status."""
        error = told_to_answer(code, message, retry_after_seconds)
        return self._add(verb, path, times, Answer(error))

    def hang(self, *, verb: str = "*", path: str = "*", times: int | None = 1) -> Fault:
        """Has matching requests never answered."""
        return self._add(verb, path, times, Hang())

    def drop(
        self,
        *,
        verb: str = "*",
        path: str = "*",
        times: int | None = 1,
        after_commit: bool = False,
    ) -> Fault:
        """Has the connections of matching requests cut."""
        return self._add(verb, path, times, Drop(after_commit))

    def delay(
        self, seconds: float, *, verb: str = "*", path: str = "*", times: int | None = 1
    ) -> Fault:
        """Has matching requests answered late."""
        return self._add(verb, path, times, Delay(seconds))

    def before(
        self, act: Callable[[], None], *, verb: str = "*", path: str = "*", times: int | None = 1
    ) -> Fault:
        """Has `act` called just before matching requests are carried out."""
        return self._add(verb, path, times, Before(act))

    def clear(self) -> None:
        """Ends all rules; watches that are broken stay so."""
        self._faults.clear()
        self.answers_gone_as_status = False

    def close_watches(self, resource: str = "*", *, abort: bool = False) -> None:
        """Ends the open watches of a resource, or cuts their connections."""
        for session in self.sessions.of(resource):
            session.close(abort=abort)

    def expire_watches(self, resource: str = "*") -> None:
        """Ends the open watches of a resource with the error event 410."""
        for session in self.sessions.of(resource):
            session.expire()

    def silence_watches(self, resource: str = "*") -> None:
        """Makes the open watches of a resource half-open: no event, no end."""
        for session in self.sessions.of(resource):
            session.silence()

    def inject(self, line: bytes, resource: str = "*") -> None:
        """Puts a line, such as a malformed object, into the open watches of a resource."""
        for session in self.sessions.of(resource):
            session.inject(line)

    def take(self, verb: str, path: str) -> Action | None:
        """What is to happen to a request, if anything; counts it. The server calls this."""
        for fault in self._faults:
            if fault.matches(verb, path):
                fault.hits += 1
                if fault.remaining is not None:
                    fault.remaining -= 1
                    if fault.remaining == 0:
                        self._faults.remove(fault)
                return fault.action
        return None

    def _add(self, verb: str, path: str, times: int | None, action: Action) -> Fault:
        fault = Fault(verb, path, action, times)
        self._faults.append(fault)
        return fault
