"""Promise: the pods run with an arbitrary user, without a home and without writable files.

Writable data goes to a volume that a component mounts. A pod that cannot start says why.
"""

import base64
import os
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from e2e.nodes.lab import Lab, is_ready
from e2e.nodes.namespaces import CommandError
from e2e.nodes.test_manifests import examples_run
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import Json
from e2e.support.waiting import wait_for
from scheduler.tools.cli.replay import replay
from tests.support.extender import FakeExtender, names_of, serving
from tests.support.pki import Authority

STRANGER = 1_000_720_000
"""A user ID without an entry in /etc/passwd, as OpenShift assigns."""
BAD = base64.b64encode(b"hello").decode()
Overlay = Callable[..., str]


@pytest.fixture
def overlay(tmp_path: Path) -> Overlay:
    """Write a kustomization over a folder of deploy/, and return its folder."""

    def write(base: str = "base", components: tuple[str, ...] = (), **fields: object) -> str:
        there = {
            name: os.path.relpath(CHECKOUT / "deploy" / name, tmp_path)
            for name in (base, *components)
        }
        document = {
            "resources": [there[base]],
            "components": [there[name] for name in components],
            **fields,
        }
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(document))
        return str(tmp_path)

    return write


def changed(*operations: Json, kind: str = "Deployment") -> Json:
    """Return a patch for all objects of a kind."""
    return {"target": {"kind": kind}, "patch": yaml.safe_dump(list(operations))}


def argument(value: str) -> Json:
    path = "/spec/template/spec/containers/0/args/-"
    return changed({"op": "add", "path": path, "value": value})


def configured(folder: Path, **fields: object) -> Json:
    """Return a generator that replaces the configuration of deploy/base."""
    election = {"leaderElect": True, "resourceName": "stowage", "resourceNamespace": "stowage"}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": election,
        "profiles": [{"schedulerName": "stowage"}],
        **fields,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    generator = {"name": "stowage-config", "namespace": "stowage", "behavior": "replace"}
    return {"configMapGenerator": [{**generator, "files": ["config.yaml"]}]}


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


# --- what may be written --------------------------------------------------------------------------


def test_nothing_is_mounted_that_stops_a_drain(lab: Lab) -> None:
    """With the shipped manifests, kubectl drain needs no additional flag."""
    with lab.applied("deploy/base"):
        lab.wait_for_rollout("stowage", "stowage")
        for node in lab.nodes:
            lab.kubectl("drain", node.name, "--dry-run=server", "--ignore-daemonsets")
        [pod, *_] = lab.pods("stowage")
        log = lab.logs("stowage", pod["metadata"]["name"])

    assert log.count("Crash recordings are off") == 1


def test_recordings_are_written_into_a_volume(lab: Lab, overlay: Overlay, tmp_path: Path) -> None:
    """With the component, each replica has its own volume, and its recording can be replayed."""
    with lab.applied(overlay(components=("components/recordings",))):
        lab.wait_for_rollout("stowage", "stowage")
        with examples_run(lab):
            pass
        leader = wait_for(lab.leader, "a leader")
        [pod] = [each for each in lab.pods("stowage") if each["metadata"]["name"] == leader]
        node = pod["spec"]["nodeName"]
        with pytest.raises(CommandError, match="--delete-emptydir-data"):
            lab.kubectl("drain", node, "--dry-run=server")
        log = lab.logs("stowage", leader)
        volume = f"/var/lib/kubelet/pods/{pod['metadata']['uid']}/volumes/kubernetes.io~empty-dir"
        copy = tmp_path / "recorded"
        copy.mkdir()
        lab.node(node).run("sh", "-c", f"cp {volume}/recordings/*.recording {copy}")

    assert "Crash recordings are off" not in log
    [recorded] = copy.iterdir()
    assert leader in recorded.name
    told = CliRunner().invoke(replay, [str(recorded)])
    assert "identical" in told.output, told.output


# --- certificates, users, commands ----------------------------------------------------------------


def test_an_extender_whose_certificates_are_inline(
    lab: Lab, overlay: Overlay, tmp_path: Path
) -> None:
    """The extender is called; the keys are never in a named file."""
    authority = Authority(tmp_path, "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", "extender", server=True))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = authority.issue("stowage", "stowage")
    tls = {
        "caData": data(authority.file),
        "certData": data(certificate),
        "keyData": data(key),
        "serverName": "localhost",
    }
    extender = FakeExtender(
        context, lab.network.gateway, filter=lambda body: {"NodeNames": names_of(body)}
    )
    with serving(extender):
        entry = extender.config("filter", enableHTTPS=True, tlsConfig=tls)
        with lab.applied(overlay(**configured(tmp_path, extenders=[entry]))):
            lab.wait_for_rollout("stowage", "stowage")
            with examples_run(lab):
                pass

    assert extender.count("filter") >= 7


def test_any_user_will_do(lab: Lab, overlay: Overlay) -> None:
    """A user without name and home directory; commands run in its pod as well."""
    as_stranger = changed(
        {"op": "add", "path": "/spec/template/spec/securityContext/runAsUser", "value": STRANGER}
    )
    with lab.applied(overlay(patches=[as_stranger])):
        lab.wait_for_rollout("stowage", "stowage")
        with examples_run(lab):
            pass
        [pod, *_] = lab.pods("stowage")
        words = ("/opt/stowage/bin/python", "-m", "scheduler")
        told = lab.exec("stowage", pod["metadata"]["name"], *words, "config")
        [process, *_] = lab.processes(pod)
        status = Path(f"/proc/{process}/status").read_text()
        lease = wait_for(lab.leader, "a leader")

    assert f"Uid:\t{STRANGER}\t" in status
    assert "kind: KubeSchedulerConfiguration" in told
    assert lease


def test_the_operator_runs_as_any_user(lab: Lab, overlay: Overlay) -> None:
    """Both replicas become available without restarts."""
    as_stranger = changed(
        {"op": "add", "path": "/spec/template/spec/securityContext/runAsUser", "value": STRANGER}
    )
    with lab.applied(overlay("operator", patches=[as_stranger])):
        lab.wait_for_rollout("stowage-operator", "stowage-operator")
        pods = lab.pods("stowage-operator")
        wait_for(lambda: lab.leader("stowage-operator", "stowage-operator"), "a leader")

    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods] == [0, 0]


# --- starts that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        pytest.param("--record=/none", "--record /none: Read-only file system", id="record"),
        pytest.param("--cert-dir=/none", "--cert-dir=/none: cannot be written", id="cert-dir"),
        pytest.param("--client-ca-file=/none", "--client-ca-file=/none: cannot", id="client-ca"),
        pytest.param("--secure-port=80000", "secure-port", id="port"),
    ],
)
def test_why_a_pod_does_not_start(lab: Lab, overlay: Overlay, flag: str, expected: str) -> None:
    """The last line of the log gives the reason, and there is no traceback."""
    with lab.applied(overlay(patches=[argument(flag)])):
        assert expected in failed(lab)[-1]


def test_why_a_pod_with_a_wrong_extender_does_not_start(
    lab: Lab, overlay: Overlay, tmp_path: Path
) -> None:
    """The message names the field."""
    tls = {"caData": BAD}
    entry = {"urlPrefix": "https://x", "filterVerb": "f", "enableHTTPS": True, "tlsConfig": tls}
    with lab.applied(overlay(**configured(tmp_path, extenders=[entry]))):
        assert "extenders[0].tlsConfig: certificate authority data: " in failed(lab)[-1]


def failed(lab: Lab) -> list[str]:
    """Return the output of a container that exited."""

    def started_again() -> Json:
        for pod in lab.pods("stowage"):
            for container in pod["status"].get("containerStatuses", ()):
                if "terminated" in container["lastState"]:
                    return pod
        return {}

    pod = wait_for(started_again, "a container to end, and be started again", 180)
    log = lab.logs("stowage", pod["metadata"]["name"], "--previous")
    assert "Traceback" not in log
    assert "Message of a library" not in log
    return log.splitlines()


def test_a_pod_without_rights_waits_and_says_so(lab: Lab, overlay: Overlay) -> None:
    """The pod is not ready, names the forbidden resources, and recovers once permitted."""
    removed = {
        "patch": yaml.safe_dump(
            {
                "$patch": "delete",
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "stowage"},
            }
        )
    }
    with lab.applied(overlay(patches=[removed])):
        [pod, *_] = wait_for(lambda: lab.pods("stowage"), "pods")
        name = pod["metadata"]["name"]
        wait_for(lambda: "403" in _log(lab, name), "a complaint", 180)
        [refused] = [each for each in lab.pods("stowage") if each["metadata"]["name"] == name]
        log = _log(lab, name)
        with lab.applied("deploy/base"):
            lab.wait_for_rollout("stowage", "stowage")
            pods = lab.pods("stowage")

    assert not is_ready(refused)
    assert "Traceback" not in log
    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods] == [0, 0]


def _log(lab: Lab, pod: str) -> str:
    try:
        return lab.logs("stowage", pod)
    except CommandError:
        return ""


# --- probes and rolls -----------------------------------------------------------------------------


def test_a_frozen_leader_is_ended(lab: Lab) -> None:
    """The other replica leads after the lease expires; the kubelet restarts the frozen one."""
    with lab.applied("deploy/base"):
        lab.wait_for_rollout("stowage", "stowage")
        leader = wait_for(lab.leader, "a leader")
        [pod] = [each for each in lab.pods("stowage") if each["metadata"]["name"] == leader]
        start = time.monotonic()
        lab.signal(pod, signal.SIGSTOP)
        other = wait_for(lambda: (now := lab.leader()) not in ("", leader) and now, "another")
        took_over = time.monotonic() - start

        def restarts() -> int:
            return sum(
                each["status"]["containerStatuses"][0]["restartCount"]
                for each in lab.pods("stowage")
            )

        wait_for(restarts, "the frozen one to be started again", every_seconds=0.5)
        restarted = time.monotonic() - start

    print(f"frozen: {other} leads after {took_over:.1f} s, started again after {restarted:.1f} s")
    # 17 s until the lease expires and is asked for, 50 s until three probes have failed and the
    # grace period is over; the rest is for a slow machine.
    assert took_over < 30
    assert restarted < 90


def test_a_roll_ends_with_a_new_leader(lab: Lab) -> None:
    """New replicas are ready before old ones end; the lease changes hands at most twice."""
    with lab.applied("deploy/base"):
        lab.wait_for_rollout("stowage", "stowage")
        old = {pod["metadata"]["name"] for pod in lab.pods("stowage")}
        before = wait_for(lab.leader, "a leader")
        moves = _transitions(lab)
        lab.kubectl("rollout", "restart", "--namespace=stowage", "deployment/stowage")
        lab.wait_for_rollout("stowage", "stowage")
        new = {pod["metadata"]["name"] for pod in lab.pods("stowage")}
        after = wait_for(lambda: (now := lab.leader()) in new - old and now, "a new leader")
        moved = _transitions(lab) - moves

    print(f"rolled: the lease moved {moved} times, from {before} to {after}")
    assert 1 <= moved <= 2


def _transitions(lab: Lab) -> int:
    [lease] = lab.get("leases.coordination.k8s.io", "--namespace=stowage")["items"]
    return int(lease["spec"].get("leaseTransitions", 0))
