"""The interface of credential sources, and the source for a pod: its service account.

This module does not import the `kubernetes` package, which takes 0.4 s of CPU time: in a cluster
it is not needed.

Source: k8s.io/client-go rest/config.go (InClusterConfig) v0.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from scheduler.daemon.client.errors import ConnectionConfigError
from scheduler.daemon.client.tls import TlsFiles

HOST: Final = "KUBERNETES_SERVICE_HOST"
PORT: Final = "KUBERNETES_SERVICE_PORT"
"""The environment variables that every container has."""

_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_FILE: Final = f"{_FOLDER}/token"
_CA_FILE: Final = f"{_FOLDER}/ca.crt"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The address of a server, and the credentials for it.

    Attributes:
        server: the URL of the server.
        authorization: the Authorization header, or empty.
        tls: the certificates.
        server_hostname: the name that the certificate must have, if it is not the URL's host.
        proxy: the URL of the proxy, if the source names one.
    """

    server: str
    authorization: str = ""
    tls: TlsFiles = field(default_factory=TlsFiles)
    server_hostname: str | None = None
    proxy: str | None = None


class CredentialSource(Protocol):
    """A source of the API server's address and credentials; it can be loaded repeatedly.

    Attributes:
        description: its name in messages.
    """

    description: str

    async def load(self, *, is_refused: bool) -> Credentials:
        """Load the current credentials.

        Args:
            is_refused: whether the server refused the last credentials: do not return them again.

        Raises:
            ConnectionConfigError: the credentials cannot be loaded; the message is one line.
        """
        ...


class InClusterSource:
    """The service account of this process's pod; the kubelet rotates its token in place."""

    description = "service account of this pod"

    def __init__(
        self,
        environ: Mapping[str, str],
        token_file: str = _TOKEN_FILE,
        ca_file: str = _CA_FILE,
    ) -> None:
        self._environ = environ
        self._token_file = token_file
        self._ca_file = ca_file

    async def load(self, *, is_refused: bool) -> Credentials:  # noqa: ARG002 - files are always read anew
        """See `CredentialSource.load`."""
        return Credentials(
            server=f"https://{self._host_and_port()}",
            authorization=f"Bearer {self._token()}",
            tls=TlsFiles(ca=self._ca_file),
        )

    def _host_and_port(self) -> str:
        host, port = (self._environ.get(name, "") for name in (HOST, PORT))
        if not host or not port:
            raise ConnectionConfigError(f"{self.description}: expected {HOST} and {PORT} to be set")
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _token(self) -> str:
        where = f"{self.description}: token file {self._token_file}"
        try:
            token = Path(self._token_file).read_text(encoding="utf-8").strip()
        except OSError as problem:
            raise ConnectionConfigError(f"{where}: {problem.strerror}") from problem
        except UnicodeDecodeError as problem:
            raise ConnectionConfigError(f"{where}: expected text") from problem
        if not token:
            raise ConnectionConfigError(f"{where}: expected a token, the file is empty")
        return token
