"""Directed histories of resource claims: what the engine knows of them, and leaves behind."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.devices import ResourceClaim
from scheduler.api.objects import ObjectMeta
from scheduler.api.pods import PodInfo
from scheduler.config.args import DynamicResourcesArgs
from scheduler.kernel.devices.claim_catalog import SLICE, ClaimCatalog
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    ObjectGone,
    ObjectRead,
    ObjectSet,
    SetBack,
    Tick,
)
from scheduler.kernel.engine.instructions import Write
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.status import SUCCESS, Status
from scheduler.kernel.plugins.dynamic_resources import (
    DynamicResources,
    DynamicResourcesWithTaintRules,
)
from tests.unit.devices.test_taint_rules import a_rule
from tests.unit.engine.engine import EngineUnderTest
from tests.unit.plugins.test_dynamic_resources import (
    device_class,
    make_claim,
    pod_of,
    resource_slice,
)


class World:
    """An engine whose pods claim devices; PreBind writes as if the API server took all at once.

    Attributes:
        under_test: the engine.
        catalog: what it knows of devices.
    """

    def __init__(
        self,
        *nodes: str,
        bound: Any = None,
        writes: bool = True,
        plugin_type: type[DynamicResources] = DynamicResources,
    ) -> None:
        def plugin(handle: Handle) -> DynamicResources:
            made = plugin_type(DynamicResourcesArgs(), handle)

            async def pre_bind(*_: Any) -> Any:
                for flying in list(self.catalog.in_flight.values()) if writes else ():
                    self.written(flying.claim)
                return await _nothing()

            made.pre_bind = pre_bind  # type: ignore[method-assign]
            return made

        self.under_test = EngineUnderTest(
            plugin,
            nodes=nodes or ("a",),
            kinds=plugin_type.WATCHES,
            answer=bound or (lambda bind: Bound(bind.attempt)),
        )
        self.handle = self.under_test.handle
        self.version = 10
        self.show("deviceclasses", device_class())

    @property
    def catalog(self) -> ClaimCatalog:
        return self.under_test.states.shared(ClaimCatalog, "")

    @property
    def writes(self) -> list[Write]:
        return [i for i in self.under_test.instructions if isinstance(i, Write)]

    def show(self, kind: str, obj: Any) -> None:
        self.handle(ObjectSet(kind, obj))

    def stamped(self, claim: ResourceClaim) -> ResourceClaim:
        """The claim in a new version."""
        self.version += 1
        return replace(claim, metadata=replace(claim.metadata, resource_version=str(self.version)))

    def claim(self, name: str, **more: Any) -> ResourceClaim:
        """The watch shows a claim."""
        claim = self.stamped(make_claim(name, **more))
        self.show("resourceclaims", claim)
        return claim

    def written(self, claim: ResourceClaim) -> None:
        """The API server answers a write."""
        self.handle(ObjectRead("resourceclaims", self.stamped(claim)))

    def pod(self, *claims: str, name: str = "p") -> None:
        """A pod comes, and is decided about."""
        self.show("pods", pod_of(*claims, name=name, schedulerName="test"))
        self.under_test.run()

    def later(self, seconds: float = 60.0) -> None:
        """Time passes, and every pod that was woken and needs not back off is decided about."""
        self.under_test.clock.advance(seconds)
        self.handle(Tick())
        self.under_test.run()

    @property
    def holders(self) -> set[str]:
        """The claims that have devices."""
        return set(self.catalog.devices.usage.allocations)


async def _nothing() -> Status:
    return SUCCESS


def test_an_answer_counts_before_the_watch_and_is_not_undone_by_it() -> None:
    """The watch is behind: it shows the claim as it was before the write, and then as it is."""
    world = World()
    before = world.claim("c")
    world.written(make_claim("c", on="a", users=("p",)))
    assert world.holders == {"c"}

    world.show("resourceclaims", before)
    assert world.holders == {"c"}
    world.claim("c")
    assert world.holders == set()
    assert not world.under_test.reports


def test_a_claim_that_is_freed_for_a_pod_leaves_its_nomination() -> None:
    """Only preemption withdraws a nomination: kube-scheduler's plugin for devices returns none."""
    world = World()
    world.claim("c", on="gone")
    nominator = world.under_test.engine.core.queue.nominator
    pod = pod_of("c", schedulerName="test")
    status = replace(pod.pod.status, nominated_node_name="a")

    world.show("pods", PodInfo(replace(pod.pod, status=status), pod.kind))
    world.under_test.run()

    assert [write.path.rpartition("/")[2] for write in world.writes] == ["status"]
    assert [each.name for each in nominator.nominated_pods_for_node("a")] == ["p"]


@pytest.mark.parametrize("shows_older", [False, True], ids=["silent watch", "older version"])
def test_an_answer_is_forgotten_when_the_server_was_set_back(*, shows_older: bool) -> None:
    """The list may be as the watch showed the claim last, and then nothing comes of it."""
    world = World()
    world.claim("c")
    changed = world.stamped(make_claim("c"))
    world.written(make_claim("c", on="a", users=("p",)))
    world.written(make_claim("c", on="a", users=("p", "q")))
    if shows_older:
        world.show("resourceclaims", changed)

    world.handle(SetBack("set back"))

    assert world.holders == set()
    shown = world.catalog.claims["default/c"].metadata.resource_version
    assert shown == (changed.metadata.resource_version if shows_older else "11")
    world.show("resourceclaims", changed)
    assert world.catalog.claims["default/c"] == changed
    assert not world.under_test.reports


def test_a_version_that_was_answered_is_told_once() -> None:
    """When the watch brings it as well, nothing has happened; what comes next has."""
    world = World()
    world.claim("c")
    told: list[set[str]] = []
    world.catalog.listen(["default/c"], lambda: told.append(world.holders))
    claim = world.stamped(make_claim("c", on="a"))

    world.handle(ObjectRead("resourceclaims", claim))
    world.show("resourceclaims", claim)
    assert told == [{"c"}]

    world.claim("c")
    assert told == [{"c"}, set()]


def test_an_answer_about_a_claim_that_is_gone_brings_it_not_back() -> None:
    """Nor one about an earlier version than the watch has shown."""
    world = World()
    claim = world.claim("c")
    world.handle(ObjectGone("resourceclaims", "default", "c", "c"))
    world.written(make_claim("c", on="a"))
    assert world.holders == set()

    world.claim("c", on="a")
    world.handle(ObjectRead("resourceclaims", claim))
    assert world.holders == {"c"}


def test_two_pods_do_not_get_one_device() -> None:
    """The second is decided about while the watch shows nothing of the first."""
    world = World()
    world.show("resourceslices", resource_slice("a", "gpu-0"))
    world.claim("c")
    world.claim("d")

    world.pod("c")
    world.pod("d", name="q")

    assert [bind.name for bind in world.under_test.binds] == ["p"]
    assert world.holders == {"c"}
    assert not world.under_test.reports


def test_a_binding_that_fails_leaves_the_last_reservation() -> None:
    """The pod's next attempt uses it, or the controller takes it for the pod's end."""
    world = World(bound=lambda bind: BindFailed(bind.attempt, "no"))
    world.show("resourceslices", resource_slice("a", "gpu-0"))
    world.claim("c")

    world.pod("c")

    assert not world.writes
    assert world.holders == {"c"}


def test_what_was_not_written_is_free_when_the_binding_fails() -> None:
    """As the claim shows nothing."""
    world = World(bound=lambda bind: BindFailed(bind.attempt, "no"), writes=False)
    world.show("resourceslices", resource_slice("a", "gpu-0"))
    world.claim("c")

    world.pod("c")

    assert not world.writes
    assert world.holders == set()


def test_a_claim_that_is_deleted_while_it_is_held_frees_its_devices() -> None:
    """Also while a pod is on its way with it."""
    world = World(bound=lambda _: None, writes=False)
    world.show("resourceslices", resource_slice("a", "gpu-0"))
    world.claim("c")
    world.pod("c")
    assert world.holders == {"c"}

    world.handle(ObjectGone("resourceclaims", "default", "c", "c"))

    assert world.holders == set()
    assert not world.catalog.in_flight
    assert not world.under_test.reports


def test_a_device_that_goes_while_it_is_reserved_stays_reserved() -> None:
    """Its slice may come back, in a new generation; nobody else gets it then."""
    world = World(writes=False, bound=lambda _: None)
    world.show("resourceslices", resource_slice("a", "gpu-0"))
    world.claim("c")
    world.claim("d")
    world.pod("c")
    world.handle(ObjectGone("resourceslices", "", "a", ""))
    world.show("resourceslices", resource_slice("a", "gpu-0"))

    world.pod("d", name="q")

    assert [bind.name for bind in world.under_test.binds] == ["p"]
    assert world.holders == {"c"}


def test_a_claim_in_the_way_is_freed_once() -> None:
    """The pod is tried again when the claim shows it, and gets what is there."""
    world = World()
    world.show("resourceslices", resource_slice("a", "gpu-0"))
    held = world.claim("c", on="gone")

    world.pod("c")

    [write] = world.writes
    assert write.body is not None
    assert write.body["status"] == {"allocation": None, "reservedFor": None, "devices": None}
    assert write.body["metadata"]["resourceVersion"] == held.metadata.resource_version
    world.claim("c")
    world.later()
    assert [bind.node for bind in world.under_test.binds] == ["a"]
    assert len(world.writes) == 1


def test_a_pod_is_looked_at_after_five_minutes_whatever_wakes_it() -> None:
    """An event that never comes costs no pod its place."""
    world = World()
    world.claim("c")
    world.pod("c")
    # Straight into the state: no event tells of it.
    world.catalog.on_event(SLICE, None, resource_slice("a", "gpu-0"))
    world.under_test.clock.advance(290.0)
    world.handle(Tick())
    world.under_test.run()
    assert not world.under_test.binds

    for _ in range(3):
        world.under_test.clock.advance(30.0)
        world.handle(Tick())
        world.under_test.run()

    assert [bind.node for bind in world.under_test.binds] == ["a"]


def test_a_claim_that_an_attempt_left_is_deleted_again_if_its_deletion_fails() -> None:
    """As upstream, no event tells of the failure: the flush brings the next attempt."""
    world = World()
    world.show("deviceclasses", device_class("gpu", "example.com/gpu"))
    world.show("resourceslices", resource_slice("a", "gpu-0"))
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    left = world.claim("left", on="a", owner="p", users=("p",), annotations=annotations)
    resources = {"requests": {"example.com/gpu": "1"}}
    world.show(
        "pods", pod_of(schedulerName="test", containers=[{"name": "c", "resources": resources}])
    )
    world.under_test.run()
    assert [write.method for write in world.writes] == ["PATCH", "DELETE"]

    for _ in range(12):
        world.later(30.0)
    assert [write.method for write in world.writes] == ["PATCH", "DELETE"] * 2
    assert not world.under_test.binds

    world.handle(ObjectGone("resourceclaims", "default", "left", left.metadata.uid))
    world.later()
    assert [bind.node for bind in world.under_test.binds] == ["a"]


def test_a_rule_that_taints_devices_keeps_pods_away_until_it_goes() -> None:
    """Its end wakes them, and the end of one that was not in their way wakes them in vain."""
    world = World(plugin_type=DynamicResourcesWithTaintRules)
    world.show("resourceslices", resource_slice("a", "gpu-0"))
    for name in ("rule", "other"):
        world.show("devicetaintrules", a_rule(name))
    world.claim("c")
    world.pod("c")
    world.later()
    assert len(world.under_test.outcomes) == 1

    world.handle(ObjectGone("devicetaintrules", "", "other", "other"))
    world.later()
    assert len(world.under_test.outcomes) == 2
    assert not world.under_test.binds

    world.handle(ObjectGone("devicetaintrules", "", "rule", "rule"))
    world.later()
    assert [bind.node for bind in world.under_test.binds] == ["a"]
    assert not world.under_test.reports


def test_metadata_of_versions_that_are_no_numbers_is_never_older() -> None:
    """Whatever a server calls its versions, an answer then changes nothing."""
    world = World()
    claim = make_claim("c")
    odd = ObjectMeta(name="c", namespace="default", uid="c", resource_version="x")
    world.show("resourceclaims", claim)
    allocated = make_claim("c", on="a")
    world.handle(
        ObjectRead(
            "resourceclaims",
            replace(
                allocated,
                metadata=replace(allocated.metadata, resource_version=odd.resource_version),
            ),
        )
    )
    assert world.holders == set()
