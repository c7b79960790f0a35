"""Writes kubeconfig files with one cluster, user and context, and inline credentials."""

import base64
from pathlib import Path
from typing import Any

import yaml

from e2e.support.certificates import KeyPair


def write_kubeconfig(
    path: Path,
    server: str,
    *,
    authority: bytes | None = None,
    certificate: KeyPair | None = None,
    token: str | None = None,
    token_file: Path | None = None,
    namespace: str = "default",
) -> Path:
    """Write a kubeconfig for ``server`` with file mode 0600, and return its path.

    A program that starts meanwhile reads either the old file or the new one.
    """
    cluster: dict[str, Any] = {"server": server}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    user: dict[str, Any] = {}
    if certificate is not None:
        user["client-certificate-data"] = base64.b64encode(certificate.public).decode()
        user["client-key-data"] = base64.b64encode(certificate.key).decode()
    if token is not None:
        user["token"] = token
    if token_file is not None:
        user["tokenFile"] = str(token_file)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": cluster}],
        "users": [{"name": "e2e", "user": user}],
        "contexts": [
            {"name": "e2e", "context": {"cluster": "e2e", "user": "e2e", "namespace": namespace}}
        ],
        "current-context": "e2e",
    }
    beside = path.with_name(f"{path.name}.new")
    beside.touch(mode=0o600)
    beside.write_text(yaml.safe_dump(document, sort_keys=False))
    return beside.replace(path)
