"""What would get a pod its devices; each change is made here, and the pod placed."""

import copy
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from scheduler.kernel.answers.edits import (
    DropDeviceRule,
    Edit,
    FreeClaim,
    LoosenSelector,
    LowerCount,
    TolerateDevices,
)
from scheduler.kernel.answers.explainer import Explainer
from scheduler.kernel.answers.model import PodAnswer
from scheduler.kernel.answers.why import MOST_CLAIM_TRIALS, Depth
from scheduler.kernel.answers.words import change_text, device_advice, guess_text
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents
from tests.support.device_manifests import (
    DRIVER,
    Object,
    claim_manifest,
    class_manifest,
    device,
    made_from,
    request,
    slice_manifest,
    template_manifest,
    using,
)
from tests.support.manifests import node_manifest, pod_manifest

ATTRIBUTES = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'
BIG = f'device.attributes["{DRIVER}"].model == "big"'


def answered(*objects: Object) -> PodAnswer:
    """What is said of the pod p on the nodes n and m."""
    documents = [class_manifest(), node_manifest("n"), node_manifest("m"), *objects]
    profiles = Profiles(None)
    cluster = profiles.load(objects_from_documents((f"o{i}", o) for i, o in enumerate(documents)))
    pod = next(pod for pod in cluster.waiting if pod.name == "p")
    catalog = profiles.shared(ClaimCatalog)
    before = catalog.claims.copy(), catalog.devices.usage.allocations.copy()
    answer = Explainer(cluster.engine, profiles.framework_of).explain(pod, Depth.CHANGES)
    assert before == (catalog.claims, catalog.devices.usage.allocations)
    assert profiles.shared(ClaimCatalog) is catalog
    return answer


def changes(*objects: Object) -> list[str]:
    return [change_text(change) for change in answered(*objects).changes or ()]


def pod(*claims: str, **more: Any) -> Object:
    return pod_manifest("p", resourceClaims=using(*claims), **more)


def holding(name: str, *devices: str, **more: Any) -> list[Object]:
    """A pod on the node of its devices, and its claim."""
    node = devices[0].partition("/")[0]
    user = pod_manifest(name, resourceClaims=using(f"of-{name}"), nodeName=node, **more)
    user["metadata"]["uid"] = name
    return [user, claim_manifest(f"of-{name}", has=devices, users=(name,))]


def test_fewer_devices_as_many_as_there_are() -> None:
    """In the template that the claim is made from: claims do not change."""
    objects = [
        slice_manifest("n", "a", "b", "c"),
        template_manifest("four", request(count=5)),
        pod_manifest("p", resourceClaims=made_from("four")),
    ]
    answer = answered(*objects)

    assert [change_text(c) for c in answer.changes or ()] == [
        "ask for 3 devices instead of 5 in request gpu of template four: then it fits on n"
    ]
    assert device_advice(answer) == (
        "Ask for 3 devices instead of 5 in request gpu of template four: then it fits on n."
    )
    assert msgspec.json.decode(msgspec.json.encode(answer.changes)) == [
        {
            "kind": "lowerCount",
            "edits": [
                {
                    "kind": "lowerCount",
                    "claim": "default/p-four-claim",
                    "template": "four",
                    "request": "gpu",
                    "count": 5,
                    "atMost": 3,
                }
            ],
            "nodes": 1,
            "node": "n",
        }
    ]


def test_a_constraint_may_leave_fewer_devices_than_each_request_finds() -> None:
    same = {"requests": ["gpu"], "matchAttribute": f"{DRIVER}/model"}
    objects = [
        slice_manifest("n", *(device(name, model=name[0]) for name in ("x1", "x2", "y1", "y2"))),
        claim_manifest("mine", request(count=4), constraints=(same,)),
        pod("mine"),
    ]

    assert changes(*objects) == [
        "ask for 2 devices instead of 4 in request gpu of claim default/mine: then it fits on n",
        (
            f"drop the constraint `the same {DRIVER}/model for gpu` of claim default/mine: "
            "then it fits on n"
        ),
    ]


def test_a_selector_that_nothing_satisfies_and_a_taint() -> None:
    objects = [
        slice_manifest("n", device("a", "bad", model="big"), device("b", model="small")),
        claim_manifest("mine", request("gpu", 1, BIG)),
        pod("mine"),
    ]

    assert changes(*objects)[1:3] == [
        "tolerate bad=1:NoSchedule in request gpu of claim default/mine: then it fits on n",
        f"drop the selector `{BIG}` of request gpu of claim default/mine: then it fits on n",
    ]


def test_all_that_is_needed_where_no_single_change_will_do() -> None:
    other = 'device.driver == "x"'
    objects = [
        slice_manifest("n", device("a", model="small")),
        claim_manifest("mine", request("gpu", 1, BIG, other)),
        pod("mine"),
    ]

    assert changes(*objects) == [
        (
            f"drop the selector `{BIG}` of request gpu of claim default/mine, and "
            f"drop the selector `{other}` of request gpu of claim default/mine: then it fits on n"
        )
    ]


def test_the_fewest_claims_to_free_with_their_pods() -> None:
    """Their processors count as well; a claim that no pod uses is deleted."""
    objects = [
        slice_manifest("n", "a", "b", "c", "d"),
        *holding("one", "n/a"),
        *holding("two", "n/b", "n/c"),
        claim_manifest("idle", has=("n/d",)),
        claim_manifest("mine", request(count=2)),
        pod("mine"),
    ]
    free = [c for c in answered(*objects).changes or () if c.kind == "freeClaim"]

    assert [change_text(c) for c in free] == [
        "free claim default/of-two on n (delete pod default/two): then it fits on n"
    ]
    alone = answered(objects[0], objects[5], claim_manifest("mine", request(count=4)), pod("mine"))
    assert change_text((alone.changes or ())[1]) == (
        "free claim default/idle on n (delete it, no pod uses it): then it fits on n"
    )


def test_a_claim_of_its_own_that_other_pods_hold_elsewhere() -> None:
    objects = [
        slice_manifest("n", "a"),
        slice_manifest("m", "a"),
        claim_manifest("mine", has=("n/a",), users=("q",)),
        pod_manifest("q", resourceClaims=using("mine"), nodeName="n"),
        pod("mine", nodeSelector={"kubernetes.io/hostname": "m"}),
    ]
    objects[3]["metadata"]["uid"] = "q"

    assert "free claim default/mine on n (delete pod default/q): then it fits on m" in changes(
        *objects
    )


def test_no_pod_is_to_be_deleted_for_its_own_sake() -> None:
    """A claim that is reserved for the pod alone is freed by the scheduler."""
    waiting = pod("mine", nodeSelector={"kubernetes.io/hostname": "m"})
    waiting["metadata"]["uid"] = waiting["metadata"]["name"]
    own = waiting["metadata"]["name"]
    slices = [slice_manifest("n", "a"), slice_manifest("m", "a")]
    alone = [*slices, claim_manifest("mine", has=("n/a",), users=(own,)), waiting]
    other = pod_manifest("q", resourceClaims=using("mine"), nodeName="n")
    other["metadata"]["uid"] = "q"
    both = [*slices, claim_manifest("mine", has=("n/a",), users=(own, "q")), waiting, other]

    assert not [each for each in changes(*alone) if "free claim" in each]
    assert "free claim default/mine on n (delete pod default/q): then it fits on m" in changes(
        *both
    )


def test_a_terminating_pod_is_not_to_be_deleted() -> None:
    """Its claim is free soon in any case; that of another pod is advised."""
    objects = [slice_manifest("n", "a", "b"), claim_manifest("mine"), pod("mine")]
    going, staying = holding("going", "n/a"), holding("staying", "n/b")
    going[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    advised = [c for c in changes(*objects, *going, *staying) if "free claim" in c]

    assert advised == [
        "free claim default/of-staying on n (delete pod default/staying): then it fits on n"
    ]


def test_all_pods_of_a_claim_that_is_to_be_freed_are_told() -> None:
    users = [f"q{i}" for i in range(7)]
    sharing = [pod_manifest(q, resourceClaims=using("shared"), nodeName="n") for q in users]
    for q, each in zip(users, sharing, strict=True):
        each["metadata"]["uid"] = q
    shared = claim_manifest("shared", has=("n/a",), users=tuple(users))
    objects = [slice_manifest("n", "a"), shared, *sharing, claim_manifest("mine"), pod("mine")]

    [free] = [c for c in answered(*objects).changes or () if c.kind == "freeClaim"]

    [edit] = free.edits
    assert isinstance(edit, FreeClaim)
    assert edit.pods == tuple(f"default/{q}" for q in users)
    assert change_text(free) == (
        "free claim default/shared on n (delete 7 pods: default/q0, default/q1, default/q2 and 4"
        " more): then it fits on n"
    )


def test_a_node_like_one_with_such_devices() -> None:
    """Whatever uses them now; not one like a node that has none."""
    objects = [
        slice_manifest("m", "a"),
        *holding("one", "m/a"),
        claim_manifest("mine"),
        pod("mine"),
    ]

    assert changes(*objects)[-1] == "add a node like m"
    assert changes(claim_manifest("mine"), pod("mine")) == []


@pytest.mark.parametrize("devices", [1, 2])
def test_what_is_advised_places_the_pod(devices: int) -> None:
    """The claim as it is advised, in a cluster of its own."""
    there = [device("a", model="big"), device("b", "bad", model="big"), device("c", model="no")]
    mine = claim_manifest("mine", request("gpu", devices, BIG, f'"x" != "{devices}"'))
    objects = [slice_manifest("n", *there[1 : devices + 1]), mine, pod("mine")]
    answer = answered(*objects)

    for change in answer.changes or ():
        assert answered(objects[0], after(mine, change.edits), objects[2]).message == ""
    assert answer.changes


def after(claim: Object, edits: Iterable[Edit]) -> Object:
    """The claim with edits."""
    changed = copy.deepcopy(claim)
    exactly = changed["spec"]["devices"]["requests"][0]["exactly"]
    kept = dict(enumerate(exactly["selectors"]))
    for edit in edits:
        match edit:
            case LowerCount():
                exactly["count"] = edit.at_most
            case LoosenSelector():
                kept[int(edit.path[-2])] = {"cel": {"expression": edit.instead}}
            case DropDeviceRule():
                del kept[int(edit.path[-2])]
            case TolerateDevices():
                exactly["tolerations"] = [{"key": edit.key, "operator": "Exists"}]
    exactly["selectors"] = list(kept.values())
    return changed


def test_a_class_that_is_misspelt() -> None:
    """Whether the pod would fit then has been tried; a word far from all classes says nothing."""
    other = request(name="other", deviceClassName="network")
    found = answered(
        slice_manifest("n", "a"),
        claim_manifest("mine", request(deviceClassName="gpus")),
        pod("mine"),
    )

    assert [guess_text(guess) for guess in found.guesses or ()] == [
        (
            'no node has "gpus" (claim default/mine, request gpu: deviceClassName): '
            'is "gpu" meant, which 1 node has? Then it fits on 1 node.'
        )
    ]
    assert answered(claim_manifest("mine", other), pod("mine")).guesses == ()


def test_misspelt_classes_are_tried_as_long_as_trials_are_left() -> None:
    """The guesses made until then are told."""
    requests = [request(name=f"r{i}", deviceClassName=f"gpu{i:x}") for i in range(16)]
    requests.append(request(name="last", deviceClassName="gpux"))
    found = answered(slice_manifest("n", "a"), claim_manifest("mine", *requests), pod("mine"))

    assert len(found.guesses or ()) == MOST_CLAIM_TRIALS == 16


def test_less_of_an_extended_resource_that_devices_serve() -> None:
    resource = "example.com/gpu"
    found = answered(
        slice_manifest("n", "a", "b"),
        class_manifest("gpu", extendedResourceName=resource),
        pod_manifest("p", requests={resource: "5"}),
    )

    assert [change_text(change) for change in found.changes or ()] == [
        f"request at most 2 {resource} instead of 5: then it fits on n"
    ]
    assert device_advice(found).startswith(f"Request at most 2 {resource}")
    assert device_advice(msgspec.structs.replace(found, changes=())) == (
        "Extended resources: 5 of class gpu, 2 left at most, on n."
    )


@pytest.mark.parametrize(
    ("selector", "instead"),
    [
        (f"{MEMORY}.isGreaterThan(quantity('80Gi'))", f'{MEMORY}.compareTo(quantity("40Gi")) >= 0'),
        (f'{MEMORY}.compareTo(quantity("79Gi")) > 0', f'{MEMORY}.compareTo(quantity("40Gi")) >= 0'),
        (f"{ATTRIBUTES}.cores >= 9 && true", f"{ATTRIBUTES}.cores >= 8 && true"),
        (f"{ATTRIBUTES}.cores > 8", f"{ATTRIBUTES}.cores >= 8"),
        (f'{ATTRIBUTES}.model == "x"', f'{ATTRIBUTES}.model in ["x", "small"]'),
        (f'{ATTRIBUTES}.model.startsWith("x")', None),
        (f"{ATTRIBUTES}.cores < 3", None),
        ("device.driver == 'x'", None),
    ],
)
def test_a_selector_with_the_nearest_value_that_devices_have(
    selector: str, instead: str | None
) -> None:
    """Simple comparisons only; the others may be dropped."""
    there = device("a", model="small")
    there["attributes"]["cores"] = {"int": 8}
    there["capacity"] = {"memory": {"value": "40Gi"}}
    found = answered(
        slice_manifest("n", there),
        claim_manifest("mine", request("gpu", 1, selector)),
        pod("mine"),
    )

    loosened = [
        edit
        for change in found.changes or ()
        for edit in change.edits
        if isinstance(edit, LoosenSelector)
    ]
    assert [edit.instead for edit in loosened] == ([instead] if instead else [])
    if instead:
        assert change_text((found.changes or ())[0]) == (
            f"write `{instead}` instead of `{selector}` in request gpu of claim default/mine: "
            "then it fits on n"
        )
