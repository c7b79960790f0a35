"""Cases that catch a wrong allocator, each from upstream's rules for devices."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import pytest

from scheduler.api.devices import AllocationResult, ResourceClaim
from scheduler.kernel.devices.allocator import (
    ALLOCATABLE,
    FAILED,
    INVALID_POOLS,
    NOT_ALLOCATABLE,
    TIMED_OUT,
)
from scheduler.kernel.devices.candidates import AllocationError
from scheduler.kernel.devices.catalog import Devices
from scheduler.kernel.devices.results import alternatives_score
from scheduler.kernel.snapshot import Snapshot
from tests.support.claims import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_slice,
    allocate,
    alternative,
    chosen,
    cluster,
    every,
    exactly,
    first_of,
    nodes_of,
    take,
    verdicts,
)

MODEL = f'device.attributes["{DRIVER}"].model'


def _gpus(count: int, **fields: object) -> list[dict[str, object]]:
    return [a_device(f"gpu-{i}", **fields) for i in range(count)]


def test_the_first_claim_of_a_pod_gets_the_first_device() -> None:
    devices, nodes = cluster([a_slice("n", _gpus(2))]), nodes_of("n")
    one, other = a_claim(exactly(), name="b"), a_claim(exactly(), name="a")

    assert chosen(allocate(devices, nodes, "n", one, other)) == [["r=gpu-0"], ["r=gpu-1"]]


def test_a_claim_that_requests_nothing_is_allocated_everywhere() -> None:
    """The API server accepts it: a node needs no devices for it."""
    devices, nodes = cluster([a_slice("n", _gpus(1))]), nodes_of("n", "bare")

    assert verdicts(devices, nodes, a_claim()) == {"n": ALLOCATABLE, "bare": ALLOCATABLE}
    assert chosen(allocate(devices, nodes, "n", a_claim())) == [[]]


def test_devices_that_were_taken_since_the_node_was_judged_are_not_given() -> None:
    devices, nodes = cluster([a_slice("n", _gpus(2))]), nodes_of("n")
    claim = a_claim(exactly(count=2))
    allocator = devices.allocator([claim], nodes)
    assert allocator.judge().codes.tolist() == [ALLOCATABLE]

    found = allocator.allocate(0, [claim], "n", str)
    assert found is not None
    assert chosen(found) == [["r=gpu-0", "r=gpu-1"]]
    devices.allocate("another", found[0])

    assert allocator.allocate(0, [claim], "n", str) is None


def test_a_device_for_all_nodes_is_taken_where_its_pool_also_has_devices_of_the_node() -> None:
    small, big = (a_device(name, attributes={"model": name}) for name in ("small", "big"))
    own = a_slice("own", [small], pool="p", count=2, nodeName="own")
    shared = a_slice("shared", [big], pool="p", count=2, allNodes=True)
    devices, nodes = cluster([own, shared]), nodes_of("own", "other")
    claim = a_claim(exactly(selectors=[f'{MODEL} == "big"']))
    assert verdicts(devices, nodes, claim) == {"own": ALLOCATABLE, "other": ALLOCATABLE}
    assert take(devices, nodes, "own", claim) == [["r=big"]]

    assert verdicts(devices, nodes, claim) == {"own": NOT_ALLOCATABLE, "other": NOT_ALLOCATABLE}
    assert allocate(devices, nodes, "own", claim) is None


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_no_device_has_the_attribute_without_a_name(kind: str) -> None:
    """The API server refuses it; a file may have it."""
    devices, nodes = cluster([a_slice("n", _gpus(1))]), nodes_of("n")
    claim = a_claim(exactly(), constraints=[{kind: ""}])

    assert verdicts(devices, nodes, claim) == {"n": NOT_ALLOCATABLE}


def test_an_alternative_gives_way_when_the_next_request_starves() -> None:
    models = {"a": "big", "b": "small", "c": "small"}
    slices = [a_slice("n", [a_device(n, attributes={"model": m}) for n, m in models.items()])]
    devices, nodes = cluster(slices), nodes_of("n")
    big = [f'{MODEL} == "big"']
    claim = a_claim(
        first_of("gpu", alternative("big", selectors=big), alternative("small", 2)),
        exactly("one", selectors=big),
    )

    found = allocate(devices, nodes, "n", claim)

    assert found is not None
    assert chosen(found) == [["gpu/small=b", "gpu/small=c", "one=a"]]
    assert alternatives_score(claim, found[0].devices.results) == 7
    assert devices.allocator([claim], nodes).judge().scores.tolist() == [7]


def test_more_devices_than_a_claim_holds_are_an_error() -> None:
    devices, nodes = cluster([a_slice("n", _gpus(40))]), nodes_of("n")
    claim = a_claim(exactly(count=33))

    with pytest.raises(AllocationError) as caught:
        allocate(devices, nodes, "n", claim)

    assert str(caught.value) == (
        "claim ns/c: number of requested devices 33 exceeds the claim limit of 32"
    )
    assert verdicts(devices, nodes, claim) == {"n": FAILED}


def test_an_alternative_that_makes_too_many_devices_is_passed_over() -> None:
    devices, nodes = cluster([a_slice("n", _gpus(60))]), nodes_of("n")
    claim = a_claim(
        exactly("a", 20), first_of("b", alternative("big", 20), alternative("small", 5))
    )

    found = chosen(allocate(devices, nodes, "n", claim))

    assert found is not None
    assert len(found[0]) == 25
    assert found[0][-1] == "b/small=gpu-24"


def test_all_devices_need_every_pool_of_the_node_whole_whatever_its_driver() -> None:
    slices = [
        a_slice("n", _gpus(2)),
        a_slice("other", [], driver="other.example.com", pool="n", count=2),
    ]
    devices, nodes = cluster(slices), nodes_of("n", "m")
    claim = a_claim(every())

    with pytest.raises(AllocationError) as caught:
        allocate(devices, nodes, "n", claim)

    assert str(caught.value) == (
        "claim ns/c, request r: asks for all devices, "
        "but resource pool other.example.com/n is currently being updated"
    )
    assert verdicts(devices, nodes, claim) == {"n": FAILED, "m": NOT_ALLOCATABLE}
    assert verdicts(devices, nodes, a_claim(exactly())) == {
        "n": ALLOCATABLE,
        "m": NOT_ALLOCATABLE,
    }


def test_a_newer_generation_elsewhere_hides_an_incomplete_old_one() -> None:
    slices = [
        a_slice("old", _gpus(2), pool="p", count=2, nodeName="n"),
        a_slice("new", _gpus(2), pool="p", generation=2, nodeName="m"),
    ]
    devices, nodes = cluster(slices), nodes_of("n", "m")

    assert verdicts(devices, nodes, a_claim(every())) == {"n": NOT_ALLOCATABLE, "m": ALLOCATABLE}


def test_pools_slices_and_devices_have_an_order() -> None:
    """Slices by name, pools as text, those with binding conditions last."""
    slices = [
        a_slice("n2", [a_device("in-n2")], nodeName="n", pool="n2"),
        a_slice("z", [a_device("z-of-n10")], nodeName="n", pool="n10", count=2),
        a_slice("a", [a_device("a-of-n10")], nodeName="n", pool="n10", count=2),
        a_slice("b", [a_device("bound", bindingConditions=[])], nodeName="n", pool="n0"),
    ]
    devices, nodes = cluster(slices), nodes_of("n")

    found = chosen(allocate(devices, nodes, "n", a_claim(exactly(count=4))))

    assert found == [["r=a-of-n10", "r=z-of-n10", "r=in-n2", "r=bound"]]


def test_admin_access_shares_with_other_pods_but_not_within_a_claim() -> None:
    devices, nodes = cluster([a_slice("n", _gpus(2))]), nodes_of("n")
    both = a_claim(exactly("look", adminAccess=True), exactly("use"))

    found = allocate(devices, nodes, "n", both)

    assert found is not None
    assert chosen(found) == [["look=gpu-0", "use=gpu-1"]]
    assert [r.admin_access for r in found[0].devices.results] == [True, None]
    devices.allocate("c", found[0])
    assert take(devices, nodes, "n", a_claim(exactly(), name="d")) == [["r=gpu-0"]]
    looks = a_claim(exactly(count=2, adminAccess=True))
    assert chosen(allocate(devices, nodes, "n", looks)) == [["r=gpu-0", "r=gpu-1"]]
    assert verdicts(devices, nodes, a_claim(exactly())) == {"n": NOT_ALLOCATABLE}


def _partitions(driver: str = DRIVER) -> list[object]:
    def consumes(amount: int) -> list[dict[str, object]]:
        return [{"counterSet": "gpu-0", "counters": {"slices": {"value": str(amount)}}}]

    whole = a_device("whole", consumesCounters=consumes(7))
    parts = [a_device(f"part-{i}", consumesCounters=consumes(1)) for i in range(8)]
    return [
        a_slice(f"{driver}-devices", [whole, *parts], driver=driver, pool="n", count=2),
        a_slice(
            f"{driver}-counters",
            driver=driver,
            pool="n",
            count=2,
            nodeName="n",
            sharedCounters=[{"name": "gpu-0", "counters": {"slices": {"value": "7"}}}],
        ),
    ]


def test_partitions_share_the_counters_of_their_device() -> None:
    devices, nodes = cluster(_partitions()), nodes_of("n", "m")  # type: ignore[arg-type]
    one = a_claim(exactly(), name="one")

    assert take(devices, nodes, "n", one) == [["r=whole"]]
    assert verdicts(devices, nodes, one) == {"n": NOT_ALLOCATABLE, "m": NOT_ALLOCATABLE}
    devices.release("one")
    seven = a_claim(exactly(count=7), name="seven")
    got = chosen(allocate(devices, nodes, "n", seven))
    assert got == [[f"r=part-{i}" for i in range(7)]]
    take(devices, nodes, "n", seven)
    assert verdicts(devices, nodes, one)["n"] == NOT_ALLOCATABLE
    assert verdicts(devices, nodes, a_claim(exactly(count=8)))["n"] == NOT_ALLOCATABLE


def test_pools_of_one_name_keep_their_counters_apart() -> None:
    """Upstream mixes the counters of drivers whose pools have one name; Stowage does not."""
    slices = [*_partitions(), *_partitions("other.example.com")]
    devices, nodes = cluster(slices), nodes_of("n")  # type: ignore[arg-type]
    mine = a_claim(exactly(selectors=[f'device.driver == "{DRIVER}"']), name="mine")
    other = a_claim(exactly(selectors=['device.driver == "other.example.com"']), name="other")

    assert take(devices, nodes, "n", mine) == [["r=whole"]]
    assert take(devices, nodes, "n", other) == [["r=whole"]]
    assert verdicts(devices, nodes, mine)["n"] == NOT_ALLOCATABLE


def test_taints_keep_claims_away_that_do_not_tolerate_them() -> None:
    def tainted(name: str, effect: str) -> dict[str, object]:
        return a_device(name, taints=[{"key": "bad", "value": "1", "effect": effect}])

    slices = [a_slice("n", [tainted("a", "NoExecute"), tainted("b", "None")])]
    devices, nodes = cluster(slices), nodes_of("n")

    def got(*tolerations: dict[str, str]) -> list[list[str]] | None:
        return chosen(allocate(devices, nodes, "n", a_claim(exactly(tolerations=tolerations))))

    assert got() == [["r=b"]]
    assert got({"key": "bad", "operator": "Exists"}) == [["r=a"]]
    assert got({"operator": "Exists", "effect": "NoExecute"}) == [["r=a"]]
    assert got({"key": "bad", "operator": "Equal", "value": "1"}) == [["r=a"]]
    assert got({"key": "bad", "value": "2"}) == [["r=b"]]
    assert got({"operator": "Exists", "effect": "NoSchedule"}) == [["r=b"]]


def test_shares_are_rounded_up_and_end_when_the_device_is_full() -> None:
    bandwidth = {
        "value": "10G",
        "requestPolicy": {"default": "1G", "validRange": {"min": "1G", "step": "1G"}},
    }
    nic = a_device("nic", allowMultipleAllocations=True, capacity={"bandwidth": bandwidth})
    devices, nodes = cluster([a_slice("n", [nic])]), nodes_of("n")

    for number in range(3):
        claim = a_claim(exactly(capacity={"bandwidth": "2500M"}), name=f"share-{number}")
        found = allocate(devices, nodes, "n", claim)
        assert found is not None
        result = found[0].devices.results[0]
        assert (result.share_id, result.consumed_capacity) == (
            "share-0",
            {"bandwidth": "3000000000"},
        )
        devices.allocate(f"share-{number}", found[0])

    assert verdicts(devices, nodes, a_claim(exactly(capacity={"bandwidth": "2500M"}))) == {
        "n": NOT_ALLOCATABLE
    }
    last = allocate(devices, nodes, "n", a_claim(exactly()))
    assert last is not None
    assert last[0].devices.results[0].consumed_capacity == {"bandwidth": "1G"}
    assert verdicts(devices, nodes, a_claim(exactly(capacity={"other": "1"})))["n"] != ALLOCATABLE


def test_capacity_is_a_lower_bound_of_a_device_that_is_not_shared() -> None:
    small = a_device("small", capacity={"memory": "40Gi"})
    large = a_device("large", capacity={"memory": "80Gi"})
    devices, nodes = cluster([a_slice("n", [small, large])]), nodes_of("n")

    found = allocate(devices, nodes, "n", a_claim(exactly(capacity={"memory": "41Gi"})))

    assert chosen(found) == [["r=large"]]
    assert found is not None
    assert found[0].devices.results[0].share_id is None
    assert found[0].devices.results[0].consumed_capacity == {}


def test_equal_attributes_are_found_by_going_back_over_combinations() -> None:
    numbers = {"a": 0, "b": 1, "c": 2, "d": 1, "e": 1}
    slices = [a_slice("n", [a_device(n, attributes={"numa": v}) for n, v in numbers.items()])]
    devices, nodes = cluster(slices), nodes_of("n")
    claim = a_claim(
        exactly("x"), exactly("y"), exactly("z"), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]
    )

    assert chosen(allocate(devices, nodes, "n", claim)) == [["x=b", "y=d", "z=e"]]
    assert verdicts(devices, nodes, claim) == {"n": ALLOCATABLE}


def test_distinct_attributes_compare_with_the_last_device_of_each_request() -> None:
    """Upstream remembers one value per request: the third device may repeat the first one's."""
    numbers = {"a": 0, "b": 1, "c": 0}
    slices = [a_slice("n", [a_device(n, attributes={"numa": v}) for n, v in numbers.items()])]
    devices, nodes = cluster(slices), nodes_of("n")
    distinct = [{"distinctAttribute": f"{DRIVER}/numa"}]

    three = a_claim(exactly(count=3), constraints=distinct)
    assert chosen(allocate(devices, nodes, "n", three)) == [["r=a", "r=b", "r=c"]]
    apart = a_claim(exactly("x"), exactly("y"), exactly("z"), constraints=distinct)
    assert allocate(devices, nodes, "n", apart) is None


def test_an_error_of_a_selector_ends_the_attempt_unless_another_part_decides() -> None:
    slices = [a_slice("n", [a_device("a")]), a_slice("m", [a_device("a")], driver="x")]
    devices, nodes = cluster(slices), nodes_of("n", "m")
    claim = a_claim(exactly(selectors=[f'{MODEL} == "h" || device.driver == "x"']))

    found = verdicts(devices, nodes, claim)

    assert found == {"n": FAILED, "m": ALLOCATABLE}
    with pytest.raises(
        AllocationError, match="claim ns/c: selector #0: CEL runtime error: no such"
    ):
        allocate(devices, nodes, "n", claim)


def test_expressions_compare_capacities() -> None:
    """However the same amount is written."""
    sizes = {"a": "40Gi", "b": "81920Mi", "c": "80Gi"}
    slices = [a_slice("n", [a_device(n, capacity={"memory": m}) for n, m in sizes.items()])]
    devices, nodes = cluster(slices), nodes_of("n")
    memory = f'device.capacity["{DRIVER}"].memory'
    claim = a_claim(exactly(count=2, selectors=[f'{memory}.compareTo(quantity("80Gi")) == 0']))

    assert take(devices, nodes, "n", claim) == [["r=b", "r=c"]]


def test_an_error_is_met_only_when_the_search_gets_there() -> None:
    slices = [a_slice("n", [a_device("a", attributes={"model": "h"}), a_device("b")])]
    devices, nodes = cluster(slices), nodes_of("n")
    claim = a_claim(exactly(selectors=[f'{MODEL} == "h"']), name="first")

    assert take(devices, nodes, "n", claim) == [["r=a"]]
    assert verdicts(devices, nodes, claim) == {"n": FAILED}
    devices.set_class(a_class("gpu", "broken ("))
    with pytest.raises(AllocationError, match="class gpu: selector #0: CEL compile error: "):
        allocate(devices, nodes, "n", claim)


def test_a_class_that_is_missing_is_an_error() -> None:
    devices, nodes = cluster([a_slice("n", _gpus(1))]), nodes_of("n")

    with pytest.raises(AllocationError) as caught:
        allocate(devices, nodes, "n", a_claim(exactly(class_="none")))

    assert str(caught.value) == (
        "claim ns/c, request r: could not retrieve device class none: "
        'deviceclass.resource.k8s.io "none" not found'
    )


def test_invalid_pools_are_passed_over_and_named_when_nothing_else_does() -> None:
    slices = [
        a_slice("n", [a_device("a"), a_device("a")]),
        a_slice("good", _gpus(1), pool="good", nodeName="n"),
    ]
    devices, nodes = cluster(slices), nodes_of("n")

    assert take(devices, nodes, "n", a_claim(exactly())) == [["r=gpu-0"]]
    assert verdicts(devices, nodes, a_claim(exactly())) == {"n": INVALID_POOLS}
    with pytest.raises(AllocationError, match=f"resource pool {DRIVER}/n is currently invalid"):
        allocate(devices, nodes, "n", a_claim(every()))


def test_a_constraint_that_fails_for_all_devices_is_an_error() -> None:
    slices = [a_slice("n", [a_device(n, attributes={"numa": i}) for i, n in enumerate("ab")])]
    devices, nodes = cluster(slices), nodes_of("n")
    claim = a_claim(every(), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])

    with pytest.raises(AllocationError) as caught:
        allocate(devices, nodes, "n", claim)

    assert str(caught.value) == (
        f"claim ns/c, request r: cannot add device {DRIVER}/n/b "
        "because a claim constraint would not be satisfied"
    )


def test_all_devices_are_refused_when_one_is_in_use() -> None:
    devices, nodes = cluster([a_slice("n", _gpus(2))]), nodes_of("n")

    assert chosen(allocate(devices, nodes, "n", a_claim(every()))) == [["r=gpu-0", "r=gpu-1"]]
    take(devices, nodes, "n", a_claim(exactly(), name="other"))
    assert verdicts(devices, nodes, a_claim(every())) == {"n": NOT_ALLOCATABLE}


def test_selectors_compare_capacities_as_quantities() -> None:
    sizes = {"a": "40Gi", "b": "81920Mi"}
    slices = [a_slice("n", [a_device(n, capacity={"memory": v}) for n, v in sizes.items()])]
    devices, nodes = cluster(slices), nodes_of("n")
    memory = f'device.capacity["{DRIVER}"].memory'
    claim = a_claim(exactly(selectors=[f'{memory}.compareTo(quantity("80Gi")) == 0']))

    assert chosen(allocate(devices, nodes, "n", claim)) == [["r=b"]]


def test_what_a_search_found_holds_for_the_same_pools_around_the_nodes_own() -> None:
    """Pools of many nodes are tried before and after the node's own pool; devices come and go."""
    of_all = [
        a_slice(pool, _gpus(2, attributes={"model": "common"}), allNodes=True) for pool in "az"
    ]
    own = a_slice("n", [a_device("own", attributes={"model": "own"})])
    devices, nodes = cluster([*of_all, own]), nodes_of("n")
    claim = a_claim(exactly("any", 2), exactly("own", selectors=[f'{MODEL} == "own"']))
    last, second = (_in_use(pool, f"gpu-{i}") for pool, i in (("z", 1), ("a", 1)))

    devices.allocate("last", last)
    assert verdicts(devices, nodes, claim) == {"n": ALLOCATABLE}
    assert chosen(allocate(devices, nodes, "n", claim)) == [["any=gpu-0", "any=gpu-1", "own=own"]]

    devices.release("last")
    devices.allocate("second", second)
    assert verdicts(devices, nodes, claim) == {"n": ALLOCATABLE}
    assert chosen(allocate(devices, nodes, "n", claim)) == [["any=gpu-0", "any=gpu-0", "own=own"]]


def test_a_pool_becomes_valid_on_all_nodes_with_the_slice_of_one() -> None:
    """A device that consumes unknown counters makes the pool invalid on nodes of other slices."""
    consumed = [{"counterSet": "x", "counters": {"c": {"value": "1"}}}]
    of_one = {"pool": "p", "count": 2}
    broken = a_slice("b", [a_device("b0", consumesCounters=consumed)], nodeName="n2", **of_one)
    mended = a_slice("b", [a_device("b0")], nodeName="n2", **of_one)
    devices = cluster([a_slice("a", [a_device("a0")], nodeName="n1", **of_one), broken])
    nodes, claim = nodes_of("n1", "n2"), a_claim(exactly())
    assert verdicts(devices, nodes, claim) == {"n1": INVALID_POOLS, "n2": INVALID_POOLS}

    devices.set_slice(mended)
    assert verdicts(devices, nodes, claim) == {"n1": ALLOCATABLE, "n2": ALLOCATABLE}

    devices.set_slice(broken)
    assert verdicts(devices, nodes, claim) == {"n1": INVALID_POOLS, "n2": INVALID_POOLS}


def _in_use(pool: str, device: str) -> AllocationResult:
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device}
    return msgspec.convert({"devices": {"results": [result]}}, AllocationResult)


def test_nodes_share_no_verdict_before_a_selector_is_evaluated_there() -> None:
    """An expensive selector is evaluated over several attempts; nodes differ in what it says."""
    names = [f"n{number}" for number in range(1500)]
    devices, nodes = cluster(a_slice(name, [_known_as(name)]) for name in names), nodes_of(*names)
    claim = a_claim(exactly(selectors=[_is_one_of(names[:3], names[-3:])]))
    fits = {*names[:3], *names[-3:]}

    seen = _until_evaluated(devices, nodes, claim)

    assert len(seen) > 1
    for answers in seen:
        right = {name: ALLOCATABLE if name in fits else NOT_ALLOCATABLE for name in names}
        assert {n for n, code in answers.items() if code not in (TIMED_OUT, right[n])} == set()
    for name in ("n0", names[-1]):
        assert chosen(allocate(devices, nodes, name, claim)) == [["r=gpu"]]


def test_areas_share_no_verdict_before_a_selector_is_evaluated_there() -> None:
    racks = {rack: [f"{rack}{number}" for number in range(750)] for rack in "cab"}
    nodes = nodes_of("na", "nb", labels={"na": {"rack": "a"}, "nb": {"rack": "b"}})
    slices = (
        a_slice(name, [_known_as(name)], nodeSelector=_in_rack(rack))
        for rack, names in racks.items()
        for name in names
    )
    devices = cluster(slices)
    claim = a_claim(exactly(selectors=[_is_one_of(racks["b"][-2:])]))

    seen = _until_evaluated(devices, nodes, claim)

    assert len(seen) > 1
    assert {answers["na"] for answers in seen} == {TIMED_OUT, NOT_ALLOCATABLE}
    assert {answers["nb"] for answers in seen} == {TIMED_OUT, ALLOCATABLE}
    assert chosen(allocate(devices, nodes, "nb", claim)) == [["r=gpu"]]


def _known_as(uuid: str) -> dict[str, Any]:
    return a_device("gpu", attributes={"uuid": uuid})


def _is_one_of(*uuids: Sequence[str]) -> str:
    """An expression whose cost grows with the number of devices, times a thousand."""
    listed = [*(f"x{number}" for number in range(900)), *chain(*uuids)]
    texts = ",".join(f'"{uuid}"' for uuid in listed)
    return f'[{texts}].exists(u, u == device.attributes["{DRIVER}"].uuid)'


def _in_rack(rack: str) -> dict[str, Any]:
    expressions = [{"key": "rack", "operator": "In", "values": [rack]}]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def _until_evaluated(
    devices: Devices, nodes: Snapshot, claim: ResourceClaim
) -> list[dict[str, int]]:
    """The verdicts of attempts, up to one in which no node timed out."""
    seen = []
    for _ in range(40):
        seen.append(verdicts(devices, nodes, claim))
        if TIMED_OUT not in seen[-1].values():
            return seen
    raise AssertionError("the selector is never evaluated")
