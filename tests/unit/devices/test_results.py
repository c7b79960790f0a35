"""What an allocation tells the drivers beside the devices: configuration and tolerations.

Source: k8s.io/dynamic-resource-allocation structured/internal/incubating/allocator_incubating.go
(Allocate, v0.36.3).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.api.devices import ResourceClaim
from tests.support.claims import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_slice,
    allocate,
    alternative,
    cluster,
    exactly,
    first_of,
    nodes_of,
)

CLASSES = [
    a_class("gpu", config=[{"opaque": {"driver": DRIVER, "parameters": {"of": "gpu"}}}]),
    a_class(
        "two",
        config=[
            {"opaque": {"driver": DRIVER, "parameters": {"of": "two"}}},
            {"opaque": {"driver": "nic.example.com", "parameters": {"of": "nic"}}},
        ],
    ),
    a_class("none"),
]
TAINT = {"key": "broken", "value": "fan", "effect": "NoSchedule"}


def devices_of(claim: ResourceClaim, count: int = 4, **fields: Any) -> Mapping[str, Any]:
    """The part of the only claim's allocation that the drivers of its devices read, as JSON."""
    slices = [a_slice("n", [a_device(f"d{i}", **fields) for i in range(count)])]
    found = allocate(cluster(slices, CLASSES), nodes_of("n"), "n", claim)
    assert found is not None
    return msgspec.json.decode(msgspec.json.encode(found[0].devices), type=dict[str, Any])


def configuration(claim: ResourceClaim) -> list[tuple[str, list[str], str]]:
    """By configuration its source, its requests, and a parameter that names it."""
    return [
        (each["source"], each.get("requests", []), each["opaque"]["parameters"]["of"])
        for each in devices_of(claim)["config"]
    ]


def opaque(name: str, *requests: str) -> dict[str, Any]:
    """A configuration of a claim, for some requests or for all."""
    return {
        "requests": list(requests),
        "opaque": {"driver": DRIVER, "parameters": {"of": name}},
    }


def test_a_class_configures_its_requests_once() -> None:
    """In the order in which the requests name the classes; each part of a class by itself."""
    claim = a_claim(
        exactly("a", class_="two"),
        exactly("b", class_="gpu"),
        exactly("c", class_="two"),
        exactly("d", class_="none"),
    )

    assert configuration(claim) == [
        ("FromClass", ["a", "c"], "two"),
        ("FromClass", ["a", "c"], "nic"),
        ("FromClass", ["b"], "gpu"),
    ]
    assert devices_of(claim)["config"][1]["opaque"]["driver"] == "nic.example.com"


def test_the_class_of_the_chosen_alternative_configures_it() -> None:
    """By the name of request and alternative; those that were passed over have no part in it."""
    claim = a_claim(
        first_of("r", alternative("many", 9, class_="two"), alternative("one", class_="gpu"))
    )

    assert configuration(claim) == [("FromClass", ["r/one"], "gpu")]


def test_the_configuration_of_the_claim_comes_last() -> None:
    """Drivers prefer it to that of the class; without requests it is for all of them."""
    claim = a_claim(
        exactly("a"), exactly("b", class_="none"), config=[opaque("all"), opaque("for b", "b")]
    )

    assert configuration(claim) == [
        ("FromClass", ["a"], "gpu"),
        ("FromClaim", [], "all"),
        ("FromClaim", ["b"], "for b"),
    ]


def test_configuration_for_several_requests_is_repeated() -> None:
    """As often as upstream does: once for each of them that the claim has."""
    claim = a_claim(
        exactly("a", class_="none"),
        exactly("b", class_="none"),
        config=[opaque("both", "a", "b"), opaque("nothing", "c")],
    )

    assert configuration(claim) == [("FromClaim", ["a", "b"], "both")] * 2


def test_configuration_of_alternatives_counts_for_the_chosen_one() -> None:
    """It names the request, for any of its alternatives, or one alternative."""
    claim = a_claim(
        first_of("r", alternative("many", 9, class_="none"), alternative("one", class_="none")),
        config=[opaque("any", "r"), opaque("passed over", "r/many"), opaque("chosen", "r/one")],
    )

    assert configuration(claim) == [
        ("FromClaim", ["r"], "any"),
        ("FromClaim", ["r/one"], "chosen"),
    ]


def test_each_device_has_the_tolerations_of_its_request() -> None:
    """The controller that evicts pods from tainted devices reads them there."""
    every = {"operator": "Exists", "effect": "NoSchedule"}
    fan = {"key": "broken", "operator": "Equal", "value": "fan", "tolerationSeconds": 60}
    claim = a_claim(
        exactly("a", 2, tolerations=[every]),
        first_of("r", alternative("many", 9), alternative("one", tolerations=[fan, every])),
    )

    results = devices_of(claim, taints=[TAINT])["results"]

    assert [(one["request"], one["tolerations"]) for one in results] == [
        ("a", [every]),
        ("a", [every]),
        ("r/one", [fan, every]),
    ]
    untainted = devices_of(a_claim(exactly()))["results"]
    assert untainted[0].get("tolerations", []) == []
