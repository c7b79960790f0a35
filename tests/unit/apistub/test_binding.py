"""Binding and evicting pods."""

import pytest

from apistub import Sandbox
from tests.unit.apistub.support import PODS, Answer, Client, binding, node, pod, serve

ZONE = "topology.kubernetes.io/zone"


def test_a_pod_is_bound() -> None:
    """A binding gives the pod its node, the condition, its annotations and the node's zone."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(node("n", labels={ZONE: "z"}), pod("p"))
        sandbox.patch("pods", "p", {"status": {"nominatedNodeName": "m"}}, subresource="status")
        given = binding("p", "n")
        given["metadata"]["annotations"] = {"why": "because"}

        answer = await client.post(f"{PODS}/p/binding", given)

        assert (answer.status, answer.object) == (
            201,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": {},
                "code": 201,
            },
        )
        bound = sandbox.get("pods", "p")
        assert bound["spec"]["nodeName"] == "n"
        assert bound["metadata"]["annotations"] == {"why": "because"}
        assert bound["metadata"]["labels"] == {ZONE: "z"}
        assert bound["status"] == {
            "phase": "Pending",
            "qosClass": "BestEffort",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastTransitionTime": "2026-01-01T00:16:40Z",
                }
            ],
        }

    serve(story)


async def _refused(client: Client, uid: str = "") -> Answer:
    return await client.post(f"{PODS}/p/binding", binding("p", "n", uid))


def test_a_pod_is_bound_once() -> None:
    """The second binding is refused, even to the same node."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p"))
        sandbox.bind("p", "n")

        answer = await _refused(client)

        assert (answer.status, answer.object["reason"]) == (409, "Conflict")
        assert answer.message == 'pods "p": it is on node n'

    serve(story)


def test_a_pod_being_deleted_is_not_bound() -> None:
    """A pod that waits for a finalizer takes no node any more."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        given = pod("p")
        given["metadata"]["finalizers"] = ["example.com/wait"]
        sandbox.create(given)
        sandbox.delete("pods", "p")

        answer = await _refused(client)

        assert answer.status == 409
        assert answer.message.endswith("it is being deleted")

    serve(story)


def test_a_gated_pod_is_not_bound() -> None:
    """Scheduling gates keep a binding out."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p", schedulingGates=[{"name": "example.com/gate"}]))

        answer = await _refused(client)

        assert answer.status == 409
        assert answer.message.endswith("it has a scheduling gate")

    serve(story)


def test_a_binding_for_another_pod_of_that_name_is_refused() -> None:
    """The uid in a binding must be the pod's."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        (created,) = sandbox.create(pod("p"))

        refused = await _refused(client, uid="other")
        accepted = await client.post(
            f"{PODS}/p/binding", binding("p", "n", created["metadata"]["uid"])
        )

        assert refused.status == 409
        assert refused.message.endswith(", not other")
        assert accepted.status == 201

    serve(story)


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        pytest.param(binding("p", "n"), 404, 'pods "p" not found', id="no such pod"),
        pytest.param(binding("q", "n"), 400, "expected a binding of p to a node", id="other name"),
        pytest.param(binding("p", ""), 400, "expected a binding of p to a node", id="no node"),
    ],
)
def test_a_binding_that_makes_no_sense_is_refused(
    given: dict[str, object], status: int, message: str
) -> None:
    """Each mistake is answered with its own code."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answer = await client.post(f"{PODS}/p/binding", given)

        assert (answer.status, answer.message) == (status, message)

    serve(story)


def test_an_eviction_asks_the_disruption_budgets() -> None:
    """A pod whose budget has no disruption left is not evicted; another one is."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
        }
        sandbox.create(budget, pod("db", labels={"app": "db"}), pod("web", labels={"app": "web"}))

        refused = await client.post(f"{PODS}/db/eviction", {"metadata": {"name": "db"}})
        evicted = await client.post(f"{PODS}/web/eviction", {"metadata": {"name": "web"}})

        assert (refused.status, refused.object["reason"]) == (429, "TooManyRequests")
        assert evicted.status == 201
        assert [item["metadata"]["name"] for item in sandbox.list("pods")] == ["db"]

    serve(story)
