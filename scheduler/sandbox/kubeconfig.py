"""The file with which clients find the sandbox."""

import base64

import yaml

from scheduler.sandbox.schema.codec import Object

NAME = "stowage-sandbox"


def kubeconfig(url: str, *, certificate: bytes = b"", token: str = "") -> Object:
    """A kubeconfig with one cluster, one user and one context.

    Args:
        url: where the server is.
        certificate: what to trust, for https.
        token: the user's bearer token, if one is needed.
    """
    cluster: Object = {"server": url}
    if certificate:
        cluster["certificate-authority-data"] = base64.b64encode(certificate).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
    }


def kubeconfig_text(content: Object) -> str:
    """A kubeconfig as YAML."""
    return yaml.safe_dump(content, sort_keys=False)
