"""The devices that a search has taken so far, and the amounts that they use up.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(allocateDevice, v0.36.3).
Differs: counters are kept per driver and pool, where upstream mixes pools of one name.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from scheduler.kernel.devices.candidates import BLOCKED, AllocationError, CandidateDevices
from scheduler.kernel.devices.capacities import Amounts, fit
from scheduler.kernel.devices.constraints import Constraint, constraint_of
from scheduler.kernel.devices.plan import ClaimPlan, RequestData

_NO_AMOUNTS: Final[Amounts] = {}


class TakenDevice:
    """A device that is taken, and the changes to be undone when it is given back.

    Attributes:
        candidate: its index among the candidates.
        constraints: number of constraints of the claim that count it.
        has_counters: whether its counters are taken.
        shared_before: the amounts of it that were taken before; None for none.
    """

    __slots__ = ("candidate", "constraints", "has_counters", "shared_before")

    def __init__(self, candidate: int) -> None:
        self.candidate = candidate
        self.constraints = 0
        self.has_counters = False
        self.shared_before: Amounts | None = None


class TakenDevices:
    """All devices that one search has taken.

    Attributes:
        counts: number of devices of each claim.
    """

    def __init__(self, candidates: CandidateDevices, claims: Sequence[str]) -> None:
        """Begin without devices; `claims` has `namespace/name` by claim, for messages."""
        self.counts = [0] * len(claims)
        self._candidates = candidates
        self._names = claims
        self._constraints: list[list[Constraint]] = []
        """By claim."""
        self._users: dict[int, list[int]] = {}
        self._shared: dict[int, Amounts] = {}
        self._counters: list[dict[tuple[str, str], Decimal]] = [{} for _ in candidates.pools]

    def constrain(self, plan: ClaimPlan) -> None:
        """Set the constraints of the next claim.

        Raises:
            AllocationError: a constraint is empty.
        """
        claim = len(self._constraints)
        found: list[Constraint] = []
        for index, written in enumerate(plan.constraints):
            constraint = constraint_of(written, self._values_of)
            if constraint is None:
                raise AllocationError(
                    f"claim {self._names[claim]}, constraint #{index}: empty constraint "
                    "(unsupported constraint type?)"
                )
            found.append(constraint)
        self._constraints.append(found)

    def take(self, claim: int, ask: RequestData, candidate: int) -> TakenDevice | None:
        """Take a device if it is available; otherwise change nothing and return None.

        Raises:
            AllocationError: a request for "all" devices cannot have one of them.
            OutOfStepsError: a selector has not been evaluated.
        """
        users = self._users.get(candidate)
        if users and (not ask.is_admin or claim in users):
            return None
        self._candidates.check_selector(ask, candidate)
        if self._candidates.codes[ask.index][candidate] == BLOCKED:
            return None
        is_shared = self._candidates.multiple[candidate]
        if is_shared and not ask.is_all and not self._fits(ask, candidate):
            return None
        taken = TakenDevice(candidate)
        if not self._take_counters(taken):
            return None
        # For "all" devices a failing constraint is an error, so check it before the capacity.
        if not self._take_constraints(claim, ask, taken) or (
            is_shared and ask.is_all and not self._fits(ask, candidate)
        ):
            self._undo(claim, ask, taken)
            return None
        if is_shared:
            self._take_shares(ask, taken)
        else:
            self._users.setdefault(candidate, []).append(claim)
        self.counts[claim] += 1
        return taken

    def give_back(self, claim: int, ask: RequestData, taken: TakenDevice) -> None:
        """Restore the state before a device was taken; the latest one goes first."""
        candidate = taken.candidate
        self.counts[claim] -= 1
        if not self._candidates.multiple[candidate]:
            self._users[candidate].remove(claim)
        elif taken.shared_before is None:
            del self._shared[candidate]
        else:
            self._shared[candidate] = taken.shared_before
        self._undo(claim, ask, taken)

    def _undo(self, claim: int, ask: RequestData, taken: TakenDevice) -> None:
        for constraint in self._constraints[claim][: taken.constraints]:
            constraint.remove(ask, taken.candidate)
        if taken.has_counters:
            self._count(taken.candidate, -1)

    def _values_of(self, attribute: str) -> Callable[[int], int]:
        return self._candidates.values[attribute].__getitem__

    def _fits(self, ask: RequestData, candidate: int) -> bool:
        consumed = self._candidates.consumed[candidate] or _NO_AMOUNTS
        taken = self._shared.get(candidate, _NO_AMOUNTS)
        return fit(self._candidates.shares[ask.index][candidate], consumed, taken)

    def _take_shares(self, ask: RequestData, taken: TakenDevice) -> None:
        before = taken.shared_before = self._shared.get(taken.candidate)
        now = dict(before or {})
        for share in self._candidates.shares[ask.index][taken.candidate]:
            now[share.name] = now.get(share.name, Decimal(0)) + share.amount
        self._shared[taken.candidate] = now

    def _take_counters(self, taken: TakenDevice) -> bool:
        """Take the counters of a device; those of a shared device are taken by its first share."""
        candidates, candidate = self._candidates, taken.candidate
        if not candidates.consumptions[candidate]:
            return True
        if candidates.multiple[candidate] and (
            candidates.consumed[candidate] is not None or candidate in self._shared
        ):
            return True
        self._count(candidate, 1)
        pool = candidates.pool_of[candidate]
        counters, available = self._counters[pool], candidates.pools[pool].available
        if any(amount < counters.get(counter, 0) for counter, amount in available.items()):
            self._count(candidate, -1)
            return False
        taken.has_counters = True
        return True

    def _count(self, candidate: int, sign: int) -> None:
        counters = self._counters[self._candidates.pool_of[candidate]]
        for consumed in self._candidates.consumptions[candidate]:
            counter = (consumed.counter_set, consumed.counter)
            counters[counter] = counters.get(counter, Decimal(0)) + sign * consumed.amount

    def _take_constraints(self, claim: int, ask: RequestData, taken: TakenDevice) -> bool:
        for constraint in self._constraints[claim]:
            if not constraint.add(ask, taken.candidate):
                if ask.is_all:
                    raise AllocationError(
                        f"claim {self._names[claim]}, request {ask.name}: cannot add device "
                        f"{self._candidates.names[taken.candidate]} because a claim constraint "
                        "would not be satisfied"
                    )
                return False
            taken.constraints += 1
        return True
