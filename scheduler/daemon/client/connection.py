"""Address and credentials of the API server; the credentials are renewed while the daemon runs."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from typing_extensions import override

from scheduler.clock import Clock, SystemClock
from scheduler.daemon.client.credentials import HOST, Credentials, CredentialSource, InClusterSource
from scheduler.daemon.client.errors import ConnectionConfigError
from scheduler.daemon.client.proxies import proxy_for
from scheduler.daemon.client.tls import Tls, TlsFiles, load_tls
from scheduler.daemon.client.urls import EXPECTED, is_http_url

REFRESH_SECONDS: Final = 60.0
"""Interval between checks of files and expiry times; a kubelet rotates tokens hours early."""

_REFUSED_PAUSE_SECONDS: Final = 10.0
"""Least time between two renewals that a 401 caused."""


@dataclass(frozen=True, slots=True)
class Access:
    """The address and credentials for one request; replaced as a whole when one of them changes.

    Attributes:
        server: the URL of the API server, without a slash at its end.
        authorization: the Authorization header, or empty.
        tls: the TLS context; None for plain http.
        server_hostname: the name that the certificate must have, if it is not the URL's host.
        proxy: the URL of the proxy, or None.
    """

    server: str
    authorization: str = ""
    tls: Tls | None = None
    server_hostname: str | None = None
    proxy: str | None = None


class Connection:
    """The connection to one API server. `access` holds the current address and credentials."""

    def __init__(self, source: CredentialSource | None, access: Access) -> None:
        self._source = source
        self._refused = asyncio.Event()
        self.access = access

    def note_refused(self) -> None:
        """Make `keep_fresh` renew the credentials soon: the server has answered 401."""
        self._refused.set()

    async def refresh(self, *, is_refused: bool = False) -> bool:
        """Load the credentials again; return whether they changed.

        Raises:
            ConnectionConfigError: the credentials cannot be read; the old ones stay in use.
        """
        if self._source is None:
            return False
        access = await _access(self._source, self.access, is_refused=is_refused)
        is_changed = access != self.access
        if is_changed:
            self.access = access
        return is_changed

    async def keep_fresh(
        self,
        on_problem: Callable[[ConnectionConfigError], None],
        *,
        interval_seconds: float = REFRESH_SECONDS,
    ) -> None:
        """Renew the credentials at intervals and after a 401, until cancelled. Run it as a task.

        Args:
            on_problem: called when a renewal fails; the next renewal follows as usual.
            interval_seconds: time between two renewals.
        """
        while True:
            is_refused = await self._wait(interval_seconds)
            try:
                await self.refresh(is_refused=is_refused)
            except ConnectionConfigError as problem:
                on_problem(problem)
            if is_refused:
                await asyncio.sleep(min(_REFUSED_PAUSE_SECONDS, interval_seconds))
                self._refused.clear()

    async def _wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._refused.wait()
        except TimeoutError:
            return False
        return True


async def load_connection(
    *,
    kubeconfig: str = "",
    master: str = "",
    context: str = "",
    environ: Mapping[str, str] = os.environ,
    clock: Clock | None = None,
) -> Connection:
    """Find the address and the credentials of the API server.

    Sources, in this order: `kubeconfig`; `master` alone (without credentials); KUBECONFIG; the
    service account of this pod; ~/.kube/config. `master` replaces the server of the source.

    Raises:
        ConnectionConfigError: no source is found, or it is wrong; the message is one line.
    """
    _check_url(master)
    source = _source(kubeconfig, master, context, environ, clock or SystemClock())
    if source is None:
        access = Access(_trimmed(master), proxy=_proxy(master, environ))
        return Connection(None, _with_tls(access, TlsFiles()))
    if master:
        source = _MasterOverride(source, master)
    return Connection(source, await _access(source, None, is_refused=False, environ=environ))


async def load_connection_to(  # noqa: PLR0913 - what a kubeconfig may leave to the caller
    server: str,
    *,
    kubeconfig: str = "",
    context: str = "",
    ca: str | None = None,
    is_verified: bool = True,
    environ: Mapping[str, str] = os.environ,
    clock: Clock | None = None,
) -> Connection:
    """Find the credentials for another server that accepts the API server's users.

    Args:
        server: the URL of that server.
        kubeconfig: the file with the credentials; found as by `load_connection` if empty.
        context: a context of the kubeconfig.
        ca: file with the authorities that must have issued the server's certificate; None for
            those of the system.
        is_verified: False accepts any certificate.
        environ: the environment variables.
        clock: the clock that expiry times are compared with.

    Raises:
        ConnectionConfigError: no source is found, or it is wrong; the message is one line.
    """
    source = _source(kubeconfig, "", context, environ, clock or SystemClock())
    if source is None:
        raise ConnectionConfigError("no credentials: expected --kubeconfig FILE")
    beside = _Beside(source, server, ca, is_verified=is_verified)
    return Connection(beside, await _access(beside, None, is_refused=False, environ=environ))


class _MasterOverride:
    """A credential source whose server `--master` replaces."""

    def __init__(self, source: CredentialSource, master: str) -> None:
        self.description = source.description
        self._source = source
        self._master = master

    async def load(self, *, is_refused: bool) -> Credentials:
        """See `CredentialSource.load`."""
        return replace(await self._source.load(is_refused=is_refused), server=self._master)


class _Beside(_MasterOverride):
    """A source of credentials for another server than the API server."""

    def __init__(
        self, source: CredentialSource, server: str, ca: str | None, *, is_verified: bool
    ) -> None:
        super().__init__(source, server)
        # Messages about this server's certificates must not name the kubeconfig.
        self.description = server
        self._ca = ca
        self._is_verified = is_verified

    @override
    async def load(self, *, is_refused: bool) -> Credentials:
        found = await super().load(is_refused=is_refused)
        tls = replace(found.tls, ca=self._ca, is_verified=self._is_verified)
        return replace(found, tls=tls, server_hostname=None, proxy=None)


def _source(
    kubeconfig: str, master: str, context: str, environ: Mapping[str, str], clock: Clock
) -> CredentialSource | None:
    if kubeconfig:
        return _kubeconfig(os.path.expanduser(kubeconfig), context, clock)  # noqa: PTH111 - may be a list of paths
    if master and not context:
        return None
    if not environ.get("KUBECONFIG") and environ.get(HOST):
        return InClusterSource(environ)
    found = _default_kubeconfig(environ)
    if found is None:
        raise ConnectionConfigError(
            "no API server given: expected --kubeconfig FILE, the variable KUBECONFIG, "
            "~/.kube/config, or the service account of a pod"
        )
    return _kubeconfig(found, context, clock)


def _kubeconfig(paths: str, context: str, clock: Clock) -> CredentialSource:
    # The `kubernetes` package needs a home directory at import, which some uids do not have.
    if os.path.expanduser("~") == "~":  # noqa: PTH111 - Path.expanduser fails as well
        os.environ["HOME"] = os.sep
    # The import takes 0.4 s, and in a cluster there is no kubeconfig.
    from scheduler.daemon.client.kubeconfig import KubeconfigSource  # noqa: PLC0415

    return KubeconfigSource(paths, context, clock)


def _default_kubeconfig(environ: Mapping[str, str]) -> str | None:
    """Return kubectl's default path: KUBECONFIG, else ~/.kube/config if that exists."""
    if environ.get("KUBECONFIG"):
        return environ["KUBECONFIG"]
    # Path.expanduser fails without a home: for another uid than the image's, without HOME.
    home = os.path.expanduser("~/.kube/config")  # noqa: PTH111
    return home if Path(home).is_file() else None


async def _access(
    source: CredentialSource,
    previous: Access | None,
    *,
    is_refused: bool,
    environ: Mapping[str, str] = os.environ,
) -> Access:
    """Load the credentials; server and proxy stay those of `previous`, the first load."""
    found = await source.load(is_refused=is_refused)
    if previous is None:
        server = _trimmed(found.server)
        try:
            previous = Access(server, proxy=_proxy(server, environ, found.proxy))
        except ConnectionConfigError as problem:
            raise ConnectionConfigError(f"{source.description}: {problem}") from problem
    access = replace(
        previous,
        authorization=" ".join(found.authorization.split()),
        server_hostname=found.server_hostname,
    )
    try:
        return _with_tls(access, found.tls)
    except ConnectionConfigError as problem:
        raise ConnectionConfigError(f"{source.description}: {problem}") from problem


def _with_tls(access: Access, files: TlsFiles) -> Access:
    if not access.server.startswith("https://"):
        return replace(access, tls=None)
    return replace(access, tls=load_tls(files, access.tls))


def _check_url(master: str) -> None:
    if master and not is_http_url(master):
        raise ConnectionConfigError(f"--master: {EXPECTED}, got {master!r}")


def _proxy(server: str, environ: Mapping[str, str], given: str | None = None) -> str | None:
    """Return the proxy for a server: the kubeconfig's, else the environment's, else None."""
    proxy = given or proxy_for(server, environ)
    if proxy and not is_http_url(proxy):
        # The part before the host may be a password.
        shown = proxy.rpartition("@")[2]
        raise ConnectionConfigError(
            f"proxy-url, HTTP_PROXY or HTTPS_PROXY: {EXPECTED}, got {shown!r}"
        )
    return proxy


def _trimmed(url: str) -> str:
    return url.rstrip("/")
