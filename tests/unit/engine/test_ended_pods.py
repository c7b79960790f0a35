"""Pods that end on a copy, and run there again, leave it as it was."""

from itertools import permutations

from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine.cluster_copy import EndedPods
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.snapshot import PodAdded
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import objects_from_documents
from tests.support.builders import make_node, make_pod_info, make_snapshot
from tests.support.device_manifests import claim_manifest, class_manifest, slice_manifest, using
from tests.support.manifests import node_manifest, pod_manifest
from tests.support.storage import claims_of


def test_a_claim_is_free_only_while_all_of_its_pods_have_ended() -> None:
    """In whatever order they end and come back; one in flight goes with its pod."""
    names = ("a", "b", "c")
    pods = [
        pod_manifest(name, nodeName="n", resourceClaims=using("shared", f"of-{name}"))
        for name in names
    ]
    for name, each in zip(names, pods, strict=True):
        each["metadata"]["uid"] = name
    claims = [
        claim_manifest("shared", has=("n/d0",), users=("a", "b")),
        *(claim_manifest(f"of-{x}", has=(f"n/{x}",), users=(x,)) for x in "ab"),
        claim_manifest("of-c"),
    ]
    devices = slice_manifest("n", "d0", *names)
    documents = [class_manifest(), node_manifest("n"), devices, *pods, *claims]
    objects = objects_from_documents((f"o{i}", o) for i, o in enumerate(documents))
    profiles = Profiles(None)
    core = profiles.load(objects).engine.core
    real = profiles.shared(ClaimCatalog)
    allocation = real.claims["default/of-a"].status.allocation
    assert allocation is not None
    [runner] = (pod for pod in core.cache.nodes["n"].pods.values() if pod.name == "c")
    real.begin(real.claims["default/of-c"], allocation, runner)
    core.catch_up()
    world, states = core.snapshot.copy(), core.states.fork()
    known = {pod.name: pod for pod in world.info(world.table.row_of["n"]).pods.values()}
    ended, catalog = EndedPods(world, states), states.known(ClaimCatalog)
    assert catalog is not None

    def held() -> set[str]:
        keys = {claim.metadata.uid: key for key, claim in catalog.claims.items()}
        return {keys[uid].removeprefix("default/") for uid in catalog.devices.usage.allocations}

    before = held()
    for order in permutations(names):
        gone: set[str] = set()
        for change, is_gone in ((ended.end, True), (ended.revive, False)):
            for name in order:
                change([known[name]])
                (gone.add if is_gone else gone.discard)(name)
                expected = {f"of-{x}" for x in names if x not in gone}
                assert held() == expected | (set() if {"a", "b"} <= gone else {"shared"})
        assert held() == before


def test_a_pod_with_volumes_ends_where_no_plugin_knows_of_storage() -> None:
    """Its room alone is free, and taken again."""
    pod = make_pod_info("p", node_name="n", volumes=claims_of("c"))
    world = make_snapshot([make_node("n")])
    world.update([PodAdded(pod)])
    ended = EndedPods(world, SharedStates(FrameworkMetrics(Instruments())))

    ended.end([pod])
    between = int(world.table.pod_count[0])
    ended.revive([pod])

    assert (between, int(world.table.pod_count[0])) == (0, 1)
