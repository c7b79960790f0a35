"""Creating, reading, changing and deleting objects over HTTP."""

import re

from apistub import Sandbox, Settings
from tests.support.clock import FakeClock
from tests.unit.apistub.support import LEASES, NODES, PODS, Client, node, pod, serve


def test_a_created_object_gets_what_the_server_owns() -> None:
    """A new object has uid, version, creation time and namespace, and is read back unchanged."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        created = await client.post(PODS, pod("p"))

        assert created.status == 201
        metadata = created.object["metadata"]
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata.pop("uid"))
        assert int(metadata.pop("resourceVersion")) > 0
        assert metadata == {
            "name": "p",
            "namespace": "default",
            "creationTimestamp": "2026-01-01T00:16:40Z",
            "generation": 1,
        }
        read = await client.get(f"{PODS}/p")
        assert (read.status, read.object) == (200, created.object)

    serve(story)


def test_a_name_is_generated() -> None:
    """A generateName gives a name of the prefix and five more letters."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        given = pod()
        given["metadata"] = {"generateName": "web-"}

        created = await client.post(PODS, given)

        assert re.fullmatch(r"web-[a-z0-9]{5}", created.object["metadata"]["name"])

    serve(story)


def test_creating_twice_is_refused() -> None:
    """The second object of a name is answered 409 AlreadyExists."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        await client.post(PODS, pod("p"))

        again = await client.post(PODS, pod("p"))

        assert again.status == 409
        assert again.object == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": 'pods "p" already exists',
            "reason": "AlreadyExists",
            "details": {"name": "p", "kind": "pods"},
            "code": 409,
        }

    serve(story)


def test_what_is_missing_is_not_found() -> None:
    """Objects, namespaces, resources and paths that are not there are answered 404."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        answers = [
            await client.get(f"{PODS}/p"),
            await client.get(f"{LEASES}/l"),
            await client.post("/api/v1/namespaces/none/pods", pod()),
            await client.get("/api/v1/gadgets"),
            await client.get("/apis/none/v1/gadgets"),
            await client.get("/nowhere"),
            await client.get(f"{NODES}/n/log"),
        ]

        assert [(answer.status, answer.object["reason"]) for answer in answers] == [
            (404, "NotFound")
        ] * 7
        assert [answer.message for answer in answers] == [
            'pods "p" not found',
            'leases.coordination.k8s.io "l" not found',
            'namespaces "none" not found',
            *["nothing is served at this path"] * 3,
            "nodes/log is not served by this stand-in",
        ]

    serve(story)


def test_an_update_based_on_an_old_version_is_refused() -> None:
    """PUT with a resourceVersion that is no longer current is answered 409 Conflict."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        first = (await client.post(NODES, node("n"))).object
        first["spec"]["unschedulable"] = True
        accepted = await client.put(f"{NODES}/n", first)

        refused = await client.put(f"{NODES}/n", first)

        assert accepted.status == 200
        assert (refused.status, refused.object["reason"]) == (409, "Conflict")
        assert refused.message == 'nodes "n": it was changed meanwhile'

    serve(story)


def test_an_update_cannot_change_what_the_server_owns() -> None:
    """uid, creation time and status survive a PUT that says otherwise; another uid is refused."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        created = (await client.post(NODES, node("n"))).object
        uid = created["metadata"]["uid"]
        changed = node("n", labels={"a": "b"})
        changed["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
        changed["status"] = {"capacity": {"cpu": "100"}}

        updated = (await client.put(f"{NODES}/n", changed)).object

        assert updated["metadata"]["uid"] == uid
        assert updated["metadata"]["creationTimestamp"] == "2026-01-01T00:16:40Z"
        assert updated["metadata"]["labels"] == {"a": "b"}
        assert updated["status"] == created["status"]
        changed["metadata"]["uid"] = "other"
        refused = await client.put(f"{NODES}/n", changed)
        assert refused.status == 409
        assert refused.message == f'nodes "n": its uid is {uid}, not other'

    serve(story)


def test_status_is_written_through_its_subresource_only() -> None:
    """A write to /status changes the status and nothing else."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        created = (await client.post(PODS, pod("p"))).object
        changed = {**created, "status": {"phase": "Running"}}
        changed["spec"] = {**created["spec"], "nodeName": "n"}

        updated = (await client.put(f"{PODS}/p/status", changed)).object

        assert updated["status"] == {"phase": "Running"}
        assert updated["spec"] == created["spec"]

    serve(story)


def test_a_write_that_changes_nothing_makes_no_version() -> None:
    """Writing the same object again keeps the resourceVersion, so that no watch sees it."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        created = (await client.post(PODS, pod("p"))).object

        again = (await client.patch(f"{PODS}/p", {"spec": {"restartPolicy": "Always"}})).object

        assert again == created

    serve(story)


def test_generation_counts_changes_of_the_specification() -> None:
    """Labels leave metadata.generation as it is, a new image raises it."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        await client.post(PODS, pod("p"))

        labelled = await client.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        changed = await client.patch(
            f"{PODS}/p",
            {"spec": {"containers": [{"name": "c", "image": "b"}]}},
            "strategic",
        )

        assert labelled.object["metadata"]["generation"] == 1
        assert changed.object["metadata"]["generation"] == 2

    serve(story)


def test_deleting_an_unbound_pod_removes_it() -> None:
    """A pod without a node is gone at once; the answer says which it was."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        uid = (await client.post(PODS, pod("p"))).object["metadata"]["uid"]

        deleted = await client.delete(f"{PODS}/p")

        assert (deleted.status, deleted.object["kind"]) == (200, "Status")
        assert deleted.object["details"] == {"name": "p", "kind": "pods", "uid": uid}
        assert (await client.get(f"{PODS}/p")).status == 404

    serve(story)


def test_a_bound_pod_ends_gracefully() -> None:
    """A pod on a node stays, marked, until its kubelet deletes it without grace."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        sandbox.create(pod("p"))
        sandbox.bind("p", "n")

        marked = (await client.delete(f"{PODS}/p")).object["metadata"]
        await client.delete(f"{PODS}/p")
        waiting = await client.get(f"{PODS}/p")
        await client.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})

        assert marked["deletionTimestamp"] == "2026-01-01T00:17:10Z"
        assert marked["deletionGracePeriodSeconds"] == 30
        assert waiting.object["metadata"] == marked
        assert (await client.get(f"{PODS}/p")).status == 404

    serve(story)


def test_finalizers_keep_an_object_until_they_are_removed() -> None:
    """An object with a finalizer is marked; removing the finalizer removes the object."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        given = pod("p")
        given["metadata"]["finalizers"] = ["example.com/wait"]
        await client.post(PODS, given)

        marked = await client.delete(f"{PODS}/p")
        released = await client.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})

        assert marked.object["metadata"]["deletionTimestamp"] == "2026-01-01T00:16:40Z"
        assert released.status == 200
        assert (await client.get(f"{PODS}/p")).status == 404

    serve(story)


def test_a_deletion_with_a_failed_precondition_is_refused() -> None:
    """Deleting by uid meets only the object meant."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        created = (await client.post(PODS, pod("p"))).object["metadata"]

        other_uid = await client.delete(f"{PODS}/p", {"preconditions": {"uid": "other"}})
        right = await client.delete(f"{PODS}/p", {"preconditions": {"uid": created["uid"]}})

        assert [other_uid.status, right.status] == [409, 200]

    serve(story)


def test_a_namespace_takes_its_objects_along() -> None:
    """Deleting a namespace deletes what is in it; a permanent one cannot be deleted."""

    async def story(_sandbox: Sandbox, client: Client) -> None:
        await client.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
        await client.post("/api/v1/namespaces/team/pods", pod("p"))

        deleted = await client.delete("/api/v1/namespaces/team")
        refused = await client.delete("/api/v1/namespaces/default")

        assert deleted.status == 200
        assert (await client.get("/api/v1/namespaces/team")).status == 404
        assert (await client.get("/api/v1/pods")).object["items"] == []
        assert refused.status == 403

    serve(story)


def test_kubelets_run_bound_pods_and_end_deleted_ones() -> None:
    """With kubelets, a bound pod runs without more ado, and a deleted one disappears."""

    async def story(sandbox: Sandbox, client: Client) -> None:
        async with client.watch(f"{PODS}?watch=true") as watch:
            sandbox.create(pod("p"))
            sandbox.bind("p", "n")
            phases = [(await watch.next())["object"]["status"]["phase"] for _ in range(3)]
            sandbox.delete("pods", "p")
            ends = [(await watch.next())["type"] for _ in range(2)]

        assert phases == ["Pending", "Pending", "Running"]
        assert ends == ["MODIFIED", "DELETED"]

    serve(story, Settings(run_kubelet=True))


def test_ages_follow_the_injected_clock() -> None:
    """Objects carry the time of the clock the sandbox was given."""
    clock = FakeClock(now=0)

    async def story(_sandbox: Sandbox, client: Client) -> None:
        await client.post(PODS, pod("old"))
        clock.advance(90)
        created = await client.post(PODS, pod("new"))

        assert created.object["metadata"]["creationTimestamp"] == "2026-01-01T00:01:30Z"

    serve(story, clock=clock)
