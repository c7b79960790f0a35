"""The names of workloads in options, as kubectl writes them: KIND/[NAMESPACE/]NAME."""

from typing import Final

from scheduler.tools.offline.documents import InputError

DEPLOYMENT: Final = "Deployment"
DAEMON_SET: Final = "DaemonSet"
STATEFUL_SET: Final = "StatefulSet"
POD: Final = "Pod"
_KINDS: Final = {
    kind.lower(): kind
    for kind in (
        DEPLOYMENT,
        "ReplicaSet",
        "ReplicationController",
        STATEFUL_SET,
        "Job",
        DAEMON_SET,
        POD,
    )
}
_SHORT: Final = {
    "deploy": "deployment",
    "rs": "replicaset",
    "rc": "replicationcontroller",
    "sts": "statefulset",
    "ds": "daemonset",
    "po": "pod",
}


def workload_parts(what: str, about: str) -> tuple[str, str, str]:
    """Return kind, namespace and name of a pod or workload; the namespace may be empty.

    Raises:
        InputError: the text cannot be parsed; `about` is its place.
    """
    word, *rest = what.split("/")
    singular = _SHORT.get(word.lower(), word.lower())
    kind = _KINDS.get(singular) or _KINDS.get(singular.removesuffix("s"))
    if kind is None or len(rest) not in (1, 2) or not all(rest):
        known = ", ".join(sorted(_KINDS))
        raise InputError(f"{about}: expected KIND/[NAMESPACE/]NAME with a kind of {known}")
    return kind, rest[0] if len(rest) > 1 else "", rest[-1]
