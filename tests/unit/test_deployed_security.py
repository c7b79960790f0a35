"""What is deployed keeps what docs/security.md says of it, as far as the files can show."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
DEFAULT_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def objects(path: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / path).read_text()))


def test_the_image_is_based_on_a_digest_and_holds_no_shell() -> None:
    """What it is built in stays behind; what is pushed is based on no tag alone."""
    bases = re.findall(r"^FROM (.+)", DOCKERFILE, re.MULTILINE)
    push = MAKEFILE.partition("image-push:")[2].partition(".PHONY")[0]

    assert bases == [
        "scratch AS wheels",
        "${BASE} AS build",
        "scratch AS image",
        "image AS operator",
        "image AS daemon",
    ]
    assert push.count("docker buildx build") == push.count("BASE=$(or $(BASE),$(BASED_ON))") == 2
    assert re.search(
        r"^BASED_ON = \$\(TAG\)@\$\(shell .*\.Manifest\.Digest", MAKEFILE, re.MULTILINE
    )
    last_stage = DOCKERFILE.partition("FROM scratch AS image")[2]
    assert "RUN" not in last_stage
    assert "USER 65532:65532" in last_stage


def test_what_the_image_is_made_of_is_locked_with_hashes() -> None:
    """Each package of it; the same file is what the SBOM is made from."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if re.match(r"[a-z0-9]", line)]

    assert len(starts) > 10
    assert all("--hash=sha256:" in lines[number + 1] for number in starts)
    assert re.search(r"--require-hashes .*-r requirements\.lock$", DOCKERFILE, re.MULTILINE)
    sbom = MAKEFILE.partition("sbom:")[2].partition(".PHONY")[0]
    assert "requirements.lock" in sbom


@pytest.mark.parametrize("folder", ["base", "shadow"])
def test_only_scrapers_reach_the_port(folder: str) -> None:
    """And nothing else: whatever is not named is shut. The shadow asks for no authorization."""
    [policy] = objects(f"deploy/{folder}/networkpolicy.yaml")
    [deployment] = objects(f"deploy/{folder}/deployment.yaml")
    spec = policy["spec"]

    assert policy["metadata"]["name"] == deployment["metadata"]["name"]
    assert spec["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/name": policy["metadata"]["name"]
    }
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    [ingress] = spec["ingress"]
    assert ingress["ports"] == [{"protocol": "TCP", "port": "https"}]
    [source] = ingress["from"]
    assert source == {"namespaceSelector": {"matchLabels": {"stowage.dev/metrics": "enabled"}}}
    [kustomization] = objects(f"deploy/{folder}/kustomization.yaml")
    assert "networkpolicy.yaml" in kustomization["resources"]


def test_the_scrapers_token_goes_to_nobody_but_stowage() -> None:
    """The certificate is verified, and the token is one for this audience only."""
    [monitor] = objects("deploy/monitoring/servicemonitor.yaml")
    [endpoint] = monitor["spec"]["endpoints"]

    assert not endpoint["bearerTokenFile"].startswith(DEFAULT_MOUNT)
    tls = endpoint["tlsConfig"]
    assert "insecureSkipVerify" not in tls
    assert tls["ca"]["secret"]["key"] == "ca.crt"
    [component] = objects("deploy/components/serving-certificate/kustomization.yaml")
    patch = component["patches"][0]["patch"]
    assert "--authentication-token-audiences=stowage" in patch
    certificates = objects("deploy/components/serving-certificate/certificate.yaml")
    names = {name for each in certificates for name in each["spec"].get("dnsNames", ())}
    assert tls["serverName"] in names


STATIC_POD = "static-pod/kube-scheduler"
DEPLOYED = ("base/deployment", "shadow/deployment", "operator/deployment", STATIC_POD)


def pod_and_container(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod of a manifest, and its only container."""
    [written] = objects(f"deploy/{path}.yaml")
    pod = written["spec"].get("template", written)["spec"]
    [container] = pod["containers"]
    return pod, container


@pytest.mark.parametrize("path", DEPLOYED)
def test_no_container_has_more_than_it_needs(path: str) -> None:
    """The API server enforces less: a root may be writable, and kube-system enforces nothing."""
    pod, container = pod_and_container(path)

    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    is_root = path == STATIC_POD
    assert pod["securityContext"].get("runAsNonRoot", False) is not is_root
    assert pod["securityContext"]["runAsUser"] == (0 if is_root else 65532)
    assert pod.get("hostNetwork", False) is is_root


def test_the_static_pod_is_reached_from_its_node_only() -> None:
    """It is on the node's network, where no NetworkPolicy holds."""
    _, container = pod_and_container(STATIC_POD)

    assert "--bind-address=127.0.0.1" in container["args"]
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert {each["host"] for each in probes} == {"127.0.0.1"}
