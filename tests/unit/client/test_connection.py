"""Finding the API server and its credentials, keeping them fresh, and saying what is wrong."""

import asyncio
import base64
import datetime as dt
import ipaddress
import json
import ssl
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import uvloop
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.clock import SystemClock
from scheduler.daemon.client.connection import (
    Access,
    Connection,
    load_connection,
    load_connection_to,
)
from scheduler.daemon.client.credentials import Credentials, InClusterSource
from scheduler.daemon.client.errors import (
    ConnectionConfigError,
    UnauthorizedError,
    UnavailableError,
)
from scheduler.daemon.client.proxies import proxy_for
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.tls import TlsFiles, load_tls
from scheduler.daemon.client.urls import EXPECTED
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.client.scripted_server import (
    ScriptedServer,
    json_answer,
    status_answer,
    until,
)


class Certificates:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
        self.ca = folder / "ca.crt"
        cert = self._sign("ca", self.key, is_ca=True)
        self.ca.write_bytes(cert.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert_file, key_file = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        cert_file.write_bytes(
            self._sign(name, key, is_ca=False).public_bytes(serialization.Encoding.PEM)
        )
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return cert_file, key_file

    def server_context(self, *, asks_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("server"))
        if asks_client:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(self.ca)
        return context

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, is_ca: bool) -> x509.Certificate:
        now = SystemClock().wall()
        names = [
            x509.DNSName("kubernetes.example"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )


def kubeconfig(
    folder: Path,
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    """Writes a kubeconfig; `changes` replace top-level keys, None removes them."""
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster or {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user or {}}],
    } | changes
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump({key: value for key, value in content.items() if value is not None})
    )
    return str(path)


def load(path: str = "", environ: dict[str, str] | None = None, **options: Any) -> Connection:
    return uvloop.run(load_connection(kubeconfig=path, environ=environ or {}, **options))


# --- where the server is --------------------------------------------------------------------------


class TestSources:
    def test_a_kubeconfig_gives_server_and_token(self, tmp_path: Path) -> None:
        """The plain case; a slash at the end of the server is dropped."""
        path = kubeconfig(tmp_path, {"token": "t0"}, {"server": "http://1.2.3.4:8080/base/"})

        access = load(path).access

        assert (access.server, access.authorization) == ("http://1.2.3.4:8080/base", "Bearer t0")

    def test_a_context_can_be_named(self, tmp_path: Path) -> None:
        """Instead of the current one."""
        path = kubeconfig(
            tmp_path,
            contexts=[
                {"name": "here", "context": {"cluster": "c", "user": "u"}},
                {"name": "there", "context": {"cluster": "d", "user": "u"}},
            ],
            clusters=[
                {"name": "c", "cluster": {"server": "http://c"}},
                {"name": "d", "cluster": {"server": "http://d"}},
            ],
        )

        assert load(path).access.server == "http://c"
        assert load(path, context="there").access.server == "http://d"

    def test_the_user_may_be_absent(self, tmp_path: Path) -> None:
        """A cluster without authentication, also over https."""
        path = kubeconfig(
            tmp_path,
            cluster={"server": "https://h", "insecure-skip-tls-verify": True},
            contexts=[{"name": "here", "context": {"cluster": "c"}}],
            users=None,
        )

        access = load(path).access
        assert access.authorization == ""
        assert access.tls is not None
        assert access.tls.context.verify_mode is ssl.CERT_NONE

    def test_null_is_the_same_as_absent(self, tmp_path: Path) -> None:
        """As what is left when an editor has taken out the only line below."""
        for users in (
            [{"name": "u"}],
            [{"name": "u", "user": None}],
            [{"name": "u", "user": {"auth-provider": {"name": None}, "exec": None}}],
        ):
            assert load(kubeconfig(tmp_path, users=users)).access.authorization == ""

    def test_username_and_password(self, tmp_path: Path) -> None:
        """Basic authentication."""
        path = kubeconfig(tmp_path, {"username": "u", "password": "p"})

        assert load(path).access.authorization == "Basic dTpw"

    def test_master_replaces_the_server_of_the_kubeconfig(self, tmp_path: Path) -> None:
        """And keeps its credentials, also after a refresh."""
        path = kubeconfig(tmp_path, {"token": "t0"})

        async def scenario() -> tuple[str, str]:
            connection = await load_connection(
                kubeconfig=path, master="http://9.9.9.9:1/", environ={}
            )
            await connection.refresh()
            return connection.access.server, connection.access.authorization

        assert uvloop.run(scenario()) == ("http://9.9.9.9:1", "Bearer t0")

    def test_master_alone_needs_no_credentials(self) -> None:
        """For an API server that asks for none."""
        access = load(master="http://127.0.0.1:8001", environ={"KUBECONFIG": "/no"}).access

        assert (access.server, access.authorization, access.tls) == (
            "http://127.0.0.1:8001",
            "",
            None,
        )

    def test_kubeconfig_from_the_environment_may_be_several_files(self, tmp_path: Path) -> None:
        """Merged as kubectl does; files that do not exist are passed over."""
        first = kubeconfig(tmp_path, {"token": "t0"}, users=None)
        second = tmp_path / "second"
        second.write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"token": "t1"}}]}))

        access = load(environ={"KUBECONFIG": f"{first}:{tmp_path}/none:{second}"}).access

        assert access.authorization == "Bearer t1"

    def test_nothing_at_all(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """The message lists what was looked for."""
        monkeypatch.setenv("HOME", str(tmp_path))

        with pytest.raises(ConnectionConfigError, match="no API server given: expected --kubecon"):
            load()

    def test_the_default_location(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """~/.kube/config, when nothing else is given."""
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".kube").mkdir()
        Path(kubeconfig(tmp_path, {"token": "home"})).rename(tmp_path / ".kube" / "config")

        assert load().access.authorization == "Bearer home"


class TestPaths:
    def test_they_are_relative_to_the_kubeconfig_that_names_them(self, tmp_path: Path) -> None:
        """Those of the user too, where the cluster is in another file."""
        clusters, users = _folder(tmp_path / "clusters"), _folder(tmp_path / "users")
        certificates = Certificates(clusters)
        cert, key = certificates.issue("me")
        cluster = {"server": "https://h", "certificate-authority": "ca.crt"}
        first = kubeconfig(clusters, cluster=cluster, users=None)
        user = {"client-certificate": cert.name, "client-key": key.name}
        second = kubeconfig(users, user, clusters=None, contexts=None)
        for file in (cert, key):
            file.rename(users / file.name)

        assert load(environ={"KUBECONFIG": f"{first}:{second}"}).access.tls is not None

    def test_an_exec_plugin_may_be_beside_the_kubeconfig(self, tmp_path: Path) -> None:
        """Wherever the daemon was started."""
        _plugin(tmp_path, {"token": "e0"})

        access = load(kubeconfig(tmp_path, _exec("./plugin"))).access

        assert access.authorization == "Bearer e0"


@pytest.mark.parametrize("wants", [False, True])
def test_an_exec_plugin_learns_of_the_cluster_if_it_wants_to(
    tmp_path: Path, *, wants: bool
) -> None:
    """With `provideClusterInfo`: address, authority, and the extension that is for plugins."""
    ca = Certificates(tmp_path).ca
    told = tmp_path / "told"
    plugin = _script(
        tmp_path,
        f"import os; open({str(told)!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
        'print(\'{"apiVersion": "client.authentication.k8s.io/v1",\''
        '\' "kind": "ExecCredential", "status": {"token": "e0"}}\')',
    )
    user = _exec(plugin)
    user["exec"]["provideClusterInfo"] = wants
    cluster = {
        "server": "https://h",
        "tls-server-name": "other",
        "certificate-authority": ca.name,
        "extensions": [
            {"name": "minikube.sigs.k8s.io", "extension": {"version": "1"}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
        ],
    }

    load(kubeconfig(tmp_path, user, cluster))

    spec = json.loads(told.read_text())["spec"]
    expected = {
        "server": "https://h",
        "tls-server-name": "other",
        "certificate-authority-data": base64.b64encode(ca.read_bytes()).decode(),
        "config": {"audience": "a"},
    }
    assert spec == {"interactive": False} | ({"cluster": expected} if wants else {})


class TestServiceAccount:
    def source(self, tmp_path: Path) -> InClusterSource:
        certificates = Certificates(tmp_path)
        (tmp_path / "token").write_text("t0\n")
        environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
        return InClusterSource(environ, str(tmp_path / "token"), str(certificates.ca))

    def test_the_pods_own_account(self, tmp_path: Path) -> None:
        """Server from the environment, token and authority from files; IPv6 in brackets."""
        found = uvloop.run(self.source(tmp_path).load(is_refused=False))

        assert found == Credentials(
            "https://[fd00::1]:443", "Bearer t0", TlsFiles(ca=str(tmp_path / "ca.crt"))
        )

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            pytest.param(None, "No such file or directory", id="missing"),
            pytest.param(b" \n", "expected a token, the file is empty", id="empty"),
            pytest.param(b"\xff\xfe", "expected text", id="no text"),
        ],
    )
    def test_without_a_token(self, content: bytes | None, expected: str, tmp_path: Path) -> None:
        """The message names the file."""
        source, token = self.source(tmp_path), tmp_path / "token"
        token.unlink()
        if content is not None:
            token.write_bytes(content)

        with pytest.raises(ConnectionConfigError) as raised:
            uvloop.run(source.load(is_refused=False))

        assert str(raised.value) == f"service account of this pod: token file {token}: {expected}"

    def test_without_a_port(self) -> None:
        """The message names the variables."""
        with pytest.raises(ConnectionConfigError) as raised:
            load(environ={"KUBERNETES_SERVICE_HOST": "1.2.3.4"})

        assert str(raised.value) == (
            "service account of this pod: expected KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT to be set"
        )

    def test_the_daemon_does_not_import_what_reads_kubeconfigs(self) -> None:
        """In a cluster it would only delay the start."""
        code = "import sys, scheduler.daemon.bootstrap.daemon; print('kubernetes' in sys.modules)"

        told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

        assert told.stdout == b"False\n"

    def test_outside_a_pod_it_is_not_tried(self, tmp_path: Path) -> None:
        """KUBECONFIG wins, so that a developer's shell in a pod does what it says."""
        environ = {
            "KUBERNETES_SERVICE_HOST": "1.2.3.4",
            "KUBERNETES_SERVICE_PORT": "443",
            "KUBECONFIG": kubeconfig(tmp_path, {"token": "t0"}),
        }

        assert load(environ=environ).access.authorization == "Bearer t0"


# --- what people get wrong ------------------------------------------------------------------------

BAD_FILES: dict[str, tuple[Callable[[Path], str], str]] = {
    "missing": (lambda d: str(d / "none"), "the file does not exist"),
    "a folder": (str, "cannot be read: Is a directory"),
    "binary": (
        lambda d: _file(d, b"\xff\xfe\x00\x01"),
        "cannot be read: not a text file",
    ),
    "not YAML": (lambda d: _file(d, b"a: [1\nb: {"), "expected YAML: while parsing"),
    "a list": (lambda d: _file(d, b"- a\n- b\n"), "expected a mapping with clusters"),
    "empty": (lambda d: _file(d, b""), "expected a mapping with clusters"),
    "entries without names": (
        lambda d: kubeconfig(d, users=[{"user": {}}]),
        "expected a mapping with clusters, contexts and users, each a list of named entries",
    ),
    "no current context": (
        lambda d: kubeconfig(d, **{"current-context": None}),
        "current-context is not set; contexts in the file: here",
    ),
    "unknown context": (
        lambda d: kubeconfig(d, **{"current-context": "gone"}),
        "contexts has no entry named 'gone'; contexts in the file: here",
    ),
    "unknown cluster": (
        lambda d: kubeconfig(d, clusters=[]),
        "context here: clusters has no entry named 'c'",
    ),
    "unknown user": (
        lambda d: kubeconfig(d, users=[]),
        "context here: users has no entry named 'u'",
    ),
    "a switch in quotes": (
        lambda d: kubeconfig(
            d, cluster={"server": "https://h", "insecure-skip-tls-verify": "false"}
        ),
        "cluster c: insecure-skip-tls-verify: expected true or false, got 'false'",
    ),
    "a token that is a number": (
        lambda d: kubeconfig(d, {"token": 12345}),
        "user u: token: expected a text, got a value of int",
    ),
    "a server without a value": (
        lambda d: kubeconfig(d, cluster={"server": None}),
        "cluster c: server: expected an http or https URL such as https://10.0.0.1:6443, got ''",
    ),
    "context without cluster": (
        lambda d: kubeconfig(d, contexts=[{"name": "here", "context": {"user": "u"}}]),
        "context here: expected a cluster",
    ),
    "server without scheme": (
        lambda d: kubeconfig(d, cluster={"server": "1.2.3.4:6443"}),
        f"cluster c: server: {EXPECTED}, got '1.2.3.4:6443'",
    ),
    "server with a port that is none": (
        lambda d: kubeconfig(d, cluster={"server": "https://h:66443"}),
        f"cluster c: server: {EXPECTED}, got 'https://h:66443'",
    ),
    "proxy with a port that is none": (
        lambda d: kubeconfig(
            d, cluster={"server": "https://h", "proxy-url": "http://u:pw@p:99999"}
        ),
        f"proxy-url, HTTP_PROXY or HTTPS_PROXY: {EXPECTED}, got 'p:99999'",
    ),
    "authority file missing": (
        lambda d: kubeconfig(
            d, cluster={"server": "https://h", "certificate-authority": "none.crt"}
        ),
        "cluster: certificate-authority: there is no file /",
    ),
    "authority data not base64": (
        lambda d: kubeconfig(
            d, cluster={"server": "https://h", "certificate-authority-data": "%%%"}
        ),
        "cluster c: certificate-authority-data: expected a PEM file in base64",
    ),
    "authority data cut off": (
        lambda d: kubeconfig(d, cluster={"server": "https://h", "certificate-authority-data": "x"}),
        "cluster c: certificate-authority-data: expected a PEM file in base64",
    ),
    "authority data not text": (
        lambda d: kubeconfig(d, cluster={"server": "https://h", "certificate-authority-data": 5}),
        "cluster c: certificate-authority-data: expected a PEM file in base64",
    ),
    "token file missing": (
        lambda d: kubeconfig(d, {"tokenFile": "none"}),
        "user: tokenFile: there is no file /",
    ),
    "auth-provider without its fields": (
        lambda d: kubeconfig(
            d, {"auth-provider": {"name": "oidc", "config": {"refresh-token": "secret"}}}
        ),
        "Expected key client-id in user u/user/auth-provider/config",
    ),
    "a user that is a text": (
        lambda d: kubeconfig(d, users=[{"name": "u", "user": "secret"}]),
        "expected a mapping with clusters, contexts and users",
    ),
    "impersonation": (
        lambda d: kubeconfig(d, {"token": "t", "as": "jane"}),
        "user u: as: impersonation is not supported",
    ),
    "auth-provider of a cloud": (
        lambda d: kubeconfig(d, {"auth-provider": {"name": "azure"}}),
        "user u: auth-provider: expected oidc, got azure; clouds have an exec plugin",
    ),
    "exec plugin not installed": (
        lambda d: kubeconfig(d, _exec("/no/such/plugin")),
        "exec plugin /no/such/plugin: cannot be run: No such file or directory",
    ),
    "exec plugin fails": (
        lambda d: kubeconfig(d, _exec(_script(d, "import sys; sys.exit('log in first')"))),
        "plugin: process returned 1. log in first",
    ),
    "exec plugin says nonsense": (
        lambda d: kubeconfig(d, _exec(_script(d, "print('hello')"))),
        "failed to decode process output",
    ),
    "exec plugin without credentials": (
        lambda d: kubeconfig(d, _exec(_plugin(d, {}))),
        "exec plugin: its answer has no token and no certificate",
    ),
    "exec plugin with half a certificate": (
        lambda d: kubeconfig(d, _exec(_plugin(d, {"clientCertificateData": "x"}))),
        "exec plugin: expected clientCertificateData and clientKeyData together",
    ),
    "exec plugin with an expiry without a time zone": (
        lambda d: kubeconfig(
            d, _exec(_plugin(d, {"token": "x", "expirationTimestamp": "2026-01-31T12:00:00"}))
        ),
        "exec plugin: expirationTimestamp: expected a time with its zone",
    ),
    "exec plugin with an expiry that is no time": (
        lambda d: kubeconfig(
            d, _exec(_plugin(d, {"token": "x", "expirationTimestamp": "tomorrow"}))
        ),
        "exec plugin: expirationTimestamp: expected a time with its zone",
    ),
}


def _file(folder: Path, content: bytes) -> str:
    (folder / "kubeconfig").write_bytes(content)
    return str(folder / "kubeconfig")


def _exec(command: str) -> dict[str, Any]:
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command}}


def _script(folder: Path, code: str) -> str:
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable} -IS\n{code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def _plugin(folder: Path, status: dict[str, Any]) -> str:
    """An exec plugin that answers with `status` and counts its runs in the file `runs`."""
    (folder / "status").write_text(repr(status))
    return _script(
        folder,
        f"import json; open({str(folder / 'runs')!r}, 'a').write('x')\n"
        f"status = eval(open({str(folder / 'status')!r}).read())\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',"
        " 'kind': 'ExecCredential', 'status': status}))",
    )


@pytest.mark.parametrize("name", BAD_FILES)
def test_each_broken_kubeconfig_has_one_clear_line(name: str, tmp_path: Path) -> None:
    """It names the file and what is wrong in it."""
    make, expected = BAD_FILES[name]
    path = make(tmp_path)

    with pytest.raises(ConnectionConfigError) as raised:
        load(path)

    message = str(raised.value)
    assert message.startswith(f"kubeconfig {path}: ")
    assert expected in message
    assert "\n" not in message
    assert "secret" not in message


def test_certificates_that_are_none(tmp_path: Path) -> None:
    """Files that hold something else, and a key that is not the certificate's."""
    certificates = Certificates(tmp_path)
    cert, _ = certificates.issue("a")
    _, other_key = certificates.issue("b")
    (tmp_path / "text").write_text("hello")

    for files, expected in (
        (TlsFiles(ca=str(tmp_path / "text")), "expected PEM certificates"),
        (TlsFiles(ca=str(tmp_path / "none")), "none: No such file or directory"),
        (TlsFiles(cert=str(cert), key=str(other_key)), r"\(key values mismatch\)"),
        (TlsFiles(cert=str(tmp_path / "text"), key=str(other_key)), "expected a PEM certificate"),
    ):
        with pytest.raises(ConnectionConfigError, match=expected):
            load_tls(files)


def test_an_authority_of_another_server_is_not_the_kubeconfigs(tmp_path: Path) -> None:
    """The message names the server that the file was given for."""
    ca, path = str(tmp_path / "none"), kubeconfig(tmp_path, {"token": "t"})

    with pytest.raises(ConnectionConfigError) as raised:
        uvloop.run(load_connection_to("https://d:1", kubeconfig=path, ca=ca, environ={}))

    assert str(raised.value) == (
        f"https://d:1: cannot read certificate file {ca}: No such file or directory"
    )


@pytest.mark.parametrize(
    "master",
    [
        *("1.2.3.4:80", "ftp://x", "https://", "HTTPS://x"),
        *("https://x:66443", "https://x:-1", "https://x:0", "https://x:y", "https://[::1"),
        *("https://a..b", f"https://{'a' * 64}"),
    ],
)
def test_a_master_that_is_no_url(master: str) -> None:
    """The flag is named, before a request fails by it."""
    with pytest.raises(ConnectionConfigError, match=f"--master: {EXPECTED}"):
        load(master=master)


@pytest.mark.parametrize("proxy", ["p:99999", "socks5://p:1080", "http://[::1"])
def test_a_proxy_that_is_no_url(proxy: str, tmp_path: Path) -> None:
    """The message names the variables; requests would only fail with the value."""
    path = kubeconfig(tmp_path, cluster={"server": "https://h"})

    with pytest.raises(ConnectionConfigError, match=f"HTTP_PROXY or HTTPS_PROXY: {EXPECTED}"):
        load(environ={"KUBECONFIG": path, "HTTPS_PROXY": proxy})


# --- over the wire --------------------------------------------------------------------------------


async def whoami(request: web.Request) -> web.Response:
    """Answers with the caller's token and certificate."""
    assert request.transport is not None
    cert = request.transport.get_extra_info("peercert") or {}
    subject = [value for part in cert.get("subject", ()) for _, value in part]
    return json_answer([request.headers.get("Authorization", ""), *subject])


async def ask(session: ApiSession) -> bytes:
    return (await session.request("GET", "/whoami", timeout=60.0)).body


# The kubernetes package sends its secret so.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("is_file", [True, False])
@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_token_of_a_provider_is_renewed_over_a_verified_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_trusted: bool, is_file: bool
) -> None:
    """The authority of the kubeconfig goes into no other file; another one is not believed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    monkeypatch.setattr(tempfile, "tempdir", None)
    ours = Certificates(tmp_path)
    (tmp_path / "others").mkdir()
    trusted = ours if is_trusted else Certificates(tmp_path / "others")
    asked: list[str] = []

    async def provider(request: web.Request) -> web.Response:
        asked.append(request.path)
        if request.method == "GET":
            return json_answer({"token_endpoint": f"https://{request.host}/token"})
        return json_answer({"id_token": "new", "refresh_token": "next"})

    async def scenario() -> str:
        async with ScriptedServer(provider).running(ours.server_context()) as server:
            config = {
                "client-id": "stowage",
                "client-secret": "x",
                "idp-issuer-url": server.url,
                "refresh-token": "first",
            }
            if is_file:
                config["idp-certificate-authority"] = str(trusted.ca)
            else:
                data = base64.b64encode(trusted.ca.read_bytes()).decode()
                config["idp-certificate-authority-data"] = data
            user = {"auth-provider": {"name": "oidc", "config": config}}
            connection = await load_connection(kubeconfig=kubeconfig(tmp_path, user), environ={})
            return connection.access.authorization

    if is_trusted:
        assert uvloop.run(scenario()) == "Bearer new"
        assert asked == ["/.well-known/openid-configuration", "/token"]
    else:
        with pytest.raises(ConnectionConfigError, match="certificate"):
            uvloop.run(scenario())
        assert asked == []


# The kubernetes package sends the name of the client so.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_public_client_of_a_provider_has_no_secret(tmp_path: Path) -> None:
    """Its token is renewed all the same, as by kubectl."""
    names: list[str] = []

    async def provider(request: web.Request) -> web.Response:
        names.append(request.headers["Authorization"])
        if request.method == "GET":
            return json_answer({"token_endpoint": f"http://{request.host}/token"})
        return json_answer({"id_token": "new"})

    async def scenario() -> str:
        async with ScriptedServer(provider).running() as server:
            config = {
                "client-id": "stowage",
                "idp-issuer-url": server.url,
                "refresh-token": "first",
            }
            user = {"auth-provider": {"name": "oidc", "config": config}}
            connection = await load_connection(kubeconfig=kubeconfig(tmp_path, user), environ={})
            return connection.access.authorization

    assert uvloop.run(scenario()) == "Bearer new"
    assert base64.b64decode(names[-1].removeprefix("Basic ")) == b"stowage:"


def _id_token(expires: dt.datetime) -> str:
    """A token whose claims need each letter of base64url."""
    claims = {"exp": int(expires.timestamp()), "name": "~~~~????"}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    assert {"-", "_"} <= set(payload)
    return f"e30.{payload}.c2ln"


def test_an_id_token_is_used_until_it_expires(tmp_path: Path) -> None:
    """Whatever its claims are; then it is renewed, which fails here."""
    clock = FakeClock()
    token = _id_token(clock.wall() + dt.timedelta(minutes=10))
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}}
    path = kubeconfig(tmp_path, user)

    async def scenario() -> str:
        connection = await load_connection(kubeconfig=path, environ={}, clock=clock)
        clock.advance(590.0)
        with pytest.raises(ConnectionConfigError, match="not valid, and no refresh-token"):
            await connection.refresh()
        return connection.access.authorization

    assert uvloop.run(scenario()) == f"Bearer {token}"


@pytest.mark.parametrize("token", ["a.b", "a.e30!.c", "a.W10.c", "a.eyJleHAiOiJ4In0.c"])
def test_what_is_no_id_token_is_told(token: str, tmp_path: Path) -> None:
    """Two parts, a letter of no base64, claims that are a list, a time that is a text."""
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}}

    with pytest.raises(ConnectionConfigError, match="oidc: id-token: expected a JSON web token"):
        load(kubeconfig(tmp_path, user))


class TestFreshness:
    def test_a_rotated_token_file_is_noticed(self, tmp_path: Path) -> None:
        """The next request carries the new token; nothing changed means nothing is replaced."""
        token = tmp_path / "token"
        token.write_text("t0\n")
        path = kubeconfig(tmp_path, {"tokenFile": str(token)})

        async def scenario() -> tuple[bytes, bool, bool, bytes]:
            async with ScriptedServer(whoami).running() as server:
                connection = await load_connection(kubeconfig=path, master=server.url, environ={})
                async with ApiSession(connection, clock=SystemClock()) as session:
                    before = await ask(session)
                    is_changed_early = await connection.refresh()
                    token.write_text("t1\n")
                    is_changed = await connection.refresh()
                    return before, is_changed_early, is_changed, await ask(session)

        assert uvloop.run(scenario()) == (b'["Bearer t0"]', False, True, b'["Bearer t1"]')

    def test_a_token_file_comes_before_a_token(self, tmp_path: Path) -> None:
        """The token is used until the file can be read, and not again after that."""
        token = tmp_path / "token"
        path = kubeconfig(tmp_path, {"tokenFile": str(token), "token": "inline"})

        async def scenario() -> list[str]:
            connection = await load_connection(kubeconfig=path, environ={})
            told = [connection.access.authorization]
            for content in ("t0\n", "t1\n"):
                token.write_text(content)
                await connection.refresh()
                told.append(connection.access.authorization)
            token.unlink()
            with pytest.raises(ConnectionConfigError, match="tokenFile: there is no file"):
                await connection.refresh()
            return [*told, connection.access.authorization]

        told = ["Bearer inline", "Bearer t0", "Bearer t1", "Bearer t1"]
        assert uvloop.run(scenario()) == told

    def test_a_rotated_client_certificate_is_noticed(self, tmp_path: Path) -> None:
        """New connections show the new one, also when the old one is kept alive."""
        certificates = Certificates(tmp_path)
        cert, key = certificates.issue("me")
        path = kubeconfig(
            tmp_path,
            {"client-certificate": str(cert), "client-key": str(key)},
            {"server": "https://127.0.0.1:1", "certificate-authority": str(certificates.ca)},
        )

        async def scenario() -> list[bytes]:
            tls = certificates.server_context(asks_client=True)
            async with ScriptedServer(whoami).running(tls) as server:
                connection = await load_connection(kubeconfig=path, master=server.url, environ={})
                async with ApiSession(connection, clock=SystemClock()) as session:
                    told = [await ask(session)]
                    for new, old in zip(certificates.issue("new"), (cert, key), strict=True):
                        new.replace(old)
                    told.append(await ask(session))
                    assert await connection.refresh()
                    told.append(await ask(session))
                    return told

        assert uvloop.run(scenario()) == [b'["","me"]', b'["","me"]', b'["","new"]']

    def test_a_broken_rotation_keeps_the_old_credentials(self, tmp_path: Path) -> None:
        """Half-written files are reported and tried again."""
        certificates = Certificates(tmp_path)
        cert, key = certificates.issue("me")
        path = kubeconfig(
            tmp_path,
            {"client-certificate": str(cert), "client-key": str(key)},
            {"server": "https://127.0.0.1:1", "certificate-authority": str(certificates.ca)},
        )

        async def scenario() -> tuple[bool, list[str]]:
            connection = await load_connection(kubeconfig=path, environ={})
            before = connection.access
            cert.write_text("half")
            problems: list[str] = []
            task = asyncio.create_task(
                connection.keep_fresh(lambda p: problems.append(str(p)), interval_seconds=0.01)
            )
            await until(lambda: len(problems) >= 2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return connection.access is before, problems

        is_kept, problems = uvloop.run(scenario())
        assert is_kept
        assert f"client certificate {cert}" in problems[0]

    def test_an_exec_plugin_runs_again_when_its_token_expires(self, tmp_path: Path) -> None:
        """And not before."""
        clock = FakeClock()
        expires = (clock.wall() + dt.timedelta(minutes=10)).isoformat()
        path = kubeconfig(
            tmp_path,
            _exec(_plugin(tmp_path, {"token": "e0", "expirationTimestamp": expires})),
        )

        async def scenario() -> list[tuple[str, str]]:
            connection = await load_connection(kubeconfig=path, environ={}, clock=clock)
            story = []
            for seconds in (0.0, 470.0, 20.0):
                clock.advance(seconds)
                (tmp_path / "status").write_text(repr({"token": "e1"}))
                await connection.refresh()
                story.append((connection.access.authorization, (tmp_path / "runs").read_text()))
            return story

        assert uvloop.run(scenario()) == [
            ("Bearer e0", "x"),
            ("Bearer e0", "x"),
            ("Bearer e1", "xx"),
        ]

    def test_an_exec_plugins_certificate_is_renewed_before_it_runs_out(
        self, tmp_path: Path
    ) -> None:
        """Its own end is the expiry when the plugin names none."""
        certificates = Certificates(tmp_path)

        def answer(name: str) -> dict[str, str]:
            cert, key = certificates.issue(name)
            return {
                "clientCertificateData": cert.read_text(),
                "clientKeyData": key.read_text(),
            }

        path = kubeconfig(
            tmp_path,
            _exec(_plugin(tmp_path, answer("first"))),
            {"server": "https://127.0.0.1:1", "certificate-authority": str(certificates.ca)},
        )

        class Later(SystemClock):
            ahead = dt.timedelta()

            def wall(self) -> dt.datetime:
                return super().wall() + self.ahead

        clock = Later()

        async def scenario() -> list[bytes]:
            tls = certificates.server_context(asks_client=True)
            async with ScriptedServer(whoami).running(tls) as server:
                connection = await load_connection(
                    kubeconfig=path, master=server.url, environ={}, clock=clock
                )
                async with ApiSession(connection, clock=SystemClock()) as session:
                    (tmp_path / "status").write_text(repr(answer("second")))
                    await connection.refresh()
                    told = [await ask(session)]
                    clock.ahead = dt.timedelta(minutes=59, seconds=30)
                    await connection.refresh()
                    told.append(await ask(session))
                    return told

        assert uvloop.run(scenario()) == [b'["","first"]', b'["","second"]']

    def test_a_401_makes_the_plugin_run_again_soon(self, tmp_path: Path) -> None:
        """Whatever expiry it had named."""
        path = kubeconfig(tmp_path, _exec(_plugin(tmp_path, {"token": "revoked"})))

        async def guarded(request: web.Request) -> web.Response:
            if request.headers["Authorization"] != "Bearer fresh":
                return status_answer(401, "Unauthorized", "Unauthorized")
            return json_answer({})

        async def scenario() -> None:
            async with ScriptedServer(guarded).running() as server:
                connection = await load_connection(kubeconfig=path, master=server.url, environ={})
                (tmp_path / "status").write_text(repr({"token": "fresh"}))
                task = asyncio.create_task(
                    connection.keep_fresh(lambda _: None, interval_seconds=60.0)
                )
                async with ApiSession(connection, clock=SystemClock()) as session:
                    with pytest.raises(UnauthorizedError):
                        await session.request("GET", "/x")
                    await until(lambda: connection.access.authorization == "Bearer fresh")
                    await session.request("GET", "/x")
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        uvloop.run(scenario())

    def test_who_is_always_refused_renews_now_and_then(self) -> None:
        """A server that says 401 whatever it is shown makes no hot loop of renewals."""
        clock, renewals = FakeClock(), list[float]()

        class Useless:
            description = "a plugin that always gives the same"

            async def load(self, *, is_refused: bool) -> Credentials:
                if is_refused:
                    renewals.append(clock.now)
                return Credentials("http://127.0.0.1:1")

        async def scenario() -> None:
            connection = Connection(Useless(), Access("http://127.0.0.1:1"))
            task = asyncio.create_task(connection.keep_fresh(lambda _: None))
            for _ in range(6000):
                connection.note_refused()
                await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        run_in(clock, scenario())

        assert len(renewals) > 30
        assert min(b - a for a, b in pairwise(renewals)) >= 10.0

    def test_an_unknown_authority_is_refused(self, tmp_path: Path) -> None:
        """TLS is verified unless the kubeconfig says otherwise; a given server name counts."""
        theirs = Certificates(_folder(tmp_path / "theirs"))
        ours = Certificates(_folder(tmp_path / "ours"))

        async def scenario() -> list[str]:
            told = []
            async with ScriptedServer(whoami).running(theirs.server_context()) as server:
                for cluster in (
                    {"certificate-authority": str(ours.ca)},
                    {"certificate-authority": str(theirs.ca)},
                    {"certificate-authority": str(theirs.ca), "tls-server-name": "other"},
                    {
                        "certificate-authority": str(theirs.ca),
                        "tls-server-name": "kubernetes.example",
                    },
                    {"insecure-skip-tls-verify": True},
                    {
                        "certificate-authority-data": base64.b64encode(
                            theirs.ca.read_bytes()
                        ).decode()
                    },
                ):
                    path = kubeconfig(tmp_path, cluster={"server": server.url, **cluster})
                    connection = await load_connection(kubeconfig=path, environ={})
                    async with ApiSession(connection, clock=SystemClock()) as session:
                        try:
                            told.append((await ask(session)).decode())
                        except UnavailableError as problem:
                            told.append(problem.message)
            return told

        told = uvloop.run(scenario())
        assert "certificate verify failed" in told[0]
        assert "certificate is not valid for 'other'" in told[2]
        assert [told[i] for i in (1, 3, 4, 5)] == ['[""]'] * 4


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("environ", "server", "proxy"),
    [
        pytest.param({}, "https://h:6443", None, id="none"),
        pytest.param({"HTTPS_PROXY": "http://p:1"}, "https://h", "http://p:1", id="upper case"),
        pytest.param({"https_proxy": "p:1"}, "https://h", "http://p:1", id="without scheme"),
        pytest.param({"HTTPS_PROXY": "http://p:1"}, "http://h", None, id="other scheme"),
        pytest.param({"HTTPS_PROXY": "p", "NO_PROXY": "*"}, "https://h", None, id="all"),
        pytest.param(
            {"HTTPS_PROXY": "p", "NO_PROXY": "x, 10.96.0.0/12"},
            "https://10.96.0.1",
            None,
            id="range",
        ),
        pytest.param(
            {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.96.0.0/12"},
            "https://10.0.0.1",
            "http://p",
            id="outside the range",
        ),
        pytest.param(
            {"HTTPS_PROXY": "p", "NO_PROXY": "example.com"},
            "https://a.example.com",
            None,
            id="domain",
        ),
        pytest.param(
            {"HTTPS_PROXY": "http://p", "NO_PROXY": ".example.com"},
            "https://example.com",
            "http://p",
            id="only below the domain",
        ),
        pytest.param(
            {"HTTPS_PROXY": "http://p", "NO_PROXY": "*.example.com"},
            "https://example.com",
            "http://p",
            id="a star is only below the domain",
        ),
        pytest.param(
            {"HTTPS_PROXY": "p", "NO_PROXY": "10.0.0.1:6443"},
            "https://10.0.0.1:6443",
            None,
            id="address and port",
        ),
        pytest.param(
            {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.1:6443"},
            "https://10.0.0.1",
            "http://p",
            id="address and another port",
        ),
        pytest.param(
            {"HTTPS_PROXY": "p", "NO_PROXY": "[fd00::1]:6443"},
            "https://[fd00::1]:6443",
            None,
            id="IPv6 address and port",
        ),
        pytest.param(
            {"HTTPS_PROXY": "p", "NO_PROXY": "fd00::1"},
            "https://[fd00::1]:6443",
            None,
            id="IPv6 address",
        ),
        pytest.param(
            {"HTTPS_PROXY": "p", "NO_PROXY": "example.com:443"},
            "https://a.example.com",
            None,
            id="domain and the port of the scheme",
        ),
        pytest.param(
            {"HTTPS_PROXY": "http://p", "NO_PROXY": "0.0.1"},
            "https://10.0.0.1",
            "http://p",
            id="an address is below no domain",
        ),
        pytest.param({"HTTPS_PROXY": "p"}, "https://127.0.0.1:6443", None, id="loopback"),
        pytest.param({"HTTPS_PROXY": "p"}, "https://localhost", None, id="localhost"),
    ],
)
def test_proxies_of_the_environment(
    environ: dict[str, str], server: str, proxy: str | None
) -> None:
    """As Go programs read them, address ranges included."""
    assert proxy_for(server, environ) == proxy
