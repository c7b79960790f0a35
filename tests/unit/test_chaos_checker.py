"""The judge of ``make chaos`` tells what must not be: a judge that sees nothing proves nothing."""

from collections.abc import Sequence
from typing import Any

import pytest

from e2e.chaos.checker import Census, Rewind, Window, checked
from e2e.chaos.load import NAMESPACE
from e2e.chaos.replicas import ACCOUNTS, LEASE
from e2e.support.objects import Json, make_node, make_pod
from tests.support.audit_log import AuditLog

A, B, ADMIN, OTHER = "replica-a", "replica-b", "admin", "another-scheduler"
FULL = {"cpu": "4"}


class Log(AuditLog):
    """The requests of clients and of replicas."""

    def __init__(self) -> None:
        super().__init__()
        self.lease(A)
        self.node("n")

    def lease(self, user: str) -> None:
        spec = {"spec": {"holderIdentity": f"{user}-1"}}
        self.add(user, "update", "leases", LEASE, namespace=ACCOUNTS, sent=spec)

    def node(self, name: str) -> None:
        self.add(ADMIN, "create", "nodes", name, namespace="", answered=make_node(name))

    def pod(self, name: str, cpu: str = "100m", **more: Any) -> None:
        pod = make_pod(name, namespace=NAMESPACE, requests={"cpu": cpu}, **more)
        pod["metadata"]["uid"] = f"uid-{name}-{len(self.events)}"
        self.add(ADMIN, "create", "pods", name, answered=pod, code=201)

    def bind(self, name: str, node: str = "n", user: str = A) -> None:
        sent: Json = {"metadata": {"name": name}, "target": {"name": node}}
        self.add(user, "create", "pods/binding", name, sent=sent, code=201)

    def delete(self, name: str, user: str = ADMIN, grace: int = 0) -> None:
        left = {"metadata": {"deletionGracePeriodSeconds": grace}}
        self.add(user, "delete", "pods", name, answered=left)

    def claim(
        self, name: str, *devices: str, user: str = A, uid: str = "", **metadata: str
    ) -> None:
        results = [{"driver": "d", "pool": "n", "device": each} for each in devices]
        status = {"allocation": {"devices": {"results": results}}} if devices else {}
        metadata = {"name": name, "uid": uid or f"uid-{name}", **metadata}
        claim = {"metadata": metadata, "status": status}
        self.add(user, "update", "resourceclaims/status", name, answered=claim)

    def broken(
        self,
        windows: Sequence[Window] = (),
        rewinds: Sequence[Rewind] = (),
        censuses: Sequence[Census] = (),
    ) -> list[str]:
        checker = checked(self.events, [A, B], windows, rewinds, censuses)
        return [each.promise for each in checker.violations]


def test_what_is_as_it_should_be_is_nothing() -> None:
    """Pods come, are bound, leave, and others take their room."""
    log = Log()
    for number in range(3):
        log.pod(f"p{number}", "3")
        log.bind(f"p{number}")
        log.delete(f"p{number}")

    assert log.broken() == []


def test_a_pod_bound_twice() -> None:
    log = Log()
    log.pod("p")
    log.bind("p")
    log.bind("p", "m")

    assert log.broken() == ["no pod bound twice"]


def test_a_pod_of_the_same_name_is_another_one() -> None:
    log = Log()
    for _ in range(2):
        log.pod("p")
        log.bind("p")
        log.delete("p")

    assert log.broken() == []


def test_a_pod_bound_again_after_the_server_forgot() -> None:
    """The binding never happened."""
    log = Log()
    log.pod("p")
    saved = log.now + 0.5
    log.bind("p")
    restored = log.now + 0.5
    log.bind("p")

    assert log.broken(rewinds=[Rewind(saved, restored)]) == []


def test_a_node_promised_more_than_it_has() -> None:
    log = Log()
    for name in ("p", "q"):
        log.pod(name, "3")
        log.bind(name)

    assert log.broken() == ["no node promised more than it has"]


@pytest.mark.parametrize(("seconds", "count"), [(0, 0), (10, 1)], ids=["just now", "long ago"])
def test_what_another_scheduler_took(seconds: float, count: int) -> None:
    """Counts once there was time to hear of it."""
    log = Log()
    log.pod("theirs", "3")
    log.pod("ours", "3")
    log.bind("theirs", user=OTHER)
    log.now += seconds
    log.bind("ours")

    assert log.broken() == ["no node promised more than it has"] * count


def test_pods_that_keep_apart() -> None:
    """Whichever of them says so."""
    term = {"labelSelector": {"matchLabels": {"app": "x"}}}
    term["topologyKey"] = "kubernetes.io/hostname"
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    log = Log()
    log.pod("p", labels={"app": "x"})
    log.pod("q", affinity={"podAntiAffinity": rule})
    log.bind("p")
    log.bind("q")

    assert log.broken() == ["no two pods in conflict"]


def test_a_write_without_the_lease() -> None:
    """Also one that was refused for another reason later on would be: what counts is the time."""
    log = Log()
    log.pod("p")
    log.lease(B)
    log.bind("p", user=A)

    assert log.broken() == ["no write without the lease"]


@pytest.mark.parametrize("is_wrong", [False, True], ids=["all was well", "something was wrong"])
def test_a_victim_evicted_twice(is_wrong: bool) -> None:
    """Asking again is right where the first answer may have been lost."""
    log = Log()
    log.pod("p")
    log.bind("p")
    log.delete("p", user=A, grace=30)
    log.delete("p", user=A, grace=30)
    windows = [Window("fault", log.now - 1.5, log.now - 0.5)] if is_wrong else []

    assert log.broken(windows) == ([] if is_wrong else ["no victim evicted twice"])


def test_what_a_killed_server_did_not_write_down_is_found_by_counting() -> None:
    """A pod was deleted, nothing says so, and its room was taken rightly."""
    log = Log()
    log.pod("gone", "3")
    log.bind("gone")
    window = Window("killed", log.now + 0.5, log.now + 1.5)
    log.pod("next", "3")
    log.now += 5
    log.bind("next")
    census = Census(log.now - 2, frozenset({"uid-next-4"}))

    assert log.broken([window]) == ["no node promised more than it has"]
    assert log.broken([window], censuses=[census]) == []


def test_a_device_in_two_claims() -> None:
    """Whatever else the claims have."""
    log = Log()
    log.claim("one", "gpu-0", "gpu-1")
    log.claim("two", "gpu-2", "gpu-1")

    assert log.broken() == ["no device in two claims"]


@pytest.mark.parametrize("how", ["emptied", "deleted", "written again"])
def test_a_device_that_was_given_back(how: str) -> None:
    """It may be had again, by another claim or by one of the same name."""
    log = Log()
    log.claim("one", "gpu-0")
    if how == "emptied":
        log.claim("one")
    elif how == "deleted":
        left = {"kind": "Status", "details": {"name": "one", "uid": "uid-one"}}
        log.add(ADMIN, "delete", "resourceclaims", "one", answered=left)
    else:
        log.claim("one", "gpu-0", user=ADMIN)
        log.claim("one")
    log.claim("two", "gpu-0")

    assert log.broken() == []


@pytest.mark.parametrize("how", ["deallocated", "deleted"])
def test_a_claim_that_ends_before_the_answer_to_its_allocation(how: str) -> None:
    """A busy server completes the answer to the allocation after the request that ended it."""
    log = Log()
    if how == "deallocated":
        log.claim("one", user=ADMIN, resourceVersion="8")
    else:
        left = {"details": {"uid": "uid-one"}}
        log.add(ADMIN, "delete", "resourceclaims", "one", answered=left)
    log.claim("one", "gpu-0", resourceVersion="7")
    log.claim("two", "gpu-0", resourceVersion="9")

    assert log.broken() == []


def test_a_deleted_claim_that_loses_its_last_finalizer() -> None:
    """That removes it, although the answer shows its devices."""
    log = Log()
    log.claim("one", "gpu-0")
    metadata = {"uid": "uid-one", "finalizers": ["resource.kubernetes.io/delete-protection"]}
    log.add(ADMIN, "delete", "resourceclaims", "one", answered={"metadata": metadata})
    log.claim("one", "gpu-0", deletionTimestamp="2026-01-01T00:00:00Z")
    log.claim("two", "gpu-0")

    assert log.broken() == []


@pytest.mark.parametrize(("seconds", "count"), [(0, 0), (20, 1)], ids=["at once", "later"])
def test_a_claim_that_a_restored_backup_allocates_again(seconds: float, count: int) -> None:
    """Its device may be given away once more, but not after schedulers had time to know of it."""
    log = Log()
    log.claim("one", "gpu-0")
    saved = log.now + 0.5
    log.claim("one")
    restored = log.now + 0.5
    log.now += seconds
    log.claim("two", "gpu-0")

    broken = log.broken(rewinds=[Rewind(saved, restored)])
    assert broken == ["no device in two claims"] * count


def test_two_claims_get_one_device_after_a_restored_backup() -> None:
    """Both allocations were decided in the restored cluster."""
    log = Log()
    saved, restored = log.now + 0.2, log.now + 0.5
    log.now += 1
    log.claim("one", "gpu-0")
    log.claim("two", "gpu-0")

    assert log.broken(rewinds=[Rewind(saved, restored)]) == ["no device in two claims"]


def test_a_deleted_claim_that_a_finalizer_keeps() -> None:
    """It has its device until it is emptied."""
    log = Log()
    log.claim("one", "gpu-0")
    metadata = {"name": "one", "uid": "uid-one", "finalizers": ["delete-protection"]}
    log.add(ADMIN, "delete", "resourceclaims", "one", answered={"metadata": metadata})
    log.claim("two", "gpu-0")

    assert log.broken() == ["no device in two claims"]


def test_a_claim_written_without_the_lease() -> None:
    log = Log()
    log.lease(B)
    log.claim("one", "gpu-0", user=A)

    assert log.broken() == ["no write without the lease"]


def test_a_claim_whose_end_a_killed_server_did_not_write_down() -> None:
    """Its device was given to another one rightly."""
    log = Log()
    log.claim("gone", "gpu-0")
    window = Window("killed", log.now + 0.5, log.now + 1.5)
    log.now += 5
    log.claim("next", "gpu-0")
    census = Census(log.now - 2, frozenset({"uid-next"}))

    assert log.broken([window]) == ["no device in two claims"]
    assert log.broken([window], censuses=[census]) == []
