"""deploy/operator says what the code says: fields, defaults, rights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.config.types import ExtensionPoint, KubeSchedulerProfile, PluginConfig, Plugins
from scheduler.operator import resources
from scheduler.operator.desired import desired, unwanted
from tests.unit.operator.objects import make_scheduler, planned

DEPLOY = Path(__file__).parents[3] / "deploy"
OPERATOR = DEPLOY / "operator"
Rule = tuple[str, str, str, str]
"""Verb, group, resource, name; for URLs the URL is the resource."""


def schema(name: str) -> dict[str, Any]:
    """The schema of a kind's spec."""
    crd = yaml.safe_load((OPERATOR / f"{name}.yaml").read_text())
    [version] = crd["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def rules(*files: Path, role: str = "") -> Iterator[Rule]:
    """What roles allow."""
    for file in files:
        for document in yaml.safe_load_all(file.read_text()):
            if role and document["metadata"]["name"] != role:
                continue
            for rule in document.get("rules", ()):
                for verb in rule["verbs"]:
                    for url in rule.get("nonResourceURLs", ()):
                        yield (verb, "", url, "")
                    for group in rule.get("apiGroups", ()):
                        for resource in rule["resources"]:
                            for name in rule.get("resourceNames", ("",)):
                                yield (verb, group, resource, name)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param((), resources.SchedulerSpec, id="spec"),
        pytest.param(("serving",), resources.Serving, id="serving"),
        pytest.param(("monitoring",), resources.Monitoring, id="monitoring"),
        pytest.param(("networkPolicy",), resources.NetworkPolicy, id="networkPolicy"),
        pytest.param(("recordings",), resources.Recordings, id="recordings"),
    ],
)
def test_fields_and_defaults_are_those_of_the_types(
    path: tuple[str, ...], kind: type[msgspec.Struct]
) -> None:
    """A field that only one of them has would be dropped, or never set."""
    found = schema("schedulers")
    for name in path:
        found = found["properties"][name]

    assert set(found["properties"]) == set(kind.__struct_encode_fields__)
    defaults = {k: v["default"] for k, v in found["properties"].items() if "default" in v}
    plain = msgspec.to_builtins(kind())
    nested = {"serving", "networkPolicy", "recordings", "monitoring"}
    assert {k: v for k, v in defaults.items() if k not in nested} == {
        k: list(v) if isinstance(v, tuple) else v
        for k, v in plain.items()
        if v is not None and k not in nested
    }
    assert msgspec.to_builtins(msgspec.convert(defaults, kind)) == plain


def test_fields_of_packages() -> None:
    """As the types have them."""
    items = schema("schedulers")["properties"]["plugins"]["items"]

    assert set(items["properties"]) == set(resources.PluginPackage.__struct_encode_fields__)
    wheel = items["properties"]["wheel"]
    assert set(wheel["properties"]) == set(resources.WheelKey.__struct_encode_fields__)
    assert set(wheel["required"]) == set(wheel["properties"])


def test_a_scheduling_profile_is_a_profile() -> None:
    """Of a KubeSchedulerConfiguration, field by field."""
    found = schema("schedulingprofiles")["properties"]

    assert set(found) == set(KubeSchedulerProfile.__struct_encode_fields__)
    config = found["pluginConfig"]["items"]["properties"]
    assert set(config) == set(PluginConfig.__struct_encode_fields__)
    [rule] = found["plugins"]["x-kubernetes-validations"]
    points = {each.value for each in ExtensionPoint} | {"multiPoint"}
    assert points == set(Plugins.__struct_encode_fields__)
    assert all(f"'{point}'" in rule["rule"] for point in points)
    assert found["plugins"]["maxProperties"] == len(points)


def test_everything_says_what_it_is() -> None:
    """`kubectl explain` shows it."""
    for name in ("schedulers", "schedulingprofiles"):
        found = schema(name)
        assert found["description"]
        silent = [k for k, v in found["properties"].items() if not v.get("description")]
        assert silent == []


def test_what_is_granted_is_what_a_daemon_has() -> None:
    """No more, so that nothing is given away; no less, since it could not be handed on."""
    granted = {rule[:3] for rule in rules(OPERATOR / "granted.yaml")}

    assert granted == {rule[:3] for rule in rules(DEPLOY / "base" / "rbac.yaml")}


def test_the_operator_may_make_what_it_makes_and_nothing_else() -> None:
    """Every kind of an instance can be created and patched; what it deletes is deleted."""
    monitored = make_scheduler(
        serving={"secretName": "tls"}, monitoring={"serviceMonitor": True, "rules": True}
    )
    [configuration] = planned(monitored).configurations.values()
    objects = desired(monitored, configuration, "stowage:1")
    kinds = {
        (
            each["apiVersion"].rpartition("/")[0],
            each["kind"].lower().replace("policy", "policie") + "s",
        )
        for each in objects
    }
    own = set(rules(OPERATOR / "rbac.yaml", role="stowage-operator"))

    made = {(group, resource) for verb, group, resource, _ in own if verb == "create"}
    assert made == kinds
    assert {(verb, *each, "") for each in kinds for verb in ("get", "patch")} <= own
    deleted = {(group, resource) for verb, group, resource, _ in own if verb == "delete"}
    cluster_wide = {
        (each["apiVersion"].rpartition("/")[0], each["kind"].lower() + "s")
        for each in objects
        if "namespace" not in each["metadata"]
    }
    optional = {
        (each.api_version.rpartition("/")[0], each.kind.lower() + "s")
        for each in unwanted(make_scheduler())
    }
    assert deleted == cluster_wide | optional
    assert not {rule for rule in own if rule[0] in ("escalate", "bind", "impersonate", "*")}


def test_operators_are_spread_and_selected_by_their_own_labels() -> None:
    """Without a selector, a constraint counts no pod, and a budget or a policy is about none."""
    [deployment] = yaml.safe_load_all((OPERATOR / "deployment.yaml").read_text())
    kustomization = yaml.safe_load((OPERATOR / "kustomization.yaml").read_text())
    labels = kustomization["labels"][0]["pairs"]

    constraints = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    selectors = [each["labelSelector"] for each in constraints]
    for name, selector in (("poddisruptionbudget", "selector"), ("networkpolicy", "podSelector")):
        file = f"{name}.yaml"
        selectors.append(yaml.safe_load((OPERATOR / file).read_text())["spec"][selector])
        assert file in kustomization["resources"]

    assert {each["topologyKey"] for each in constraints} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    for each in selectors:
        assert each["matchLabels"].items() <= labels.items()
        assert each["matchLabels"]


def test_nothing_but_probes_reaches_an_operator() -> None:
    """Its port has no limits as the daemon's has, and no policy stops the probes of the node."""
    spec = yaml.safe_load((OPERATOR / "networkpolicy.yaml").read_text())["spec"]

    assert spec["policyTypes"] == ["Ingress"]
    assert "ingress" not in spec
