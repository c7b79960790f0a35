"""Promise: every overlay, component and variant of the chart runs as pods, as shipped."""

import shutil
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.nodes.lab import Lab, is_ready
from e2e.nodes.namespaces import run
from e2e.support.certificates import Authority
from e2e.support.go_programs import CHECKOUT, HELM, build
from e2e.support.objects import Json
from e2e.support.scraping import fetch, total
from e2e.support.waiting import wait_for

HOT: Final = "acme.com/rack-celsius"
_KINDS_OF_PROMETHEUS: Final = {
    "ServiceMonitor": "servicemonitors",
    "PrometheusRule": "prometheusrules",
}
_CONFIGURATION: Final = {
    "profiles": [
        {
            "schedulerName": "stowage",
            "plugins": {"multiPoint": {"enabled": [{"name": "CoolRacks"}]}},
        }
    ]
}


# --- kustomize ------------------------------------------------------------------------------------


def test_the_overlay_for_kind(lab: Lab) -> None:
    """The image is never pulled."""
    with lab.applied("deploy/overlays/kind"), examples_run(lab):
        lab.wait_for_rollout("stowage", "stowage")


def test_a_plugin_wheel(lab: Lab, tmp_path: Path) -> None:
    """The plugin is active: no pod runs on the node that it rejects."""
    mine = overlay(tmp_path, "plugin-wheel")
    shutil.copy(wheel(tmp_path), mine / "plugin.whl")
    kustomization = yaml.safe_load((mine / "kustomization.yaml").read_text())
    (mine / "config.yaml").write_text(yaml.safe_dump(_with_election(_CONFIGURATION)))
    kustomization["configMapGenerator"] = [
        {"name": "stowage-plugin", "namespace": "stowage", "files": ["plugin.whl"]},
        {
            "name": "stowage-config",
            "namespace": "stowage",
            "behavior": "replace",
            "files": ["config.yaml"],
        },
    ]
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))

    with lab.applied(str(mine)), labelled(lab, "node-1", f"{HOT}=60"):
        lab.wait_for_rollout("stowage", "stowage")
        with lab.applied_text(deployment("cool", replicas=2)):
            placed = running(lab, "default", 2)

    assert {pod["spec"]["nodeName"] for pod in placed} == {"node-2"}


def test_monitoring(lab: Lab) -> None:
    """The manifests are accepted beside the base, and the ServiceMonitor selects the Service."""
    with kinds_of_prometheus(lab), lab.applied("deploy/base"), lab.applied("deploy/monitoring"):
        lab.wait_for_rollout("stowage", "stowage")
        monitor = lab.get("servicemonitors.monitoring.coreos.com", "-nstowage", "stowage")
        labels = monitor["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        [service] = lab.get("services", "-nstowage", f"-l{selector}")["items"]
        ports = {port["name"] for port in service["spec"]["ports"]}

        assert {each["port"] for each in monitor["spec"]["endpoints"]} <= ports

        def addresses() -> list[str]:
            endpoints = lab.get("endpoints", "-nstowage", service["metadata"]["name"])
            return [
                each["ip"] for s in endpoints.get("subsets", ()) for each in s.get("addresses", ())
            ]

        wait_for(lambda: len(addresses()) == 2, "both replicas to be endpoints")


def test_shadow(lab: Lab) -> None:
    """With read-only permissions, it judges the bindings of kube-scheduler."""
    with lab.applied("deploy/shadow"):
        lab.wait_for_rollout("kube-system", "stowage-shadow")
        with lab.applied_text(deployment("theirs", replicas=3, scheduler="default-scheduler")):
            running(lab, "default", 3)
            [pod] = lab.pods("kube-system", "app.kubernetes.io/name=stowage-shadow")
            wait_for(lambda: _judged(pod) >= 3, "the bindings to be judged", 180)


# --- the chart ------------------------------------------------------------------------------------


def test_the_chart(lab: Lab) -> None:
    """The chart is installed, upgraded to another configuration, and removed."""
    with released(lab, {"image": {"tag": "dev"}}):
        with examples_run(lab):
            pass
        helm(lab, "upgrade", "stowage", CHART, "-nstowage", "--reuse-values", "--set=replicas=1")
        lab.wait_for_rollout("stowage", "stowage")
        # The rollout is complete before the controller deletes the other pod.
        wait_for(lambda: len(lab.pods("stowage")) == 1, "one replica to be left")


def test_the_chart_with_everything_on(lab: Lab, tmp_path: Path) -> None:
    """A plugin, recordings, a serving certificate, monitoring, audiences and additional flags."""
    values: Json = {
        "image": {"tag": "dev"},
        "configuration": _CONFIGURATION,
        "plugins": [{"name": "racks", "wheel": {"configMap": "racks", "key": "racks.whl"}}],
        "recordings": {"volume": {"emptyDir": {}}},
        "serving": {"secretName": "serving", "tokenAudiences": ["stowage"]},
        "monitoring": {"serviceMonitor": True, "rules": True, "dashboard": True},
        "restartOnConfigurationChange": True,
        "extraArgs": ["--allow-unsupported"],
    }
    authority, files = serving_certificate(tmp_path)
    made = f"--from-file=racks.whl={wheel(tmp_path)}"
    with kinds_of_prometheus(lab), namespace(lab, "stowage"):
        lab.kubectl("create", "configmap", "racks", "-nstowage", made)
        lab.kubectl("create", "secret", "generic", "serving", "-nstowage", *files)
        with released(lab, values), labelled(lab, "node-1", f"{HOT}=60"):
            with lab.applied_text(deployment("cool", replicas=2)):
                placed = running(lab, "default", 2)
            pod = lab.pods("stowage")[0]

            assert {each["spec"]["nodeName"] for each in placed} == {"node-2"}
            assert answer_of(pod, authority, "stowage-metrics.stowage.svc").endswith("ok")


CHART: Final = "deploy/helm/stowage"


@contextmanager
def released(lab: Lab, values: Json) -> Iterator[None]:
    """Install a release named stowage."""
    file = lab.directory / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    words = ("-nstowage", "--create-namespace", f"--values={file}", "--wait", "--timeout=300s")
    helm(lab, "install", "stowage", CHART, *words)
    try:
        yield
    finally:
        helm(lab, "uninstall", "stowage", "-nstowage", "--wait")
        lab.kubectl("delete", "namespace", "stowage", "--ignore-not-found")


def helm(lab: Lab, *arguments: str) -> str:
    kubeconfig = f"--kubeconfig={lab.control_plane.kubeconfig}"
    return run([str(build(HELM)), *arguments, kubeconfig], timeout=400, directory=CHECKOUT)


# --- what tests are made of -----------------------------------------------------------------------


def overlay(tmp_path: Path, component: str) -> Path:
    """Copy the manifests and add an overlay of the reader's own."""
    shutil.copytree(CHECKOUT / "deploy", tmp_path / "deploy")
    mine = tmp_path / "deploy" / "mine"
    mine.mkdir()
    kustomization = {"resources": ["../base"], "components": [f"../components/{component}"]}
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return mine


def wheel(tmp_path: Path) -> Path:
    """Build the example plugin cool-racks as a wheel."""
    source, built = tmp_path / "cool-racks", tmp_path / "dist"
    shutil.copytree(CHECKOUT / "examples" / "plugins" / "cool-racks", source)
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", f"--wheel-dir={built}"]
    run([sys.executable, "-m", "pip", *words, str(source)], timeout=300)
    [found] = built.glob("*.whl")
    return found


@contextmanager
def examples_run(lab: Lab) -> Iterator[None]:
    """Wait until all example pods are Ready."""
    with lab.applied("deploy/examples"):
        running(lab, "default", 7)
        yield


def running(lab: Lab, where: str, count: int) -> list[Json]:
    """Wait for this many pods in a namespace, all Ready, and return them."""

    def found() -> list[Json]:
        pods = lab.pods(where)
        return pods if len(pods) == count and all(map(is_ready, pods)) else []

    return wait_for(found, f"{count} pods to run in {where}", 180)


def deployment(name: str, replicas: int, scheduler: str = "stowage") -> str:
    labels = {"app": name}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    template: Json = {"schedulerName": scheduler, "containers": [container]}
    template["terminationGracePeriodSeconds"] = 1
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template},
            },
        }
    )


@contextmanager
def labelled(lab: Lab, node: str, label: str) -> Iterator[None]:
    lab.kubectl("label", "node", node, label)
    try:
        yield
    finally:
        lab.kubectl("label", "node", node, f"{label.partition('=')[0]}-")


@contextmanager
def namespace(lab: Lab, name: str) -> Iterator[None]:
    lab.kubectl("create", "namespace", name)
    try:
        yield
    finally:
        lab.kubectl("delete", "namespace", name, "--ignore-not-found")


@contextmanager
def kinds_of_prometheus(lab: Lab) -> Iterator[None]:
    """Create the CRDs of the Prometheus operator, without the operator."""
    kinds = "\n---\n".join(_definition(kind, name) for kind, name in _KINDS_OF_PROMETHEUS.items())
    with lab.applied_text(kinds):
        for name in _KINDS_OF_PROMETHEUS.values():
            crd = f"crd/{name}.monitoring.coreos.com"
            lab.kubectl("wait", "--for=condition=Established", crd, "--timeout=120s")
        yield


def _definition(kind: str, name: str) -> str:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return yaml.safe_dump(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{name}.monitoring.coreos.com"},
            "spec": {
                "group": "monitoring.coreos.com",
                "names": {"kind": kind, "plural": name},
                "scope": "Namespaced",
                "versions": [version],
            },
        }
    )


def _with_election(configuration: Json) -> Json:
    base: dict[str, Any] = yaml.safe_load((CHECKOUT / "deploy/base/config.yaml").read_text())
    return base | configuration


def answer_of(pod: Json, authority: Path, name: str) -> str:
    """Return the response to a scraper that verifies certificate and server name."""
    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection((pod["status"]["podIP"], 10259), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        secure.sendall(
            f"GET /healthz HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()
        )
        return b"".join(iter(partial(secure.recv, 4096), b"")).decode()


def serving_certificate(tmp_path: Path) -> tuple[Path, list[str]]:
    """Issue a certificate from a custom CA, and return the arguments that create its Secret."""
    authority = Authority("readers")
    pair = authority.serving(["stowage-metrics.stowage.svc"], ["127.0.0.1"])
    contents = {"ca.crt": authority.certificate, "tls.crt": pair.public, "tls.key": pair.key}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path / "ca.crt", [f"--from-file={tmp_path / name}" for name in contents]


def _judged(pod: Json) -> float:
    address = f"https://{pod['status']['podIP']}:10259"
    return total(fetch(f"{address}/metrics"), "stowage_shadow_bindings_total")
