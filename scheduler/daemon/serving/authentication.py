"""Identifies the user of a request by proxy headers, client certificate or bearer token.

Source: k8s.io/apiserver pkg/authentication/authenticatorfactory delegating.go, request/x509,
request/headerrequest, request/bearertoken (1.36.3).
"""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from scheduler.clock import Clock
from scheduler.config.options import RunOptions
from scheduler.daemon.client.reviews import User
from scheduler.daemon.serving.expiring import ExpiringAnswers

ANONYMOUS: Final = User(name="system:anonymous", groups=("system:unauthenticated",))
_AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"

_MAX_TOKENS: Final = 1024
_MAX_TOKEN_LENGTH: Final = 16 * 1024
_WORDS_OF_BEARER: Final = 2


class Reviews(Protocol):
    """The interface of `scheduler.daemon.client.reviews.ApiReviews`."""

    async def review_token(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Return the user of a token; None if it is not valid for one of the audiences."""
        ...

    async def review_access(self, user: User, path: str, verb: str) -> bool:
        """Return whether the user may use the path with this verb."""
        ...


class Authorities(msgspec.Struct, frozen=True):
    """The authorities that sign client certificates, by the meaning of their signature."""

    clients: tuple[x509.Certificate, ...] = ()
    """--client-ca-file: the certificate names the user."""
    proxies: tuple[x509.Certificate, ...] = ()
    """--requestheader-client-ca-file: the headers name the user."""


class Authenticator:
    """Identifies the user that sent a request."""

    def __init__(self, options: RunOptions, reviews: Reviews, clock: Clock) -> None:
        self._options = options
        self._reviews = reviews
        self._tokens: ExpiringAnswers[bytes, User | None] = ExpiringAnswers(
            clock, lambda _user: options.authentication_token_webhook_cache_ttl, _MAX_TOKENS
        )

    async def user_of(self, request: web.Request, authorities: Authorities) -> User | None:
        """Return the user; `ANONYMOUS` without credentials, None with invalid credentials.

        Raises:
            ApiError: the review failed.
        """
        user = self._user_of_certificate(request, authorities)
        if user is None:
            token = bearer_token(request.headers.get("Authorization", ""))
            if token is None:
                return ANONYMOUS
            user = await self._user_of_token(token)
        return None if user is None else _authenticated(user)

    async def _user_of_token(self, token: str) -> User | None:
        if len(token) > _MAX_TOKEN_LENGTH or not token.isascii():
            return None
        # The cache keeps a digest instead of the token.
        digest = hashlib.sha256(token.encode()).digest()
        audiences = self._options.authentication_token_audiences
        return await self._tokens.get(digest, lambda: self._reviews.review_token(token, audiences))

    def _user_of_certificate(self, request: web.Request, authorities: Authorities) -> User | None:
        """Return the user of the peer's certificate, which the TLS handshake has verified."""
        certificate = peer_certificate(request.transport)
        if certificate is None:
            return None
        if _is_issued_by(certificate, authorities.proxies):
            user = self._user_of_headers(request, _common_name(certificate))
            if user is not None:
                return user
        # With two bundles the handshake does not tell which of them it has used.
        if not authorities.proxies or _is_issued_by(certificate, authorities.clients):
            return user_of_certificate(certificate)
        return None

    def _user_of_headers(self, request: web.Request, proxy: str) -> User | None:
        options = self._options
        if options.requestheader_allowed_names and proxy not in options.requestheader_allowed_names:
            return None
        names = options.requestheader_username_headers
        name = next((request.headers[n] for n in names if request.headers.get(n)), None)
        if name is None:
            return None
        groups = [
            group
            for header in options.requestheader_group_headers
            for group in request.headers.getall(header, [])
            if group
        ]
        return User(name=name, groups=tuple(groups))


def peer_certificate(transport: asyncio.BaseTransport | None) -> x509.Certificate | None:
    """Return the certificate that a client has sent in the handshake; None without one."""
    tls = None if transport is None else transport.get_extra_info("ssl_object")
    encoded = None if tls is None else tls.getpeercert(binary_form=True)
    return None if encoded is None else x509.load_der_x509_certificate(encoded)


def bearer_token(header: str) -> str | None:
    """Return the token in an Authorization header; None without one."""
    words = header.strip().split(" ")
    if len(words) < _WORDS_OF_BEARER or words[0].lower() != "bearer" or not words[1]:
        return None
    return words[1]


def user_of_certificate(certificate: x509.Certificate) -> User | None:
    """Return the user of a client certificate: common name, and organizations as groups."""
    name = _common_name(certificate)
    if not name:
        return None
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return User(name=name, groups=tuple(str(o.value) for o in organizations))


def _authenticated(user: User) -> User:
    if user.name == ANONYMOUS.name or {_AUTHENTICATED, _UNAUTHENTICATED} & {*user.groups}:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, _AUTHENTICATED))


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    # Go takes the last one: crypto/x509/pkix (FillFromRDNSequence).
    return str(names[-1].value) if names else ""


def _is_issued_by(certificate: x509.Certificate, issuers: Sequence[x509.Certificate]) -> bool:
    for issuer in issuers:
        try:
            certificate.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False
