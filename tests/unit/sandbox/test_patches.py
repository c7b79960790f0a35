"""The four kinds of patches, on their own and over HTTP."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies

from scheduler.sandbox import Sandbox, StatusError
from scheduler.sandbox.patches.json_patch import apply_json_patch, apply_merge_patch
from scheduler.sandbox.patches.server_side_apply import apply_configuration
from scheduler.sandbox.patches.strategic import apply_strategic_patch
from tests.unit.sandbox.support import NODES, PODS, Client, Object, node, pod, serve

POD = "core.Pod"


def containers(*named: Object) -> Object:
    return {"spec": {"containers": list(named)}}


DOCUMENT: Object = {"a": [1, 2], "b": {}}


@pytest.mark.parametrize(
    ("patch", "changes"),
    [
        pytest.param({"op": "add", "path": "/c", "value": 1}, {"c": 1}, id="add"),
        pytest.param({"op": "add", "path": "/a/1", "value": 9}, {"a": [1, 9, 2]}, id="insert"),
        pytest.param({"op": "add", "path": "/a/-", "value": 9}, {"a": [1, 2, 9]}, id="append"),
        pytest.param(
            {"op": "add", "path": "/b/x~1y~0", "value": 1}, {"b": {"x/y~": 1}}, id="escaped"
        ),
        pytest.param({"op": "remove", "path": "/a/0"}, {"a": [2]}, id="remove"),
        pytest.param({"op": "replace", "path": "/b", "value": 3}, {"b": 3}, id="replace"),
        pytest.param({"op": "replace", "path": "/a/1", "value": 3}, {"a": [1, 3]}, id="item"),
        pytest.param({"op": "move", "from": "/a/0", "path": "/b"}, {"a": [2], "b": 1}, id="move"),
        pytest.param({"op": "copy", "from": "/a/0", "path": "/c"}, {"c": 1}, id="copy"),
        pytest.param({"op": "test", "path": "/a/0", "value": 1}, {}, id="test"),
        pytest.param({"op": "replace", "path": "", "value": DOCUMENT}, {}, id="whole document"),
    ],
)
def test_json_patches_do_what_their_standard_says(patch: Object, changes: Object) -> None:
    """Each operation changes a copy of the document."""
    patched = apply_json_patch(DOCUMENT, msgspec.json.encode([patch]))

    assert patched == {**DOCUMENT, **changes}
    assert DOCUMENT == {"a": [1, 2], "b": {}}


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        pytest.param([{"op": "remove", "path": "/x"}], 422, id="remove nothing"),
        pytest.param([{"op": "replace", "path": "/x", "value": 1}], 422, id="replace nothing"),
        pytest.param([{"op": "add", "path": "/x/y", "value": 1}], 422, id="below nothing"),
        pytest.param([{"op": "add", "path": "/a/9", "value": 1}], 422, id="beyond the end"),
        pytest.param([{"op": "test", "path": "/a", "value": 1}], 422, id="failed test"),
        pytest.param([{"op": "juggle", "path": "/a"}], 400, id="unknown operation"),
        pytest.param([{"op": "add", "path": "a", "value": 1}], 400, id="bad path"),
        pytest.param({"op": "add"}, 400, id="not a list"),
    ],
)
def test_a_json_patch_that_does_not_apply_is_refused(patch: Any, code: int) -> None:
    """The document must hold what the patch speaks of."""
    with pytest.raises(StatusError) as refusal:
        apply_json_patch({"a": []}, msgspec.json.encode(patch))

    assert refusal.value.code == code


def test_a_merge_patch_removes_by_null_and_replaces_lists() -> None:
    """RFC 7396: maps merge, null removes, everything else is replaced."""
    document = {"a": {"b": 1, "c": 2}, "l": [1, 2]}

    merged = apply_merge_patch(document, {"a": {"b": None, "d": {"e": None}}, "l": [3]})

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
    once = apply_merge_patch(document, patch)

    assert apply_merge_patch(once, patch) == once


def test_containers_merge_by_name() -> None:
    """A strategic patch changes the named container, appends a new one and keeps the others."""
    document = containers({"name": "a", "image": "1"}, {"name": "b", "image": "1"})
    patch = containers({"name": "b", "image": "2"}, {"name": "c", "image": "3"})

    merged = apply_strategic_patch(document, patch, POD)

    assert merged == containers(
        {"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}
    )


def test_conditions_merge_by_type() -> None:
    """A patch of one condition leaves the others alone, as schedulers rely on."""
    document = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}

    merged = apply_strategic_patch(document, patch, POD)

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

    merged = apply_strategic_patch(document, containers(patch), POD)

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

    merged = apply_strategic_patch(document, patch, POD)

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

    merged = apply_strategic_patch(document, patch, POD)

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

    merged = apply_strategic_patch(document, patch, POD)

    assert [item["name"] for item in merged["spec"]["containers"]] == ["c", "b", "a"]


def test_an_item_without_its_key_is_refused() -> None:
    """A list that merges by name needs the name."""
    with pytest.raises(StatusError, match="does not contain declared merge key: name"):
        apply_strategic_patch({}, containers({"image": "x"}), POD)


def test_apply_takes_back_what_its_manager_no_longer_names() -> None:
    """Fields of the previous configuration that are missing now disappear; others stay."""
    document: Object = {
        "metadata": {"labels": {"mine": "1", "theirs": "2"}, "finalizers": ["f", "g"]},
        "spec": {
            "priority": 1,
            "containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}],
        },
    }
    previous: Object = {
        "metadata": {"labels": {"mine": "1"}, "finalizers": ["f"]},
        "spec": {
            "priority": 1,
            "containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}],
        },
    }
    wanted = containers({"name": "a", "image": "2"})

    applied = apply_configuration(document, wanted, previous, POD)

    assert applied == {
        "metadata": {"labels": {"theirs": "2"}, "finalizers": ["g"]},
        "spec": {"containers": [{"name": "a", "image": "2"}]},
    }


def test_apply_tells_ports_apart_by_number_and_protocol() -> None:
    """Server-side apply uses all keys of a list, strategic merge only the first."""
    ports = [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]
    document = containers({"name": "a", "ports": ports})
    wanted = containers(
        {"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP", "name": "dns"}]}
    )

    applied = apply_configuration(document, wanted, {}, POD)

    assert applied["spec"]["containers"][0]["ports"] == [
        {"containerPort": 53, "protocol": "TCP"},
        {"containerPort": 53, "protocol": "UDP", "name": "dns"},
    ]


def test_patches_over_http() -> None:
    """All kinds go through the same rules and give the changed object."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("n", labels={"a": "1"}))

        merged = await client.patch(f"{NODES}/n", {"metadata": {"labels": {"b": "2"}}})
        changed = await client.patch(
            f"{NODES}/n", [{"op": "remove", "path": "/metadata/labels/a"}], "json"
        )
        strategic = await client.patch(
            f"{NODES}/n", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, "strategic"
        )
        unknown = await client.request("PATCH", f"{NODES}/n", {}, Content_Type="text/plain")

        assert merged.object["metadata"]["labels"] == {"a": "1", "b": "2"}
        assert changed.object["metadata"]["labels"] == {"b": "2"}
        assert strategic.object["spec"]["taints"] == [{"key": "k", "effect": "NoSchedule"}]
        assert unknown.status == 415

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


def test_apply_over_http_creates_and_changes() -> None:
    """An applied configuration creates the object first, and shrinks it later."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        manifest = b"metadata: {labels: {a: '1', b: '2'}}\nspec: {unschedulable: true}\n"

        nameless = await client.patch(f"{NODES}/n", manifest, "apply")
        created = await client.patch(f"{NODES}/n?fieldManager=me", manifest, "apply")
        changed = await client.patch(
            f"{NODES}/n?fieldManager=me", b"metadata: {labels: {a: '3'}}", "apply"
        )

        assert nameless.status == 400
        assert (created.status, changed.status) == (201, 200)
        assert changed.object["metadata"]["labels"] == {"a": "3"}
        assert "unschedulable" not in changed.object.get("spec", {})

    serve(story)
