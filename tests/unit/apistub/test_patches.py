"""Both kinds of merge patches, on their own and over HTTP."""

import pytest
from hypothesis import given, settings, strategies

from apistub import Sandbox, StatusError
from apistub.http.patches import merge, merge_strategically
from tests.unit.apistub.support import NODES, PODS, Client, Object, node, pod, serve


def containers(*named: Object) -> Object:
    return {"spec": {"containers": list(named)}}


def test_a_merge_patch_removes_by_null_and_replaces_lists() -> None:
    """RFC 7396: maps merge, null removes, everything else is replaced."""
    document = {"a": {"b": 1, "c": 2}, "l": [1, 2]}

    merged = merge(document, {"a": {"b": None, "d": {"e": None}}, "l": [3]})

    assert merged == {"a": {"c": 2, "d": {}}, "l": [3]}


JSON_MAPS = strategies.dictionaries(
    strategies.sampled_from("abc"),
    strategies.recursive(
        strategies.integers(0, 3) | strategies.lists(strategies.integers(0, 3), max_size=2),
        lambda inner: strategies.dictionaries(strategies.sampled_from("abc"), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


@settings(deadline=None)
@given(JSON_MAPS, JSON_MAPS)
def test_a_merge_patch_without_nulls_is_idempotent(document: Object, patch: Object) -> None:
    """Laying the same patch over its own result changes nothing."""
    once = merge(document, patch)

    assert merge(once, patch) == once


def test_containers_merge_by_name() -> None:
    """A strategic patch changes the named container, appends a new one and keeps the others."""
    document = containers({"name": "a", "image": "1"}, {"name": "b", "image": "1"})
    patch = containers({"name": "b", "image": "2"}, {"name": "c", "image": "3"})

    merged = merge_strategically(document, patch)

    assert merged == containers(
        {"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}
    )


def test_conditions_merge_by_type() -> None:
    """A patch of one condition leaves the others alone, as schedulers rely on."""
    document = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}

    merged = merge_strategically(document, patch)

    assert [item["type"] for item in merged["status"]["conditions"]] == ["A", "PodScheduled"]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"name": "a", "$patch": "delete"}, ["b"], id="delete an item"),
        pytest.param({"$patch": "replace"}, [], id="replace the list"),
    ],
)
def test_directives_in_lists(patch: Object, expected: list[str]) -> None:
    """$patch in an item deletes it, or replaces the whole list."""
    document = containers({"name": "a"}, {"name": "b"})

    merged = merge_strategically(document, containers(patch))

    assert [item["name"] for item in merged["spec"]["containers"]] == expected


def test_directives_in_maps() -> None:
    """$patch replaces or empties a map, $retainKeys keeps the named keys only."""
    document: Object = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {"nodeSelector": {"x": "1"}, "volumes": [{"name": "v", "emptyDir": {}}]},
    }
    volume = {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}
    patch = {
        "metadata": {"labels": {"$patch": "replace", "b": "2"}},
        "spec": {"nodeSelector": {"$patch": "delete"}, "volumes": [volume]},
    }

    merged = merge_strategically(document, patch)

    assert merged["metadata"]["labels"] == {"b": "2"}
    assert merged["spec"]["nodeSelector"] == {}
    assert merged["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]


def test_lists_of_plain_values() -> None:
    """Finalizers merge as a set and can be taken out one by one; arguments are replaced."""
    document: Object = {
        "metadata": {"finalizers": ["a", "b"]},
        **containers({"name": "c", "args": ["1"]}),
    }
    patch = {
        "metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
        **containers({"name": "c", "args": ["2"]}),
    }

    merged = merge_strategically(document, patch)

    assert merged["metadata"]["finalizers"] == ["b", "c"]
    assert merged["spec"]["containers"][0]["args"] == ["2"]


def test_the_order_of_a_list_can_be_set() -> None:
    """$setElementOrder sorts what it lists and leaves the rest where it is."""
    document = containers({"name": "a"}, {"name": "b"}, {"name": "c"})
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "a", "image": "1"}],
        }
    }

    merged = merge_strategically(document, patch)

    assert [item["name"] for item in merged["spec"]["containers"]] == ["c", "b", "a"]


def test_an_item_without_its_key_is_refused() -> None:
    """A list that merges by name needs the name."""
    with pytest.raises(StatusError, match="lacks name"):
        merge_strategically({}, containers({"image": "x"}))


def test_patches_over_http() -> None:
    """Both go through the same rules and give the changed object."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("n", labels={"a": "1"}))

        merged = await client.patch(f"{NODES}/n", {"metadata": {"labels": {"b": "2"}}})
        strategic = await client.patch(
            f"{NODES}/n", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, "strategic"
        )
        others = [await client.patch(f"{NODES}/n", {}, kind) for kind in ("json", "apply")]

        assert merged.object["metadata"]["labels"] == {"a": "1", "b": "2"}
        assert strategic.object["spec"]["taints"] == [{"key": "k", "effect": "NoSchedule"}]
        assert [answer.status for answer in others] == [415, 415]
        assert "is not served by this stand-in" in others[1].message

    serve(story)


def test_a_status_patch_keeps_other_conditions() -> None:
    """What a scheduler writes leaves what a kubelet wrote."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p"))
        ready = {"type": "Ready", "status": "False"}
        sandbox.patch("pods", "p", {"status": {"conditions": [ready]}}, subresource="status")
        scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

        answer = await client.patch(
            f"{PODS}/p/status",
            {"status": {"conditions": [scheduled], "nominatedNodeName": "n"}},
            "strategic",
        )

        assert answer.object["status"]["conditions"] == [ready, scheduled]
        assert answer.object["status"]["nominatedNodeName"] == "n"
        assert answer.object["status"]["phase"] == "Pending"

    serve(story)


def test_a_patch_of_an_old_version_is_refused() -> None:
    """A patch that names a resourceVersion applies to that version only."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("n"))

        answer = await client.patch(f"{NODES}/n", {"metadata": {"resourceVersion": "1"}})

        assert (answer.status, answer.object["reason"]) == (409, "Conflict")

    serve(story)


def test_a_patch_of_another_shape_is_refused() -> None:
    """A text where a list of objects is merged is the client's mistake, not ours."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p"))

        answer = await client.patch(f"{PODS}/p", {"spec": {"containers": ["c"]}}, "strategic")

        assert (answer.status, answer.object["reason"]) == (400, "BadRequest")

    serve(story)


def test_ports_merge_by_their_number() -> None:
    """Ports of containers are told apart by containerPort, those of services by port."""
    document = {"ports": [{"containerPort": 80, "name": "a"}]}
    service = {"ports": [{"port": 80, "name": "a"}]}

    merged = merge_strategically(document, {"ports": [{"containerPort": 80, "name": "b"}]})
    served = merge_strategically(service, {"ports": [{"port": 81}]})

    assert merged == {"ports": [{"containerPort": 80, "name": "b"}]}
    assert served == {"ports": [{"port": 80, "name": "a"}, {"port": 81}]}
