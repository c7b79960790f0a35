"""What pods share, and what each keeps for itself."""

from random import Random
from typing import Any
from weakref import ref

import msgspec
from msgspec.structs import replace

from scheduler.api import pods as api_pods
from scheduler.api.objects import OwnerReference, Pod
from scheduler.api.pod_shape import DEVICES
from scheduler.api.pods import PodInfo, pod_info
from scheduler.api.volume_sources import (
    AWSElasticBlockStoreVolumeSource,
    EphemeralVolumeSource,
    GCEPersistentDiskVolumeSource,
    ImageVolumeSource,
    ISCSIVolumeSource,
    PersistentVolumeClaimVolumeSource,
    RBDVolumeSource,
    Volume,
)
from tests.support.builders import make_pod, make_pod_info


def decoded(name: str, *volumes: dict[str, Any], image: str = "app:1") -> PodInfo:
    """A pod as the API server sends it, with the token volume that admission adds."""
    token = {"name": f"kube-api-access-{name}", "projected": {"sources": []}}
    mount = {"name": token["name"], "mountPath": "/var/run/secrets", "readOnly": True}
    container = {
        "name": "main",
        "image": image,
        "ports": [{"containerPort": 80}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
        "volumeMounts": [mount],
    }
    spec = {"containers": [container], "volumes": [*volumes, token]}
    manifest = {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec}
    return pod_info(msgspec.json.decode(msgspec.json.encode(manifest), type=Pod))


def test_pods_of_one_template_have_one_shape_whatever_admission_adds() -> None:
    """2,000 pods of 40 templates, each with its own token volume and claim, are 40 shapes."""
    pods = [
        decoded(
            f"{template}-{i}",
            {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{template}-{i}"}},
            image=f"app:{template}",
        )
        for i in range(50)
        for template in range(40)
    ]

    assert len({id(pod.shape) for pod in pods}) == 40
    assert len({id(pod.spec) for pod in pods}) == 40


def test_1000_pods_of_a_stateful_set_are_one_shape() -> None:
    """Each has a host name, labels and claims of its own, as its controller makes them."""
    pods = []
    for i in range(1000):
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-db-{i}"}}
        labels = {
            "app": "db",
            "apps.kubernetes.io/pod-index": str(i),
            "statefulset.kubernetes.io/pod-name": f"db-{i}",
        }
        spec = {
            "containers": [{"name": "main", "image": "db:1"}],
            "hostname": f"db-{i}",
            "subdomain": "db",
            "volumes": [claim],
        }
        manifest = {"metadata": {"name": f"db-{i}", "namespace": "ns", "labels": labels}}
        body = msgspec.json.encode({**manifest, "spec": spec})
        pods.append(pod_info(msgspec.json.decode(body, type=Pod)))

    assert len({id(pod.shape) for pod in pods}) == 1
    assert (
        len({volume.persistent_volume_claim for pod in pods for volume in pod.pod.volumes}) == 1000
    )


def test_a_pod_keeps_the_volumes_that_scheduling_reads() -> None:
    """Claims and inline disks stay with the pod, also when it is placed; others are dropped."""
    pod = decoded(
        "p",
        {"name": "a", "persistentVolumeClaim": {"claimName": "claim", "readOnly": True}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "c", "gcePersistentDisk": {"pdName": "pd", "readOnly": True}},
        {"name": "d", "awsElasticBlockStore": {"volumeID": "vol"}},
        {"name": "e", "iscsi": {"iqn": "iqn.example", "targetPortal": "10.0.0.1", "lun": 0}},
        {"name": "f", "rbd": {"monitors": ["m1", "m2"], "image": "disk"}},
        {"name": "g", "emptyDir": {}},
    )

    expected = (
        Volume(
            "a", persistent_volume_claim=PersistentVolumeClaimVolumeSource("claim", read_only=True)
        ),
        Volume("b", ephemeral=EphemeralVolumeSource()),
        Volume("c", gce_persistent_disk=GCEPersistentDiskVolumeSource("pd", read_only=True)),
        Volume("d", aws_elastic_block_store=AWSElasticBlockStoreVolumeSource("vol")),
        Volume("e", iscsi=ISCSIVolumeSource("iqn.example")),
        Volume("f", rbd=RBDVolumeSource(("m1", "m2"), image="disk")),
    )
    assert pod.pod.volumes == expected
    assert pod.on_node("n").pod.volumes == expected
    assert pod.spec.volumes == ()


def test_an_image_volume_is_part_of_the_shape() -> None:
    """ImageLocality reads it; what the volume is called, nobody."""
    first = decoded("p", {"name": "a", "image": {"reference": "data:1"}})
    same = decoded("q", {"name": "b", "image": {"reference": "data:1"}})
    other = decoded("r", {"name": "a", "image": {"reference": "data:2"}})

    assert first.spec.volumes == (Volume(image=ImageVolumeSource("data:1")),)
    assert first.shape is same.shape
    assert first.shape is not other.shape


def test_a_running_pod_keeps_nothing_of_what_its_kubelet_says_is_well() -> None:
    """Five conditions each, of 150,000 pods, would be most of the memory."""
    well = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "PodScheduled")
    ]
    ends = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}

    def kept(*conditions: dict[str, str]) -> list[tuple[str, str]]:
        manifest = {
            "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
            "spec": {"containers": [{"name": "main"}]},
            "status": {"phase": "Running", "conditions": conditions},
        }
        pod = pod_info(msgspec.json.decode(msgspec.json.encode(manifest), type=Pod))
        return [(each.type, each.reason) for each in pod.pod.status.conditions]

    assert kept(*well) == []
    assert kept(*well, ends) == [("DisruptionTarget", "PreemptionByScheduler")]
    assert kept(waits) == [("PodScheduled", "Unschedulable")]


def test_pods_resized_alike_share_a_shape_whenever_they_began() -> None:
    """Each pod begins in a second of its own: a shape for each would be worked out and kept."""

    def resized(name: str, began: str, cpu: str) -> PodInfo:
        allocated = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        manifest = {
            "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running", "startTime": began, "containerStatuses": [allocated]},
        }
        return pod_info(msgspec.json.decode(msgspec.json.encode(manifest), type=Pod))

    one = resized("p", "2026-01-01T00:00:00Z", "2")
    other = resized("q", "2026-01-01T00:00:01Z", "2")
    more = resized("r", "2026-01-01T00:00:00Z", "3")

    assert one.shape.occupied == {"cpu": 2000}
    assert one.shape is other.shape
    assert more.shape.occupied == {"cpu": 3000}


def test_pods_of_one_owner_share_what_names_it() -> None:
    """Four texts for each of very many pods; one of another owner keeps its own."""

    def owned(name: str, owner: str) -> PodInfo:
        reference = {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        manifest = {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": name,
                "labels": {"app": "web"},
                "ownerReferences": [reference] if owner else [],
            },
            "spec": {"containers": [{"name": "main"}]},
        }
        return pod_info(msgspec.json.decode(msgspec.json.encode(manifest), type=Pod))

    pods = [owned(*each) for each in (("p", "web"), ("q", "web"), ("r", "other"), ("s", ""))]

    references = [pod.pod.metadata.owner_references for pod in pods]
    assert references[0] is references[1]
    assert [[owner.name for owner in each] for each in references] == [
        ["web"],
        ["web"],
        ["other"],
        [],
    ]


def spoken_of(app: str, cpu: str = "1") -> PodInfo:
    """A pod that keeps away from its own kind, and spreads it; a member of a group."""
    selector = {"matchLabels": {"app": app}}
    anti = {"topologyKey": "zone", "labelSelector": selector}
    spread = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": selector}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}
    spec = {
        "containers": [
            {
                "name": "main",
                "ports": [{"hostPort": 80}],
                "resources": {"requests": {"cpu": cpu}},
            }
        ],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": required},
        "topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "DoNotSchedule"}],
        "schedulingGroup": {"podGroupName": app},
    }
    manifest = {"metadata": {"name": app, "namespace": "ns", "uid": app}, "spec": spec}
    return pod_info(msgspec.json.decode(msgspec.json.encode(manifest), type=Pod))


def test_shapes_share_all_but_what_they_say_about_other_pods() -> None:
    """As many as pods have a selector or a group of their own; each is what it would be alone."""
    first, second = spoken_of("a"), spoken_of("b")
    bigger = spoken_of("a", cpu="2")

    shape, other = first.shape, second.shape
    assert shape is not other
    assert shape.requests is other.requests
    assert shape.spec.containers is other.spec.containers
    assert shape.spec.tolerations is other.spec.tolerations
    assert (other.requests, other.non_zero_occupied[0]) == ({"cpu": 1000}, 1000)
    assert [port.port for port in other.host_ports] == [80]
    assert (bigger.shape.requests, bigger.shape.occupied) == ({"cpu": 2000}, {"cpu": 2000})
    for pod, app in ((first, "a"), (second, "b"), (bigger, "a")):
        (spread,) = pod.spec.topology_spread_constraints
        assert spread.label_selector is not None
        assert spread.label_selector.match_labels == {"app": app}
        assert pod.group_name == app
        assert pod.shape.affinity is not None
        (term,) = pod.shape.affinity.required_anti
        assert term.selector.matches({"app": app})
    assert first.shape.affinity != second.shape.affinity


def claiming(*claims: str) -> PodInfo:
    """A pod that names resource claims."""
    spec = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
    }
    manifest = {"metadata": {"name": "-".join(claims), "namespace": "ns"}, "spec": spec}
    return pod_info(msgspec.json.decode(msgspec.json.encode(manifest), type=Pod))


def test_shapes_share_all_but_the_claims_they_name() -> None:
    """Pods with claims of their own are of one kind; a pod without claims is of another."""
    first, second, without = claiming("a"), claiming("b"), claiming()

    assert first.shape.requests is second.shape.requests is without.shape.requests
    assert first.spec.containers is second.spec.containers
    assert first.kind is second.kind is not without.kind
    named = [pod.resource_claims for pod in (first, second, without)]
    assert [[claim.resource_claim_name for claim in each] for each in named] == [["a"], ["b"], []]
    assert (first.needs, second.needs, without.needs) == (DEVICES, DEVICES, 0)


# --- kinds ----------------------------------------------------------------------------------------


def of_kind(name: str, draw: Random, about: str) -> PodInfo:
    """A pod that differs from others about the same in few things, and in names."""
    owner = OwnerReference("ReplicaSet", "rs", draw.choice("xy"), "apps/v1", controller=True)
    pod = make_pod(
        name,
        namespace=draw.choice((about, "team")),
        labels={"of": about} | {key: draw.choice("12") for key in draw.sample("abc", 2)},
        requests={"cpu": draw.choice(("1", "2"))},
        node_name=draw.choice(("", "n1", "n2")),
    )
    owners = draw.choice(((), (owner,)))
    return pod_info(replace(pod, metadata=replace(pod.metadata, owner_references=owners)))


def test_pods_are_of_one_kind_if_and_only_if_they_agree_in_all_it_stands_for() -> None:
    """Whatever names and nodes they have, and in whichever order they come."""
    draw = Random(3)
    pods = [of_kind(f"p{number}", draw, "equal") for number in range(400)]

    told = [(p.spec, p.labels, p.namespace, p.pod.metadata.owner_references) for p in pods]

    assert len({pod.kind for pod in pods}) > 20
    for pod, of_pod in zip(pods, told, strict=True):
        assert pod.on_node("other").kind is pod.kind
        for other, of_other in zip(pods, told, strict=True):
            assert (pod.kind is other.kind) == (of_pod == of_other)


def test_pods_that_say_otherwise_when_they_end_are_of_other_kinds() -> None:
    """Others than equal ones may have room that is kept for a while."""
    durations = ("", "", "5m", "5m", "6m")
    plain, same, five, equal, six = (
        make_pod_info(expected_duration=each).kind for each in durations
    )

    assert plain is same
    assert five is equal
    assert len({plain, five, six}) == 3


def test_running_pods_of_one_kind_share_their_status() -> None:
    """A cluster has very many of them, and each has started at a time of its own."""
    texts = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", None)

    first, second, waiting = (
        make_pod_info(str(number), node_name="n", start_time=text)
        for number, text in enumerate(texts)
    )

    assert first.pod.status is second.pod.status is waiting.pod.status
    for pod, text in zip((first, second, waiting), texts, strict=True):
        assert pod.on_node("other").pod.start_time == pod.pod.start_time == text
        assert pod.with_spec(pod.spec).pod.start_time == text


def test_a_kind_goes_with_its_last_pod() -> None:
    """Nothing of it is left, so the next one that lies in the same place is not taken for it."""
    draw = Random(3)
    pods = [of_kind(f"p{number}", draw, "gone") for number in range(50)]
    kinds = {ref(pod.kind) for pod in pods}
    left = len(api_pods._kinds) - len(kinds)

    first = pods.pop(0)
    pods.clear()

    assert {kind() for kind in kinds} == {first.kind, None}
    assert len(api_pods._kinds) == left + 1
    assert of_kind("p", Random(3), "gone").kind is first.kind
