"""Workloads: which pods belong together, and that answers follow every change."""

import random

import pytest

from scheduler.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    OwnerReference,
)
from scheduler.api.pods import PodInfo
from scheduler.api.selectors import Operator, Requirement, Selector, selector_from_labels
from scheduler.api.workloads import Service, ServiceSpec, Workload, WorkloadSpec
from scheduler.kernel.plugins.default_selector import (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    SERVICE,
    Workloads,
)
from tests.support.builders import make_pod_info

NOTHING_KNOWN = Selector()
KINDS = {kind.kind: kind for kind in Workloads.WATCHES}


def service(name: str = "s", namespace: str = "default", **selector: str) -> Service:
    return Service(ObjectMeta(name=name, namespace=namespace), ServiceSpec(selector))


def controller(
    selector: LabelSelector | None, name: str = "owner", namespace: str = "default"
) -> Workload:
    return Workload(ObjectMeta(name=name, namespace=namespace), WorkloadSpec(selector))


def owned_by(kind: str, api_version: str, *, name: str = "owner", controls: bool = True) -> PodInfo:
    reference = OwnerReference(kind, name, "uid", api_version, controls)
    return make_pod_info(labels={"app": "web"}, owner_references=[reference])


WEB_POD = make_pod_info(labels={"app": "web", "tier": "front"})


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([service(app="web")], {"app": "web"}, id="one that selects the pod"),
        pytest.param([service(app="db")], {}, id="one that selects other pods"),
        pytest.param([service(app="web", x="y")], {}, id="one that demands more"),
        pytest.param([service()], {}, id="one without a selector"),
        pytest.param([service(namespace="x", app="web")], {}, id="one of another namespace"),
        pytest.param(
            [service("s", app="web"), service("t", tier="front"), service("u", app="db")],
            {"app": "web", "tier": "front"},
            id="all that select the pod are merged",
        ),
    ],
)
def test_services_select_by_their_labels(services: list[Service], expected: dict[str, str]) -> None:
    """A pod belongs together with what its Services select."""
    workloads = Workloads()
    for each in services:
        workloads.on_event(SERVICE, None, each)

    assert workloads.selector_of(WEB_POD) == selector_from_labels(expected)


ANY_OF = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Exists"),))
HAS_APP = Requirement("app", Operator.EXISTS)


@pytest.mark.parametrize(
    ("kind", "api_version", "is_asked"),
    [
        pytest.param("ReplicaSet", "apps/v1", True, id="ReplicaSet"),
        pytest.param("StatefulSet", "apps/v1", True, id="StatefulSet"),
        pytest.param("ReplicaSet", "apps/v1beta2", False, id="an old version"),
        pytest.param("ReplicaSet", "example.com/v1", False, id="a namesake"),
        pytest.param("StatefulSet", "v1", False, id="a wrong group"),
    ],
)
def test_the_controller_adds_its_requirements(kind: str, api_version: str, is_asked: bool) -> None:
    """Only ReplicaSets and StatefulSets of apps/v1 are asked."""
    workloads = Workloads()
    workloads.on_event(KINDS[kind], None, controller(ANY_OF))
    workloads.on_event(SERVICE, None, service(app="web"))
    by_service = selector_from_labels({"app": "web"})

    found = workloads.selector_of(owned_by(kind, api_version))

    assert found == (by_service.with_requirements([HAS_APP]) if is_asked else by_service)


def test_only_the_owner_that_controls_is_asked_and_by_its_name() -> None:
    """Other owners, and controllers nobody has heard of, say nothing."""
    workloads = Workloads()
    workloads.on_event(REPLICA_SET, None, controller(ANY_OF))

    assert workloads.selector_of(owned_by("ReplicaSet", "apps/v1", controls=False)) == NOTHING_KNOWN
    assert workloads.selector_of(owned_by("ReplicaSet", "apps/v1", name="x")) == NOTHING_KNOWN
    assert workloads.selector_of(owned_by("StatefulSet", "apps/v1")) == NOTHING_KNOWN


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(None, id="missing"),
        pytest.param(
            LabelSelector(match_expressions=(LabelSelectorRequirement("a", "Like"),)),
            id="unreadable",
        ),
    ],
)
def test_a_controller_without_a_usable_selector_says_nothing(
    selector: LabelSelector | None,
) -> None:
    """What the Services say stays."""
    workloads = Workloads()
    workloads.on_event(REPLICA_SET, None, controller(selector))
    workloads.on_event(SERVICE, None, service(app="web"))

    found = workloads.selector_of(owned_by("ReplicaSet", "apps/v1"))

    assert found == selector_from_labels({"app": "web"})


def test_a_replication_controller_overrules_services() -> None:
    """Its labels are merged over theirs."""
    workloads = Workloads()
    workloads.on_event(SERVICE, None, service(app="web"))
    owner = Service(
        ObjectMeta(name="owner", namespace="default"), ServiceSpec({"app": "x", "v": "1"})
    )
    workloads.on_event(REPLICATION_CONTROLLER, None, owner)

    found = workloads.selector_of(owned_by("ReplicationController", "v1"))

    assert found == selector_from_labels({"app": "x", "v": "1"})


def test_what_does_not_change_the_selector_keeps_the_answer() -> None:
    """Status updates of controllers, which come all the time, make nobody think again."""
    workloads = Workloads()
    workloads.on_event(SERVICE, None, service(app="web"))
    workloads.on_event(REPLICA_SET, None, controller(ANY_OF))
    pod = owned_by("ReplicaSet", "apps/v1")
    first = workloads.selector_of(pod)

    workloads.on_event(SERVICE, None, service(app="web"))
    workloads.on_event(REPLICA_SET, None, controller(ANY_OF))

    assert workloads.selector_of(pod) is first


def test_unknown_objects_can_be_removed() -> None:
    """A deletion may come for something that was never seen."""
    workloads = Workloads()

    workloads.on_event(SERVICE, service(app="web"), None)
    workloads.on_event(SERVICE, None, service("other", app="db"))
    workloads.on_event(SERVICE, service(app="web"), None)
    workloads.on_event(REPLICA_SET, controller(ANY_OF), None)

    assert workloads.selector_of(WEB_POD) == NOTHING_KNOWN


def test_an_answer_goes_with_the_last_pod_of_its_kind() -> None:
    """However many kinds of pods have come and gone."""
    workloads = Workloads()
    workloads.on_event(SERVICE, None, service(app="web"))
    pods = [make_pod_info(labels={"app": "web", "index": str(i)}) for i in range(12)]

    found = {workloads.selector_of(pod) for pod in pods * 2}
    del pods[1:]

    assert found == {selector_from_labels({"app": "web"})}
    assert [*workloads._namespaces["default"].remembered] == [pods[0].kind]


def test_random_changes_lead_where_a_fresh_start_leads() -> None:
    """Answers never outlive what they were deduced from."""
    draw = random.Random(7)
    workloads, present = Workloads(), {}
    pods = [
        WEB_POD,
        make_pod_info(labels={"app": "db"}),
        owned_by("ReplicaSet", "apps/v1"),
        owned_by("ReplicationController", "v1"),
        make_pod_info(labels={"app": "web"}, namespace="x"),
    ]

    for _ in range(2000):
        kind = draw.choice(("Service", "Service", "ReplicaSet", "ReplicationController"))
        namespace = draw.choice(("default", "x"))
        app = draw.choice(({"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}, {}))
        if kind == "ReplicaSet":
            each: Service | Workload = controller(LabelSelector(app), namespace=namespace)
        else:
            name = "owner" if kind == "ReplicationController" else draw.choice("ab")
            each = service(name, namespace, **app)
        key = (kind, namespace, each.metadata.name)
        if draw.random() < 0.6:
            workloads.on_event(KINDS[kind], None, each)
            present[key] = each
        else:
            workloads.on_event(KINDS[kind], each, None)
            present.pop(key, None)
        fresh = Workloads()
        for (known_kind, _, _), known in present.items():
            fresh.on_event(KINDS[known_kind], None, known)

        assert [workloads.selector_of(p) for p in pods] == [fresh.selector_of(p) for p in pods]

    assert all(len(each.remembered) <= len(pods) for each in workloads._namespaces.values())
