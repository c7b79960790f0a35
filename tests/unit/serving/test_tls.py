"""The port shows the certificate it was told to, and follows the files when they change."""

import asyncio
import os
import shutil
import socket
import ssl
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from cryptography import x509
from structlog.testing import capture_logs

from scheduler.config.options import RunOptions
from scheduler.daemon.serving.authorization import OpenPaths
from scheduler.daemon.serving.errors import ServingError
from scheduler.daemon.serving.tls import ServingTls, trust
from tests.support.clock import FakeClock
from tests.support.pki import Authority, client_context
from tests.unit.serving.harness import Instance, served_certificate, serving

Story = Callable[[Instance], Awaitable[None]]


def _tell(story: Story, **options: Any) -> None:
    async def run() -> None:
        async with serving(**options) as instance:
            await story(instance)

    uvloop.run(run())


def test_without_files_a_certificate_for_localhost_is_made_up() -> None:
    """In memory: nothing is written, a read-only file system is enough."""

    async def story(instance: Instance) -> None:
        certificate = x509.load_pem_x509_certificate(await served_certificate(instance))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

        assert names.get_values_for_type(x509.DNSName) == ["localhost"]

    _tell(story)


@pytest.mark.parametrize("name", ["", "run/certificates"], ids=["there", "not there"])
def test_cert_dir_is_filled_and_used_again(tmp_path: Path, name: str) -> None:
    """The key is for the owner only."""
    folder = tmp_path / name
    seen: list[bytes] = []

    async def story(instance: Instance) -> None:
        seen.append(await served_certificate(instance))

    _tell(story, cert_dir=str(folder))
    _tell(story, cert_dir=str(folder))

    assert seen[0] == seen[1] == (folder / "kube-scheduler.crt").read_bytes()
    assert stat.S_IMODE((folder / "kube-scheduler.key").stat().st_mode) == 0o600


def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    """As mounted Secrets are renewed; a broken one is reported and the old stays."""
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.issue("server", "first", server=True)
    options = {"tls_cert_file": str(certificate), "tls_private_key_file": str(key)}

    async def story(instance: Instance) -> None:
        first = await served_certificate(instance)
        for old, new in zip(
            (certificate, key), authority.issue("next", "second", server=True), strict=True
        ):
            shutil.move(new, old)
        assert instance.server._tls.reload_if_changed()
        second = await served_certificate(instance)
        certificate.write_text("nonsense")
        assert not instance.server._tls.reload_if_changed()
        third = await served_certificate(instance)

        assert first != second == third
        trusting = client_context(authority.file)
        url = instance.url.replace("127.0.0.1", "localhost")
        async with instance.session.get(f"{url}/healthz", ssl=trusting) as answer:
            assert answer.status == 200

    _tell(story, **options)


def test_files_that_cannot_be_read_once_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights come back without a change of the files; each problem is reported once."""
    authority, new = Authority(tmp_path, "ca"), Authority(tmp_path, "new")
    certificate, key = authority.issue("server", "first", server=True)
    bundle = tmp_path / "bundle.crt"
    shutil.copy(authority.file, bundle)
    tls = ServingTls(
        RunOptions(
            tls_cert_file=str(certificate),
            tls_private_key_file=str(key),
            client_ca_file=str(bundle),
        ),
        FakeClock(),
    )
    shutil.copy(new.file, bundle)
    os.utime(bundle, (1, 1))

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    with capture_logs() as logs:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "read_bytes", refuse)
            assert [tls.reload_if_changed() for _ in range(3)] == [False] * 3
        assert [tls.reload_if_changed() for _ in range(3)] == [True, False, False]

    assert [log["reason"] for log in logs if log["log_level"] == "error"] == [
        f"--client-ca-file={bundle}: cannot be read: Permission denied"
    ]
    assert [each.subject.rfc4514_string() for each in tls.authorities.clients] == ["CN=new"]


def test_files_are_looked_at_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task does it."""
    monkeypatch.setattr("scheduler.daemon.serving.tls.RELOAD_SECONDS", 0.01)
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.issue("server", "first", server=True)

    async def story(instance: Instance) -> None:
        first = await served_certificate(instance)
        for old, new in zip(
            (key, certificate), reversed(authority.issue("n", "2", server=True)), strict=True
        ):
            shutil.move(new, old)
        async with asyncio.timeout(60):
            # Every look is a handshake, so this does not spin.
            while await served_certificate(instance) == first:
                pass

    _tell(story, tls_cert_file=str(certificate), tls_private_key_file=str(key))


def test_clients_of_a_replaced_authority_are_refused(tmp_path: Path) -> None:
    """Not only are new authorities trusted, old ones are no longer."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    bundle = tmp_path / "bundle.crt"
    shutil.copy(old.file, bundle)
    old_client = client_context(pair=old.issue("a", "op", ["ops"]))
    new_client = client_context(pair=new.issue("b", "op", ["ops"]))

    async def story(instance: Instance) -> None:
        assert (await instance.get("/metrics", tls=old_client))[0] == 200
        shutil.copy(new.file, bundle)
        os.utime(bundle, (1, 1))
        assert instance.server._tls.reload_if_changed()

        assert (await instance.get("/metrics", tls=new_client))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await instance.get("/metrics", tls=old_client)

    _tell(story, client_ca_file=str(bundle))


@pytest.mark.parametrize("is_replaced", [True, False], ids=["replaced", "expired"])
def test_open_connections_do_not_outlive_the_trust_in_them(
    tmp_path: Path, *, is_replaced: bool
) -> None:
    """The authority was replaced, or the certificate has expired, since the handshake."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    bundle = tmp_path / "bundle.crt"
    shutil.copy(old.file, bundle)
    client = client_context(pair=old.issue("a", "op", ["ops"]))

    async def story(instance: Instance) -> None:
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector) as session:
            url = f"{instance.url}/metrics"
            async with session.get(url, ssl=client) as answer:
                assert answer.status == 200
                await answer.read()
            if is_replaced:
                shutil.copy(new.file, bundle)
                os.utime(bundle, (1, 1))
                assert instance.server._tls.reload_if_changed()
            else:
                instance.clock.advance(100 * 365 * 24 * 3600.0)
            async with session.get(url, ssl=client) as answer:
                assert (answer.status, answer.headers["Connection"]) == (401, "close")

    _tell(story, client_ca_file=str(bundle))


def test_no_session_can_be_resumed(tmp_path: Path) -> None:
    """It would bring the client's certificate back without a look at it."""
    authority = Authority(tmp_path, "ca")
    client = client_context(pair=authority.issue("a", "op", ["ops"]))

    async def story(instance: Instance) -> None:
        port = int(instance.url.rpartition(":")[2])

        def session() -> ssl.SSLSession | None:
            with (
                socket.create_connection(("127.0.0.1", port)) as plain,
                client.wrap_socket(plain, server_hostname="localhost") as tls,
            ):
                tls.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                while tls.recv(4096):
                    pass
                return tls.session if tls.session is not None and tls.session.has_ticket else None

        assert await asyncio.to_thread(session) is None

    _tell(story, client_ca_file=str(authority.file))


def test_the_oldest_version_can_be_chosen() -> None:
    """A client that cannot do it is refused by the handshake."""
    old = client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2

    async def story(instance: Instance) -> None:
        assert (await instance.get("/healthz"))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await instance.get("/healthz", tls=old)

    _tell(story, tls_min_version="VersionTLS13")


def test_cipher_suites_can_be_chosen() -> None:
    """By their IANA names, for TLS 1.2."""
    other = client_context()
    other.maximum_version = ssl.TLSVersion.TLSv1_2
    other.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")

    async def story(instance: Instance) -> None:
        with pytest.raises(aiohttp.ClientError):
            await instance.get("/healthz", tls=other)
        assert (await instance.get("/healthz"))[0] == 200

    _tell(story, tls_cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_X"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"tls_cert_file": "/no/cert", "tls_private_key_file": "/no/key"},
            "/no/cert does not exist",
            id="no certificate",
        ),
        pytest.param(
            {"tls_cert_file": __file__, "tls_private_key_file": __file__},
            "cannot be used",
            id="no PEM",
        ),
        pytest.param(
            {"client_ca_file": "/no/ca"}, "--client-ca-file=/no/ca: cannot be read", id="no CA"
        ),
        pytest.param(
            {"requestheader_client_ca_file": __file__},
            "expected PEM certificates",
            id="CA without certificates",
        ),
        pytest.param({"cert_dir": "/proc/x"}, "--cert-dir=/proc/x: cannot be written", id="folder"),
        pytest.param(
            {"tls_cipher_suites": ("TLS_RSA_X",)},
            "--tls-cipher-suites: unknown: TLS_RSA_X; known: TLS_ECDHE",
            id="cipher suite",
        ),
    ],
)
def test_what_cannot_be_used_is_one_clear_message(options: dict[str, Any], message: str) -> None:
    """Naming the flag or the file."""
    with pytest.raises(ServingError) as caught:
        ServingTls(RunOptions(**options), FakeClock())

    assert message in str(caught.value)


def test_a_star_may_only_end_an_open_path() -> None:
    """As kube-scheduler has it."""
    with pytest.raises(ServingError, match='"\\*" may only end a path'):
        OpenPaths(["/debug/*/x"])


class _Unacceptable:
    """A certificate that one library reads and the other does not."""

    def public_bytes(self, _encoding: object) -> bytes:
        return b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_an_authority_that_tls_does_not_accept_is_a_problem_of_the_file() -> None:
    """Told like any other unusable file; the task that follows files must not end over it."""
    broken: Any = _Unacceptable()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    with pytest.raises(ServingError, match="certificate authorities cannot be used"):
        trust(context, [broken])
