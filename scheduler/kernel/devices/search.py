"""The search for devices on one node: depth first, in upstream's order, up to a number of steps.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(Allocate, allocateOne, v0.36.3).
Differs: a search ends after a number of steps, where upstream's has a time limit.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from scheduler.api.devices import MAX_RESULTS
from scheduler.errors import SchedulerError
from scheduler.kernel.devices.candidates import (
    FAILING,
    SKIPPED,
    UNKNOWN,
    AllocationError,
    CandidateDevices,
    OutOfStepsError,
)
from scheduler.kernel.devices.plan import AllocationPlan, RequestData, RequestPlan
from scheduler.kernel.devices.pools import PoolState
from scheduler.kernel.devices.shortage import Need, is_short
from scheduler.kernel.devices.taken_devices import TakenDevice, TakenDevices

_SHORT_STEPS: Final = 512
"""Steps after which a search checks for a shortage of devices; most searches end before."""


class _ShortageError(SchedulerError):
    """There are too few devices, in whatever order they are tried."""


class Pick(NamedTuple):
    """A device for a request.

    Attributes:
        claim: the index of the claim.
        ask: the request that it satisfies.
        candidate: the index of the device among the candidates.
    """

    claim: int
    ask: RequestData
    candidate: int


class _Result(Enum):
    """The result of a part of the search."""

    DONE = "done"
    FAILED = "failed"
    TOO_MANY = "too many"
    """The claim would get more devices than it can hold; other devices do not help."""


class _Frame:
    """A choice that the search has made and may undo.

    Attributes:
        claim: the index of the claim.
        request: the index of the request in the claim; past the last one at the end of a claim.
        ask: the request that a device is picked for; None where the choice is an alternative.
        device_index: number of devices that the request has already.
        next: the present alternative, or the next option for a device.
        taken: the device that is taken at present, or None.
        only_too_many: whether every alternative so far needed too many devices.
    """

    __slots__ = (
        "ask",
        "claim",
        "device_index",
        "next",
        "only_too_many",
        "request",
        "taken",
    )

    def __init__(
        self, claim: int, request: int, ask: RequestData | None, device_index: int, first: int
    ) -> None:
        self.claim = claim
        self.request = request
        self.ask = ask
        self.device_index = device_index
        self.next = first
        self.taken: TakenDevice | None = None
        self.only_too_many = True


class Search:
    """One search on one node; see `run`."""

    def __init__(
        self,
        plan: AllocationPlan,
        candidates: CandidateDevices,
        claims: Sequence[str],
        max_steps: int,
    ) -> None:
        """Prepare.

        Args:
            plan: the requests.
            candidates: the devices of the node.
            claims: `namespace/name` by the index of the claim, for messages.
            max_steps: devices that may be tried.
        """
        self.steps = 0
        self._plan = plan
        self._candidates = candidates
        self._names = claims
        self._max_steps = max_steps
        self._next_look = min(_SHORT_STEPS, max_steps)
        self._options: list[list[int]] = []
        self._counts: list[int] = []
        self._may_fail: list[bool] = []
        self._stack: list[_Frame] = []
        self._taken = TakenDevices(candidates, claims)

    def run(self) -> list[Pick] | None:
        """Find devices for all claims.

        Returns:
            The devices in the order of claims and requests; None if there is no solution.

        Raises:
            AllocationError: the requests are faulty, whatever the node.
            OutOfStepsError: the search took too long.
        """
        self._validate()
        result = self._enter(0, 0)
        try:
            while result is not _Result.DONE:
                if result is None:
                    result = self._advance()
                elif self._stack:
                    result = self._take_back(result)
                else:
                    return None
        except _ShortageError:
            return None
        return [
            Pick(frame.claim, frame.ask, frame.taken.candidate)
            for frame in self._stack
            if frame.ask is not None and frame.taken is not None
        ]

    @property
    def chosen(self) -> list[int]:
        """After a success, the index of the chosen alternative for each prioritized list."""
        return [frame.next for frame in self._stack if self._request_of(frame) is not None]

    # --- before the search ----------------------------------------------------------------------

    def _validate(self) -> None:
        for claim, plan in enumerate(self._plan.claims):
            least = 0
            for request in plan.requests:
                least += min([self._count_of(claim, ask) for ask in request.asks])
            if least > MAX_RESULTS:
                raise AllocationError(
                    f"claim {self._names[claim]}: number of requested devices {least} "
                    f"exceeds the claim limit of {MAX_RESULTS}"
                )
            self._taken.constrain(plan)

    def _count_of(self, claim: int, ask: RequestData) -> int:
        if ask.problem:
            raise AllocationError(f"claim {self._names[claim]}, {ask.problem}")
        codes = self._candidates.codes[ask.index]
        if ask.is_all:
            self._check_all(claim, ask, codes)
        options = [i for i, code in enumerate(codes) if code != SKIPPED]
        self._options.append(options)
        self._counts.append(len(options) if ask.is_all else ask.count)
        self._may_fail.append(FAILING in codes or UNKNOWN in codes)
        return self._counts[-1]

    def _check_all(self, claim: int, ask: RequestData, codes: Sequence[int]) -> None:
        """Check that all pools are ready and all selectors evaluated, as "all" devices requires."""
        pools = self._candidates.pools
        ends = [*(pool.first for pool in pools[1:]), len(codes)][: len(pools)]
        for pool, end in zip(pools, ends, strict=True):
            if pool.state is not PoolState.READY:
                state = "being updated" if pool.state is PoolState.INCOMPLETE else "invalid"
                raise AllocationError(
                    f"claim {self._names[claim]}, request {ask.name}: asks for all devices, "
                    f"but resource pool {pool.name} is currently {state}"
                )
            for candidate in range(pool.first, end):
                self._candidates.check_selector(ask, candidate)

    # --- the search -----------------------------------------------------------------------------

    def _enter(  # noqa: C901 - one step of the search, with all that rejects it
        self,
        claim: int,
        request: int,
        ask: RequestData | None = None,
        device_index: int = 0,
        first: int = 0,
    ) -> _Result | None:
        """Begin a request, or the next device of one.

        Returns:
            None when the top of the stack is a device to be picked.
        """
        while True:
            if ask is None:
                if claim >= len(self._plan.claims):
                    return _Result.DONE
                requests = self._plan.claims[claim].requests
                if request >= len(requests):
                    self._stack.append(_Frame(claim, request, None, 0, 0))
                    claim, request = claim + 1, 0
                    continue
                if requests[request].has_alternatives:
                    self._stack.append(_Frame(claim, request, None, 0, 0))
                ask, device_index, first = requests[request].asks[0], 0, 0
            count = self._counts[ask.index]
            if ask.is_all and not count:
                return _Result.FAILED
            if device_index < count:
                break
            ask, request = None, request + 1
        if self._taken.counts[claim] + count - device_index > MAX_RESULTS:
            return _Result.TOO_MANY
        self._stack.append(_Frame(claim, request, ask, device_index, first))
        return None

    def _advance(self) -> _Result | None:
        """Pick the next available device for the top of the stack, and continue from there."""
        frame = self._stack[-1]
        ask = frame.ask
        if ask is None:
            raise AssertionError("the choice of an alternative is made on the way back")
        options = self._options[ask.index]
        # Stop where too few options remain, unless a selector may fail: that must be reported.
        last = len(options)
        if not ask.is_all and not self._may_fail[ask.index]:
            last -= self._counts[ask.index] - frame.device_index - 1
        while frame.next < last:
            candidate = options[frame.next]
            frame.next += 1
            self.steps += 1
            if self.steps > self._next_look:
                self._look_at_all()
            frame.taken = self._taken.take(frame.claim, ask, candidate)
            if frame.taken is not None:
                device_index = frame.device_index + 1
                return self._enter(frame.claim, frame.request, ask, device_index, frame.next)
            if ask.is_all:
                break
        self._stack.pop()
        return _Result.FAILED

    def _look_at_all(self) -> None:
        """Give up if no order of the devices can succeed, or the search has taken too long."""
        if self.steps > self._max_steps:
            raise OutOfStepsError(f"gave up after {self._max_steps} devices")
        self._next_look = self._max_steps
        # The search reports a failing selector, or a constraint among "all", only on reaching it.
        may_raise = any(self._may_fail) or any(
            ask.is_all for plan in self._plan.claims for r in plan.requests for ask in r.asks
        )
        if not may_raise and is_short(list(self._needs())):
            raise _ShortageError("there are too few devices")

    def _needs(self) -> Iterator[Need]:
        """The devices each request needs for itself; without shared devices and admin access."""
        for request in (r for plan in self._plan.claims for r in plan.requests):
            options = sorted({i for ask in request.asks for i in self._options[ask.index]})
            is_shared = any(self._candidates.multiple[i] for i in options)
            if not is_shared and not any(ask.is_admin for ask in request.asks):
                yield Need(min(self._counts[ask.index] for ask in request.asks), options)

    def _take_back(self, result: _Result) -> _Result | None:
        """Undo the failed choice on the top of the stack and enter the next alternative, if any.

        Returns:
            None to continue at the top of the stack, else the result for the frame below.
        """
        frame = self._stack[-1]
        if frame.ask is not None:
            if frame.taken is not None:
                self._taken.give_back(frame.claim, frame.ask, frame.taken)
                frame.taken = None
            if result is _Result.FAILED and not frame.ask.is_all:
                return None
            self._stack.pop()
            return result
        request = self._request_of(frame)
        if request is None:
            self._stack.pop()
            return _Result.FAILED
        frame.only_too_many &= result is _Result.TOO_MANY
        frame.next += 1
        if frame.next < len(request.asks):
            return self._enter(frame.claim, frame.request, request.asks[frame.next])
        self._stack.pop()
        return _Result.TOO_MANY if frame.only_too_many else _Result.FAILED

    def _request_of(self, frame: _Frame) -> RequestPlan | None:
        """The prioritized list whose alternatives a frame is about, or None."""
        requests = self._plan.claims[frame.claim].requests
        return (
            None
            if frame.ask is not None or frame.request >= len(requests)
            else requests[frame.request]
        )
