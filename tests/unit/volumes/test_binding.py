"""What is assumed, what is written, and when it has come about."""

import msgspec
import pytest

from scheduler.api.storage import MigratableSources, PersistentVolume, PersistentVolumeClaim
from scheduler.api.volume_sources import AWSElasticBlockStoreVolumeSource
from scheduler.kernel.volumes.assume_cache import OutOfSyncError
from scheduler.kernel.volumes.binding import (
    BindingError,
    are_bound,
    assume,
    patch_of_binding,
    patch_of_provision,
    revert,
)
from scheduler.kernel.volumes.catalog import VolumeCatalog
from scheduler.kernel.volumes.decision import Binding, PodVolumes
from tests.support.builders import HOSTNAME
from tests.support.storage import (
    affinity_in,
    bound_claim,
    make_catalog,
    make_claim,
    make_csi_node,
    make_volume,
    tell,
)

LABELS = {HOSTNAME: "n"}
CLAIM = make_claim("c")
REFERENCE = {
    "kind": "PersistentVolumeClaim",
    "apiVersion": "v1",
    "namespace": "default",
    "name": "c",
    "uid": "uid-of-c",
    "resourceVersion": "1",
}
GUARD = {"uid": "uid-of-pv", "resourceVersion": "1"}


def binding(volume: PersistentVolume, claim: PersistentVolumeClaim = CLAIM) -> PodVolumes:
    """A volume for a claim."""
    return PodVolumes((Binding(claim, volume),))


def test_a_free_volume_is_reserved_in_the_name_of_the_controller() -> None:
    """So the binding controller may let it go again."""
    volume = make_volume("pv")
    catalog = make_catalog(volume, CLAIM)

    (reserved,) = assume(catalog, binding(volume), "n").bindings

    assert catalog.free_volumes("local") is None
    assert catalog.reserved_to(CLAIM) == [reserved.volume]
    patch = patch_of_binding(reserved, catalog.volumes["pv"])
    assert patch is not None
    assert patch.path == "/api/v1/persistentvolumes/pv"
    assert patch.body == {
        "metadata": {**GUARD, "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"claimRef": REFERENCE},
    }


def test_a_volume_that_its_owner_reserved_keeps_saying_so() -> None:
    """Only the UID of the claim is added; with it, there is nothing to write."""
    named = make_volume("pv", claim=make_claim("c"))
    reference = msgspec.structs.replace(named.claim, uid="") if named.claim is not None else None
    volume = msgspec.structs.replace(named, claim=reference)
    catalog = make_catalog(volume, CLAIM)

    (reserved,) = assume(catalog, binding(volume), "n").bindings
    patch = patch_of_binding(reserved, volume)
    assert patch is not None
    assert patch.body == {"metadata": GUARD, "spec": {"claimRef": REFERENCE}}
    assert patch_of_binding(Binding(CLAIM, named), named) is None


def test_a_claim_is_told_the_node_once() -> None:
    """A claim that asks for the node already is left alone."""
    catalog = make_catalog(CLAIM)

    (chosen,) = assume(catalog, PodVolumes((), (CLAIM,)), "n").provisions

    patch = patch_of_provision(chosen, CLAIM)
    assert patch is not None
    assert patch.path == "/api/v1/namespaces/default/persistentvolumeclaims/c"
    assert patch.body["metadata"] == {
        "uid": "uid-of-c",
        "resourceVersion": "1",
        "annotations": {"volume.kubernetes.io/selected-node": "n"},
    }
    assert patch_of_provision(chosen, chosen) is None


def test_what_was_decided_on_is_what_may_be_written() -> None:
    """An object that has changed since is patched in its old version, which the server refuses."""
    chosen = msgspec.structs.replace(CLAIM, selected_node="n")
    newer = msgspec.structs.replace(chosen, metadata=make_claim("c", version="2").metadata)

    patch = patch_of_provision(chosen, newer)

    assert patch is not None
    assert patch.body["metadata"]["resourceVersion"] == "1"


def test_two_pods_that_race_for_the_last_volume() -> None:
    """One gets it; for the other nothing stays assumed."""
    volume, other = make_volume("pv"), make_volume("pv-2")
    rival = make_claim("rival")
    catalog = make_catalog(volume, other, CLAIM, rival)
    tell(catalog, volume, make_volume("pv", version="2", claim=CLAIM))

    wanted = PodVolumes((Binding(rival, other), Binding(rival, volume)))
    with pytest.raises(OutOfSyncError, match="out of sync"):
        assume(catalog, wanted, "n")

    assert catalog.volume("pv-2") is other
    assert not catalog.reserved_to(rival)


def test_giving_back_makes_everything_free_again() -> None:
    """A pod that could not be bound leaves nothing behind."""
    volume, provision = make_volume("pv"), make_claim("p")
    catalog = make_catalog(volume, CLAIM, provision)
    taken = assume(catalog, PodVolumes((Binding(CLAIM, volume),), (provision,)), "n")

    revert(catalog, taken)

    free = catalog.free_volumes("local")
    assert free is not None
    assert len(free) == 1
    assert catalog.claim("default/p") is provision


# --- waiting --------------------------------------------------------------------------------------


def static(version: str = "2") -> PodVolumes:
    """What was written of a volume that was found, in the version the server answered."""
    return binding(make_volume("pv", claim=CLAIM, version=version, hosts=("n",)))


def dynamic() -> PodVolumes:
    """What was written of a claim for which a volume is made."""
    return PodVolumes((), (make_claim("c", version="2", selected_node="n", is_annotated=True),))


def written(**fields: object) -> PersistentVolumeClaim:
    """The claim as the server has it later."""
    return make_claim("c", **{"version": "3", "selected_node": "n", "is_annotated": True, **fields})


BOUND_VOLUME = make_volume("pv", claim=CLAIM, version="2", hosts=("n",))


@pytest.mark.parametrize(
    ("objects", "volumes", "done"),
    [
        pytest.param((make_volume("pv"), CLAIM), static(), False, id="volume not told yet"),
        pytest.param((BOUND_VOLUME, CLAIM), static(), False, id="claim not bound yet"),
        pytest.param((BOUND_VOLUME, bound_claim("c", "pv")), static(), True, id="bound"),
        pytest.param((CLAIM,), dynamic(), False, id="claim not told yet"),
        pytest.param((written(),), dynamic(), False, id="nothing made yet"),
        pytest.param((written(volume_name="pv"),), dynamic(), False, id="volume not told"),
        pytest.param(
            (written(volume_name="pv"), BOUND_VOLUME), dynamic(), False, id="not completed"
        ),
        pytest.param(
            (written(volume_name="pv", is_bind_completed=True), BOUND_VOLUME),
            dynamic(),
            True,
            id="made and bound",
        ),
        pytest.param((), PodVolumes(), True, id="nothing to wait for"),
    ],
)
def test_when_volumes_are_bound(
    objects: tuple[object, ...], volumes: PodVolumes, done: bool
) -> None:
    """Both sides must have come back through the watch, and the controller must be done."""
    assert are_bound(make_catalog(*objects), volumes, "n", LABELS) is done


@pytest.mark.parametrize(
    ("objects", "volumes", "message"),
    [
        pytest.param(
            (CLAIM,), static(), 'failed to check binding: persistentvolume "pv" not found',
            id="volume gone",
        ),
        pytest.param(
            (BOUND_VOLUME,),
            static(),
            'failed to check binding: persistentvolumeclaim "c" not found',
            id="claim gone",
        ),
        pytest.param(
            (make_volume("pv", version="3"), CLAIM),
            static(),
            'ClaimRef got reset for pv "pv"',
            id="reservation gone",
        ),
        pytest.param(
            (make_volume("pv", version="3", claim=make_claim("other")), CLAIM),
            static(),
            'ClaimRef got reset for pv "pv"',
            id="another claim's",
        ),
        pytest.param(
            (BOUND_VOLUME, bound_claim("c", "pv", uid="another")),
            static(),
            'failed to check binding: persistentvolumeclaim "c" not found',
            id="claim made again",
        ),
        pytest.param(
            (BOUND_VOLUME, bound_claim("c", "another")),
            static(),
            'pvc "c" got pv "another"',
            id="another volume",
        ),
        pytest.param(
            (make_volume("pv", version="3", hosts=("m",), claim=CLAIM), CLAIM),
            static(),
            'pv "pv" node affinity doesn\'t match node "n": no matching NodeSelectorTerms',
            id="volume elsewhere",
        ),
        pytest.param(
            (),
            dynamic(),
            'failed to check provisioning pvc: persistentvolumeclaim "c" not found',
            id="claim to provision gone",
        ),
        pytest.param(
            (written(uid="another"),),
            dynamic(),
            'failed to check provisioning pvc: persistentvolumeclaim "c" not found',
            id="claim to provision made again",
        ),
        pytest.param(
            (make_claim("c", version="3"),),
            dynamic(),
            'selectedNode annotation reset for PVC "c"',
            id="no annotation left",
        ),
        pytest.param(
            (written(selected_node=None),),
            dynamic(),
            'provisioning failed for PVC "c"',
            id="provisioner gives up",
        ),
        pytest.param(
            (written(volume_name="pv"), make_volume("pv", hosts=("m",))),
            dynamic(),
            'pv "pv" node affinity doesn\'t match node "n": no matching NodeSelectorTerms',
            id="made elsewhere",
        ),
    ],
)  # fmt: skip
def test_when_volumes_will_not_be_bound(
    objects: tuple[object, ...], volumes: PodVolumes, message: str
) -> None:
    """The pod is tried again at once instead of after the time-out."""
    with pytest.raises(BindingError) as caught:
        are_bound(make_catalog(*objects), volumes, "n", LABELS)

    assert str(caught.value) == message


def test_a_migrated_volume_is_looked_for_where_its_driver_has_it() -> None:
    """The node mounts it through CSI, so the driver's zone label counts."""
    source = MigratableSources(aws_elastic_block_store=AWSElasticBlockStoreVolumeSource("vol-1"))
    volume = make_volume("pv", claim=CLAIM, version="2", in_tree=source)
    volume = msgspec.structs.replace(
        volume, affinity=affinity_in("topology.kubernetes.io/zone", "z1")
    )
    catalog = make_catalog(
        volume, bound_claim("c", "pv"), make_csi_node("n", migrated="kubernetes.io/aws-ebs")
    )
    labels = {"topology.ebs.csi.aws.com/zone": "z1"}

    assert are_bound(catalog, binding(volume), "n", labels)
    with pytest.raises(BindingError):
        are_bound(catalog, binding(volume), "other", labels)


def test_only_events_about_the_claim_are_told() -> None:
    """A pod that waits is not woken by everybody's volumes."""
    catalog = VolumeCatalog()
    told: list[str] = []
    end = catalog.listen(["default/c"], lambda: told.append("c"))

    tell(catalog, None, make_claim("other"))
    tell(catalog, None, make_volume("other"))
    assert told == []
    tell(catalog, None, CLAIM)
    tell(catalog, None, make_volume("pv", claim=CLAIM))
    tell(catalog, make_volume("pv", claim=CLAIM), make_volume("pv", version="2"))
    assert told == ["c", "c", "c"]
    end()
    tell(catalog, CLAIM, None)
    assert told == ["c", "c", "c"]
