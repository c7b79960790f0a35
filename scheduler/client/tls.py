"""TLS contexts made from certificate files, and a new one when the files change."""

import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path

from scheduler.client.errors import ConnectionConfigError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the certificates are; None for what is not used.

    Attributes:
        ca: certificates the server's must lead to; None for those of the system.
        cert: our client certificate.
        key: its private key.
        is_verified: False accepts any server certificate (insecure-skip-tls-verify).
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    is_verified: bool = True


@dataclass(frozen=True, slots=True)
class Tls:
    """A TLS context with the fingerprint of the files it was made from."""

    context: ssl.SSLContext
    fingerprint: bytes


def load_tls(files: TlsFiles, previous: Tls | None = None) -> Tls:
    """The context for the files as they are now; the previous one when nothing changed.

    Raises:
        ConnectionConfigError: a file cannot be read or holds something else.
    """
    fingerprint = _fingerprint(files)
    if previous is not None and previous.fingerprint == fingerprint:
        return previous
    return Tls(_context(files), fingerprint)


def _fingerprint(files: TlsFiles) -> bytes:
    digest = hashlib.sha256(repr(files).encode())
    for path in (files.ca, files.cert, files.key):
        if path is None:
            continue
        try:
            digest.update(Path(path).read_bytes())
        except OSError as problem:
            raise ConnectionConfigError(
                f"cannot read certificate file {path}: {problem.strerror}"
            ) from problem
    return digest.digest()


def _context(files: TlsFiles) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.ca)
    except (ssl.SSLError, OSError) as problem:
        raise ConnectionConfigError(
            f"certificate authority file {files.ca}: expected PEM certificates"
        ) from problem
    # Many clusters' own authorities lack extensions that only the strict mode of newer Pythons
    # asks for; every other Kubernetes client accepts them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not files.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if files.cert is not None:
        try:
            # Without a password callback, OpenSSL would ask on the terminal and hang a daemon.
            context.load_cert_chain(files.cert, files.key, password=lambda: "")
        except (ssl.SSLError, OSError, ValueError) as problem:
            raise ConnectionConfigError(
                f"client certificate {files.cert} with key {files.key}: expected a PEM "
                f"certificate and its unencrypted key ({_reason(problem)})"
            ) from problem
    return context


def _reason(problem: Exception) -> str:
    reason = getattr(problem, "reason", None) or getattr(problem, "strerror", None)
    return str(reason or problem).lower().replace("_", " ")
