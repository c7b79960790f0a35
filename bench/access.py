"""The identity of the contestants: one service account with a token for all of them.

A scheduler in a cluster has a token; a client certificate costs the API server 0.5 ms more per
request. Contestants are exempt from API priority and fairness, so that its queues do not affect the
result.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.workload import ACCESS
from e2e.support.api import Call
from e2e.support.cluster import Cluster
from e2e.support.objects import Json

_ACCOUNT: Final = "scheduler"
_RBAC: Final = "rbac.authorization.k8s.io"
_FAIRNESS: Final = "flowcontrol.apiserver.k8s.io"
_SUBJECT: Final[Json] = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": ACCESS}


def access_calls() -> Iterator[Call]:
    """Yield the requests that create the account, its RBAC rules and its exempt FlowSchema."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ACCOUNT}}
    yield Call("POST", f"/api/v1/namespaces/{ACCESS}/serviceaccounts", account)
    for role in ("system:kube-scheduler", "system:volume-scheduler"):
        yield Call(
            "POST",
            f"/apis/{_RBAC}/v1/clusterrolebindings",
            _binding("ClusterRoleBinding", f"bench:{role}", "ClusterRole", role),
        )
    reader = "extension-apiserver-authentication-reader"
    yield Call(
        "POST",
        f"/apis/{_RBAC}/v1/namespaces/kube-system/rolebindings",
        _binding("RoleBinding", f"bench:{reader}", "Role", reader),
    )
    yield Call("POST", f"/apis/{_FAIRNESS}/v1/flowschemas", _exemption())


def access_kubeconfig(cluster: Cluster) -> Path:
    """Write a kubeconfig with a new token of the account."""
    return cluster.service_account_kubeconfig(ACCESS, _ACCOUNT)


def _binding(kind: str, name: str, role_kind: str, role: str) -> Json:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": role},
        "subjects": [_SUBJECT],
    }


def _exemption() -> Json:
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    }
    account = {"name": _ACCOUNT, "namespace": ACCESS}
    return {
        "apiVersion": f"{_FAIRNESS}/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "bench"},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": "exempt"},
            "rules": [
                {
                    "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                    "resourceRules": [everything],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                }
            ],
        },
    }
