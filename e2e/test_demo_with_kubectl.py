"""Promise: kubectl works with `stowage demo --keep` as the tutorial says."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.support.go_programs import CHECKOUT, CONTROL_PLANE, BuildError, build
from e2e.support.shell import Shell
from e2e.support.terminal import Terminal
from e2e.support.waiting import wait_for

PAGE = (CHECKOUT / "docs" / "getting-started.md").read_text()
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "written", "labels": {"app": "written"}},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}
CASES = {
    "create": ["kubectl create deployment web --image=nginx --replicas=3"],
    "apply": ["kubectl apply -f pod.yaml", "kubectl apply -k ../stowage/deploy/examples"],
    "get": [
        "kubectl wait --for=condition=Ready pod/written --timeout=180s",
        "kubectl get pods -o wide",
        "kubectl get nodes",
        "(timeout 3 kubectl get pods -w || test $? = 124)",
    ],
    "wait": ["kubectl wait --for=condition=Available deployment/web --timeout=180s"],
    # The event may come after the pod is ready.
    "describe": [
        "until [[ $(kubectl describe pod written) = *'assigned default/written'* ]]; do :; done"
    ],
    "edit": ["EDITOR=./edit kubectl edit pod written"],
    "patch": ['kubectl patch pod written -p \'{"metadata":{"labels":{"tier":"front"}}}\''],
    "label": ["kubectl label pod written colour=blue", "kubectl get pod -l colour=blue -o name"],
    "annotate": ["kubectl annotate pod written why=because"],
    "taint": ["kubectl taint node node-0000 a=b:NoSchedule", "kubectl taint node node-0000 a-"],
    "cordon": ["kubectl cordon node-0001"],
    "uncordon": ["kubectl uncordon node-0001"],
    "drain": ["kubectl drain node-0001 --ignore-daemonsets --force --delete-emptydir-data"],
    "events": ["kubectl events --for pod/written", "kubectl get events -n demo"],
    "delete": ["kubectl delete pod written", "kubectl delete deployment web"],
    "api-resources": ["kubectl api-resources"],
}
"""Commands by name; the test runs them in this order."""

IN_VAIN = {
    "scale": "kubectl scale deployment other --replicas=2",
    "apply `--server-side`": "kubectl apply --server-side -f pod.yaml",
    "auth": "kubectl auth can-i create pods",
    "logs": "kubectl logs kept",
    "exec": "kubectl exec kept -- true",
    "attach": "kubectl attach kept",
    "port-forward": "timeout 60 kubectl port-forward kept 8080",
    "debug": "kubectl debug kept --image=busybox",
    "top": "kubectl top nodes",
    "explain": "kubectl explain pods",
}
UNATTENDED = {
    "a Job": "create job once --image=busybox",
    "a CronJob": "create cronjob often --image=busybox --schedule='* * * * *'",
    "a quota": "create quota few --hard=pods=1",
    "a budget": "create pdb two --selector=app=web --min-available=1",
}
"""Objects that the demo's API server stores without a controller."""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A second terminal, beside that of the demo."""
    try:
        kubectl = build(CONTROL_PLANE).parent
    except BuildError as problem:
        pytest.skip(f"no kubectl: {problem}")
    home = tmp_path_factory.mktemp("home")
    folder = home / "work"
    folder.mkdir()
    (home / "stowage").symlink_to(CHECKOUT)
    (folder / "pod.yaml").write_text(yaml.safe_dump(POD))
    editor = folder / "edit"
    editor.write_text('#!/bin/sh\nsed -i "s/app: written/app: edited/" "$1"\n')
    editor.chmod(0o755)
    words = [sys.executable, "-m", "scheduler", "demo", "--nodes", "12", "--pods", "120", "--keep"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as demo:
        try:
            assert demo.stdout is not None
            exports = (re.search(r"export KUBECONFIG=(\S+)", line) for line in demo.stdout)
            kubeconfig = next(found[1] for found in exports if found)
            yield Shell(folder, [kubectl], {"KUBECONFIG": kubeconfig}, home)
        finally:
            demo.terminate()


def listed(column: int) -> set[str]:
    """Return the commands in a column of the page's table, without text in parentheses."""
    [table] = re.findall(r"\| works \| does not \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    cells = [line.split("|")[column] for line in table.splitlines()]
    plain = re.sub(r" \([^)]*\)", "", ",".join(cells))
    return {name.strip() for name in plain.split(",")}


def test_what_the_page_lists_is_what_is_tried() -> None:
    """The page and the tests name the same commands."""
    assert listed(1) == CASES.keys()
    assert listed(2) == IN_VAIN.keys()


def test_what_works(shell: Shell) -> None:
    """The commands succeed one after another."""
    for commands in CASES.values():
        for command in commands:
            shell.run(command)


def test_a_plain_pod_and_a_plain_deployment_are_served(shell: Shell) -> None:
    """Pods need no schedulerName."""
    shell.run("kubectl run plain --image=nginx")
    shell.run("kubectl create deployment other --image=nginx --replicas=2")

    shell.run("kubectl wait --for=condition=Ready pod/plain --timeout=180s")
    shell.run("kubectl rollout status deployment/other --timeout=180s")


@pytest.mark.parametrize("command", IN_VAIN.values(), ids=list(IN_VAIN))
def test_what_does_not_work_says_so(shell: Shell, command: str) -> None:
    """The command fails at once with an error message."""
    if "kept" in command:
        shell.run("kubectl get pod kept || kubectl run kept --image=nginx")
        shell.run("kubectl wait --for=condition=Ready pod/kept --timeout=180s")

    done = shell.attempt(command)

    assert done.returncode not in (0, 124), done.stdout
    # `kubectl debug` prints more than the error.
    assert "debug" in command or len(done.stderr.splitlines()) < 8
    assert re.search(r"[Ee]rror|unable|not", done.stderr), done.stderr


@pytest.mark.parametrize("command", UNATTENDED.values(), ids=list(UNATTENDED))
def test_what_is_only_stored_is_said(shell: Shell, command: str) -> None:
    """The command shows a warning; some objects have to be sent as a file."""
    done = shell.attempt(f"kubectl {command} --dry-run=client -o json | kubectl create -f -")

    assert done.returncode == 0, done.stderr
    assert "no controller looks after" in done.stderr


def test_no_execute_is_said(shell: Shell) -> None:
    """The warning says that the taint evicts no pod."""
    done = shell.attempt("kubectl taint node node-0002 a=b:NoExecute")

    assert done.returncode == 0, done.stderr
    assert "NoExecute ends no pod here" in done.stderr


def test_on_a_terminal_it_ends_in_top(tmp_path: Path) -> None:
    """`stowage top` starts; after q the cluster keeps running until Ctrl-C."""
    words = [sys.executable, "-m", "scheduler", "demo", "--nodes", "12", "--pods", "120", "--keep"]
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    with Terminal(words, CHECKOUT, variables) as terminal:
        terminal.wait_for("export KUBECONFIG=", "stowage top  http://", timeout_seconds=300)
        # The screen shows the unschedulable pod with its reason.
        terminal.wait_for("Insufficient cpu", "Explain")
        terminal.press("q")
        terminal.wait_for("The cluster of the demo is still there")
        found = re.search(r"export KUBECONFIG=(\S+)", terminal.text)
        assert found is not None
        wait_for(Path(found[1]).exists, "the kubeconfig")
        terminal.press("\x03")

        assert terminal.wait() == 0
