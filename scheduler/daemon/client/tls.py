"""Makes TLS contexts from certificates, and a new context when the files change."""

import hashlib
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeAlias

from typing_extensions import override

from scheduler.daemon.client.errors import ConnectionConfigError
from scheduler.memory_file import memory_file

Pem: TypeAlias = str | bytes | None
"""The name of a PEM file, or its content; None if it is not used."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The certificates of a client.

    Attributes:
        ca: authorities that must have issued the server's certificate; None for the system's.
        cert: the client certificate.
        key: the private key of `cert`.
        is_verified: False accepts any server certificate (insecure-skip-tls-verify).
    """

    ca: Pem = None
    cert: Pem = None
    key: Pem = field(default=None, repr=False)
    is_verified: bool = True


class ResumingContext(ssl.SSLContext):
    """A client's TLS context that resumes the last session with a server.

    A burst of pods opens many connections at once. Resumption (RFC 8446, 2.2) spares the server the
    signature, which is most of its work for a connection. A server that does not accept the session
    makes a new one.
    """

    _sessions: dict[str | bytes | None, ssl.SSLSession]
    """The last session by server name."""

    def __new__(cls) -> Self:
        """Make a context that verifies the server."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self) -> None:
        super().__init__()
        self._sessions = {}

    @override
    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        session = session or self._sessions.get(server_hostname)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def keep_session(self, connection: ssl.SSLObject) -> None:
        """Keep the session of a connection; servers send it after the handshake."""
        session = connection.session
        if session is not None and session.has_ticket:
            self._sessions[connection.server_hostname] = session

    def forget_sessions(self) -> None:
        """Offer no session to the next connection: some servers refuse one, and the connection."""
        self._sessions.clear()


@dataclass(frozen=True, slots=True)
class Tls:
    """A TLS context, and the fingerprint of the files from which it was made."""

    context: ResumingContext
    fingerprint: bytes


def load_tls(files: TlsFiles, previous: Tls | None = None) -> Tls:
    """Load the context for the current files; return the previous one if nothing changed.

    Raises:
        ConnectionConfigError: a file cannot be read, or is not PEM as expected.
    """
    fingerprint = _fingerprint(files)
    if previous is not None and previous.fingerprint == fingerprint:
        return previous
    return Tls(_context(files), fingerprint)


def _fingerprint(files: TlsFiles) -> bytes:
    parts = (files.ca, files.cert, files.key)
    seen = (files.is_verified, *parts, *map(_content, parts))
    return hashlib.sha256(repr(seen).encode()).digest()


def _content(pem: Pem) -> bytes | None:
    if not isinstance(pem, str):
        return pem
    try:
        return Path(pem).read_bytes()
    except OSError as problem:
        raise ConnectionConfigError(
            f"cannot read certificate file {pem}: {problem.strerror}"
        ) from problem


def _context(files: TlsFiles) -> ResumingContext:
    context = ResumingContext()
    try:
        with _as_file(files.ca) as authority:
            if authority is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as problem:
        raise ConnectionConfigError(
            f"certificate authority {_name(files.ca)}: expected PEM certificates"
        ) from problem
    # An authority need not be signed by itself. Not VERIFY_X509_STRICT: the authorities of many
    # clusters lack extensions that it requires; other Kubernetes clients accept them.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not files.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        with _as_file(files.cert) as certificate, _as_file(files.key) as key:
            if certificate is not None:
                # Without a password callback, OpenSSL would wait for input on the terminal.
                context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as problem:
        raise ConnectionConfigError(
            f"client certificate {_name(files.cert)} with key {_name(files.key)}: expected a PEM "
            f"certificate and its unencrypted key ({_reason(problem)})"
        ) from problem
    return context


@contextmanager
def _as_file(pem: Pem) -> Iterator[str | None]:
    """Yield the path of a file in memory with the PEM content: OpenSSL reads only files."""
    with ExitStack() as opened:
        yield str(opened.enter_context(memory_file(pem))) if isinstance(pem, bytes) else pem


def _name(pem: Pem) -> str:
    return "data" if isinstance(pem, bytes) else str(pem)


def _reason(problem: Exception) -> str:
    reason = getattr(problem, "reason", None) or getattr(problem, "strerror", None)
    return str(reason or problem).lower().replace("_", " ")
