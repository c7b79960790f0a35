"""Tokens of OpenID Connect in a kubeconfig: their expiry, and their renewal.

Source: client-go plugin/pkg/client/auth/oidc/oidc.go v0.36.
"""

import base64
import datetime as dt

import aiohttp
import msgspec
from kubernetes.aio.config.openid import OpenIDRequestor
from typing_extensions import override

from scheduler.daemon.client.errors import ConnectionConfigError
from scheduler.daemon.client.wire import UNREADABLE


class _Claims(msgspec.Struct):
    exp: float | None = None


def expiry_of(id_token: str) -> dt.datetime | None:
    """Return the time at which an id-token expires; None if it names no time.

    Raises:
        ConnectionConfigError: it is no JSON web token.
    """
    try:
        _, payload, _ = id_token.split(".")
        claims = msgspec.json.decode(_decoded(payload), type=_Claims)
        return None if claims.exp is None else dt.datetime.fromtimestamp(claims.exp, dt.UTC)
    except (*UNREADABLE, OverflowError, OSError) as problem:
        raise ConnectionConfigError("oidc: id-token: expected a JSON web token") from problem


def _decoded(text: str) -> bytes:
    """Decode base64url without padding; the `kubernetes` package decodes plain base64."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


class Requestor(OpenIDRequestor):
    """The package's requestor, given a TLS context as `ssl_ca_cert` instead of a file."""

    @override
    def _get_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(ssl=self._ssl_ca_cert)
