"""Hand-written objects get what an API server fills in."""

from typing import Any

import pytest

from scheduler.tools.offline.defaults import completed, completed_pod

Object = dict[str, Any]


def pod(**spec: Any) -> Object:
    return {"metadata": {"name": "p", "labels": {"app": "a"}}, "spec": spec}


def container(**resources: Any) -> Object:
    return {"name": "c", "resources": resources}


def test_a_node_without_allocatable_offers_its_capacity() -> None:
    """Also if it has an empty one, which an API server does not store."""
    capacity = {"cpu": "4", "pods": "10"}
    node = {"metadata": {"name": "n"}, "status": {"capacity": capacity}}
    empty = {"metadata": {"name": "n"}, "status": {"capacity": capacity, "allocatable": {}}}

    assert completed(node, "Node")["status"]["allocatable"] == capacity
    assert completed(empty, "Node")["status"]["allocatable"] == capacity


def test_a_namespace_is_labelled_by_its_name() -> None:
    """Selectors of namespaces use the label."""
    namespace = completed({"metadata": {"name": "shop", "labels": {"a": "b"}}}, "Namespace")

    labels = {"a": "b", "kubernetes.io/metadata.name": "shop"}
    assert namespace["metadata"]["labels"] == labels


def test_a_storage_class_binds_at_once_unless_it_says_otherwise() -> None:
    """Without a mode every pod with such a claim would fail."""
    waiting = {"metadata": {"name": "s"}, "volumeBindingMode": "WaitForFirstConsumer"}

    assert completed({"metadata": {}}, "StorageClass")["volumeBindingMode"] == "Immediate"
    assert completed(waiting, "StorageClass") == waiting


def test_a_replication_controller_selects_the_labels_of_its_template() -> None:
    """Unless it has a selector."""
    template = {"metadata": {"labels": {"app": "a"}}}
    bare = {"metadata": {}, "spec": {"template": template}}
    selecting = {"metadata": {}, "spec": {"template": template, "selector": {"app": "b"}}}

    assert completed(bare, "ReplicationController")["spec"]["selector"] == {"app": "a"}
    assert completed(selecting, "ReplicationController") == selecting


@pytest.mark.parametrize(
    ("written", "held"),
    [
        pytest.param({"requests": {"cpu": "1u"}}, {"requests": {"cpu": "1m"}}, id="rounded up"),
        pytest.param(
            {"limits": {"memory": "1500001u"}},
            {"limits": {"memory": "1501m"}, "requests": {"memory": "1501m"}},
            id="requests from rounded limits",
        ),
        pytest.param({"requests": {"cpu": "x"}}, {"requests": {"cpu": "x"}}, id="not readable"),
    ],
)
def test_amounts_are_rounded_up_to_thousandths(written: Object, held: Object) -> None:
    """Each by itself, before they are added up."""
    [done] = completed_pod(pod(containers=[container(**written)]))["spec"]["containers"]

    assert done["resources"] == held


@pytest.mark.parametrize(
    ("of_pod", "of_container", "held"),
    [
        pytest.param(
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            {"requests": {"cpu": "500m"}},
            {
                "limits": {"cpu": "2", "memory": "1Gi"},
                "requests": {"cpu": "500m", "memory": "1Gi"},
            },
            id="requests of containers come before limits",
        ),
        pytest.param(
            {"requests": {"cpu": "2"}},
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {
                "limits": {"hugepages-2Mi": "4194304000m"},
                "requests": {"cpu": "2", "hugepages-2Mi": "4194304000m"},
            },
            id="huge pages of containers are limits of the pod",
        ),
        pytest.param({"requests": {"cpu": "2"}}, {}, {"requests": {"cpu": "2"}}, id="no limits"),
        pytest.param({}, {"limits": {"hugepages-2Mi": "4Mi"}}, {}, id="nothing at pod level"),
    ],
)
def test_resources_of_pods_are_completed(
    of_pod: Object, of_container: Object, held: Object
) -> None:
    """By those of the containers, and requests by limits."""
    done = completed_pod(pod(containers=[container(**of_container)], resources=of_pod))

    assert done["spec"]["resources"] == held


def test_label_keys_of_pod_affinity_become_selectors_of_a_new_pod() -> None:
    """The scheduler reads selectors only; the selectors of a stored pod have them already."""
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"tier": "x"}},
        "mismatchLabelKeys": ["app", "absent"],
    }
    weighted = {"weight": 1, "podAffinityTerm": {**term, "matchLabelKeys": ["app"]}}
    affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term],
            "preferredDuringSchedulingIgnoredDuringExecution": [weighted],
        }
    }
    new, stored = pod(affinity=affinity), pod(affinity=affinity)
    stored["metadata"]["uid"] = "u"

    rules = completed_pod(new)["spec"]["affinity"]["podAntiAffinity"]
    [required] = rules["requiredDuringSchedulingIgnoredDuringExecution"]
    [preferred] = rules["preferredDuringSchedulingIgnoredDuringExecution"]

    other = {"key": "app", "operator": "NotIn", "values": ["a"]}
    same = {"key": "app", "operator": "In", "values": ["a"]}
    selector = {"matchLabels": {"tier": "x"}, "matchExpressions": [other]}
    assert required["labelSelector"] == selector
    assert preferred["podAffinityTerm"]["labelSelector"]["matchExpressions"] == [same, other]
    assert completed_pod(stored)["spec"]["affinity"] == affinity


@pytest.mark.parametrize("keys", [5, [["app"]], "app", {"app": 1}])
def test_label_keys_of_another_type_are_left_to_the_decoder(keys: object) -> None:
    """It names the path."""
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": keys}
    wrong = {**term, "labelSelector": {"matchExpressions": 3}, "matchLabelKeys": ["app"]}
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"podAffinity": {field: [term, wrong]}}

    assert completed_pod(pod(affinity=affinity))["spec"]["affinity"] == affinity


def test_ports_on_the_host_network_are_ports_of_the_host() -> None:
    """Also where a 0 is written."""
    ports = [{"containerPort": 80, "hostPort": 0}, {"containerPort": 443}]

    done = completed_pod(pod(hostNetwork=True, containers=[{"name": "c", "ports": ports}]))

    [held] = done["spec"]["containers"]
    assert [port["hostPort"] for port in held["ports"]] == [80, 443]
