"""Columns of devices hold what devices are now, however often they were something else."""

import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.api.devices import ResourceSlice
from scheduler.kernel.cel import TRUE, Program, compile_expression
from scheduler.kernel.devices import (
    columns as device_columns,
    constraints,
    remaining_counters,
    selectors,
)
from scheduler.kernel.devices.allocator import ALLOCATABLE, FAILED, NOT_ALLOCATABLE
from scheduler.kernel.devices.candidates import AllocationError
from scheduler.kernel.devices.catalog import Devices
from scheduler.kernel.devices.columns import DeviceColumns
from scheduler.kernel.snapshot import interning
from tests.support.claims import (
    DRIVER,
    a_claim,
    a_device,
    a_slice,
    allocate,
    alternative,
    cluster,
    exactly,
    first_of,
    nodes_of,
    take,
    verdicts,
)
from tests.unit.devices.test_laws import a_history, act, check, claims, slices

NEWER = f'device.attributes["{DRIVER}"].version.isGreaterThan(semver("1.1500.0"))'
ANY_TAINT = [{"operator": "Exists"}]
TWO_ALIKE = a_claim(exactly(count=2), constraints=[{"matchAttribute": f"{DRIVER}/id"}])


def columns_of(devices: Devices) -> DeviceColumns:
    return devices.table.columns


def test_values_that_no_device_has_any_more_are_dropped() -> None:
    """A driver is updated again and again; an expression says the same as of new columns."""
    devices, program = cluster([]), compile_expression(NEWER)
    verdict = []
    for number in range(1, 3001):
        attributes = {"id": f"uuid-{number}", "version": f"1.{number}.0"}
        texts = {"id": {"string": attributes["id"]}, "version": {"version": attributes["version"]}}
        devices.set_slice(a_slice("n", [{"name": "gpu", "attributes": texts}]))
        found = program.evaluate(columns_of(devices))
        verdict.append(bool((found.codes == TRUE)[columns_of(devices).alive[: len(found.codes)]]))

    assert verdict == [number > 1500 for number in range(1, 3001)]
    held = columns_of(devices).attributes[DRIVER]
    assert {name: len(column.values) < 200 for name, column in held.items()} == {
        "id": True,
        "version": True,
    }


def test_an_attribute_that_no_device_has_any_more_is_no_column() -> None:
    """And neither is its domain."""
    devices = cluster([a_slice("n", [a_device("gpu", attributes={"other.dev/a": "x", "b": "y"})])])
    assert set(columns_of(devices).attributes) == {"other.dev", DRIVER}

    devices.set_slice(a_slice("n", [a_device("gpu", attributes={"b": "y"})]))
    assert set(columns_of(devices).attributes) == {DRIVER}

    devices.remove_slice("n")
    assert not columns_of(devices).attributes


def test_a_fork_keeps_its_values() -> None:
    """Also when the original drops them."""
    devices = cluster([a_slice("n", [a_device("gpu", attributes={"id": "first"})])])
    fork = devices.fork()
    for number in range(500):
        devices.set_slice(a_slice("n", [a_device("gpu", attributes={"id": f"{number}"})]))

    is_first = a_claim(exactly(selectors=[f'device.attributes["{DRIVER}"].id == "first"']))
    nodes = nodes_of("n")
    assert verdicts(fork, nodes, is_first) == {"n": ALLOCATABLE}
    assert verdicts(devices, nodes, is_first) == {"n": NOT_ALLOCATABLE}


def publish(devices: Devices, n: str, m: str, shared: str) -> None:
    """Two nodes with a device each, and one that both see; by the values of an attribute."""
    for node, value in (("n", n), ("m", m)):
        devices.set_slice(a_slice(node, [a_device("gpu", attributes={"id": value})]))
    beside = [a_device("x", attributes={"id": shared})]
    devices.set_slice(a_slice("all", beside, pool="all", allNodes=True))


def test_values_of_constraints_are_numbered_anew() -> None:
    """A device that all nodes see matches the one of a node, or does not, whatever was before."""
    devices, nodes, random = cluster([]), nodes_of("n", "m"), Random(0)
    for _ in range(400):
        n, m = (f"{random.randrange(10**6)}" for _ in "nm")
        shared = random.choice([n, m, "none"])
        publish(devices, n, m, shared)

        assert verdicts(devices, nodes, TWO_ALIKE) == {
            "n": ALLOCATABLE if n == shared else NOT_ALLOCATABLE,
            "m": ALLOCATABLE if m == shared else NOT_ALLOCATABLE,
        }


def test_an_attribute_that_was_long_not_asked_for() -> None:
    """Its numbers are others than before, and are not taken for those."""
    devices, nodes = cluster([]), nodes_of("n", "m")
    publish(devices, "one", "two", "one")
    assert verdicts(devices, nodes, TWO_ALIKE) == {"n": ALLOCATABLE, "m": NOT_ALLOCATABLE}

    for number in range(100):
        devices._attributes.column(f"{DRIVER}/other-{number}")
    # With the row of the first value it has the first number, too.
    for value in ("three", "four"):
        devices.set_slice(a_slice("n", [a_device("gpu", attributes={"id": value})]))

    assert set(verdicts(devices, nodes, TWO_ALIKE).values()) == {NOT_ALLOCATABLE}


def with_counters(name: str, slots: int, taken: int) -> list[ResourceSlice]:
    """The slices of a node with one device that consumes counters."""
    consumes = [{"counterSet": "s", "counters": {"slots": {"value": str(taken)}}}]
    sets = [{"name": "s", "counters": {"slots": {"value": str(slots)}}}]
    return [
        a_slice(name, [a_device("part", consumesCounters=consumes)], count=2),
        a_slice(f"{name}-counters", pool=name, count=2, nodeName=name, sharedCounters=sets),
    ]


def test_the_counters_of_a_pool_that_went_and_came_again_are_the_new_ones() -> None:
    nodes, wanted = nodes_of("n"), a_claim(exactly())
    devices = cluster(with_counters("n", slots=7, taken=7))
    assert verdicts(devices, nodes, wanted) == {"n": ALLOCATABLE}

    for name in ("n", "n-counters"):
        devices.remove_slice(name)
    for each in with_counters("n", slots=3, taken=7):
        devices.set_slice(each)

    assert verdicts(devices, nodes, wanted) == {"n": NOT_ALLOCATABLE}


def test_what_no_device_has_any_more_is_freed() -> None:
    """Taints, capacities, what is consumed of shares and counters, and what is left of counters."""
    devices, nodes = cluster([]), nodes_of("n", "m")
    for number in range(1, 501):
        taints = [{"key": "bad", "value": str(number), "effect": "NoSchedule"}]
        size = {"bandwidth": str(number)}
        nic = a_device("nic", capacity=size, taints=taints, allowMultipleAllocations=True)
        devices.set_slice(a_slice("n", [nic], generation=number))
        for each in with_counters("m", slots=2 * number, taken=number):
            devices.set_slice(each)
        asked = exactly(capacity={"bandwidth": "1"}, tolerations=ANY_TAINT)
        assert take(devices, nodes, "n", a_claim(asked, name="share")) == [["r=nic"]]
        assert take(devices, nodes, "m", a_claim(exactly(), name="part")) == [["r=part"]]
        devices.release("share")
        devices.release("part")

    columns, usage = columns_of(devices), devices.usage
    held = {
        "taints": columns.taints.values,
        "capacity_sets": columns.capacity_sets.values,
        "consumption": columns.consumption.values,
        "state": usage.state.values,
        "counters": usage.remaining_counters,
    }
    assert {name: len(values) < 200 for name, values in held.items()} == dict.fromkeys(held, True)


def test_claims_of_many_requests_keep_no_column_for_each() -> None:
    """Users create such claims: 32 requests of 8 alternatives, each claim with another amount."""
    names = [f"n{number}" for number in range(60)]
    gpus = [a_device(f"gpu-{number}") for number in range(128)]
    devices, nodes = cluster([a_slice(name, gpus) for name in names]), nodes_of(*names)

    def judge(amount: int) -> None:
        lists = [
            first_of(
                f"r{r}", *(alternative(f"a{a}", capacity={"memory": str(amount)}) for a in range(8))
            )
            for r in range(32)
        ]
        assert set(verdicts(devices, nodes, a_claim(*lists)).values()) == {NOT_ALLOCATABLE}

    judge(101)
    tracemalloc.start()
    try:
        judge(102)
        judge(103)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # Columns would take 3.9 MB, and the claims themselves take less than one.
    assert grown < 2_000_000


def test_the_error_of_a_selector_is_that_of_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verdicts may be evicted: all devices would take seconds, in one step."""
    slices = [a_slice(f"n{i}", [a_device("gpu")]) for i in range(9)]
    devices, nodes = cluster(slices), nodes_of(*(f"n{i}" for i in range(9)))
    failing = a_claim(exactly(selectors=[f'device.attributes["{DRIVER}"].model == "h"']))
    assert set(verdicts(devices, nodes, failing).values()) == {FAILED}
    monkeypatch.setattr(selectors, "MAX_SELECTORS", 1)
    verdicts(devices, nodes, a_claim(exactly(selectors=["device.driver == 'x'"])))
    evaluated: list[int] = []
    evaluate = Program.evaluate

    def counting(program: Program, table: Any, rows: Any = None, **bound: Any) -> Any:
        evaluated.append(len(table) if rows is None else len(rows))
        return evaluate(program, table, rows, **bound)

    monkeypatch.setattr(Program, "evaluate", counting)
    with pytest.raises(
        AllocationError, match="claim ns/c: selector #0: CEL runtime error: no such"
    ):
        allocate(devices, nodes, "n3", failing)

    assert sum(evaluated) <= 2


@pytest.fixture(scope="module")
def drops_at_once() -> Iterator[None]:
    """Every value that no row has is dropped at the next one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_columns, "_SPARE_VALUES", 0)
        patch.setattr(constraints, "_SPARE_VALUES", 0)
        patch.setattr(interning, "_SPARE_VALUES", 0)
        patch.setattr(remaining_counters, "_SPARE_ENTRIES", 0)
        yield


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_is_dropped_is_not_missed(drops_at_once: None, data: st.DataObject) -> None:
    """The plain rules say the same after any history."""
    history = a_history()
    history.publish(data.draw(slices()))
    wanted = [data.draw(claims("a"))]
    for number in range(data.draw(st.integers(2, 8))):
        act(history, data, number)
        check(history, wanted)
