"""Promise: the commands in the pages work, in the order in which they are listed.

The test runs each command of README.md, docs/ and examples/ in a copy of the checkout, with the
installed wheel, on the real control plane. `tests.support.pages` lists the exceptions with reasons.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from e2e.support.cluster import Cluster
from e2e.support.go_programs import CHECKOUT, CONTROL_PLANE, HELM, BuildError, build
from e2e.support.objects import make_node, make_nodes, make_pod
from e2e.support.processes import Program
from e2e.support.rights import scheduler_kubeconfig
from e2e.support.shell import CommandError, CommandTimeoutError, Shell
from e2e.support.stowage import start_stowage
from e2e.support.terminal import Terminal
from tests.support.environment import PIP, Environment
from tests.support.pages import PAGES, blocks, files, shown, why_not_run

CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "node-lifecycle-controller",
)
SPEAKING_OF = {
    "ACCOUNT": "reader",
    "PATH/TO/STOWAGE": str(CHECKOUT),
    "REGISTRY": "registry.example",
}
"""Replacements of the pages' placeholders."""

BEFORE = {
    "helm install": "kubectl delete -k deploy/base --ignore-not-found --timeout=150s",
    "kubectl delete clusterrolebinding/stowage": "kubectl apply -k deploy/base",
    "stowage replay": "test -d DIR || cp -r $RECORDINGS DIR",
}
"""Commands to run first, by the beginning of a command, since each page is tested separately."""

LOOKED_AT = "namespaces,customresourcedefinitions,pods,replicasets"
"""Kinds to print when a command times out."""

STATUS = {
    "--fail-on-pending": 3,
}
"""Expected exit statuses other than 0, by a word in the command."""


class Lasting(NamedTuple):
    """A command that runs until it is ended.

    Attributes:
        signs: output to wait for.
        keys: keys that end the command.
        status: expected exit status.
    """

    signs: tuple[str, ...]
    keys: str
    status: int = 0


LASTING = {
    "stowage run": Lasting(("Leading",), "\x03"),
    "stowage top": Lasting(("waiting: active",), "q"),
    "stowage demo --keep": Lasting(("kubectl get pods -n demo",), "\x03"),
}


@pytest.fixture(scope="module")
def shared_cluster(cluster_with_controllers: Cluster) -> Cluster:
    """A control plane with the controllers that the commands need."""
    return cluster_with_controllers


class Recorded(NamedTuple):
    """Recordings of a daemon.

    Attributes:
        folder: folder of the recordings.
        moment: a time after the pods of `shop` were scheduled.
    """

    folder: Path
    moment: str


@pytest.fixture(scope="module")
def recordings(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Recordings of a daemon that scheduled the pods of `shop`, which the pages mention."""
    directory = tmp_path_factory.mktemp("recorded")
    nodes = [*make_nodes(2, prefix="worker"), make_node("node-7")]
    shared_cluster.create_nodes(nodes)
    kubeconfig = scheduler_kubeconfig(shared_cluster)
    folder = directory / "recordings"
    with start_stowage(kubeconfig, directory, arguments=["--record", str(folder)]) as program:
        shared_cluster.create_pods(_shop())
        shared_cluster.wait_until_bound("shop", but=2)
        path = "/apis/apps/v1/namespaces/shop/deployments"
        shared_cluster.run(shared_cluster.api.post(path, _web()))
        # The text has whole seconds, without the rest.
        moment = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert program.stop() == 0
    return Recorded(folder, moment)


@pytest.fixture(scope="module")
def daemon(
    shared_cluster: Cluster, recordings: Recorded, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    """A running daemon."""
    directory = tmp_path_factory.mktemp("daemon")
    with start_stowage(scheduler_kubeconfig(shared_cluster), directory) as program:
        yield program


def _shop() -> list[dict[str, object]]:
    cpu = {"web-0": "100m", "web-1": "100m", "cache": "100m", "web": "64", "web-7": "64"}
    return [make_pod(n, namespace="shop", requests={"cpu": asked}) for n, asked in cpu.items()]


def _web() -> dict[str, object]:
    pod = make_pod("web", requests={"cpu": "10m"})
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]}
    template["spec"].pop("terminationGracePeriodSeconds")
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": 1, "selector": selector, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


class Reader:
    """A user who follows a page.

    Args:
        shell: the user's shell.
        daemon: the running daemon, with its own port.
        moment: replaces the time in the pages.
    """

    def __init__(self, shell: Shell, daemon: Program, moment: str) -> None:
        self.shell = shell
        self.daemon = daemon
        self._meant = {
            **SPEAKING_OF,
            "https://localhost:10259": daemon.url,
            "2026-01-31T02:00:00Z": moment,
        }

    def type(self, command: str) -> None:
        """Run a command line of a page."""
        for word, meant in self._meant.items():
            command = command.replace(word, meant)
        for beginning, first in BEFORE.items():
            if command.startswith(beginning):
                self.shell.run(first)
        lasting = next((w for begin, w in LASTING.items() if command.startswith(begin)), None)
        if lasting is not None:
            self._watch(command, lasting)
            return
        status = next((status for word, status in STATUS.items() if word in command), 0)
        given = yaml.safe_dump(make_pod("more")) if command.endswith("-f -") else ""
        try:
            printed = self._run(command, given, status)
        except CommandError as problem:
            left = self.shell.attempt(f"kubectl get {LOOKED_AT} -A -o yaml").stdout
            raise AssertionError(f"{problem}\nThe cluster then:\n{left}") from None
        if command.startswith("curl"):
            # curl also exits with 0 on an error response.
            json.loads(printed)

    def _run(self, command: str, given: str, status: int) -> str:
        try:
            return self.shell.run(command, stdin=given, status=status)
        except CommandTimeoutError:
            if not command.startswith("kubectl delete"):
                raise
        # The deletion needs controllers, which may retry only after a minute.
        return self.shell.run(f"{command} --ignore-not-found", stdin=given, status=status)

    def _watch(self, command: str, lasting: Lasting) -> None:
        words = ["/bin/bash", "-c", f"exec {command}"]
        with Terminal(words, self.shell.directory, self.shell.variables) as terminal:
            terminal.wait_for(*lasting.signs, timeout_seconds=180)
            terminal.press(lasting.keys)
            assert terminal.wait(120) == lasting.status, terminal.text[-3000:]


@pytest.fixture
def reader(
    shared_cluster: Cluster, recordings: Recorded, daemon: Program, tmp_path: Path
) -> Reader:
    try:
        helm = build(HELM)
    except BuildError as problem:
        pytest.skip(f"no helm: {problem}")
    checkout, home = tmp_path / "stowage", tmp_path / "home"
    copy_checkout(checkout)
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_text(shared_cluster.kubeconfig.read_text())
    environment = Environment(tmp_path / "environment")
    path = [environment.folder / "bin", CONTROL_PLANE.binary.parent, helm.parent]
    shell = Shell(checkout, path, {**PIP, "RECORDINGS": str(recordings.folder)}, home)
    lay_out(shell)
    return Reader(shell, daemon, recordings.moment)


def copy_checkout(into: Path) -> None:
    """Copy the files that git tracks, with their current content."""
    git = str(shutil.which("git"))
    listed = subprocess.run(
        [git, "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (CHECKOUT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, into / name)


def lay_out(shell: Shell) -> None:
    """Create the user's files that the pages mention."""
    folder = shell.directory
    (folder / "scheduler.yaml").write_text((folder / "deploy/base/config.yaml").read_text())
    (folder / "other.yaml").write_text((folder / "deploy/base/config.yaml").read_text())
    old = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta3",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "stowage"}],
    }
    (folder / "old.yaml").write_text(yaml.safe_dump(old))
    (folder / "gpu.yaml").write_text("---\n".join(blocks(CHECKOUT / "docs/devices.md", "yaml")))
    shell.run("kubectl get nodes -o yaml > nodes.yaml")
    kinds = "nodes,pods,ns,svc,rc,rs,sts,pdb,pvc,pv,sc,csinodes"
    shell.run(f"kubectl get {kinds} -A -o json > cluster.json")
    shell.run(f"kubectl get {kinds} -A -o yaml > cluster.yaml")
    shutil.copy(folder / "deploy/examples/deployment.yaml", folder / "deployment.yaml")
    shell.run(
        "kubectl get serviceaccount reader || { kubectl create serviceaccount reader && kubectl "
        "create clusterrolebinding reader --clusterrole=cluster-admin "
        "--serviceaccount=default:reader; }"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_command_works(reader: Reader, page: Path) -> None:
    """The commands of a page succeed one after another."""
    if page.name == "README.md" and page.parent != CHECKOUT:
        reader.shell.directory /= page.parent.relative_to(CHECKOUT)
    for name, text in files(page):
        file = reader.shell.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for found in shown(page):
        if not why_not_run(found.command):
            reader.type(found.command)
