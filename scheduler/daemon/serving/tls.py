"""Reloads TLS contexts when their files change: a new certificate needs no restart."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from scheduler.clock import Clock
from scheduler.config.options import RunOptions
from scheduler.daemon.serving.authentication import Authorities, peer_certificate
from scheduler.daemon.serving.certificates import (
    PairFiles,
    as_files,
    read_authorities,
    self_signed_pair,
    server_pair_files,
)
from scheduler.daemon.serving.errors import ServingError
from scheduler.daemon.serving.files import FollowedFiles, look_again_and_again
from scheduler.observability.logs import get_logger

RELOAD_SECONDS: Final = 10.0
"""Interval between checks of the files."""

_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

_CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""OpenSSL's names by IANA's, which the flag takes. TLS 1.3 suites cannot be chosen."""

_TLS13_PREFIXES: Final = ("TLS_AES_", "TLS_CHACHA20_")

_log = get_logger(__name__)


class ServingTls:
    """The TLS context of the listener, and the authorities of client certificates.

    Attributes:
        context: the context of the listener; it passes each handshake to the newest context.
        authorities: the current authorities that sign client certificates.

    Raises:
        ServingError: a file cannot be used, a cipher suite is unknown.
    """

    def __init__(self, options: RunOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._verified_by: WeakKeyDictionary[ssl.SSLContext, Authorities] = WeakKeyDictionary()
        """By context, the authorities that its handshakes check certificates with."""
        self._files = server_pair_files(options, clock)
        self._own_pair = None if self._files is not None else self_signed_pair(clock)
        self._followed = FollowedFiles(self._read_files())
        self._problem = ""
        """The reason why the files could not be used at the last check, or empty."""
        self.authorities, self._current = self._build()
        self.context = self._current
        self.context.sni_callback = self._use_current

    async def follow_files(self) -> None:
        """Check the files every `RELOAD_SECONDS` until cancelled; run it as a task."""
        await look_again_and_again(
            self.reload_if_changed,
            RELOAD_SECONDS,
            lambda error: _log.error("TLS files cannot be looked at", exc_info=error),
        )

    def reload_if_changed(self) -> bool:
        """Load changed files; return whether they are in use. Log unusable files, and keep the old.

        The next check tries unusable files again: they may become readable without a change.
        """
        if not (self._followed.have_changed() or self._problem):
            return False
        before = self._problem
        try:
            self.authorities, self._current = self._build()
        except ServingError as error:
            self._problem = str(error)
            if self._problem != before:
                _log.error(
                    "Changed TLS files cannot be used; serving goes on with the old ones",
                    reason=self._problem,
                )
            return False
        self._problem = ""
        _log.info("Took changed TLS files over", v=1)
        return True

    def would_accept(self, transport: asyncio.BaseTransport | None) -> bool:
        """Whether a handshake would still accept the certificate of a client, if it has one.

        Source: k8s.io/apiserver request/x509/x509.go (AuthenticateRequest) v0.36.3, which verifies
        the certificate for each request.
        """
        certificate = peer_certificate(transport)
        if transport is None or certificate is None:
            return True
        tls, now = transport.get_extra_info("ssl_object"), self._clock.wall()
        return (
            self._verified_by.get(tls.context) == self.authorities
            # A resumed session checks nothing.
            and not tls.session_reused
            and certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
        )

    def _use_current(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def _build(self) -> tuple[Authorities, ssl.SSLContext]:
        options = self._options
        authorities = Authorities(
            clients=read_authorities(options.client_ca_file, "client-ca-file"),
            proxies=read_authorities(
                options.requestheader_client_ca_file, "requestheader-client-ca-file"
            ),
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[options.tls_min_version]
        _set_ciphers(context, options.tls_cipher_suites)
        if self._own_pair is not None:
            with as_files(self._own_pair) as files:
                _load_pair(context, files)
        elif self._files is not None:
            _load_pair(context, self._files)
        trusted = (*authorities.clients, *authorities.proxies)
        if trusted:
            trust(context, trusted)
        # A session would be resumed without a look at the client's certificate.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        self._verified_by[context] = authorities
        return authorities, context

    def _read_files(self) -> list[Path]:
        options = self._options
        authorities = (options.client_ca_file, options.requestheader_client_ca_file)
        return [*(self._files or ()), *(Path(path) for path in authorities if path)]


def _load_pair(context: ssl.SSLContext, files: PairFiles) -> None:
    try:
        context.load_cert_chain(files.certificate, files.key)
    except FileNotFoundError as error:
        missing = files.key if files.certificate.exists() else files.certificate
        raise ServingError(f"TLS certificate: {missing} does not exist") from error
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ServingError(
            f"TLS certificate {files.certificate} with key {files.key} cannot be used: {error}"
        ) from error


def trust(context: ssl.SSLContext, authorities: Sequence[x509.Certificate]) -> None:
    """Request certificates of these authorities from clients.

    Raises:
        ServingError: an authority is readable, but TLS does not accept it.
    """
    pem = b"".join(certificate.public_bytes(Encoding.PEM) for certificate in authorities)
    try:
        context.load_verify_locations(cadata=pem.decode())
    except ssl.SSLError as error:
        raise ServingError(f"certificate authorities cannot be used: {error}") from error
    context.verify_mode = ssl.CERT_OPTIONAL
    # As in Go, each certificate of a bundle is an anchor, whether or not its own issuer is there.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _set_ciphers(context: ssl.SSLContext, names: Sequence[str]) -> None:
    unknown = [n for n in names if n not in _CIPHERS and not n.startswith(_TLS13_PREFIXES)]
    if unknown:
        raise ServingError(
            f"--tls-cipher-suites: unknown: {', '.join(unknown)}; "
            f"known: {', '.join(sorted(_CIPHERS))}"
        )
    chosen = [_CIPHERS[name] for name in names if name in _CIPHERS]
    if chosen:
        context.set_ciphers(":".join(chosen))
