"""A plain, slow allocator: the rules one after the other, for one node, without columns or caches.

It is the judge of `scheduler.kernel.devices` in tests, and shares nothing with it but the structs.
Like the original it keeps counters per driver and pool.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.api.devices import (
    AllocationResult,
    Device,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.api.objects import NodeSelector

Predicate = Callable[[str, Device], bool]
"""Whether a driver's device matches; raises for an error of the expression."""

LIMIT = 32
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


class EndsAttemptError(Exception):
    """Allocation ends on all nodes."""


class TooManyError(Exception):
    """A claim would get more devices than it can hold."""


def number(text: object) -> int:
    """A whole amount."""
    digits = str(text).rstrip("kMGi")
    return int(digits) * _UNITS[str(text)[len(digits) :]]


@dataclass(eq=False)
class One:
    """A device of a node."""

    driver: str
    pool: str
    device: Device
    here: bool
    pool_number: int

    @property
    def id(self) -> tuple[str, str, str]:
        """Its name in the cluster."""
        return self.driver, self.pool, self.device.name


@dataclass
class SeenPool:
    """A pool of a node."""

    driver: str
    name: str
    state: str
    devices: list[One] = field(default_factory=list)
    counters: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass
class State:
    """What is allocated in the cluster."""

    dedicated: set[tuple[str, str, str]] = field(default_factory=set)
    shared: set[tuple[str, str, str]] = field(default_factory=set)
    consumed: dict[tuple[str, str, str], dict[str, int]] = field(default_factory=dict)


def state_of(allocations: Sequence[AllocationResult]) -> State:
    """What allocations amount to."""
    state = State()
    for allocation in allocations:
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            if result.share_id is None:
                state.dedicated.add(tuple(result.id))
                continue
            state.shared.add(tuple(result.id))
            if result.consumed_capacity:
                sums = state.consumed.setdefault(tuple(result.id), {})
                for name, text in result.consumed_capacity.items():
                    sums[name] = sums.get(name, 0) + number(text)
    return state


def node_matches(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether one of the terms holds; `In` is all that tests use."""
    return any(
        all(labels.get(r.key) in r.values for r in term.match_expressions)
        and all(name in r.values for r in term.match_fields)
        and bool(term.match_expressions or term.match_fields)
        for term in selector.node_selector_terms
    )


def _is_for(place: Any, name: str, labels: Mapping[str, str]) -> bool:
    if place.node_name:
        return bool(place.node_name == name)
    if place.all_nodes:
        return True
    return place.node_selector is not None and node_matches(place.node_selector, name, labels)


def _sees(one: ResourceSlice, name: str, labels: Mapping[str, str]) -> bool:
    spec = one.spec
    if spec.shared_counters:
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return _is_for(spec, name, labels)
    if spec.per_device_node_selection:
        return any(_is_for(device, name, labels) for device in spec.devices)
    return False


def pools_of(
    slices: Sequence[ResourceSlice], name: str, labels: Mapping[str, str], state: State
) -> list[SeenPool]:
    """The pools of a node in order."""
    visible: dict[tuple[str, str], list[ResourceSlice]] = {}
    ordered = sorted(
        slices,
        key=lambda s: (not s.spec.node_name or bool(s.spec.shared_counters), s.metadata.name),
    )
    for one in ordered:
        if not _sees(one, name, labels):
            continue
        key = (one.spec.driver, one.spec.pool.name)
        known = visible.get(key, [])
        newest = known[0].spec.pool.generation if known else -1
        if one.spec.pool.generation > newest:
            visible[key] = [one]
        elif one.spec.pool.generation == newest:
            known.append(one)
    found: list[tuple[bool, tuple[str, str], SeenPool]] = []
    for key, mine in visible.items():
        generation = mine[0].spec.pool.generation
        expected = mine[0].spec.pool.resource_slice_count
        everything = [s for s in slices if (s.spec.driver, s.spec.pool.name) == key]
        same = [s for s in everything if s.spec.pool.generation == generation]
        if len(mine) != expected:
            if any(s.spec.pool.generation > generation for s in everything):
                continue
            if len(same) != expected:
                found.append((False, key, SeenPool(*key, "incomplete")))
                continue
        mine.sort(key=lambda s: s.metadata.name)
        pool = _ready_or_invalid(key, mine, same, (name, labels), state)
        bound = (
            any(one.device.binding_conditions is not None for one in pool.devices)
            and pool.state == "ready"
        )
        found.append((bound, key, pool))
    found.sort(key=lambda entry: entry[:2])
    pools = [pool for _, _, pool in found]
    for place, pool in enumerate(pools):
        for one_device in pool.devices:
            one_device.pool_number = place
    return pools


def _ready_or_invalid(
    key: tuple[str, str],
    mine: Sequence[ResourceSlice],
    same: Sequence[ResourceSlice],
    node: tuple[str, Mapping[str, str]],
    state: State,
) -> SeenPool:
    pool = SeenPool(*key, "ready")
    names: set[str] = set()
    sets: set[str] = set()
    for one in mine:
        for device in one.spec.devices:
            if device.name in names:
                return SeenPool(*key, "invalid")
            names.add(device.name)
            spec = one.spec
            per_device = spec.per_device_node_selection
            here = _is_for(device, *node) if per_device else True
            pool.devices.append(One(*key, device, here, 0))
    for one in same:
        for counter_set in one.spec.shared_counters:
            if counter_set.name in sets:
                return SeenPool(*key, "invalid")
            sets.add(counter_set.name)
            for name, counter in counter_set.counters.items():
                pool.counters[counter_set.name, name] = number(counter.value)
    for one in same:
        for device in one.spec.devices:
            for consumption in device.consumes_counters:
                for name, counter in consumption.counters.items():
                    if (consumption.counter_set, name) not in pool.counters:
                        return SeenPool(*key, "invalid")
                    full = (*key, device.name)
                    if full in state.dedicated or full in state.shared:
                        pool.counters[consumption.counter_set, name] -= number(counter.value)
    return pool


@dataclass
class Wish:
    """A request, or an alternative of one."""

    base: str
    name: str
    request: ExactDeviceRequest | DeviceSubRequest
    everything: list[One] | None = None
    count: int = 0

    @property
    def full(self) -> str:
        """The name that results have."""
        return (
            self.name
            if self.base == self.name and not self.is_alternative
            else (f"{self.base}/{self.name}")
        )

    @property
    def is_alternative(self) -> bool:
        """Whether it is one of a prioritized list."""
        return isinstance(self.request, DeviceSubRequest)

    @property
    def admin(self) -> bool:
        """Whether it only looks."""
        return isinstance(self.request, ExactDeviceRequest) and bool(self.request.admin_access)


Got = list[list[tuple[str, str]]]
"""By claim, request and device."""


class Reference:
    """The search for one node."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        pools: Sequence[SeenPool],
        state: State,
        classes: Mapping[str, Sequence[Predicate]],
        predicates: Mapping[str, Predicate],
    ) -> None:
        self.pools = pools
        self.state = state
        self.classes = classes
        self.predicates = predicates
        self.claims = claims
        self.wishes: list[list[list[Wish]]] = []
        self.got: list[list[tuple[Wish, One]]] = [[] for _ in claims]
        self.shares: list[tuple[One, dict[str, int]]] = []

    def run(self) -> Got | None:
        """The devices, or None."""
        for claim in self.claims:
            requests = []
            least = 0
            for request in claim.spec.devices.requests:
                ways = (
                    [Wish(request.name, a.name, a) for a in request.first_available]
                    if request.first_available
                    else [Wish(request.name, request.name, request.exactly)]  # type: ignore[arg-type]
                )
                for wish in ways:
                    self._count(wish)
                least += min(wish.count for wish in ways)
                requests.append(ways)
            if least > LIMIT:
                raise EndsAttemptError("too many")
            self.wishes.append(requests)
        done = self._request(0, 0)
        if not done:
            return None
        return [[(w.full, one.device.name) for w, one in got] for got in self.got]

    def _count(self, wish: Wish) -> None:
        if wish.request.device_class_name not in self.classes:
            raise EndsAttemptError("no class")
        if wish.request.allocation_mode == "ExactCount":
            wish.count = wish.request.count
            return
        wish.everything = []
        for pool in self.pools:
            if pool.state != "ready":
                raise EndsAttemptError("not whole")
            for one in pool.devices:
                if self._selected(wish, one) and self._capacity(wish, one) is not None:
                    wish.everything.append(one)
        wish.count = len(wish.everything)

    def _selected(self, wish: Wish, one: One) -> bool:
        texts = [s.cel.expression for s in wish.request.selectors if s.cel is not None]
        tests = [
            *self.classes[wish.request.device_class_name],
            *(self.predicates[t] for t in texts),
        ]
        for test in tests:
            try:
                if not test(one.driver, one.device):
                    return False
            except KeyError as problem:
                raise EndsAttemptError(str(problem)) from problem
        return one.here

    def _capacity(self, wish: Wish, one: One) -> dict[str, int] | None:
        """What is taken of the device, or None when there is not enough."""
        asked = wish.request.capacity.requests if wish.request.capacity else {}
        if any(name not in one.device.capacity for name in asked):
            return None
        takes: dict[str, int] = {}
        for name, capacity in one.device.capacity.items():
            policy, value = capacity.request_policy, number(capacity.value)
            if name not in asked:
                has_default = policy is not None and policy.default is not None
                take = number(policy.default) if has_default else value  # type: ignore[union-attr]
            else:
                take = number(asked[name])
                limits = policy.valid_range if policy else None
                if policy and limits and limits.min is not None:
                    least = number(limits.min)
                    if take < least:
                        take = least
                    elif limits.step is not None:
                        step = number(limits.step)
                        take = least + -(-(take - least) // step) * step
                elif policy and policy.valid_values:
                    take = next((number(v) for v in policy.valid_values if take <= number(v)), take)
            if policy is not None and not self._allowed(take, policy):
                return None
            others = self.state.consumed.get(one.id, {}).get(name, 0)
            mine = sum(t.get(name, 0) for o, t in self.shares if o.id == one.id)
            if others + take + mine > value:
                return None
            takes[name] = take
        return takes

    @staticmethod
    def _allowed(take: int, policy: Any) -> bool:
        if policy.default is not None and number(policy.default) == take:
            return True
        limits = policy.valid_range
        if limits is not None:
            if limits.max is not None and take > number(limits.max):
                return False
            return limits.step is None or (take - number(limits.min)) % number(limits.step) == 0
        return not policy.valid_values or take in [number(v) for v in policy.valid_values]

    def _request(self, claim: int, request: int) -> bool:
        if claim == len(self.claims):
            return True
        requests = self.wishes[claim]
        if request == len(requests):
            try:
                return self._request(claim + 1, 0)
            except TooManyError:
                return False
        ways = requests[request]
        if not ways[0].is_alternative:
            return self._device(claim, request, ways[0], 0, -1)
        only_too_many = True
        for wish in ways:
            try:
                if self._device(claim, request, wish, 0, -1):
                    return True
                only_too_many = False
            except TooManyError:
                continue
        if only_too_many:
            raise TooManyError
        return False

    def _device(self, claim: int, request: int, wish: Wish, place: int, last: int) -> bool:
        if wish.everything is not None and not wish.everything:
            return False
        if place >= wish.count:
            return self._request(claim, request + 1)
        if len(self.got[claim]) + wish.count - place > LIMIT:
            raise TooManyError
        if wish.everything is not None:
            options = [(place, wish.everything[place])]
        else:
            devices = [o for p in self.pools if p.state == "ready" for o in p.devices]
            options = [(i, one) for i, one in enumerate(devices) if i > last]
        for index, one in options:
            if wish.everything is None:
                if self._in_use(claim, wish, one):
                    continue
                if not self._selected(wish, one) or self._capacity(wish, one) is None:
                    continue
            takes = self._try(claim, wish, one)
            if takes is None:
                continue
            self.got[claim].append((wish, one))
            shares = one.device.allow_multiple_allocations
            if shares:
                self.shares.append((one, takes))
            finished = False
            try:
                finished = self._device(claim, request, wish, place + 1, index)
            finally:
                if not finished:
                    self.got[claim].pop()
                    if shares:
                        self.shares.pop()
            if finished:
                return True
        return False

    def _in_use(self, claim: int, wish: Wish, one: One) -> bool:
        marked = not one.device.allow_multiple_allocations
        mine = marked and any(o.id == one.id for _, o in self.got[claim])
        if wish.admin:
            return mine
        anyone = marked and any(o.id == one.id for got in self.got for _, o in got)
        return one.id in self.state.dedicated or anyone

    def _try(self, claim: int, wish: Wish, one: One) -> dict[str, int] | None:
        if self._in_use(claim, wish, one) or not self._enough_counters(one):
            return None
        for taint in one.device.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not any(
                _tolerates(t, taint) for t in wish.request.tolerations
            ):
                return None
        if not self._constraints_hold(claim, wish, one):
            if wish.everything is not None:
                raise EndsAttemptError("constraint")
            return None
        return self._capacity(wish, one)

    def _enough_counters(self, one: One) -> bool:
        if not one.device.consumes_counters:
            return True
        if one.device.allow_multiple_allocations and (
            one.id in self.state.consumed or any(o.id == one.id for o, _ in self.shares)
        ):
            return True
        left = dict(self.pools[one.pool_number].counters)
        taken = [o for got in self.got for _, o in got if o.pool_number == one.pool_number]
        seen: set[tuple[str, str, str]] = set()
        for other in [*taken, one]:
            if other.device.allow_multiple_allocations:
                # Only the first share takes counters, if nothing was shared before.
                if other.id in seen or other.id in self.state.consumed:
                    continue
                seen.add(other.id)
            for consumption in other.device.consumes_counters:
                for name, counter in consumption.counters.items():
                    left[consumption.counter_set, name] -= number(counter.value)
        return all(amount >= 0 for amount in left.values())

    def _constraints_hold(self, claim: int, wish: Wish, one: One) -> bool:
        for constraint in self.claims[claim].spec.devices.constraints:
            if not _concerns(constraint.requests, wish):
                continue
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            value = _attribute(one, name)
            if value is None:
                return False
            others = [
                (w, _attribute(o, name))
                for w, o in self.got[claim]
                if _concerns(constraint.requests, w)
            ]
            if constraint.match_attribute is not None:
                if any(other != value for _, other in others):
                    return False
            elif value in {w.base: other for w, other in others}.values():
                return False
        return True


def _concerns(requests: Sequence[str], wish: Wish) -> bool:
    return not requests or wish.base in requests or wish.full in requests


def _attribute(one: One, name: str) -> tuple[str, object] | None:
    domain, _, bare = name.partition("/")
    found = one.device.attributes.get(name)
    if found is None and domain == one.driver:
        found = one.device.attributes.get(bare)
    if found is None:
        return None
    kinds = {
        "s": found.string_value,
        "i": found.int_value,
        "b": found.bool_value,
        "v": found.version_value,
    }
    return next((k, v) for k, v in kinds.items() if v is not None)


def _tolerates(toleration: DeviceToleration, taint: Any) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
