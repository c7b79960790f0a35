"""The claim for a pod's extended resources: which requests, and which container gets what."""

from typing import Any

import pytest

from scheduler.api.devices import MAX_RESULTS, DeviceClass, DeviceClassSpec
from scheduler.api.objects import Container, ObjectMeta, PodSpec, ResourceRequirements
from scheduler.kernel.devices.class_names import ClassNames
from scheduler.kernel.devices.extended_resources import requests_and_mappings

GPU, NIC = "example.com/gpu", "example.com/nic"


def container(name: str, *, sidecar: bool = False, **asked: int) -> Container:
    names = {"gpu": GPU, "nic": NIC, "cpu": "cpu"}
    requests = {names[key]: str(amount) for key, amount in asked.items()}
    return Container(
        name=name,
        resources=ResourceRequirements(requests=requests),
        restart_policy="Always" if sidecar else None,
    )


def make_class(name: str, resource: str | None = None, created: str = "") -> DeviceClass:
    meta = ObjectMeta(name=name, creation_timestamp=created)
    return DeviceClass(meta, DeviceClassSpec((), (), resource))


def classes(*found: DeviceClass) -> ClassNames:
    names = ClassNames()
    for each in found:
        names.changed(None, each)
    return names


BOTH = classes(make_class("gpu", GPU), make_class("nic", NIC))


def asked(spec: PodSpec, *resources: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """By request how many devices, and by container which requests."""
    requests, mappings = requests_and_mappings(spec, resources or (GPU,), BOTH)
    counts = {r.name: r.exactly.count for r in requests if r.exactly is not None}
    return counts, [(m.container_name, m.request_name) for m in mappings]


def test_each_container_has_a_request_per_resource() -> None:
    """Numbered by its resources in the order of their names, cpu among them."""
    spec = PodSpec(containers=(container("a", cpu=1, gpu=2, nic=1), container("b", gpu=1)))

    assert asked(spec, GPU, NIC) == (
        {"container-0-request-1": 2, "container-0-request-2": 1, "container-1-request-0": 1},
        [
            ("a", "container-0-request-1"),
            ("b", "container-1-request-0"),
            ("a", "container-0-request-2"),
        ],
    )


def test_init_containers_use_what_later_containers_have() -> None:
    """They need the rest only, and of all rests the largest."""
    spec = PodSpec(
        init_containers=(
            container("i", gpu=3),
            container("s", sidecar=True, gpu=1),
            container("j", gpu=5),
        ),
        containers=(container("a", gpu=1),),
    )

    counts, mappings = asked(spec)

    # `i` may use those of the sidecar and of `a`; `j` begins after the sidecar.
    assert counts == {
        "container-1-request-0": 1,
        "container-2-request-0": 4,
        "container-3-request-0": 1,
    }
    assert mappings == [
        ("s", "container-1-request-0"),
        ("a", "container-3-request-0"),
        ("i", "container-1-request-0"),
        ("i", "container-3-request-0"),
        ("i", "container-2-request-0"),
        ("j", "container-3-request-0"),
        ("j", "container-2-request-0"),
    ]


def test_an_init_container_that_needs_no_more_has_no_request() -> None:
    """It takes as many of the later requests as it needs, in order."""
    spec = PodSpec(
        init_containers=(container("i", gpu=1),),
        containers=(container("a", gpu=2), container("b", gpu=2)),
    )

    counts, mappings = asked(spec)

    assert counts == {"container-1-request-0": 2, "container-2-request-0": 2}
    assert mappings[-1] == ("i", "container-1-request-0")


def test_a_claim_for_too_many_devices_has_no_mapping() -> None:
    """It is never allocated; the message about it has the number of devices."""
    inits = tuple(container(f"i{i}", gpu=40) for i in range(200))
    sidecars = tuple(container(f"s{i}", sidecar=True, gpu=1) for i in range(200))

    few, some = asked(PodSpec(init_containers=inits + sidecars[:MAX_RESULTS]))
    counts, mappings = asked(PodSpec(init_containers=inits[:1] + sidecars[: MAX_RESULTS + 1]))

    assert sum(few.values()) == 40
    assert sum(counts.values()) == 40
    assert some == mappings == []


def test_the_mapping_of_many_containers_is_no_square_of_their_number() -> None:
    """Each uses at most the devices that one claim can have."""
    inits = tuple(container(f"i{i}", gpu=1) for i in range(400))
    last = container("c", gpu=MAX_RESULTS)

    counts, mappings = asked(PodSpec(init_containers=inits, containers=(last,)))

    assert counts == {"container-400-request-0": MAX_RESULTS}
    assert len(mappings) == 401


def test_requests_are_sorted_as_text() -> None:
    """So the eleventh container comes before the third."""
    spec = PodSpec(containers=tuple(container(f"c{i}", gpu=1) for i in range(11)))

    names = list(asked(spec)[0])

    assert names.index("container-10-request-0") < names.index("container-2-request-0")


def test_a_class_stands_for_its_own_name_too() -> None:
    """With the prefix of Kubernetes."""
    implicit = "deviceclass.resource.kubernetes.io/gpu"
    names = classes(make_class("gpu"))

    assert names.class_of(GPU) is None
    assert names.class_of(implicit) == make_class("gpu")


@pytest.mark.parametrize(
    ("first", "second", "holder"),
    [
        (make_class("a", GPU, "2026-01-01"), make_class("b", GPU, "2026-01-02"), "b"),
        (make_class("a", GPU, "2026-01-02"), make_class("b", GPU, "2026-01-01"), "a"),
        (make_class("b", GPU), make_class("a", GPU), "a"),
        (make_class("a", GPU), make_class("b", GPU), "a"),
    ],
)
def test_the_newest_class_stands_for_a_resource(first: Any, second: Any, holder: str) -> None:
    """Of equally old ones that with the lesser name; the other is not filed at all."""
    names = classes(first, second)

    found = names.class_of(GPU)
    assert found is not None
    assert found.metadata.name == holder
    loser = ({first.metadata.name, second.metadata.name} - {holder}).pop()
    if holder == first.metadata.name:
        assert names.class_of(f"deviceclass.resource.kubernetes.io/{loser}") is None


def test_a_class_that_goes_takes_the_name_along() -> None:
    """Also where another class gives it: upstream hears of that one with its next event only."""
    old, new = make_class("a", GPU, "2026-01-01"), make_class("b", GPU, "2026-01-02")
    names = classes(old, new)

    names.changed(old, None)
    assert names.class_of(GPU) is None
    names.changed(new, new)
    assert names.class_of(GPU) == new
