"""Promise: the first hour works as the pages say, from the installation of the wheel to removal.

A shell runs the user's commands on the real control plane. There are no kubelets:
`e2e.support.kubelet` runs the Deployment's containers from the built wheel.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.conftest import EARLIER_AUDIT_EVENTS
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane, Options
from e2e.support.go_programs import CHECKOUT, CONTROL_PLANE, HELM, BuildError, build
from e2e.support.kubelet import Kubelet
from e2e.support.objects import make_node, make_nodes
from e2e.support.processes import Program
from e2e.support.scraping import total
from e2e.support.shell import Shell
from e2e.support.waiting import wait_for
from tests.support.environment import Environment

CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "disruption-controller",
    "node-lifecycle-controller",
)
IMAGE = "registry.example/stowage"
VERSIONS = ("0.3.0", "0.4.0")
INSTALL = (
    "helm install stowage deploy/helm/stowage --namespace stowage --create-namespace "
    f"--set image.repository={IMAGE} --set image.tag={VERSIONS[0]}"
)
UPGRADE = "helm upgrade stowage deploy/helm/stowage --namespace stowage --reset-then-reuse-values"
TEAM: dict[str, dict[str, list[dict[str, object]]]] = {
    "configuration": {
        "profiles": [
            {"schedulerName": "stowage"},
            {
                "schedulerName": "team-ml",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": "MostAllocated",
                                "resources": [{"name": "cpu", "weight": 1}],
                            }
                        },
                    }
                ],
            },
        ]
    }
}


@pytest.fixture(scope="module")
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    """A control plane with its controllers and kube-scheduler, which schedules the replicas."""
    options = Options(controller_manager=True, controllers=",".join(CONTROLLERS))
    directory = tmp_path_factory.mktemp("first-hour")
    with (
        ControlPlane(options) as own,
        Cluster("own control plane", own.kubeconfig, directory, control_plane=own) as cluster,
    ):
        own.start_kube_scheduler()
        yield cluster


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Environment]:
    """Virtual environments with two versions, each from a wheel of this checkout."""
    found = {}
    for version in VERSIONS:
        work = tmp_path_factory.mktemp(version)
        environment = found[version] = Environment(work / "environment")
        wheel = f"pip wheel --quiet --no-deps --wheel-dir {work} {CHECKOUT}"
        pretended = {"SETUPTOOLS_SCM_PRETEND_VERSION": version}
        done = environment.run(wheel, work, pretended)
        assert done.returncode == 0, done.stderr
        [built] = work.glob("stowage_scheduler-*.whl")
        environment.succeed(f"pip install --quiet --no-deps --ignore-installed {built}", work)
    return found


class Hour:
    """The user's session, and the programs started for it.

    Attributes:
        shell: the user's shell.
        kubelet: runs the pods of the namespace `stowage`.
    """

    def __init__(self, cluster: Cluster, shell: Shell, kubelet: Kubelet, directory: Path) -> None:
        self.cluster = cluster
        self.shell = shell
        self.kubelet = kubelet
        self.directory = directory

    def node_of(self, pod: str, namespace: str = "default") -> str:
        return self.shell.run(
            f"kubectl -n {namespace} get pod {pod} -o jsonpath='{{.spec.nodeName}}'"
        )

    def wait_bound(self, *pods: str) -> list[str]:
        """Wait until all the pods are bound; return their nodes."""

        def nodes() -> list[str]:
            found = [self.node_of(pod) for pod in pods]
            return found if all(found) else []

        return wait_for(nodes, f"{', '.join(pods)} to be bound", every_seconds=0.3)

    def events(self, reason: str) -> str:
        """Return the messages of the events about the configuration."""
        return self.shell.run(
            f"kubectl -n stowage get events --field-selector reason={reason} "
            "-o jsonpath='{range .items[*]}{.message}{\"\\n\"}{end}'"
        )

    def metrics(self) -> str:
        """Return the leader's metrics, as a reader with permissions gets them.

        They are empty while no replica leads, and until the API server knows the permissions.
        """
        token = self.shell.run("kubectl -n stowage create token prometheus").strip()
        found = [
            self.shell.attempt(
                f'curl -sfk -H "Authorization: Bearer {token}" {c.program.url}/metrics'
            ).stdout
            for c in list(self.kubelet.running.values())
        ]
        leading = [text for text in found if total(text, "leader_election_master_status") == 1]
        return leading[0] if leading else ""


@pytest.fixture
def hour(cluster: Cluster, environments: dict[str, Environment], tmp_path: Path) -> Iterator[Hour]:
    try:
        helm = build(HELM)
    except BuildError as problem:
        pytest.skip(f"no helm: {problem}")
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_text(cluster.kubeconfig.read_text())
    old = environments[VERSIONS[0]].folder / "bin"
    shell = Shell(CHECKOUT, [old, CONTROL_PLANE.binary.parent, helm.parent], {}, home)
    images = {
        f"{IMAGE}:{version}": (str(found.folder / "bin" / "python"), "-m", "scheduler")
        for version, found in environments.items()
    }
    with Kubelet(cluster, "stowage", images, tmp_path) as kubelet:
        yield Hour(cluster, shell, kubelet, tmp_path)


def test_the_first_hour(hour: Hour, request: pytest.FixtureRequest) -> None:
    """The user installs, uses, asks, shares, breaks, repairs, upgrades and removes Stowage."""
    hour.cluster.create_nodes([*make_nodes(3), make_node("small", allocatable={"cpu": "1"})])

    look_around(hour)
    install(hour)
    first_pods(hour)
    by_hand_beside_it(hour)
    pending_and_why(hour)
    a_team_adds_its_profile(hour)
    broken_and_mended(hour)
    upgrade(hour)
    # The roles are deleted before the pods, whose last requests are then refused.
    request.config.stash.setdefault(EARLIER_AUDIT_EVENTS, []).extend(hour.cluster.audit_events())
    remove(hour)


def look_around(hour: Hour) -> None:
    """Commands of the wheel work before there is a cluster."""
    output = hour.shell.run("stowage version")
    assert VERSIONS[0] in output
    where = hour.shell.run("(cd / && python -c 'import scheduler; print(scheduler.__file__)')")
    assert str(CHECKOUT) not in where
    assert "No pod waits" in hour.shell.run("kubectl stowage explain")


def install(hour: Hour) -> None:
    """Install the chart; the next steps in its notes work as printed."""
    notes = hour.shell.run(INSTALL)
    steps = notes.partition("Next:\n")[2].partition("\n\n")[0].replace("\\\n", " ")
    commands = [line.split("  #")[0].strip() for line in steps.splitlines() if line.strip()]
    assert len(commands) == 4
    rollout, looks, run, describe = commands

    assert "successfully rolled out" in hour.shell.run(rollout)
    assert "lease.coordination.k8s.io/stowage" in hour.shell.run(looks)
    hour.shell.run(run)
    hour.wait_bound("hello")
    described = wait_for(
        lambda: output if "Successfully assigned" in (output := hour.shell.run(describe)) else "",
        "the event of the pod",
    )
    assert re.search(r"Normal\s+Scheduled\s+\S+\s+stowage\s", described)
    assert len(hour.kubelet.running) == 2


def first_pods(hour: Hour) -> None:
    """Create the example pods: a pod, and a Deployment spread over zones."""
    hour.shell.run("kubectl apply -k deploy/examples")
    nodes = wait_for(
        lambda: (
            found
            if len(
                found := hour.shell.run(
                    "kubectl get pods -l app=spread-by-stowage "
                    "-o jsonpath='{.items[*].spec.nodeName}'"
                ).split()
            )
            == 6
            else []
        ),
        "six pods of the Deployment to be bound",
    )
    assert sorted(nodes.count(node) for node in set(nodes)) == [2, 2, 2]
    hour.wait_bound("placed-by-stowage")


def by_hand_beside_it(hour: Hour) -> None:
    """Follow README.md: a second instance reports that another one leads."""
    python = hour.kubelet.images[f"{IMAGE}:{VERSIONS[0]}"]
    log = hour.directory / "by-hand.log"
    words = [*python, "run", f"--kubeconfig={hour.shell.home / '.kube' / 'config'}"]
    with Program("by hand", [*words, "--secure-port=0"], log) as program:
        wait_for(lambda: "Another Stowage leads by another Lease" in log.read_text(), "a warning")
        assert 'lease="stowage/stowage"' in log.read_text()
        assert program.stop() == 0


def pending_and_why(hour: Hour) -> None:
    """Explain a pending pod with read permissions only; the suggested change works."""
    shell = hour.shell
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "large"},
        "spec": {
            "schedulerName": "stowage",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": {"cpu": "16"}},
                }
            ],
        },
    }
    shell.run("kubectl apply -f -", stdin=yaml.safe_dump(pod))
    wait_for(
        lambda: "Insufficient cpu" in shell.run("kubectl describe pod large"), "the pod to be tried"
    )
    shell.run("kubectl apply -f deploy/examples/explain-rights.yaml")
    shell.run("kubectl create serviceaccount reader")
    shell.run(
        "kubectl create clusterrolebinding reader --clusterrole=stowage-explain "
        "--serviceaccount=default:reader"
    )
    reader = hour.cluster.service_account_kubeconfig("default", "reader")
    explain = f"stowage explain large --kubeconfig {reader}"
    wait_for(lambda: shell.attempt(explain).returncode == 0, "the API server to know the new role")
    told = shell.run(explain)
    assert "0/4 nodes are available: 4 Insufficient cpu" in told
    assert "add 1 node with room" in told or "What would help" in told

    hour.cluster.create_nodes([make_node("roomy", allocatable={"cpu": "32"})])
    assert hour.wait_bound("large") == ["roomy"]
    assert "fits" in shell.run("stowage capacity --like default/large")


def a_team_adds_its_profile(hour: Hour) -> None:
    """A team's pod waits for its profile; the running daemon adds the profile without a restart."""
    shell, before = hour.shell, set(hour.kubelet.running)
    values = hour.directory / "team.yaml"
    values.write_text(yaml.safe_dump(TEAM))
    for name in ("train-0", "train-1", "train-2"):
        run_pod(hour, name, "team-ml", cpu="100m")
    rendered = shell.run(
        f"helm template stowage deploy/helm/stowage -f {values} -s templates/configmap.yaml"
    )
    config = hour.directory / "config.yaml"
    config.write_text(yaml.safe_load(rendered)["data"]["config.yaml"])
    assert "schedulerName: team-ml" in shell.run(f"stowage config {config}")
    assert hour.node_of("train-0") == ""

    shell.run(f"{UPGRADE} -f {values}")

    nodes = hour.wait_bound("train-0", "train-1", "train-2")
    wait_for(lambda: len(set(map(hour.node_of, ("train-0", "train-1", "train-2")))) == 1, "packing")
    assert nodes
    wait_for(lambda: "team-ml" in hour.events("ConfigurationChanged"), "an event that says so")
    assert set(hour.kubelet.running) == before


def broken_and_mended(hour: Hour) -> None:
    """A broken configuration is rejected with its line, without effect; the old one is restored."""
    shell = hour.shell
    shell.run(
        "kubectl -n stowage create serviceaccount prometheus && kubectl create clusterrolebinding "
        "prometheus --clusterrole=stowage-metrics-reader --serviceaccount=stowage:prometheus"
    )
    wait_for(lambda: total(hour.metrics(), "stowage_config_reload_success") == 1, "the metrics")

    values = hour.directory / "slip.yaml"
    slip = {"score": {"enabled": [{"name": "NodeResourceFit"}]}}
    profiles = TEAM["configuration"]["profiles"]
    broken = [profiles[0], {**profiles[1], "plugins": slip}]
    values.write_text(yaml.safe_dump({"configuration": {"profiles": broken}}))
    shell.run(f"{UPGRADE} -f {values}")
    refused = wait_for(lambda: hour.events("ConfigurationRefused"), "the slip to be refused")
    assert "profiles[1].plugins.score.enabled[0]" in refused
    assert "NodeResourceFit" in refused
    # The instance that reported the error may not be the leader; each one reads the file itself.
    wait_for(lambda: total(hour.metrics(), "stowage_config_reload_success") == 0, "its refusal")
    run_pod(hour, "meanwhile", "stowage")
    run_pod(hour, "meanwhile-too", "team-ml")
    hour.wait_bound("meanwhile", "meanwhile-too")

    shell.run("helm rollback stowage --namespace stowage")
    wait_for(lambda: total(hour.metrics(), "stowage_config_reload_success") == 1, "the mended file")


def upgrade(hour: Hour) -> None:
    """Upgrade the replicas one by one; pods created meanwhile are bound once."""
    shell, before = hour.shell, set(hour.kubelet.running)
    shell.run(f"{UPGRADE} --set image.tag={VERSIONS[1]}")
    names = [f"during-{number}" for number in range(12)]
    for name in names:
        run_pod(hour, name, "stowage")
    assert "successfully rolled out" in shell.run(
        "kubectl -n stowage rollout status deployment/stowage"
    )
    for name in names:
        hour.wait_bound(name)

    wait_for(lambda: before <= hour.kubelet.ended.keys(), "the old replicas to end")
    assert before.isdisjoint(hour.kubelet.running)
    assert {hour.kubelet.ended[name] for name in before} == {0}
    metrics = wait_for(hour.metrics, "one of the new replicas to lead")
    found = re.search(r'stowage_build_info\{[^}]*version="([^"]*)"', metrics)
    assert found is not None
    assert found[1] == VERSIONS[1]
    bindings = [
        (event.object_ref.namespace, event.object_ref.name)
        for event in hour.cluster.audit_events()
        if event.resource == "pods/binding" and event.code == 201
    ]
    assert len(bindings) == len(set(bindings))


def remove(hour: Hour) -> None:
    """Remove the release; no object of it is left, and bound pods stay bound."""
    shell, node = hour.shell, hour.node_of("hello")
    shell.run("helm uninstall stowage --namespace stowage")
    replicas = set(hour.kubelet.running) | set(hour.kubelet.ended)
    wait_for(lambda: replicas <= hour.kubelet.ended.keys(), "the replicas to end")
    assert set(hour.kubelet.ended.values()) == {0}
    kinds = "clusterroles,clusterrolebindings,roles,rolebindings,deploy,cm,svc,pdb,netpol"
    left = shell.run(f"kubectl get {kinds} -A -o name")
    assert [name for name in left.split() if name.partition("/")[2].startswith("stowage")] == [
        "clusterrole.rbac.authorization.k8s.io/stowage-explain"  # made by hand
    ]
    shell.run("kubectl delete namespace stowage --timeout=180s")
    assert hour.node_of("hello") == node


def run_pod(hour: Hour, name: str, scheduler_name: str, cpu: str = "10m") -> None:
    """Create a pod with `kubectl run` and the scheduler's name."""
    container = {
        "name": name,
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": cpu}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler_name, "containers": [container]},
    }
    hour.shell.run("kubectl create -f -", stdin=yaml.safe_dump(pod))
