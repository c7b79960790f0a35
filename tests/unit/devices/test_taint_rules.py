"""Rules taint devices that others publish, from when they come until they go."""

from typing import Any

import msgspec
import pytest

from scheduler.api.device_taint_rules import DeviceTaintRule
from scheduler.api.devices import DeviceTaint
from scheduler.kernel.devices.claim_catalog import SLICE, TAINT_RULE, ClaimCatalog
from scheduler.kernel.devices.taint_rules import TaintRules
from tests.support.claims import DRIVER, a_device, a_slice

OWN = DeviceTaint("own", "", "NoSchedule")
BAD = DeviceTaint("bad", "", "NoSchedule")


def a_rule(
    name: str = "rule", meant: dict[str, str] | None = None, key: str = "bad"
) -> DeviceTaintRule:
    """A rule for the devices that are meant; for all without a selector."""
    spec: dict[str, Any] = {"taint": {"key": key, "effect": "NoSchedule"}}
    if meant is not None:
        spec["deviceSelector"] = meant
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)


PUBLISHED = a_slice(
    "n", [a_device("one", taints=[{"key": "own", "effect": "NoSchedule"}]), a_device("two")]
)


@pytest.mark.parametrize(
    ("meant", "one", "two"),
    [
        pytest.param(None, True, True, id="no selector"),
        pytest.param({}, True, True, id="an empty selector"),
        pytest.param({"driver": DRIVER}, True, True, id="the driver"),
        pytest.param({"pool": "n"}, True, True, id="the pool"),
        pytest.param({"device": "two"}, False, True, id="a device"),
        pytest.param({"driver": "other", "device": "two"}, False, False, id="another driver"),
        pytest.param({"pool": "m", "device": "two"}, False, False, id="another pool"),
    ],
)
def test_which_devices_a_rule_means(meant: dict[str, str] | None, one: bool, two: bool) -> None:
    """All that is set must hold; taints of the driver stay."""
    rules = TaintRules()
    list(rules.change(None, a_rule(meant=meant)))

    found = rules.publish(PUBLISHED)

    assert [device.taints for device in found.spec.devices] == [
        (OWN, BAD) if one else (OWN,),
        (BAD,) if two else (),
    ]


def test_a_rule_that_changes_concerns_what_it_meant_and_what_it_means() -> None:
    """Slices that neither version is about are left alone; without rules they are as published."""
    rules, names = TaintRules(), ("n", "m", "k")
    published = {name: a_slice(name, [a_device("gpu")]) for name in names}
    for each in published.values():
        rules.publish(each)
    first, second = a_rule(meant={"pool": "n"}), a_rule(meant={"pool": "m"})

    def tainted(old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> dict[str, int]:
        changed = rules.change(old, new)
        return {each.metadata.name: len(each.spec.devices[0].taints) for each in changed}

    assert tainted(None, first) == {"n": 1}
    assert tainted(None, a_rule("other", {"pool": "n"}, "worse")) == {"n": 2}
    assert tainted(first, second) == {"n": 1, "m": 1}
    assert tainted(second, None) == {"m": 0}
    rules.withdraw("n")
    assert tainted(None, a_rule()) == {"m": 1, "k": 1}
    assert list(rules.change(a_rule(), None)) == [published["m"], published["k"]]


def test_a_fork_has_rules_of_its_own() -> None:
    catalog = ClaimCatalog()
    catalog.on_event(SLICE, None, PUBLISHED)
    fork = catalog.fork()
    catalog.on_event(TAINT_RULE, None, a_rule())
    fork.on_event(SLICE, PUBLISHED, a_slice("n", [a_device("three")]))

    def taints(of: ClaimCatalog) -> set[tuple[DeviceTaint, ...]]:
        columns = of.devices.table.columns
        return {columns.taints.value_of(row) for row in range(columns.size) if columns.alive[row]}

    assert taints(catalog) == {(OWN, BAD), (BAD,)}
    assert taints(fork) == {()}
