"""Promise: the chart renders the objects of kustomize; helm installs, upgrades and removes it."""

import asyncio
import json
import re
import shutil
import subprocess
import textwrap
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from e2e.support.cluster import Cluster
from e2e.support.go_programs import CHECKOUT, HELM, BuildError, build
from e2e.test_deployment import kubectl
from scheduler.config.load import load
from scheduler.operator.configuring import plan
from scheduler.operator.desired import desired
from scheduler.operator.packages import Wheel, WheelPlace, Wheels
from scheduler.operator.resources import Json, Scheduler
from tests.support.pages import blocks

PLUGINS_PAGE = CHECKOUT / "docs" / "plugins.md"
CHART = "deploy/helm/stowage"
Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def helm_program() -> Path:
    try:
        return build(HELM)
    except BuildError as problem:
        pytest.skip(f"no helm: {problem}")


def helm(
    program: Path, *arguments: str, kubeconfig: Path | None = None, fails: bool = False
) -> str:
    """Run helm; return stdout, or stderr if it is expected to fail."""
    where = () if kubeconfig is None else (f"--kubeconfig={kubeconfig}",)
    done = subprocess.run(
        [str(program), *arguments, *where],
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def rendered(program: Path, *arguments: str, name: str = "stowage") -> Objects:
    """Render the chart."""
    text = helm(program, "template", name, CHART, f"--namespace={name}", *arguments)
    return by_name(text)


def by_name(text: str) -> Objects:
    documents = filter(None, yaml.safe_load_all(text))
    return {(found["kind"], found["metadata"]["name"]): found for found in documents}


def without_hash(objects: Objects) -> Objects:
    """Remove the content hash from the ConfigMap's name, and parse its text."""
    text = yaml.safe_dump_all(objects.values())
    for kind, name in objects:
        if kind == "ConfigMap":
            text = text.replace(name, "stowage-config")
    found = by_name(text)
    data = found["ConfigMap", "stowage-config"]["data"]
    data["config.yaml"] = yaml.safe_load(data["config.yaml"])
    return found


def test_the_same_objects_as_kustomize(cluster: Cluster, helm_program: Path) -> None:
    """With default values, chart and kustomize render equal objects, except for the namespace."""
    ours = by_name(kubectl(cluster, "kustomize", "deploy/base"))
    del ours["Namespace", "stowage"]

    theirs = rendered(helm_program, "--set=image.tag=dev")

    assert without_hash(theirs) == without_hash(ours)


def test_a_release_of_another_name_shares_nothing(helm_program: Path) -> None:
    """Names, selectors, lease and RBAC objects of the two releases differ."""
    one, other = rendered(helm_program), rendered(helm_program, name="second")

    assert one.keys().isdisjoint(other.keys())
    assert "stowage" not in str(other["ClusterRoleBinding", "second"])
    assert other["Role", "second-leader-election"]["rules"][1]["resourceNames"] == ["second"]
    config = load(other["ConfigMap", "second-config"]["data"]["config.yaml"])
    election = config.leader_election
    assert (election.resource_name, election.resource_namespace) == ("second", "second")


def test_a_lease_of_another_name(helm_program: Path) -> None:
    """The rights to the lease follow the configuration; the account stays in its namespace."""
    values = ("leaderElection.resourceName=mine", "leaderElection.resourceNamespace=kube-system")

    found = rendered(
        helm_program,
        *(f"--set=configuration.{value}" for value in values),
        "--set=featureGates.CoordinatedLeaderElection=true",
    )

    role = found["Role", "stowage-leader-election"]
    assert role["rules"][1]["resourceNames"] == ["mine"]
    for each in ("stowage-leader-election", "stowage-candidates"):
        binding = found["RoleBinding", each]
        assert binding["metadata"]["namespace"] == "kube-system"
        assert found["Role", each]["metadata"]["namespace"] == "kube-system"
        assert binding["subjects"][0]["namespace"] == "stowage"
    assert found["ServiceAccount", "stowage"]["metadata"]["namespace"] == "stowage"


def test_without_an_election_a_rollout_runs_one_pod(helm_program: Path) -> None:
    """Two pods that elect no leader would both schedule."""
    alone = ("--set=replicas=1", "--set=configuration.leaderElection.leaderElect=false")

    found = [
        rendered(helm_program, *values)["Deployment", "stowage"]["spec"]["strategy"]
        for values in ((), alone)
    ]

    assert found == [
        {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "100%"}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
    ]


def test_dashboard_and_alerts_for_each_release(helm_program: Path) -> None:
    """Each shows the metrics of its release; Grafana keeps one dashboard for each uid."""
    on = ("--set=monitoring.dashboard=true", "--set=monitoring.rules=true")
    ours = rendered(helm_program, *on)["ConfigMap", "stowage-dashboard"]["data"]["stowage.json"]
    other = rendered(helm_program, *on, name="second")
    data = other["ConfigMap", "second-dashboard"]["data"]

    runbooks = str(other["PrometheusRule", "second"])
    assert "kubectl -n second get pods,lease" in runbooks
    assert "-n stowage" not in runbooks
    written = json.loads((CHECKOUT / "deploy/monitoring/dashboard.json").read_text())
    second = json.loads(data["second.json"])
    assert json.loads(ours) == of_release(written, "stowage")
    assert (second["uid"], second["title"]) == ("second", "Stowage second")
    assert second["panels"] == of_release(written, "second")["panels"]
    apart = rendered(helm_program, *on, "--namespace=apart")
    third = json.loads(apart["ConfigMap", "stowage-dashboard"]["data"]["stowage.json"])
    assert (third["uid"], third["title"]) == ("apart_stowage", "Stowage apart/stowage")
    assert 'job=\\"stowage\\", namespace=\\"apart\\"' in json.dumps(third)


def test_dashboards_of_long_names_are_apart(helm_program: Path) -> None:
    """Grafana takes uids of at most 40 letters; two dashboards of one uid overwrite each other."""
    on = ("--set=monitoring.dashboard=true", f"--namespace={'n' * 50}")

    def uid(name: str) -> str:
        found = rendered(helm_program, *on, name=name)["ConfigMap", f"{name}-dashboard"]
        return str(json.loads(found["data"][f"{name}.json"])["uid"])

    one, other = uid("one"), uid("other")

    assert one != other
    assert len(one) == len(other) == 40


def test_names_that_yaml_takes_for_something_else(helm_program: Path) -> None:
    """A release may be called `on`, and a namespace, a Secret or a class `123`."""
    values = ("serving.secretName", "priorityClassName")

    found = rendered(
        helm_program,
        *(f"--set-string={value}=123" for value in values),
        *(f"--set=monitoring.{each}=true" for each in ("serviceMonitor", "rules", "dashboard")),
        "--namespace=123",
        name="on",
    )

    for each in found.values():
        assert isinstance(each["metadata"]["name"], str)
        assert each["metadata"].get("namespace", "123") == "123"
        assert each["metadata"]["labels"]["app.kubernetes.io/name"] == "on"
    pod = pod_of(found.values())
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == ("on", "123")
    assert pod["volumes"][1]["secret"]["secretName"] == "123"
    [endpoint] = found["ServiceMonitor", "on"]["spec"]["endpoints"]
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == "123"


@pytest.mark.parametrize("audience", ["system: scrapers", "team #1", 'a"b'])
def test_texts_that_yaml_takes_for_something_else(helm_program: Path, audience: str) -> None:
    """An audience is any text: it is neither cut at a `#` nor made a map at a colon."""
    serving = json.dumps({"tokenAudiences": [audience]})

    found = rendered(helm_program, f"--set-json=serving={serving}")

    [container] = pod_of(found.values())["containers"]
    assert container["args"][-1] == f"--authentication-token-audiences={audience}"


def of_release(written: Json, name: str) -> Json:
    """The file's queries as those of a release in the namespace of its name."""
    own = rf"job=\"{name}\", namespace=\"{name}\""
    found: Json = json.loads(json.dumps(written).replace(r"job=\"stowage\"", own))
    return found


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        pytest.param({"emptyDir": {}}, None, [], id="off"),
        pytest.param(
            {"emptyDir": {}},
            {"emptyDir": None, "persistentVolumeClaim": {"claimName": "mine"}},
            [{"name": "recordings", "persistentVolumeClaim": {"claimName": "mine"}}],
            id="another kind",
        ),
    ],
)
def test_a_file_takes_back_the_volume_of_another(
    helm_program: Path, tmp_path: Path, first: Json, second: Json | None, kept: list[Json]
) -> None:
    """Helm merges values by key, so a file removes a value with a null."""
    for name, volume in (("first", first), ("second", second)):
        (tmp_path / name).write_text(yaml.safe_dump({"recordings": {"volume": volume}}))

    found = rendered(helm_program, *(f"--values={tmp_path / each}" for each in ("first", "second")))

    pod = pod_of(found.values())
    assert [each for each in pod["volumes"] if each["name"] != "config"] == kept
    assert ("--record=/var/lib/stowage" in pod["containers"][0]["args"]) == bool(kept)


@pytest.mark.parametrize(
    "value", ["featureGates", "monitoring.labels", "nodeSelector", "resources", "tolerations"]
)
def test_a_value_is_taken_back(helm_program: Path, value: str) -> None:
    """A null in place of a map or a list is an empty one."""
    with_null = rendered(helm_program, f"--set={value}=null", "--set=monitoring.rules=true")

    assert ("PrometheusRule", "stowage") in with_null


def test_ports_that_are_reached(cluster: Cluster, helm_program: Path, tmp_path: Path) -> None:
    """A value sets the ports, as does an overlay according to the comment in deploy/base."""
    by_helm = rendered(helm_program, "--set=networkPolicy.ports={443,6443,16443}")

    shutil.copytree(CHECKOUT / "deploy" / "base", tmp_path / "base")
    overlay = tmp_path / "mine"
    overlay.mkdir()
    comment = (tmp_path / "base" / "networkpolicy.yaml").read_text().partition("apiVersion")[0]
    lines = re.findall("^# ?(.*)$", comment, re.MULTILINE)
    patches = textwrap.dedent("\n".join(lines[lines.index("  patches:") :]))
    (overlay / "kustomization.yaml").write_text(f"resources: [../base]\n{patches}\n")
    by_kustomize = by_name(kubectl(cluster, "kustomize", str(overlay)))

    found = by_helm["NetworkPolicy", "stowage"]["spec"]["egress"]
    assert found == by_kustomize["NetworkPolicy", "stowage"]["spec"]["egress"]
    assert 16443 in [port["port"] for port in found[1]["ports"]]


@pytest.mark.parametrize(
    ("name", "value", "made"),
    [
        (
            "coordinated-election",
            "featureGates.CoordinatedLeaderElection",
            ("Role", "stowage-candidates"),
        ),
        ("api-priority", "apiPriority.enabled", ("FlowSchema", "stowage-leader-election")),
    ],
)
def test_a_value_makes_the_objects_of_its_component(
    cluster: Cluster,
    helm_program: Path,
    tmp_path: Path,
    name: str,
    value: str,
    made: tuple[str, str],
) -> None:
    """Some features need objects beside the daemon's; both ways to install have the same."""
    shutil.copytree(CHECKOUT / "deploy" / "base", tmp_path / "base")
    component = f"components/{name}"
    shutil.copytree(CHECKOUT / "deploy" / component, tmp_path / component)
    overlay = {"resources": ["../base"], "components": [f"../{component}"]}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    ours = by_name(kubectl(cluster, "kustomize", str(tmp_path / "mine")))
    del ours["Namespace", "stowage"]

    theirs = rendered(helm_program, "--set=image.tag=dev", f"--set={value}=true")
    off = rendered(helm_program, f"--set={value}=false")

    for found in (ours, theirs):
        for each in found.values():
            each["metadata"].pop("labels", None)
    assert without_hash(theirs) == without_hash(ours)
    assert made in theirs
    assert made not in off


def test_everything_that_can_be_switched_on(helm_program: Path) -> None:
    """kube-prometheus-stack finds the monitoring objects; flags and mounts belong together."""
    values = ("serving.secretName=tls", "serving.tokenAudiences={stowage}", "monitoring.rules=true")
    more = ("monitoring.serviceMonitor=true", "monitoring.dashboard=true")
    restart = ("restartOnConfigurationChange=true", "extraArgs={--allow-unsupported}")
    gates = ("featureGates.GenericWorkload=true", "featureGates.GangScheduling=true")

    found = rendered(
        helm_program, *(f"--set={value}" for value in (*values, *more, *restart, *gates))
    )

    for kind in ("ServiceMonitor", "PrometheusRule"):
        labels = found[kind, "stowage"]["metadata"]["labels"]
        assert labels["release"] == "kube-prometheus-stack"
    rules = yaml.safe_load((CHECKOUT / "deploy/monitoring/prometheusrule.yaml").read_text())
    assert found["PrometheusRule", "stowage"]["spec"] == of_release(rules["spec"], "stowage")
    pod = found["Deployment", "stowage"]["spec"]["template"]
    [container] = pod["spec"]["containers"]
    assert container["args"][4:] == [
        "--tls-cert-file=/etc/stowage-serving/tls.crt",
        "--tls-private-key-file=/etc/stowage-serving/tls.key",
        "--authentication-token-audiences=stowage",
        "--feature-gates=GangScheduling=true,GenericWorkload=true",
        "--allow-unsupported",
    ]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["spec"]["volumes"]} == {"config", "serving"}
    assert len(pod["metadata"]["annotations"]["stowage.dev/configuration"]) == 64


def test_a_plugin_is_deployed_in_one_way(
    cluster: Cluster, helm_program: Path, tmp_path: Path
) -> None:
    """The operator, the chart and kustomize mount a wheel from a ConfigMap in the same way."""
    wheel = {"name": "plugin", "wheel": {"configMap": "stowage-plugin", "key": "plugin.whl"}}
    image = {"name": "gpus", "image": "registry.example/gpus:1", "provides": ["PackGpus"]}
    place = WheelPlace("stowage", "stowage-plugin", "plugin.whl")

    def by_operator(*packages: Json) -> Json:
        written = {
            "metadata": {"name": "stowage", "namespace": "stowage"},
            "spec": {"plugins": packages},
        }
        scheduler = msgspec.convert(written, Scheduler)
        wheels: Wheels = {place: Wheel(("CoolRacks",), "digest")}
        configuration = asyncio.run(plan([scheduler], [], {}, wheels)).configurations[scheduler.key]
        return pod_of(desired(scheduler, configuration, "stowage:dev"))

    def by_helm(*packages: Json) -> Json:
        known = [{k: v for k, v in each.items() if k != "provides"} for each in packages]
        values = tmp_path / "values.yaml"
        values.write_text(yaml.safe_dump({"plugins": known, "image": {"tag": "dev"}}))
        return pod_of(rendered(helm_program, f"--values={values}").values())

    shutil.copytree(CHECKOUT / "deploy", tmp_path / "deploy")
    overlay = tmp_path / "deploy" / "mine"
    overlay.mkdir()
    [page] = [text for text in blocks(PLUGINS_PAGE, "yaml") if "components" in text]
    (overlay / "kustomization.yaml").write_text(page)
    (overlay / "my_racks-0.1.0-py3-none-any.whl").write_bytes(b"\xff wheel")
    text = kubectl(cluster, "kustomize", str(overlay))
    [held] = [name for kind, name in by_name(text) if kind == "ConfigMap" and "plugin" in name]
    by_kustomize = pod_of(by_name(text.replace(held, "stowage-plugin")).values())

    assert by_helm(wheel, image) == by_operator(wheel, image)
    assert in_order(by_kustomize) == in_order(by_operator(wheel))
    assert held.startswith("stowage-plugin-")


@pytest.mark.parametrize(
    "volume",
    [
        pytest.param({"emptyDir": {}}, id="emptyDir"),
        pytest.param({"persistentVolumeClaim": {"claimName": "recordings"}}, id="claim"),
    ],
)
def test_recordings_are_written_in_one_way(
    cluster: Cluster, helm_program: Path, tmp_path: Path, volume: Json
) -> None:
    """The operator, the chart and kustomize mount the volume for recordings in the same way."""
    written = {
        "metadata": {"name": "stowage", "namespace": "stowage"},
        "spec": {"recordings": {"volume": volume}},
    }
    scheduler = msgspec.convert(written, Scheduler)
    configuration = asyncio.run(plan([scheduler], [], {}, {})).configurations[scheduler.key]
    by_operator = pod_of(desired(scheduler, configuration, "stowage:dev"))
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"recordings": {"volume": volume}, "image": {"tag": "dev"}}))
    by_helm = pod_of(rendered(helm_program, f"--values={values}").values())

    shutil.copytree(CHECKOUT / "deploy", tmp_path / "deploy")
    overlay = tmp_path / "deploy" / "mine"
    overlay.mkdir()
    component = tmp_path / "deploy" / "components" / "recordings" / "kustomization.yaml"
    comment = re.findall("^# ?(.*)$", component.read_text(), re.MULTILINE)
    patches = textwrap.dedent("\n".join(comment[comment.index("  patches:") :]))
    kustomization: Json = {
        "resources": ["../base"],
        "components": ["../components/recordings"],
        **(yaml.safe_load(patches) if "emptyDir" not in volume else {}),
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    by_kustomize = pod_of(by_name(kubectl(cluster, "kustomize", str(overlay))).values())

    assert by_helm == by_operator
    assert in_order(by_kustomize) == in_order(by_operator)
    assert by_operator["volumes"][-1] == {"name": "recordings", **volume}


def pod_of(objects: Iterable[Json]) -> Json:
    """Return the pod spec of the only Deployment."""
    [deployment] = [each for each in objects if each["kind"] == "Deployment"]
    found: Json = deployment["spec"]["template"]["spec"]
    return found


def in_order(pod: Json) -> Json:
    """Sort the mounts, and drop the configuration volume, whose name has a content hash."""
    [container] = pod["containers"]
    mounts = sorted(container["volumeMounts"], key=itemgetter("name"))
    volumes = [each for each in pod["volumes"] if each["name"] != "config"]
    return {**pod, "volumes": volumes, "containers": [{**container, "volumeMounts": mounts}]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("plugins[0].name=x", "plugins/0", id="a plugin from nowhere"),
        pytest.param("replicas=0", "replicas", id="no replica"),
        pytest.param("networkPolicy.ports={0}", "ports", id="no port"),
        pytest.param("image.digest=latest", "digest", id="no digest"),
        pytest.param("featureGates.GenericWorkload=yes", "GenericWorkload", id="no boolean"),
        pytest.param("replica=1", "replica", id="misspelt"),
        pytest.param("monitoring.serviceMonitor=true", "needs serving.secretName", id="no secret"),
        pytest.param("serving=null", "missing property 'serving'", id="no section"),
        pytest.param("networkPolicy.ports=null", "missing property 'ports'", id="every port"),
        pytest.param("log.level=null", "missing property 'level'", id="no level"),
        pytest.param("configuration.leaderElection=false", "leaderElection", id="no election"),
        pytest.param(
            "configuration.leaderElection.leaderElect=false", "needs replicas: 1", id="two leaders"
        ),
        pytest.param("extraArgs={--secure-port=1}", "--secure-port is refused", id="another port"),
        pytest.param("extraArgs={-config=x}", "extraArgs/0", id="a flag with one dash"),
        pytest.param(
            "serving.tokenAudiences={a\\,b}", "tokenAudiences/0", id="two audiences in one"
        ),
        pytest.param("image.repository=a b", "image/repository", id="no image"),
        pytest.param("extraArgs={-v=9}", "-v is refused: set log.level", id="a level beside"),
        pytest.param(
            "extraArgs={--profiling,--leader-elect=false}", "--leader-elect is refused", id="a flag"
        ),
        pytest.param("extraArgs={--bind-address=127.0.0.1}", "from the node", id="unreachable"),
        pytest.param("extraArgs={--bind_address=127.0.0.1}", "from the node", id="underscore"),
        pytest.param("extraArgs={--secure_port=1}", "--secure-port is refused", id="underscores"),
        pytest.param(
            "extraArgs={--feature-gates=CoordinatedLeaderElection=true}",
            "set featureGates",
            id="a gate with rights",
        ),
        pytest.param(
            "recordings.volume.emptyDir.medium=,recordings.volume.hostPath.path=/x",
            "got emptyDir and hostPath",
            id="two volumes",
        ),
    ],
)
def test_wrong_values_are_refused(helm_program: Path, value: str, expected: str) -> None:
    """The chart's schema rejects the value before helm sends anything."""
    told = helm(helm_program, "template", "stowage", CHART, f"--set={value}", fails=True)

    assert expected in told


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("a.b", "beginning with a letter", id="no name of a Service"),
        pytest.param("1st", "beginning with a letter", id="a digit"),
        pytest.param("default", "expected another name", id="the account of every pod"),
    ],
)
def test_releases_that_cannot_be(helm_program: Path, name: str, expected: str) -> None:
    """The chart rejects names that the operator rejects, before any object exists."""
    assert expected in helm(helm_program, "template", name, CHART, fails=True)


@pytest.fixture
def installed(cluster: Cluster, helm_program: Path) -> Iterator[str]:
    kubeconfig = cluster.kubeconfig
    yield helm(
        helm_program,
        *("install", "first", CHART, "--namespace=helmed", "--create-namespace"),
        kubeconfig=kubeconfig,
    )
    helm(helm_program, "uninstall", "first", "--namespace=helmed", kubeconfig=kubeconfig)
    left = kubectl(cluster, "-n", "helmed", "get", "deploy,cm,sa,svc,pdb,role", "-o", "name")
    assert "first" not in left


def test_installed_and_changed(cluster: Cluster, helm_program: Path, installed: str) -> None:
    """The notes give the next step; an upgrade changes the daemon's configuration, but no pod."""
    assert "kubectl -n helmed rollout status deployment/first" in installed
    assert "spec.schedulerName is stowage" in installed
    before = deployment(cluster)

    helm(
        helm_program,
        *("upgrade", "first", CHART, "--namespace=helmed", "--set=replicas=2"),
        "--set=configuration.profiles[0].schedulerName=stowage",
        "--set=configuration.podMaxBackoffSeconds=5",
        kubeconfig=cluster.kubeconfig,
    )

    text = kubectl(cluster, "-n", "helmed", "get", "cm", "first-config", "-o", "yaml")
    config = load(yaml.safe_load(text)["data"]["config.yaml"])
    assert config.pod_max_backoff_seconds == 5
    assert config.leader_election.resource_name == "first"
    assert deployment(cluster) == before


def deployment(cluster: Cluster) -> Any:
    text = kubectl(cluster, "-n", "helmed", "get", "deploy", "first", "-o", "yaml")
    return yaml.safe_load(text)["spec"]
