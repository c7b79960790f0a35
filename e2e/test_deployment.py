"""Promise: the manifests deploy Stowage with exactly the permissions that it uses."""

import json
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import make_node, make_pod, make_pods
from e2e.support.processes import Program
from e2e.support.rights import (
    ACCOUNT,
    granted,
    refused,
    rules,
    service_account,
    unused,
    used,
    wait_until_applied,
)
from e2e.support.waiting import wait_for

DEPLOY = CHECKOUT / "deploy"


def kubectl(cluster: Cluster, *arguments: str) -> str:
    program = CHECKOUT / ".cache" / "controlplane" / "kubectl"
    command = str(program) if program.exists() else shutil.which("kubectl")
    if command is None:
        pytest.skip("no kubectl here")
    done = subprocess.run(
        # Another cluster may have used this address before: do not share its discovery cache.
        [
            command,
            f"--kubeconfig={cluster.kubeconfig}",
            f"--cache-dir={cluster.directory / 'kubectl'}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def deployed(cluster: Cluster) -> Iterator[str]:
    """The base manifests, applied as README.md says."""
    applied = kubectl(cluster, "apply", "-k", "deploy/base")
    wait_until_applied(cluster, next(rules()), service_account("stowage", "stowage"))
    yield applied
    if cluster.control_plane is None:
        # Without a namespace controller a deletion never completes; that control plane is
        # discarded.
        kubectl(cluster, "delete", "-k", "deploy/base")


PLUGINS = sorted(path.parent for path in CHECKOUT.glob("examples/plugins/*/deploy"))
FOLDERS = [
    *(
        DEPLOY / name
        for name in ("overlays/kind", "overlays/default-scheduler", "examples", "shadow")
    ),
    *(plugin / "deploy" for plugin in PLUGINS),
]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_every_folder_is_accepted(cluster: Cluster, deployed: str, folder: Path) -> None:
    """The API server validates the manifests."""
    answer = kubectl(cluster, "apply", "--dry-run=server", "-k", str(folder))

    assert "Deployment" in answer or "deployment.apps" in answer


@pytest.mark.parametrize(
    ("name", "component"),
    [
        pytest.param("base", "coordinated-election", id="base"),
        pytest.param("operator", None, id="operator"),
        pytest.param("shadow", None, id="shadow"),
    ],
)
def test_an_overlay_with_a_namespace_of_its_own(
    cluster: Cluster, tmp_path: Path, name: str, component: str | None
) -> None:
    """The rights go to the accounts in this namespace, and to no account of the usual one."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    mine = tmp_path / "deploy" / "mine"
    mine.mkdir()
    components = [f"../components/{component}"] if component else []
    overlay = {"namespace": "other", "resources": [f"../{name}"], "components": components}
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(overlay))

    made = list(yaml.safe_load_all(kubectl(cluster, "kustomize", str(mine))))

    accounts = {_account(each["metadata"]) for each in made if each["kind"] == "ServiceAccount"}
    bound = [_account(subject) for each in made for subject in each.get("subjects", ())]
    assert {namespace for namespace, _ in accounts} == {"other"}
    assert len(bound) == sum(each["kind"].endswith("Binding") for each in made)
    assert set(bound) == accounts


def _account(written: dict[str, str]) -> tuple[str, str]:
    return written["namespace"], written["name"]


def test_a_plugin_of_ones_own_is_deployed_as_its_page_says(
    cluster: Cluster, deployed: str, tmp_path: Path
) -> None:
    """The folder's image and configuration replace those of `deploy/base`."""
    command = [sys.executable, "-m", "scheduler", "plugin", "new", "my-racks"]
    subprocess.run([*command, "--into", str(tmp_path)], check=True, cwd=CHECKOUT)
    folder = tmp_path / "my-racks" / "deploy"
    shutil.copytree(DEPLOY / "base", folder / "base")

    made = list(yaml.safe_load_all(kubectl(cluster, "kustomize", str(folder))))
    answer = kubectl(cluster, "apply", "--dry-run=server", "-k", str(folder))

    assert "deployment.apps/stowage configured" in answer
    [deployment] = [each for each in made if each["kind"] == "Deployment"]
    [configmap] = [each for each in made if each["kind"] == "ConfigMap"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/my-racks:0.1.0"
    assert configmap["data"]["config.yaml"] == (folder / "config.yaml").read_text()
    assert configmap["metadata"]["name"] in str(pod["volumes"])


def test_requests_have_the_priority_of_kube_scheduler(cluster: Cluster, deployed: str) -> None:
    """The API server names the flow schema of each request in its response."""
    schemas = DEPLOY / "components" / "api-priority" / "flowschemas.yaml"
    account = cluster.service_account_kubeconfig("stowage", "stowage")
    lease = "/apis/coordination.k8s.io/v1/namespaces/stowage/leases/stowage"
    kubectl(cluster, "apply", "-f", str(schemas))
    try:
        for path, name in (
            ("/api/v1/pods?limit=1", "stowage"),
            (lease, "stowage-leader-election"),
        ):
            shown = kubectl(cluster, "get", "flowschema", name, "-o", "json")
            uid = json.loads(shown)["metadata"]["uid"]
            wait_for(partial(_is_served_by, cluster, account, path, uid), f"{path} of {name}")
    finally:
        kubectl(cluster, "delete", "-f", str(schemas))


def _is_served_by(cluster: Cluster, account: Path, path: str, uid: str) -> bool:
    """Whether the API server takes a request of an account for one of a flow schema."""
    token = yaml.safe_load(account.read_text())["users"][0]["user"]["token"]
    _, headers = ask(f"{cluster.api.credentials.server}{path}", token)
    return headers.get("X-Kubernetes-PF-FlowSchema-UID") == uid


def test_selectors_select_the_pods(cluster: Cluster, deployed: str) -> None:
    """Service, disruption budget and topology spread constraints select the Deployment's pods."""
    shown = kubectl(cluster, "-n", "stowage", "get", "deploy,svc,pdb", "-o", "json")
    deployment, service, budget = json.loads(shown)["items"]
    template = deployment["spec"]["template"]

    selectors = [
        service["spec"]["selector"],
        budget["spec"]["selector"]["matchLabels"],
        deployment["spec"]["selector"]["matchLabels"],
        *(
            constraint["labelSelector"]["matchLabels"]
            for constraint in template["spec"]["topologySpreadConstraints"]
        ),
    ]

    assert all(selector for selector in selectors)
    assert all(selector.items() <= template["metadata"]["labels"].items() for selector in selectors)


def test_the_daemon_runs_with_the_deployed_rights_and_nothing_else(
    cluster: Cluster, own_cluster: ControlPlane, deployed: str, run_stowage: StartStowage
) -> None:
    """With a TokenRequest token, no request is forbidden, and all common verbs are used."""
    namespace = "rights"
    config = yaml.safe_load((DEPLOY / "base" / "config.yaml").read_text())
    account = cluster.service_account_kubeconfig("stowage", "stowage")
    cluster.create_nodes([make_node("roomy")])
    daemon = run_stowage(
        account,
        leader_elect=True,
        configuration={k: config[k] for k in config if k[0] not in "ak"},
        arguments=["--logging-format=json", "-v=9"],
    )

    cluster.create_pods(make_pods(20, namespace=namespace, requests={"cpu": "10m"}))
    cluster.wait_until_bound(namespace)
    use_every_right(cluster, own_cluster, namespace, daemon)
    assert daemon.stop() == 0

    seen = [e for e in cluster.audit_events() if e.user.username == ACCOUNT]
    assert refused(seen) == set()
    assert used(seen) <= granted()
    # `test_rights` checks over the whole run whether these are used.
    assert unused(seen) <= {
        ("get", "", "pods"),
        ("delete", "", "pods"),
        ("patch", "", "persistentvolumes"),
        ("patch", "", "persistentvolumeclaims"),
        ("list", "scheduling.k8s.io", "podgroups"),
        ("watch", "scheduling.k8s.io", "podgroups"),
        ("patch", "scheduling.k8s.io", "podgroups/status"),
        ("get", "resource.k8s.io", "resourceclaims"),
        ("create", "resource.k8s.io", "resourceclaims"),
        ("delete", "resource.k8s.io", "resourceclaims"),
        ("patch", "resource.k8s.io", "resourceclaims"),
        ("patch", "resource.k8s.io", "resourceclaims/status"),
    }
    log = daemon.log.read_text()
    assert all(json.loads(line)["msg"] for line in log.splitlines())
    for secret in yaml.safe_load(account.read_text())["users"][0]["user"].values():
        assert secret not in log


def use_every_right(cluster: Cluster, own: ControlPlane, namespace: str, daemon: Program) -> None:
    """Make the daemon patch a status, repeat an event, and review the token of a caller."""
    # Repeated failures of one pod version become a series of one event. The first failure updates
    # the pod's condition; the pods deleted later are too small to make room.
    cluster.create_pods([make_pod("big", namespace=namespace, requests={"cpu": "3999m"})])
    wait_for(lambda: cluster.events(namespace, "FailedScheduling"), "the pod to fail")
    leaving = iter(range(20))

    def repeated() -> bool:
        cluster.delete_pods(namespace, [f"pod-{next(leaving):05}"])
        return any(
            e.verb == "patch" and e.object_ref.resource == "events" and e.user.username == ACCOUNT
            for e in cluster.audit_events()
        )

    wait_for(repeated, "an event to be repeated", 60, every_seconds=4)
    if not cluster.has_controllers:
        # Without controllers there are no default accounts.
        nobody = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        cluster.run(cluster.api.post("/api/v1/namespaces/default/serviceaccounts", nobody))
    account = yaml.safe_load(cluster.service_account_kubeconfig("default", "default").read_text())
    token = account["users"][0]["user"]["token"]
    assert status_of(f"{daemon.url}/metrics", token) == 403


def status_of(url: str, token: str = "", certificate: tuple[Path, Path] | None = None) -> int:
    status, _ = ask(url, token, certificate)
    return status


def ask(
    url: str, token: str = "", certificate: tuple[Path, Path] | None = None
) -> tuple[int, Message]:
    """The status and the headers of the answer to a request."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(*certificate)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own loopback
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:  # noqa: S310
            return int(answer.status), answer.headers
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers
