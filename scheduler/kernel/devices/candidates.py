"""The devices of one node as a search sees them: by their index among the candidates.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(v0.36.3).
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.errors import SchedulerError
from scheduler.kernel.devices.capacities import Amounts, CapacityShare
from scheduler.kernel.devices.columns import Consumed
from scheduler.kernel.devices.plan import RequestData
from scheduler.kernel.devices.pools import CounterTable, PoolState

SKIPPED: Final = 0
USABLE: Final = 1
FAILING: Final = 2
"""A selector fails on the device."""
BLOCKED: Final = 3
"""A request for "all" devices matches the device, but it is in use or has untolerated taints."""
UNKNOWN: Final = 4
"""A selector has not been evaluated yet."""


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

    def check_selector(self, ask: RequestData, candidate: int) -> None:
        """Check that the selectors of a request have a verdict on a device.

        Raises:
            SelectorFailedError: a selector fails on the device.
            OutOfStepsError: a selector has not been evaluated.
        """
        code = self.codes[ask.index][candidate]
        if code == FAILING:
            raise SelectorFailedError(ask, candidate)
        if code == UNKNOWN:
            raise OutOfStepsError("a selector has not been worked out yet")
