"""The names of pods and workloads in options: [NAMESPACE/]POD and KIND/[NAMESPACE/]NAME."""

from collections.abc import Iterable
from typing import Final

from scheduler.api.pods import PodInfo
from scheduler.config.walker import did_you_mean
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


def pod_called(name: str, pods: Iterable[PodInfo], about: str) -> PodInfo:
    """Return the pod of a name, NAMESPACE/POD or POD if it is unique.

    Raises:
        InputError: there is no such pod, or there are several; `about` is the place of the name.
    """
    pods = list(pods)
    # The same pod may be given in several forms: the last one counts.
    found = {pod.key: pod for pod in pods if name in (pod.name, pod.key)}
    if not found:
        guess = did_you_mean_pod(name, pods)
        raise InputError(f"{about}: there is no such pod, or it has ended{guess}")
    check_one_namespace(found.values(), about, f"NAMESPACE/{name}")
    return next(iter(found.values()))


def did_you_mean_pod(name: str, pods: Iterable[PodInfo]) -> str:
    """Return the end of a message about a pod that does not exist, NAMESPACE/NAME or NAME."""
    return did_you_mean(name, [pod.key if "/" in name else pod.name for pod in pods])


def check_one_namespace(pods: Iterable[PodInfo], about: str, expected: str) -> None:
    """Check that pods that a name without a namespace may mean are all of one namespace.

    Raises:
        InputError: they are not.
    """
    namespaces = sorted({pod.namespace for pod in pods})
    if len(namespaces) > 1:
        listed = ", ".join(namespaces)
        raise InputError(f"{about}: there is one in each of {listed}: say {expected}")
