"""Promise: health endpoints are open to all; the others need permissions from the API server.

The test compares each response with that of the real kube-scheduler.
"""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from e2e.conftest import StartStowage
from e2e.support.certificates import Authority, KeyPair
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.objects import Json, make_node, make_pod
from e2e.support.rights import GROUP, grant, service_account, user
from e2e.support.waiting import wait_for

OPEN = ("/healthz", "/livez", "/readyz")
GUARDED = ("/metrics", "/configz", "/statusz", "/flagz")
CLOSED_THERE = ("/configz", "/statusz", "/flagz")
"""Endpoints that the harness' kube-scheduler protects; it opens /metrics for benchmarks."""

OUR_OWN = ("/debug/cache", "/debug/queue")
RELOAD_SECONDS = 90
"""Timeout for changed files, which the daemon checks every 10 s."""
CACHED_SECONDS = 10
"""Time for which the daemon keeps a review."""


@dataclass(frozen=True)
class Caller:
    """Credentials of a client.

    Attributes:
        token: a bearer token.
        certificate: files of a client certificate and its key.
    """

    token: str = ""
    certificate: tuple[Path, Path] | None = None

    def get(self, url: str) -> tuple[int, str]:
        """Send GET; return status and body."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None:
            context.load_cert_chain(*self.certificate)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own loopback
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()


@pytest.fixture
def callers(cluster: Cluster, authority: Authority, tmp_path: Path) -> dict[str, Caller]:
    """Clients of every kind; `reader` may read everything, by account and by certificate."""
    cluster.create_namespace("callers")
    for name in ("reader", "nobody"):
        body = {"metadata": {"name": name}}
        ensure(cluster, "/api/v1/namespaces/callers/serviceaccounts", body)
    rule = {"nonResourceURLs": [*GUARDED, "/debug/*"], "verbs": ["get"]}
    # The API server applies the binding to all subjects at once.
    grant(cluster, "e2e-reader", [rule], service_account("callers", "reader"), user("scraper"))
    return {
        "anonymous": Caller(),
        "bad token": Caller("not-a-token"),
        "token without rights": Caller(token_of(cluster, "nobody")),
        "token with rights": Caller(token_of(cluster, "reader")),
        "certificate without rights": certified(authority, "stranger", tmp_path),
        "certificate with rights": certified(authority, "scraper", tmp_path),
    }


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The CA of client certificates; its own certificate is in `clients.crt`."""
    made = Authority("clients")
    (tmp_path / "clients.crt").write_bytes(made.certificate)
    return made


EXPECTED = {
    "anonymous": 403,
    "bad token": 401,
    "token without rights": 403,
    "token with rights": 200,
    "certificate without rights": 403,
    "certificate with rights": 200,
}


def test_everybody_gets_the_answer_kube_scheduler_gives(
    cluster: Cluster,
    own_cluster: ControlPlane,
    callers: dict[str, Caller],
    run_stowage: StartStowage,
    tmp_path: Path,
) -> None:
    """For every path and kind of client, the status is that of kube-scheduler."""
    arguments = [f"--client-ca-file={tmp_path / 'clients.crt'}"]
    real = own_cluster.start_kube_scheduler(arguments=arguments)
    try:
        ours = run_stowage(arguments=arguments)
        for name, caller in callers.items():
            for path in (*OPEN, *CLOSED_THERE):
                status, _ = caller.get(f"{ours.url}{path}")
                assert status == caller.get(f"{real.url}{path}")[0], (name, path)
            assert {caller.get(f"{ours.url}{p}")[0] for p in (*GUARDED, *OUR_OWN)} == {
                EXPECTED[name]
            }, name
        assert [Caller().get(f"{ours.url}{path}") for path in OPEN] == [(200, "ok")] * 3
        for caller in (Caller(), Caller("not-a-token")):
            refusal, their_refusal = (caller.get(f"{p.url}/configz")[1] for p in (ours, real))
            assert json.loads(refusal) == json.loads(their_refusal)
    finally:
        own_cluster.stop_program(real)


def test_answers_about_callers_are_remembered(
    cluster: Cluster,
    own_cluster: ControlPlane,
    callers: dict[str, Caller],
    run_stowage: StartStowage,
) -> None:
    """Reviews are cached for 10 s by default, so the API server is not asked for each request."""
    daemon = run_stowage()

    def asked() -> Counter[str]:
        seen = (e for e in cluster.audit_events() if GROUP in e.user.groups)
        return Counter(e.object_ref.resource for e in seen)

    before, started = asked(), time.monotonic()
    for _ in range(20):
        assert callers["token with rights"].get(f"{daemon.url}/configz")[0] == 200
        assert callers["token without rights"].get(f"{daemon.url}/configz")[0] == 403

    # Once for each caller, and once more whenever a cached review has expired.
    most = 2 * (1 + int((time.monotonic() - started) / CACHED_SECONDS))
    assert 2 <= (asked() - before)["tokenreviews"] <= most < 40
    assert 2 <= (asked() - before)["subjectaccessreviews"] <= most


def test_without_authorization_everything_is_open(
    cluster: Cluster, run_stowage: StartStowage, namespace: str
) -> None:
    """A flag opens all endpoints; their content matches the cluster."""
    # A daemon that does not know the node yet would tell the pod otherwise.
    cluster.create_nodes([make_node("roomy")])
    daemon = run_stowage(arguments=["--serve-without-authorization"])
    cluster.create_pods(
        [
            make_pod("small", namespace=namespace, requests={"cpu": "1"}),
            make_pod("big", namespace=namespace, requests={"cpu": "100"}),
        ]
    )
    cluster.wait_until_bound(namespace, but=1)
    wait_for(lambda: cluster.events(namespace, "FailedScheduling"), "the big pod to fail")

    shown = {path: Caller().get(f"{daemon.url}{path}") for path in (*GUARDED, *OUR_OWN)}

    assert {status for status, _ in shown.values()} == {200}
    assert '"stowage"' in shown["/configz"][1]
    cache, queue = (shown[path][1] for path in OUR_OWN)
    assert "Insufficient cpu" in queue
    assert f"{namespace}/big" in queue
    held: Json = json.loads(cache)
    assert list(held["nodes"]["roomy"]["pods"]) == [f"{namespace}/small"]
    assert not any(held["comparison"].values())


def test_changed_certificates_are_taken_over(
    cluster: Cluster, run_stowage: StartStowage, tmp_path: Path
) -> None:
    """New files take effect within seconds without a restart; a broken file has no effect."""
    authority = Authority("serving")
    first, second = (authority.serving(["localhost"], ["127.0.0.1"]) for _ in range(2))
    write_pair(tmp_path, first)
    daemon = run_stowage(
        arguments=[
            f"--tls-cert-file={tmp_path / 'tls.crt'}",
            f"--tls-private-key-file={tmp_path / 'tls.key'}",
        ]
    )
    port = int(daemon.url.rpartition(":")[2])
    before = served_certificate(port)

    write_pair(tmp_path, second)
    wait_for(lambda: served_certificate(port) != before, "the new certificate", RELOAD_SECONDS, 0.5)
    after = served_certificate(port)
    (tmp_path / "tls.crt").write_text("broken")
    wait_for(
        lambda: "Changed TLS files cannot be used" in daemon.tail(200),
        "a complaint",
        RELOAD_SECONDS,
    )

    assert before.strip() == first.public.decode().strip()
    assert after.strip() == second.public.decode().strip()
    assert served_certificate(port) == after
    assert Caller().get(f"{daemon.url}/livez") == (200, "ok")


def ensure(cluster: Cluster, path: str, body: Json) -> None:
    """Create an object unless it exists."""
    names = {item["metadata"]["name"] for item in cluster.run(cluster.api.list_items(path))}
    if body["metadata"]["name"] not in names:
        cluster.run(cluster.api.post(path, body))


def token_of(cluster: Cluster, account: str) -> str:
    """Return a token from the TokenRequest API."""
    kubeconfig = cluster.service_account_kubeconfig("callers", account)
    token: str = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    return token


def certified(authority: Authority, user: str, directory: Path) -> Caller:
    """Return a client with a certificate of this user."""
    pair = authority.client(user)
    files = directory / f"{user}.crt", directory / f"{user}.key"
    files[0].write_bytes(pair.public)
    files[1].write_bytes(pair.key)
    return Caller(certificate=files)


def write_pair(directory: Path, pair: KeyPair) -> None:
    """Write key and certificate, as a kubelet does after a change of a Secret."""
    (directory / "tls.key").write_bytes(pair.key)
    (directory / "tls.crt").write_bytes(pair.public)


def served_certificate(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))
