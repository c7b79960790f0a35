"""Lists: selectors, pages, versions."""

import pytest

from apistub import Sandbox
from tests.unit.apistub.support import NODES, PODS, Client, names, node, pod, serve

ALL_PODS = "/api/v1/pods"


def test_a_list_is_sorted_and_its_items_have_no_type() -> None:
    """Items come by namespace and name, without kind and apiVersion, as from the real server."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        other = pod("a")
        other["metadata"]["namespace"] = "kube-system"
        sandbox.create(pod("c"), pod("b"), other)

        answer = await client.get(ALL_PODS)

        assert (answer.object["kind"], answer.object["apiVersion"]) == ("PodList", "v1")
        assert answer.object["metadata"] == {"resourceVersion": str(sandbox.store.version)}
        assert names(answer) == ["b", "c", "a"]
        assert {"kind", "apiVersion"} & set(answer.object["items"][0]) == set()

    serve(story)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("metadata.name=a", ["a"], id="by name"),
        pytest.param("spec.nodeName=n", ["b"], id="on a node"),
        pytest.param("spec.nodeName=", ["a", "c"], id="without node"),
        pytest.param("spec.nodeName!=", ["b"], id="with any node"),
        pytest.param("status.phase!=Succeeded,status.phase!=Failed", ["a", "b"], id="not ended"),
        pytest.param("spec.schedulerName=stowage", ["c"], id="by scheduler"),
        pytest.param("metadata.namespace=kube-system", [], id="by namespace"),
        pytest.param("spec.restartPolicy==Always,metadata.name!=a", ["b", "c"], id="two terms"),
    ],
)
def test_pods_are_selected_by_field(selector: str, expected: list[str]) -> None:
    """Field selectors choose by equality and inequality, all terms together."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("a"), pod("b"), pod("c", schedulerName="stowage"))
        sandbox.bind("b", "n")
        sandbox.patch("pods", "c", {"status": {"phase": "Succeeded"}}, subresource="status")

        answer = await client.get(f"{ALL_PODS}?fieldSelector={selector.replace('=', '%3D')}")

        assert names(answer) == expected

    serve(story)


def test_nodes_are_selected_by_schedulability() -> None:
    """A node that says nothing counts as schedulable."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("a"), node("b", unschedulable=True))

        free = await client.get(f"{NODES}?fieldSelector=spec.unschedulable%3Dfalse")
        cordoned = await client.get(f"{NODES}?fieldSelector=spec.unschedulable%3Dtrue")

        assert (names(free), names(cordoned)) == (["a"], ["b"])

    serve(story)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param(
            "fieldSelector=spec.image%3Dx",
            "not part of a field selector",
            id="field that is not selectable",
        ),
        pytest.param("fieldSelector=abc", "not part of a field selector", id="no operator"),
        pytest.param("labelSelector=a%20in%20(b", "part of a label selector", id="open bracket"),
        pytest.param("resourceVersion=abc", "expected a number", id="bad version"),
        pytest.param("limit=1&continue=%7Bx", "does not continue any list", id="bad token"),
    ],
)
def test_what_cannot_be_understood_is_refused(query: str, message: str) -> None:
    """A broken parameter is answered 400 with a reason."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.get(f"{ALL_PODS}?{query}")

        assert (answer.status, answer.object["reason"]) == (400, "BadRequest")
        assert message in answer.message

    serve(story)


def test_pages_show_one_state() -> None:
    """Pages by limit and continue walk through the list as it was at the first page."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(*(node(f"n{index}") for index in range(5)))

        first = await client.get(f"{NODES}?limit=2")
        sandbox.delete("nodes", "n3")
        sandbox.create(node("n22"))
        token = first.object["metadata"]["continue"]
        second = await client.get(f"{NODES}?limit=2&continue={token}")
        token = second.object["metadata"]["continue"]
        third = await client.get(f"{NODES}?limit=2&continue={token}")

        pages = [first, second, third]
        assert [names(page) for page in pages] == [["n0", "n1"], ["n2", "n3"], ["n4"]]
        assert len({page.object["metadata"]["resourceVersion"] for page in pages}) == 1
        assert "continue" not in third.object["metadata"]

    serve(story)


def test_a_page_of_a_forgotten_state_is_gone() -> None:
    """A continue token from before the history is answered 410."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(*(node(f"n{index}") for index in range(3)))
        token = (await client.get(f"{NODES}?limit=1")).object["metadata"]["continue"]
        sandbox.create(node("late"))
        sandbox.forget_history()

        answer = await client.get(f"{NODES}?limit=1&continue={token}")

        assert (answer.status, answer.object["reason"]) == (410, "Expired")

    serve(story)


def test_a_version_of_the_future_times_out() -> None:
    """A list not older than what has not happened yet is answered 504, to be tried again."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.get(f"{PODS}?resourceVersion=9999")

        assert (answer.status, answer.object["reason"]) == (504, "Timeout")
        assert "9999 is yet to come" in answer.message
        assert answer.headers["Retry-After"] == "1"

    serve(story)
