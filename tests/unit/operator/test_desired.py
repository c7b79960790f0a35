"""The objects of an instance: those of deploy/base, named and changed as the spec says."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.operator.desired import (
    RESTART,
    desired,
    image_of,
    reference,
    unwanted,
    without_owner,
)
from scheduler.operator.packages import Wheel, WheelPlace
from scheduler.operator.resources import Json, Scheduler
from tests.unit.operator.objects import make_scheduler, planned

DEPLOY = Path(__file__).parents[3] / "deploy"
IMAGE = "registry.example:5000/stowage:1.2.3"


def made(scheduler: Scheduler) -> dict[tuple[str, str], Json]:
    """All objects by kind and name."""
    configuration = planned(scheduler).configurations[scheduler.key]
    objects = desired(scheduler, configuration, IMAGE)
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def pod_of(**spec: Any) -> Json:
    """The pod template's spec."""
    found: Json = made(make_scheduler(**spec))["Deployment", "stowage"]["spec"]["template"]["spec"]
    return found


def test_everything_an_instance_needs() -> None:
    """Rights before configuration before pods would do as well; the Deployment is last."""
    found = made(make_scheduler("fast", "team"))

    assert sorted(found) == [
        ("ClusterRole", "stowage:team:fast"),
        ("ClusterRole", "stowage:team:fast:debug-reader"),
        ("ClusterRole", "stowage:team:fast:explain-reader"),
        ("ClusterRole", "stowage:team:fast:metrics-reader"),
        ("ClusterRoleBinding", "stowage:team:fast"),
        ("ConfigMap", "fast-config"),
        ("Deployment", "fast"),
        ("NetworkPolicy", "fast"),
        ("PodDisruptionBudget", "fast"),
        ("Role", "fast-leader-election"),
        ("RoleBinding", "fast-leader-election"),
        ("Service", "fast-metrics"),
        ("ServiceAccount", "fast"),
    ]
    assert list(found)[-1] == ("Deployment", "fast")
    for (kind, _), each in found.items():
        assert each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "stowage-operator"
        if not kind.startswith("Cluster"):
            assert each["metadata"]["namespace"] == "team"
            [owner] = each["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["uid"]) == ("Scheduler", "uid-of-fast")


def test_two_instances_share_nothing() -> None:
    """Neither in one namespace, nor of one name, nor where names run into each other."""
    places = [("a", "x"), ("b", "x"), ("a", "y"), ("a-b", "c"), ("b-c", "a")]
    instances = [made(make_scheduler(name, namespace)) for name, namespace in places]

    everything = [(*reference(each),) for instance in instances for each in instance.values()]
    assert len(set(everything)) == len(everything)
    for (name, namespace), instance in zip(places, instances, strict=True):
        selected = instance["Deployment", name]["spec"]["selector"]["matchLabels"]
        assert selected["app.kubernetes.io/name"] == name
        binding = instance["ClusterRoleBinding", f"stowage:{namespace}:{name}"]
        assert binding["roleRef"]["name"] == f"stowage:{namespace}:{name}"
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        ]
        role = instance["Role", f"{name}-leader-election"]
        assert role["rules"][1]["resourceNames"] == [name]


def test_every_selector_selects_the_pods() -> None:
    """Those of the Service, the budget, the policy, and the replicas' own spread."""
    found = made(make_scheduler("fast"))
    template = found["Deployment", "fast"]["spec"]["template"]

    selectors = [
        found["Deployment", "fast"]["spec"]["selector"]["matchLabels"],
        found["Service", "fast-metrics"]["spec"]["selector"],
        found["PodDisruptionBudget", "fast"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy", "fast"]["spec"]["podSelector"]["matchLabels"],
        *(
            each["labelSelector"]["matchLabels"]
            for each in template["spec"]["topologySpreadConstraints"]
        ),
    ]

    assert selectors == [template["metadata"]["labels"]] * 6


def test_what_the_spec_says_of_pods() -> None:
    """And what it does not say is as in deploy/base."""
    plain = pod_of()
    tolerations = [{"key": "x", "operator": "Exists"}]
    pod = pod_of(
        image="mine:1",
        imagePullSecrets=[{"name": "pull"}],
        nodeSelector={"disk": "ssd"},
        tolerations=tolerations,
        priorityClassName="important",
        resources={"limits": {"memory": "4Gi"}},
        featureGates={"StorageCapacityScoring": True, "NodeSwap": False},
        extraArgs=["--allow-unsupported"],
    )

    [container] = pod["containers"]
    assert container["image"] == "mine:1"
    assert container["resources"] == {"limits": {"memory": "4Gi"}}
    assert container["args"][-2:] == [
        "--feature-gates=NodeSwap=false,StorageCapacityScoring=true",
        "--allow-unsupported",
    ]
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == tolerations
    assert pod["priorityClassName"] == "important"
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert plain["priorityClassName"] == "system-cluster-critical"
    assert plain["tolerations"][0]["key"] == "node-role.kubernetes.io/control-plane"
    assert "nodeSelector" not in plain


def test_tolerations_can_be_taken_away() -> None:
    """An empty list is not a missing one."""
    assert pod_of(tolerations=[])["tolerations"] == []


@pytest.mark.parametrize(
    ("spec", "default", "image"),
    [
        pytest.param({}, "a/b:1", "a/b:1", id="the default"),
        pytest.param({"image": "c:2"}, "a/b:1", "c:2", id="another image"),
        pytest.param({"version": "2"}, "a/b:1", "a/b:2", id="another version"),
        pytest.param({"version": "2"}, "h:5000/b", "h:5000/b:2", id="a port is no version"),
        pytest.param({"version": "2"}, "a/b:1@sha256:0", "a/b:2", id="a digest goes"),
    ],
)
def test_which_image(spec: dict[str, str], default: str, image: str) -> None:
    """A version takes the place of the default's tag."""
    assert image_of(make_scheduler(**spec), default) == image


def test_plugins_are_mounted_and_found() -> None:
    """Images and wheels, in the order of the spec; nothing runs before the daemon."""
    packages = [
        {"name": "racks", "wheel": {"configMap": "wheels", "key": "racks-1.0.whl"}},
        {"name": "gpus", "image": "gpus:1", "provides": ["PackGpus"]},
    ]
    wheels = {WheelPlace("stowage", "wheels", "racks-1.0.whl"): Wheel(("CoolRacks",), "digest")}
    scheduler = make_scheduler(plugins=packages)
    configuration = planned(scheduler, wheels=wheels).configurations[scheduler.key]

    template = desired(scheduler, configuration, IMAGE)[-1]["spec"]["template"]

    pod = template["spec"]
    [container] = pod["containers"]
    assert pod["volumes"][1:] == [
        {"name": "plugins-racks", "configMap": {"name": "wheels"}},
        {"name": "plugins-gpus", "image": {"reference": "gpus:1"}},
    ]
    assert container["volumeMounts"][1:] == [
        {
            "name": "plugins-racks",
            "readOnly": True,
            "mountPath": "/plugins/racks.whl",
            "subPath": "racks-1.0.whl",
        },
        {"name": "plugins-gpus", "readOnly": True, "mountPath": "/plugins/gpus"},
    ]
    assert container["env"] == [
        {"name": "PYTHONPATH", "value": "/plugins/racks.whl:/plugins/gpus/plugins"}
    ]
    assert "initContainers" not in pod
    assert template["metadata"]["annotations"] == {RESTART: configuration.restart}


def test_a_certificate_is_mounted_and_told() -> None:
    """Flags and mounts go together."""
    pod = pod_of(serving={"secretName": "tls", "tokenAudiences": ["a", "b"]})

    [container] = pod["containers"]
    assert container["args"][-3:] == [
        "--tls-cert-file=/etc/stowage-serving/tls.crt",
        "--tls-private-key-file=/etc/stowage-serving/tls.key",
        "--authentication-token-audiences=a,b",
    ]
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]


def test_recordings_are_written_into_a_volume() -> None:
    """The directory that is named is the one that is mounted; nothing of it by default."""
    claim = {"persistentVolumeClaim": {"claimName": "recordings"}}

    pod = pod_of(recordings={"volume": claim}, extraArgs=["--decisions=-"])

    [container] = pod["containers"]
    assert container["args"][-2:] == ["--record=/var/lib/stowage", "--decisions=-"]
    assert pod["volumes"][-1] == {"name": "recordings", **claim}
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "recordings"]
    assert mount["mountPath"] == "/var/lib/stowage"
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]
    assert "record" not in str(pod_of())


def test_what_is_reached_can_be_said() -> None:
    """Ports of API servers, extenders and collectors; by default what deploy/base lets out."""
    default, named = (
        made(make_scheduler("fast", "team", networkPolicy=policy))["NetworkPolicy", "fast"]
        for policy in ({}, {"ports": [16443, 4317]})
    )
    base = yaml.safe_load((DEPLOY / "base" / "networkpolicy.yaml").read_text())

    assert default["spec"]["egress"] == base["spec"]["egress"]
    dns, reached = named["spec"]["egress"]
    assert dns == base["spec"]["egress"][0]
    assert [each["port"] for each in reached["ports"]] == [16443, 4317]


def test_monitoring_is_the_instances_own() -> None:
    """Its job, its Service, its Secret; and unwanted where it is not asked for."""
    monitoring = {"serviceMonitor": True, "rules": True, "labels": {"release": "prom"}}
    scheduler = make_scheduler("fast", "team", serving={"secretName": "tls"}, monitoring=monitoring)
    found = made(scheduler)

    monitor, rules = found["ServiceMonitor", "fast"], found["PrometheusRule", "fast"]
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {
        "ca": {"secret": {"name": "tls", "key": "ca.crt"}},
        "serverName": "fast-metrics.team.svc",
    }
    assert monitor["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "fast"
    assert 'job="stowage"' not in str(rules)
    assert str(rules).count('job="fast"') == str(rules).count('job="fast", namespace="team"') > 15
    assert "kubectl -n team get pods,lease" in str(rules)
    assert "-n stowage" not in str(rules)
    assert monitor["metadata"]["labels"]["release"] == "prom"
    assert unwanted(scheduler) == []
    assert {each.kind for each in unwanted(make_scheduler())} == {
        "ServiceMonitor",
        "PrometheusRule",
    }


def test_only_what_a_daemon_does_not_take_over_restarts_it() -> None:
    """The pods differ in an annotation."""

    def annotations(**configuration: Any) -> dict[str, str]:
        found = made(make_scheduler(configuration=configuration))["Deployment", "stowage"]
        metadata = found["spec"]["template"]["metadata"]
        given: dict[str, str] = metadata.get("annotations", {})
        return given

    assert annotations(podMaxBackoffSeconds=20) == annotations() == {}
    assert RESTART in annotations(clientConnection={"qps": 100})


def test_with_a_broken_configuration_pods_stay_as_they_are() -> None:
    """So does the configuration that they have."""
    found = made(make_scheduler(configuration={"podMaxBackoffSeconds": -1}))

    assert {"Deployment", "ConfigMap"}.isdisjoint(kind for kind, _ in found)
    assert ("ClusterRoleBinding", "stowage:stowage:stowage") in found


@pytest.mark.parametrize(
    ("spec", "surge", "unavailable"),
    [
        ({}, "100%", 0),
        ({"replicas": 1, "configuration": {"leaderElection": {"leaderElect": False}}}, 0, 1),
        ({"replicas": 1, "extraArgs": ["--leader-elect=false"]}, 0, 1),
        (
            {
                "configuration": {"leaderElection": {"leaderElect": False}},
                "extraArgs": ["--leader-elect"],
            },
            "100%",
            0,
        ),
    ],
    ids=["elected", "not by the configuration", "not by the flag", "the flag wins"],
)
def test_without_an_election_a_rollout_runs_one_pod(
    spec: dict[str, Any], surge: int | str, unavailable: int
) -> None:
    """Two pods that elect no leader would both schedule."""
    strategy = made(make_scheduler(**spec))["Deployment", "stowage"]["spec"]["strategy"]

    assert strategy == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


def test_what_has_no_owner_is_removed_by_the_finalizer() -> None:
    """All of it."""
    scheduler = make_scheduler("fast", "team")

    found = without_owner(scheduler)

    everything = {reference(each) for each in made(scheduler).values()}
    assert set(found) == {each for each in everything if not each.namespace}


def test_making_objects_changes_no_manifest() -> None:
    """They are read once and copied each time."""
    assert made(make_scheduler()) == made(make_scheduler())
