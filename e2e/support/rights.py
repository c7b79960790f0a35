"""RBAC rules of the manifests, and users that are granted exactly these rules."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.support.api import ApiRefusedError
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
_RBAC_GROUP = "rbac.authorization.k8s.io"


def rules() -> Iterator[dict[str, Any]]:
    """Yield the RBAC rules of the daemon, for objects of any name."""
    for document in yaml.safe_load_all(_RBAC.read_text()):
        is_role = document["kind"] in ("ClusterRole", "Role")
        if is_role and not document["metadata"]["name"].endswith("-reader"):
            for rule in document["rules"]:
                yield {key: rule[key] for key in rule if key != "resourceNames"}


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
    grant(cluster, "e2e-deployed", [*rules()], group(GROUP))
    return cluster.control_plane.kubeconfig_for(user, [GROUP])


def reader(cluster: Cluster, namespace: str, name: str, role_name: str) -> Path:
    """Create a service account with one of the manifests' ClusterRoles; return its kubeconfig.

    The API server applies the role when this returns.
    """
    documents = yaml.safe_load_all(_RBAC.read_text())
    role = next(d for d in documents if d["metadata"]["name"] == role_name)
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster.run(cluster.api.post(accounts, {"metadata": {"name": name}}))
    grant(cluster, f"{namespace}-{name}", role["rules"], service_account(namespace, name))
    return cluster.service_account_kubeconfig(namespace, name)


def service_account(namespace: str, name: str) -> Json:
    """Return the subject of a ServiceAccount."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def group(name: str) -> Json:
    """Return the subject of a group."""
    return {"kind": "Group", "name": name, "apiGroup": _RBAC_GROUP}


def user(name: str) -> Json:
    """Return the subject of a user."""
    return {"kind": "User", "name": name, "apiGroup": _RBAC_GROUP}


def grant(cluster: Cluster, name: str, granted_rules: Sequence[Json], *subjects: Json) -> None:
    """Grant rules in all namespaces, by a ClusterRole of this name unless there is one.

    The API server applies them when this returns.
    """
    role = {"metadata": {"name": name}, "rules": granted_rules}
    _create(cluster, "clusterroles", role)
    bind_role(cluster, name, name, *subjects)
    wait_until_applied(cluster, granted_rules[0], subjects[0])


def bind_role(cluster: Cluster, name: str, role: str, *subjects: Json) -> None:
    """Bind an existing ClusterRole in all namespaces, unless there is a binding of this name."""
    reference = {"apiGroup": _RBAC_GROUP, "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    _create(cluster, "clusterrolebindings", binding)


def wait_until_applied(cluster: Cluster, rule: Json, subject: Json) -> None:
    """Wait until the API server allows a subject what a rule grants: its authorizer caches roles.

    The other rules of the same role apply then too.
    """
    verb = rule["verbs"][0]
    if "nonResourceURLs" in rule:
        review = {"nonResourceAttributes": {"verb": verb, "path": rule["nonResourceURLs"][0]}}
    else:
        resource, _, subresource = rule["resources"][0].partition("/")
        attributes = {"resource": resource, "subresource": subresource}
        review = {"resourceAttributes": {"verb": verb, "group": rule["apiGroups"][0], **attributes}}
    spec = {**review, **_identity(subject)}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

    def is_allowed() -> bool:
        return bool(cluster.run(cluster.api.post(path, {"spec": spec}))["status"]["allowed"])

    wait_for(is_allowed, "the API server to apply a new role")


def _create(cluster: Cluster, plural: str, body: Json) -> None:
    try:
        cluster.run(cluster.api.post(f"{_API}/{plural}", body))
    except ApiRefusedError as error:
        if error.status != 409:
            raise


def _identity(subject: Json) -> Json:
    """Return user and groups of a SubjectAccessReview."""
    name = subject["name"]
    if subject["kind"] == "Group":
        return {"user": "e2e", "groups": [name]}
    if subject["kind"] == "ServiceAccount":
        return {"user": f"system:serviceaccount:{subject['namespace']}:{name}"}
    return {"user": name}
