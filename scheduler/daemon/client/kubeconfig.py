"""Reads kubeconfig files by the `kubernetes` package.

This module adds two features to the package. Each mistake in a kubeconfig is an error of one line.
The package continues without credentials if an exec plugin fails or the user is missing.
Credentials can be loaded again without the kubeconfig.
"""
# The package ships type hints for its API, but none for its configuration loaders.
# mypy: disable-error-code="no-untyped-call"

import base64
import datetime as dt
import os
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography import x509
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.kube_config import (
    ConfigNode,
    KubeConfigLoader,
    KubeConfigMerger,
)
from typing_extensions import override

from scheduler.api.nulls import without_nulls
from scheduler.clock import Clock
from scheduler.daemon.client.credentials import Credentials
from scheduler.daemon.client.errors import ConnectionConfigError, cut
from scheduler.daemon.client.exec_plugin import cluster_for_plugins, run_plugin
from scheduler.daemon.client.oidc import Requestor, expiry_of
from scheduler.daemon.client.tls import TlsFiles, load_tls
from scheduler.daemon.client.urls import EXPECTED, is_http_url

EXPIRY_MARGIN: Final = dt.timedelta(minutes=2)
"""Credentials are renewed this long before they expire.

It covers the time between two renewals (60 s), and the run of an exec plugin (60 s at most).
"""

_OIDC: Final = "oidc"
"""The only auth-provider of kubectl since 1.26; the others became exec plugins."""

_FILES: Final = (
    ("cluster", "certificate-authority"),
    ("user", "tokenFile"),
    ("user", "client-certificate"),
    ("user", "client-key"),
)
"""Sections and their fields that name files."""

_IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")
_NO_VERIFICATION: Final = "insecure-skip-tls-verify"
_TEXTS: Final = frozenset(
    {field for _, field in _FILES}
    | {"token", "username", "password", "tls-server-name", "proxy-url"}
)


class KubeconfigSource:
    """One context of one or more kubeconfig files.

    The context is chosen once: a later `kubectl config use-context` must not move a running daemon
    to another cluster. Files that the context refers to are read at each load.
    """

    def __init__(self, paths: str, context: str, clock: Clock) -> None:
        self.description = f"kubeconfig {paths}"
        self._loader = _Loader(_checked(paths, context), context, clock)

    async def load(self, *, is_refused: bool) -> Credentials:
        """See `CredentialSource.load`."""
        if is_refused:
            self._loader.forget_credentials()
        configuration = Configuration()
        try:
            await self._loader.load_and_set(configuration)
        except ConnectionConfigError as problem:
            raise ConnectionConfigError(f"{self.description}: {problem}") from problem
        except Exception as problem:
            # The package raises errors of many types for malformed files.
            reason = self._loader.missing_file() or _one_line(problem)
            raise ConnectionConfigError(f"{self.description}: {reason}") from problem
        return _credentials(configuration)


def _credentials(configuration: Configuration) -> Credentials:
    return Credentials(
        server=configuration.host,
        authorization=configuration.api_key.get("BearerToken", ""),
        tls=TlsFiles(
            ca=configuration.ssl_ca_cert,
            cert=configuration.cert_file,
            key=configuration.key_file,
            is_verified=bool(configuration.verify_ssl),
        ),
        server_hostname=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


class _Loader(KubeConfigLoader):
    """The package's loader; it raises if an exec plugin fails, and can run the plugin again."""

    def __init__(self, config: Any, context: str, clock: Clock) -> None:
        super().__init__(config, active_context=context or None, config_base_path=None)
        self._clock = clock
        self._expires: dt.datetime | None = None
        self._has_credentials = False
        # The package cannot read an https cluster without a user section.
        self._user = self._user or ConfigNode("user", {})
        # The package takes paths in any file as relative to that of the cluster.
        # Source: client-go tools/clientcmd/loader.go (ResolveLocalPaths) v0.36.
        for kind, field in _FILES:
            section: Any = self._cluster if kind == "cluster" else self._user
            if section.value.get(field):
                section.value[field] = self._resolved(section, section.value[field])
        # The package would not read the file if there is a token.
        has_file = bool(self._user.value.get("tokenFile"))
        self._first_token = self._user.value.pop("token", None) if has_file else None
        """Used until tokenFile can be read."""
        self._inline = {
            name: content
            for name, section, field in (
                ("ssl_ca_cert", self._cluster, "certificate-authority"),
                ("cert_file", self._user, "client-certificate"),
                ("key_file", self._user, "client-key"),
            )
            if (content := _pop_data(section, field))
        }
        """PEM content by attribute: the package would write it into temporary files."""

    def missing_file(self) -> str | None:
        """Describe the first field that names a missing file; the package does not name it."""
        for kind, field in _FILES:
            section: Any = self._cluster if kind == "cluster" else self._user
            name = section.value.get(field)
            if name and not Path(name).is_file():
                return f"{kind}: {field}: there is no file {name}"
        return None

    def forget_credentials(self) -> None:
        """Make the next load run the exec plugin, even before its credentials expire."""
        self._has_credentials = False

    @override
    async def load_from_exec_plugin(self) -> bool:
        """Run the plugin if its last credentials expire soon, or there are none."""
        if self._has_credentials and not self._is_expiring():
            return True
        user: Any = self._user
        plugin = user["exec"]
        command = plugin.safe_get("command")
        # A name without a slash is found in PATH.
        if command and os.sep in command:
            plugin.value["command"] = self._resolved(plugin, command)
        cluster = self._told_cluster() if plugin.safe_get("provideClusterInfo") else None
        status = await run_plugin(plugin, cluster=cluster)
        expires = _expiry(status.get("expirationTimestamp"))
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        cert, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if bool(cert) != bool(key):
            raise ConnectionConfigError(
                "exec plugin: expected clientCertificateData and clientKeyData together"
            )
        if cert and key:
            self._inline |= {"cert_file": cert.encode(), "key_file": key.encode()}
            expires = expires or _not_after(cert)
        if not cert and not status.get("token"):
            raise ConnectionConfigError("exec plugin: its answer has no token and no certificate")
        self._expires = expires
        self._has_credentials = True
        return True

    @override
    def _load_user_token(self) -> Any:
        """Read the token, from tokenFile if there is one.

        Source: client-go transport/round_trippers.go (bearerAuthRoundTripper) v0.36.
        """
        try:
            is_there = super()._load_user_token()
        except (OSError, UnicodeDecodeError):
            if not self._first_token:
                raise
            self.token = f"Bearer {self._first_token}"
            return True
        self._first_token = None
        return is_there

    @override
    def _load_cluster_info(self) -> None:
        super()._load_cluster_info()
        for name, content in self._inline.items():
            setattr(self, name, content)

    @override
    async def _load_oid_token(self) -> None:
        """Load the id-token; renew it before it expires."""
        user: Any = self._user
        provider = user["auth-provider"]
        config = provider["config"]
        token = config.safe_get("id-token")
        self._expires = expiry_of(token) if token else None
        if not token or self._is_expiring():
            await self._refresh_oidc(provider)
        self.token = f"Bearer {config['id-token']}"

    @override
    async def _refresh_oidc(self, provider: Any) -> None:
        """Renew the id-token; the package would not verify an issuer without a given authority."""
        config = provider["config"]
        if "refresh-token" not in config:
            raise ConnectionConfigError("oidc: the id-token is not valid, and no refresh-token")
        authority = self._retrieve_oidc_cacert(provider)
        requestor = Requestor(
            config["client-id"],
            config.safe_get("client-secret") or "",  # public clients have none
            config["idp-issuer-url"],
            load_tls(
                TlsFiles(ca=authority or config.safe_get("idp-certificate-authority") or None)
            ).context,
        )
        answer = await requestor.refresh_token(config["refresh-token"])
        config.value["id-token"] = answer["id_token"]
        config.value["refresh-token"] = answer.get("refresh_token", config["refresh-token"])

    def _told_cluster(self) -> dict[str, Any]:
        section: Any = self._cluster
        file = section.value.get("certificate-authority")
        authority = Path(file).read_bytes() if file else self._inline.get("ssl_ca_cert")
        return cluster_for_plugins(section.value, authority)

    def _resolved(self, section: Any, path: str) -> str:
        """Return the absolute path for one that is relative to the folder of its kubeconfig."""
        return str(Path(self._get_base_path(section.path), path))

    def _is_expiring(self) -> bool:
        return self._expires is not None and self._clock.wall() >= self._expires - EXPIRY_MARGIN


def _pop_data(section: Any, field: str) -> bytes | None:
    """Remove `field`-data and return its bytes; remove also `field`, which the data overrides."""
    data = section.value.pop(f"{field}-data", None)
    if not data:
        return None
    section.value.pop(field, None)
    return base64.b64decode("".join(data.split()))


def _expiry(timestamp: str | None) -> dt.datetime | None:
    if not timestamp:
        return None
    try:
        expires = dt.datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        expires = None
    if expires is None or expires.tzinfo is None:
        raise ConnectionConfigError(
            f"exec plugin: expirationTimestamp: expected a time with its zone, as in "
            f'"2026-01-31T12:00:00Z", got {timestamp!r}'
        )
    return expires


def _not_after(cert: str) -> dt.datetime | None:
    try:
        return x509.load_pem_x509_certificate(cert.encode()).not_valid_after_utc
    except ValueError:
        return None


def _checked(paths: str, context: str) -> Any:
    """Merge one or several files (as in KUBECONFIG), check their references, and return them."""
    where = f"kubeconfig {paths}"
    try:
        config = _merged(paths, where)
        _check(config.value, context, where)
    except yaml.YAMLError as problem:
        raise ConnectionConfigError(f"{where}: expected YAML: {_one_line(problem)}") from problem
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "not a text file"
        raise ConnectionConfigError(f"{where}: cannot be read: {reason}") from problem
    except ConnectionConfigError:
        raise
    except Exception as problem:
        # For a scalar, a list, or entries without names the package raises errors of many types.
        raise ConnectionConfigError(
            f"{where}: expected a mapping with clusters, contexts and users, each a "
            f"list of named entries"
        ) from problem
    return config


def _merged(paths: str, where: str) -> Any:
    # Checked here for one form of message: the package has its own.
    is_there = any(
        Path(os.path.expanduser(path)).exists()  # noqa: PTH111 - as the package does; there may be no home
        for path in paths.split(os.pathsep)
        if path
    )
    config = KubeConfigMerger(paths).config if is_there else None
    if config is None:
        raise ConnectionConfigError(f"{where}: the file does not exist")
    for kind in ("cluster", "context", "user"):
        for entry in config.value[f"{kind}s"]:
            # The package's name for it, in its messages, has its content, secrets included.
            entry.name = f"{kind} {entry['name']}"
            entry.value[kind] = without_nulls(entry.value.get(kind)) or {}
    return config


def _check(config: dict[str, Any], context: str, where: str) -> None:
    """Check that context, cluster and user exist and are usable; raise an error that names them."""
    name = context or config.get("current-context")
    known = ", ".join(sorted(str(entry["name"]) for entry in config["contexts"])) or "none"
    if not name:
        raise ConnectionConfigError(
            f"{where}: current-context is not set; contexts in the file: {known}"
        )
    body = _entry(config, "contexts", str(name), where, known).safe_get("context") or {}
    if not body.get("cluster"):
        raise ConnectionConfigError(f"{where}: context {name}: expected a cluster")
    for kind in ("cluster", "user"):
        if not body.get(kind):
            continue
        entry = _entry(config, f"{kind}s", str(body[kind]), f"{where}: context {name}", "")
        content = entry.safe_get(kind) or {}
        _check_types(content, f"{where}: {kind} {body[kind]}")
        _check_data(content, f"{where}: {kind} {body[kind]}")
        _check_supported(content, f"{where}: {kind} {body[kind]}")
        server = str(content.get("server") or "")
        if kind == "cluster" and not is_http_url(server):
            raise ConnectionConfigError(
                f"{where}: cluster {body[kind]}: server: {EXPECTED}, got {server!r}"
            )


def _check_types(content: dict[str, Any], where: str) -> None:
    """Refuse values of other types, as kubectl does: the package takes any text for true."""
    verifies_not = content.get(_NO_VERIFICATION)
    if not isinstance(verifies_not, bool | None):
        raise ConnectionConfigError(
            f"{where}: {_NO_VERIFICATION}: expected true or false, got {verifies_not!r}"
        )
    for field in sorted(_TEXTS & content.keys()):
        if not isinstance(content[field], str | None):
            kind = type(content[field]).__name__
            raise ConnectionConfigError(f"{where}: {field}: expected a text, got a value of {kind}")


def _check_supported(content: dict[str, Any], where: str) -> None:
    """Refuse what would be ignored: requests would come from another user."""
    provider = (content.get("auth-provider") or {}).get("name")
    if provider not in (None, _OIDC):
        # The package would continue without credentials, or with advice about its own code.
        raise ConnectionConfigError(
            f"{where}: auth-provider: expected {_OIDC}, got {provider}; "
            "clouds have an exec plugin, such as gke-gcloud-auth-plugin or kubelogin"
        )
    for field in _IMPERSONATION:
        if content.get(field):
            raise ConnectionConfigError(f"{where}: {field}: impersonation is not supported")


def _check_data(content: dict[str, Any], where: str) -> None:
    for field in ("certificate-authority-data", "client-certificate-data", "client-key-data"):
        if not content.get(field):
            continue
        try:
            is_pem = b"-----BEGIN" in base64.b64decode("".join(content[field].split()))
        except (ValueError, AttributeError):
            is_pem = False
        if not is_pem:
            raise ConnectionConfigError(f"{where}: {field}: expected a PEM file in base64")


def _entry(config: dict[str, Any], section: str, name: str, where: str, known: str) -> Any:
    for entry in config[section]:
        if entry["name"] == name:
            return entry
    hint = f"; {section} in the file: {known}" if known else ""
    raise ConnectionConfigError(f"{where}: {section} has no entry named {name!r}{hint}")


def _one_line(problem: Exception) -> str:
    text = " ".join(str(problem).split()) or type(problem).__name__
    return cut(text.removeprefix("Invalid kube-config file. "))
