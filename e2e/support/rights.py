"""RBAC rules of the manifests, and users that are granted exactly these rules."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from e2e.support.audit import AuditEvent
from e2e.support.cluster import Cluster
from e2e.support.go_programs import CHECKOUT
from e2e.support.objects import Json
from e2e.support.waiting import wait_for

ACCOUNT = "system:serviceaccount:stowage:stowage"
"""User name of the deployed daemon's service account."""

GROUP = "e2e:deployed"
"""Group that is granted the rules of ``ACCOUNT``, without the restriction to one lease name."""

Right = tuple[str, str, str]
"""(verb, API group, resource with subresource)."""

CHECKED_ONLY: set[Right] = {("patch", "resource.k8s.io", "resourceclaims/binding")}
"""Verbs that the API server checks itself while it admits another request (KEP-4381, 1.36)."""

_RBAC = CHECKOUT / "deploy" / "base" / "rbac.yaml"
_API = "/apis/rbac.authorization.k8s.io/v1"
_NAME = "e2e-deployed"


def rules() -> Iterator[dict[str, Any]]:
    """Yield the RBAC rules of the daemon."""
    for document in yaml.safe_load_all(_RBAC.read_text()):
        is_role = document["kind"] in ("ClusterRole", "Role")
        if is_role and not document["metadata"]["name"].endswith("-reader"):
            yield from document["rules"]


def granted() -> set[Right]:
    """Return the verbs that the manifests grant."""
    return {
        (verb, group, resource)
        for rule in rules()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def unused(events: Iterable[AuditEvent]) -> set[Right]:
    """Return the granted verbs that no request used."""
    return granted() - used(events) - CHECKED_ONLY


def used(events: Iterable[AuditEvent]) -> set[Right]:
    """Return the verbs that the requests used."""
    return {(event.verb, event.object_ref.api_group, event.resource) for event in events}


def refused(events: Iterable[AuditEvent]) -> set[tuple[str, str, int]]:
    """Return verb, URI and status of the requests answered with 401 or 403."""
    return {(e.verb, e.request_uri, e.code) for e in events if e.code in (401, 403)}


def has_deployed_rights(event: AuditEvent) -> bool:
    """Report whether the request came from a daemon with the granted rules."""
    return event.user.username == ACCOUNT or GROUP in event.user.groups


def scheduler_kubeconfig(cluster: Cluster, user: str = "e2e-stowage") -> Path:
    """Write a kubeconfig for a user with the daemon's RBAC rules.

    Where the harness cannot issue client certificates, it returns the administrator's kubeconfig.
    """
    if cluster.control_plane is None:
        return cluster.kubeconfig
    _grant(cluster)
    return cluster.control_plane.kubeconfig_for(user, [GROUP])


def reader(cluster: Cluster, namespace: str, name: str, role_name: str) -> Path:
    """Create a service account with one of the manifests' ClusterRoles; return its kubeconfig.

    The API server applies the role when this returns.
    """
    documents = yaml.safe_load_all(_RBAC.read_text())
    role = next(d for d in documents if d["metadata"]["name"] == role_name)
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster.run(cluster.api.post(accounts, {"metadata": {"name": name}}))
    called = role["metadata"]["name"] = f"{namespace}-{name}"
    cluster.run(cluster.api.post(f"{_API}/clusterroles", role))
    binding = {
        "metadata": {"name": called},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": called,
        },
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    cluster.run(cluster.api.post(f"{_API}/clusterrolebindings", binding))
    rule = role["rules"][0]
    attributes = {"verb": rule["verbs"][0], "path": rule["nonResourceURLs"][0]}
    user = f"system:serviceaccount:{namespace}:{name}"
    _wait_until_applied(cluster, {"user": user, "nonResourceAttributes": attributes})
    return cluster.service_account_kubeconfig(namespace, name)


def _grant(cluster: Cluster) -> None:
    """Grant the daemon's rules to the group, for leases of any name."""
    roles = cluster.run(cluster.api.list_items(f"{_API}/clusterroles"))
    if _NAME in {role["metadata"]["name"] for role in roles}:
        return
    own = [{k: rule[k] for k in rule if k != "resourceNames"} for rule in rules()]
    role: Json = {"metadata": {"name": _NAME}, "rules": own}
    group = "rbac.authorization.k8s.io"
    binding: Json = {
        "metadata": {"name": _NAME},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": _NAME},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": GROUP}],
    }
    cluster.run(cluster.api.post(f"{_API}/clusterroles", role))
    cluster.run(cluster.api.post(f"{_API}/clusterrolebindings", binding))
    attributes = {"verb": "create", "resource": "pods", "subresource": "binding"}
    review = {"user": "e2e", "groups": [GROUP], "resourceAttributes": attributes}
    _wait_until_applied(cluster, review)


def _wait_until_applied(cluster: Cluster, review: Json) -> None:
    """Wait until the API server allows what a SubjectAccessReview asks: it caches roles."""
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

    def is_allowed() -> bool:
        return bool(cluster.run(cluster.api.post(path, {"spec": review}))["status"]["allowed"])

    wait_for(is_allowed, "the API server to apply the new ClusterRole")
