"""The search for devices on one node: depth first, in upstream's order, up to a number of steps.

This file refers to devices by their index among the candidates of a node; `CandidateDevices` has
their properties.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(Allocate, allocateOne, allocateDevice, v0.36.3).
Differs: counters are kept per driver and pool, where upstream mixes pools of one name; a search
ends after a number of steps, where upstream's has a time limit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Final, NamedTuple

from scheduler.api.devices import MAX_RESULTS
from scheduler.errors import SchedulerError
from scheduler.kernel.devices.capacities import Amounts, CapacityShare, fit
from scheduler.kernel.devices.columns import Consumed
from scheduler.kernel.devices.constraints import Constraint, constraint_of
from scheduler.kernel.devices.plan import AllocationPlan, RequestData, RequestPlan
from scheduler.kernel.devices.pools import CounterTable, PoolState
from scheduler.kernel.devices.shortage import Need, is_short

SKIPPED: Final = 0
USABLE: Final = 1
FAILING: Final = 2
"""A selector fails on the device."""
BLOCKED: Final = 3
"""A request for "all" devices matches the device, but it is in use or has untolerated taints."""
UNKNOWN: Final = 4
"""A selector has not been evaluated yet."""

_NO_AMOUNTS: Final[Amounts] = {}
_SHORT_STEPS: Final = 512
"""Steps after which a search checks for a shortage of devices; most searches end before."""


class AllocationError(SchedulerError):
    """The claims cannot be allocated on any node; the message is upstream's."""


class SelectorFailedError(AllocationError):
    """A selector fails on a device.

    Attributes:
        ask: the request that has the selector, or whose class has it.
        candidate: the index of the device among the candidates.
    """

    def __init__(self, ask: RequestData, candidate: int) -> None:
        super().__init__("a selector fails on a device")
        self.ask = ask
        self.candidate = candidate


class OutOfStepsError(SchedulerError):
    """The search was longer than allowed."""


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


class CandidatePool(NamedTuple):
    """A pool of a node.

    Attributes:
        name: `driver/pool`.
        state: whether it can be used.
        first: the index of its first candidate.
        available: the remaining amounts of its counters.
    """

    name: str
    state: PoolState
    first: int
    available: CounterTable


class CandidateDevices(NamedTuple):
    """The devices of one node in the order in which they are tried, as a search sees them.

    Attributes:
        names: by candidate, `driver/pool/device`.
        codes: by request and candidate, the verdict: `USABLE` or another code.
        pools: in order.
        pool_of: by candidate, the index of its pool.
        multiple: by candidate, whether it is shared.
        consumptions: by candidate, the counters that it consumes.
        shares: by request and candidate, the capacities that the request consumes, if shared.
        consumed: by candidate, the consumed amounts; None when nothing shares it.
        values: by attribute and candidate, the number of the value.
    """

    names: Sequence[str]
    codes: Sequence[Sequence[int]]
    pools: Sequence[CandidatePool]
    pool_of: Sequence[int]
    multiple: Sequence[bool]
    consumptions: Sequence[tuple[Consumed, ...]]
    shares: Sequence[Sequence[tuple[CapacityShare, ...]]]
    consumed: Sequence[Amounts | None]
    values: Mapping[str, Sequence[int]]


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
        picked: the device that is taken at present, or None.
        undo: the changes made by taking it.
        only_too_many: whether every alternative so far needed too many devices.
    """

    __slots__ = (
        "ask",
        "claim",
        "device_index",
        "next",
        "only_too_many",
        "picked",
        "request",
        "undo",
    )

    def __init__(
        self, claim: int, request: int, ask: RequestData | None, device_index: int, first: int
    ) -> None:
        self.claim = claim
        self.request = request
        self.ask = ask
        self.device_index = device_index
        self.next = first
        self.picked: int | None = None
        self.undo = _Undo()
        self.only_too_many = True


class _Undo:
    """The changes that taking a device has made, as needed to undo them."""

    __slots__ = ("constraints", "has_counters", "is_shared", "taken_before")

    def __init__(self) -> None:
        self.has_counters = False
        self.constraints = 0
        self.is_shared = False
        self.taken_before: Amounts | None = None


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
        self._constraints: list[list[Constraint]] = []
        self._stack: list[_Frame] = []
        self._results = [0] * len(plan.claims)
        self._users: dict[int, list[int]] = {}
        self._taken: dict[int, Amounts] = {}
        self._counters: list[dict[tuple[str, str], Decimal]] = [{} for _ in candidates.pools]

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
            Pick(frame.claim, frame.ask, frame.picked)
            for frame in self._stack
            if frame.ask is not None and frame.picked is not None
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
            self._constraints.append(self._constraints_of(claim))

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
                self._check_selector(ask, candidate)

    def _check_selector(self, ask: RequestData, candidate: int) -> None:
        code = self._candidates.codes[ask.index][candidate]
        if code == FAILING:
            raise SelectorFailedError(ask, candidate)
        if code == UNKNOWN:
            raise OutOfStepsError("a selector has not been worked out yet")

    def _constraints_of(self, claim: int) -> list[Constraint]:
        found: list[Constraint] = []
        for index, written in enumerate(self._plan.claims[claim].constraints):
            constraint = constraint_of(written, self._values_of)
            if constraint is None:
                raise AllocationError(
                    f"claim {self._names[claim]}, constraint #{index}: empty constraint "
                    "(unsupported constraint type?)"
                )
            found.append(constraint)
        return found

    def _values_of(self, attribute: str) -> Callable[[int], int]:
        return self._candidates.values[attribute].__getitem__

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
        if self._results[claim] + count - device_index > MAX_RESULTS:
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
            if self._take(frame, ask, candidate):
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
            self._give_back(frame, frame.ask)
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

    # --- one device -----------------------------------------------------------------------------

    def _take(self, frame: _Frame, ask: RequestData, candidate: int) -> bool:
        """Take a device if it is available; otherwise change nothing and return False."""
        users = self._users.get(candidate)
        if users and (not ask.is_admin or frame.claim in users):
            return False
        self._check_selector(ask, candidate)
        if self._candidates.codes[ask.index][candidate] == BLOCKED:
            return False
        undo = frame.undo = _Undo()
        is_shared = self._candidates.multiple[candidate]
        if is_shared and not ask.is_all and not self._fits(ask, candidate):
            return False
        if not self._take_counters(candidate, undo):
            return False
        frame.picked = candidate
        # For "all" devices a failing constraint is an error, so check it before the capacity.
        if not self._take_constraints(frame, ask, candidate) or (
            is_shared and ask.is_all and not self._fits(ask, candidate)
        ):
            self._undo(frame, ask, candidate)
            return False
        if is_shared:
            self._take_shares(ask, candidate, undo)
        else:
            self._users.setdefault(candidate, []).append(frame.claim)
        self._results[frame.claim] += 1
        return True

    def _give_back(self, frame: _Frame, ask: RequestData) -> None:
        candidate = frame.picked
        if candidate is None:
            return
        undo = frame.undo
        self._results[frame.claim] -= 1
        if undo.is_shared:
            if undo.taken_before is None:
                del self._taken[candidate]
            else:
                self._taken[candidate] = undo.taken_before
        else:
            self._users[candidate].remove(frame.claim)
        self._undo(frame, ask, candidate)

    def _undo(self, frame: _Frame, ask: RequestData, candidate: int) -> None:
        """Restore the state before the device was taken."""
        frame.picked = None
        for constraint in self._constraints[frame.claim][: frame.undo.constraints]:
            constraint.remove(ask, candidate)
        if frame.undo.has_counters:
            self._count(candidate, -1)

    def _fits(self, ask: RequestData, candidate: int) -> bool:
        consumed = self._candidates.consumed[candidate] or _NO_AMOUNTS
        taken = self._taken.get(candidate, _NO_AMOUNTS)
        return fit(self._candidates.shares[ask.index][candidate], consumed, taken)

    def _take_shares(self, ask: RequestData, candidate: int, undo: _Undo) -> None:
        undo.is_shared = True
        undo.taken_before = self._taken.get(candidate)
        taken = dict(undo.taken_before or {})
        for share in self._candidates.shares[ask.index][candidate]:
            taken[share.name] = taken.get(share.name, Decimal(0)) + share.amount
        self._taken[candidate] = taken

    def _take_counters(self, candidate: int, undo: _Undo) -> bool:
        """Take the counters of a device; those of a shared device are taken by its first share."""
        candidates = self._candidates
        if not candidates.consumptions[candidate]:
            return True
        if candidates.multiple[candidate] and (
            candidates.consumed[candidate] is not None or candidate in self._taken
        ):
            return True
        self._count(candidate, 1)
        pool = candidates.pool_of[candidate]
        taken = self._counters[pool]
        available = candidates.pools[pool].available
        if any(amount < taken.get(counter, 0) for counter, amount in available.items()):
            self._count(candidate, -1)
            return False
        undo.has_counters = True
        return True

    def _count(self, candidate: int, sign: int) -> None:
        taken = self._counters[self._candidates.pool_of[candidate]]
        for consumed in self._candidates.consumptions[candidate]:
            counter = (consumed.counter_set, consumed.counter)
            taken[counter] = taken.get(counter, Decimal(0)) + sign * consumed.amount

    def _take_constraints(self, frame: _Frame, ask: RequestData, candidate: int) -> bool:
        for constraint in self._constraints[frame.claim]:
            if not constraint.add(ask, candidate):
                if ask.is_all:
                    raise AllocationError(
                        f"claim {self._names[frame.claim]}, request {ask.name}: cannot add device "
                        f"{self._candidates.names[candidate]} because a claim constraint would "
                        "not be satisfied"
                    )
                return False
            frame.undo.constraints += 1
        return True
