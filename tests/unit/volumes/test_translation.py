"""In-tree volumes as their CSI drivers know them."""

from typing import Any

import msgspec
import pytest

from scheduler.api.objects import NodeSelector
from scheduler.api.storage import PersistentVolume
from scheduler.api.storage_wire import VolumeWire, volume_from_wire
from scheduler.api.volume_sources import Volume
from scheduler.kernel.volumes.translation import (
    TranslationError,
    csi_affinity,
    csi_source,
    inline_volume,
    plugin_of,
)

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
GCE = {"gcePersistentDisk": {"pdName": "pd"}}


def volume(
    source: dict[str, Any], labels: dict[str, str] | None = None, terms: Any = None
) -> PersistentVolume:
    """A volume as the API server sends it."""
    spec = dict(source)
    if terms is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    wire = {"metadata": {"name": "pv", "labels": labels or {}}, "spec": spec}
    return volume_from_wire(msgspec.convert(wire, VolumeWire))


def term(*expressions: tuple[str, str, list[str]]) -> dict[str, Any]:
    """One term of a node affinity."""
    keys = ("key", "operator", "values")
    return {"matchExpressions": [dict(zip(keys, e, strict=True)) for e in expressions]}


@pytest.mark.parametrize(
    ("source", "labels", "handle"),
    [
        pytest.param(EBS, {}, "ebs.csi.aws.com vol-1", id="EBS"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-2"}},
            {},
            "ebs.csi.aws.com vol-2",
            id="EBS, as a URL",
        ),
        pytest.param(
            GCE, {}, "pd.csi.storage.gke.io projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd",
            id="GCE without a zone",
        ),
        pytest.param(
            GCE, {ZONE: "z"}, "pd.csi.storage.gke.io projects/UNSPECIFIED/zones/z/disks/pd",
            id="GCE in a zone",
        ),
        pytest.param(
            GCE,
            {BETA_ZONE: "us-east1-a__us-east1-b", ZONE: "z"},
            "pd.csi.storage.gke.io projects/UNSPECIFIED/regions/us-east1/disks/pd",
            id="GCE in a region",
        ),
        pytest.param(
            {"cinder": {"volumeID": "c"}}, {}, "cinder.csi.openstack.org c", id="Cinder"
        ),
        pytest.param(
            {"azureDisk": {"diskURI": "/d", "kind": "Managed"}}, {}, "disk.csi.azure.com /d",
            id="Azure disk",
        ),
        pytest.param(
            {"portworxVolume": {"volumeID": "p"}}, {}, "pxd.portworx.com p", id="Portworx"
        ),
        pytest.param({"azureFile": {}}, {}, None, id="Azure file, not migrated"),
        pytest.param({"vsphereVolume": {}}, {}, None, id="vSphere, not migrated"),
        pytest.param({"hostPath": {}}, {}, None, id="no driver's"),
    ],
)  # fmt: skip
def test_driver_and_handle(
    source: dict[str, Any], labels: dict[str, str], handle: str | None
) -> None:
    """What volumes are counted by."""
    found = csi_source(volume(source, labels))

    assert (found and f"{found.driver} {found.volume_handle}") == handle


@pytest.mark.parametrize(
    ("source", "labels"),
    [
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://z/disk"}}, {}, id="EBS"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://[/vol-1"}}, {}, id="EBS, half an address"
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://a\u2100b/vol-1"}}, {}, id="EBS, no host"
        ),
        pytest.param(GCE, {ZONE: "a__b"}, id="GCE zones of no region"),
        pytest.param(GCE, {ZONE: "us-a-1__eu-b-1"}, id="GCE zones of two regions"),
        pytest.param({"azureDisk": {"diskURI": "/d", "kind": "Dedicated"}}, {}, id="Azure"),
        pytest.param({"azureDisk": {"diskURI": "/d"}}, {}, id="Azure, of the default kind"),
    ],
)
def test_volumes_without_a_counterpart(source: dict[str, Any], labels: dict[str, str]) -> None:
    """The message says which."""
    with pytest.raises(TranslationError):
        csi_affinity(volume(source, labels))


@pytest.mark.parametrize(
    ("labels", "terms", "expected"),
    [
        pytest.param({}, None, None, id="nothing said"),
        pytest.param(
            {}, [term((ZONE, "In", ["a"]))], [term((EBS_ZONE, "In", ["a"]))], id="zone in affinity"
        ),
        pytest.param(
            {ZONE: "b__a"}, None, [term((EBS_ZONE, "In", ["a", "b"]))], id="zones in labels"
        ),
        pytest.param(
            {ZONE: "b"},
            [term(("disk", "Exists", []))],
            [term(("disk", "Exists", []), (EBS_ZONE, "In", ["b"]))],
            id="zone in labels, something else in affinity",
        ),
        pytest.param(
            {ZONE: "b"}, [term((BETA_ZONE, "In", ["a"]), (BETA_REGION, "In", ["r"]))],
            [term((EBS_ZONE, "In", ["a"]), ("topology.kubernetes.io/region", "In", ["r"]))],
            id="beta labels in affinity",
        ),
        pytest.param({ZONE: "__"}, None, None, id="an empty list"),
    ],
)  # fmt: skip
def test_topology(labels: dict[str, str], terms: Any, expected: Any) -> None:
    """The zone is the driver's; what the affinity says goes before labels."""
    found = csi_affinity(volume(EBS, labels, terms))

    wanted = None
    if expected is not None:
        wanted = msgspec.convert({"nodeSelectorTerms": expected}, NodeSelector)
    assert found == wanted


def test_drivers_without_zones_keep_the_affinity() -> None:
    """Portworx and Azure have no zone label of this kind."""
    terms = [term((ZONE, "In", ["a"]))]
    found = volume({"portworxVolume": {"volumeID": "p"}}, {}, terms)

    assert csi_affinity(found) == found.affinity


def test_volumes_inside_pods() -> None:
    """They have no zone; other volumes are nothing to drivers."""
    disk = msgspec.convert({"name": "v", **GCE}, Volume)
    other = msgspec.convert({"name": "v", "emptyDir": {}}, Volume)

    found = inline_volume(disk)
    assert found is not None
    assert found.volume_handle == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd"
    assert inline_volume(other) is None
    assert plugin_of(other) is None
