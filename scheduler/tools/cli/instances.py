"""Finds the configurations of running instances of Stowage by their pods.

The pods are those of the manifests, the chart and the operator. They have the label of schedulers,
and a container `stowage` whose `--config` is in a ConfigMap.
"""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from scheduler.clock import SystemClock
from scheduler.config.feature_gates import turned_on
from scheduler.config.flags import FlagError, parse_feature_gates
from scheduler.config.load import default_configuration
from scheduler.daemon.client import event_loop
from scheduler.daemon.client.connection import load_connection
from scheduler.daemon.client.errors import ApiError
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.wire import UNREADABLE
from scheduler.errors import SchedulerError
from scheduler.tools.cli.inputs import read_profiles
from scheduler.tools.cli.live import ClusterAddress, LiveError
from scheduler.tools.offline.asking import NOT_ASKED
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.configured import profiles_from_text
from scheduler.tools.offline.reading import InputError

_PODS: Final = "/api/v1/pods?labelSelector=app.kubernetes.io%2Fcomponent%3Dscheduler"
_CONTAINER: Final = "stowage"
_CONFIG: Final = "--config="
_GATES: Final = "--feature-gates="


class Instance(msgspec.Struct, frozen=True):
    """A configuration in use.

    Attributes:
        name: `namespace/name` of its Deployment, or of its pod if it has none.
        pod: `namespace/name` of a pod that runs with it.
        config_map: `namespace/name` of its ConfigMap; empty for the default configuration.
        text: the text of the configuration; None if it cannot be read.
        feature_gates: settings of feature gates, as in the flag.
        problem: the reason why the configuration cannot be read.
    """

    name: str
    pod: str
    config_map: str = ""
    text: str | None = None
    feature_gates: str = ""
    problem: str = ""

    @property
    def where(self) -> str:
        """The configuration's name in messages."""
        kept = f"ConfigMap {self.config_map}" if self.config_map else "the default configuration"
        return f"{kept} of pod {self.pod}"


def profiles_at_work(
    place: ClusterAddress,
    feature_gates: Sequence[str],
    *,
    named: Sequence[str] = (),
    tries_all_nodes: bool = False,
) -> tuple[Profiles, tuple[str, ...]]:
    """Build the profiles of the instances that run in a cluster; return them with notices.

    Without a readable configuration of an instance the default profile is built. The settings of
    feature gates are those of the instances, unless some are given. `named` has the names of
    the instances that decide, the first one before others that serve the same schedulerName.

    The profiles have no extenders: any tenant can run a pod that looks like an instance, and
    extenders get whole pods, with their environment.

    Raises:
        SchedulerError: several instances run and none is named, a named one cannot be used, or
            the default profile cannot be built.
    """
    instances, notices = _found(place, named)
    found: list[Profiles] = []
    for instance in instances:
        try:
            profiles, told = _profiles_of(instance, feature_gates, tries_all_nodes=tries_all_nodes)
        except (SchedulerError, FlagError) as problem:
            text = (
                f"the configuration of pod {instance.pod} cannot be used here: {problem}; "
                "--config FILE gives it, --daemon URL asks the instance"
            )
            if named:
                raise InputError(text) from problem
            notices.append(text)
        else:
            notices += told
            found.append(profiles)
    if found:
        return found[0].beside(found[1:], tries_all_nodes=tries_all_nodes), tuple(notices)
    profiles, told = read_profiles(
        None, feature_gates=feature_gates, tries_all_nodes=tries_all_nodes
    )
    if not notices:
        notices = ["no running instance was found in the cluster: the default profile decides"]
    return profiles, (*notices, *told)


def _found(place: ClusterAddress, named: Sequence[str]) -> tuple[list[Instance], list[str]]:
    """Find the instances that decide; if none is named, a failure is a notice."""
    try:
        return event_loop.run(_running(place, named)), []
    except InputError:
        raise
    except SchedulerError as problem:
        if named:
            raise
        return [], [f"no running instance can be looked for: {problem}"]


def _profiles_of(
    instance: Instance, feature_gates: Sequence[str], *, tries_all_nodes: bool
) -> tuple[Profiles, tuple[str, ...]]:
    if instance.problem:
        raise InputError(instance.problem)
    gates = feature_gates or parse_feature_gates(instance.feature_gates)
    told: tuple[str, ...] = ()
    if instance.text is None:
        config = default_configuration(feature_gates=turned_on(gates))
        profiles = Profiles(config, tries_all_nodes=tries_all_nodes)
    else:
        profiles, told = profiles_from_text(
            instance.text, instance.where, feature_gates=gates, tries_all_nodes=tries_all_nodes
        )
    told = (f"{', '.join(profiles.frameworks)}: as in {instance.where}", *told)
    if profiles.config.extenders:
        profiles, told = profiles.without_extenders(), (*told, NOT_ASKED)
    return profiles, told


async def _running(place: ClusterAddress, named: Sequence[str]) -> list[Instance]:
    """Find the instances that decide; read no configuration of any other.

    Raises:
        InputError: several instances run and none is named, or a named one does not run.
        SchedulerError: the connection settings are wrong, or pods may not be listed.
    """
    clock = SystemClock()
    connection = await load_connection(
        kubeconfig=place.kubeconfig, context=place.context, clock=clock
    )
    async with ApiSession(connection, clock=clock) as session:
        try:
            answer = await session.request("GET", _PODS)
            pods: list[Any] = _decoded(answer.body).get("items") or []
        except (ApiError, *UNREADABLE) as problem:
            raise LiveError(f"pods cannot be listed: {problem}") from problem
        daemons = _daemons(pods)
        return [await _instance(session, *daemons[name]) for name in _chosen(daemons, named)]


def _daemons(pods: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """Return the newest running pod of each instance, and its container, by instance."""
    return {
        _name_of(pod): (pod, container)
        for pod in sorted(pods, key=_age_of)
        for container in pod["spec"]["containers"]
        if container["name"] == _CONTAINER and _runs(pod)
    }


def _chosen(daemons: Mapping[str, object], named: Sequence[str]) -> Sequence[str]:
    """Return the instances that decide: those that are named, or the only one.

    Nothing in a cluster tells an administrator's instance from a tenant's that looks like it.

    Raises:
        InputError: several instances run and none is named, or a named one does not run.
    """
    listed = ", ".join(sorted(daemons)) or "none"
    for name in named:
        if name not in daemons:
            raise InputError(f"--instance {name} does not run; these do: {listed}")
    if len(daemons) > 1 and not named:
        raise InputError(
            f"several pods run as instances of Stowage: {listed}; "
            "name yours with --instance NAMESPACE/NAME, or give --config FILE"
        )
    return named or tuple(daemons)


def _decoded(body: bytes) -> dict[str, Any]:
    """Decode a JSON object in an answer.

    Raises:
        ValueError: the body is no JSON object: a proxy may have answered.
    """
    return msgspec.json.decode(body, type=dict[str, Any])


def _runs(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod is a running daemon, not for instance `stowage shadow`."""
    return (pod.get("status") or {}).get("phase") == "Running"


def _key_of(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _age_of(pod: Mapping[str, Any]) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", _key_of(pod)


def _name_of(pod: Mapping[str, Any]) -> str:
    """Return the key of the pod's Deployment, which outlives its pods; or that of the pod."""
    metadata = pod["metadata"]
    revision = (metadata.get("labels") or {}).get("pod-template-hash")
    for owner in metadata.get("ownerReferences") or ():
        name, _, suffix = owner["name"].rpartition("-")
        if suffix == revision:
            return f"{metadata['namespace']}/{name}"
    return _key_of(pod)


async def _instance(
    session: ApiSession, pod: Mapping[str, Any], container: Mapping[str, Any]
) -> Instance:
    words: Sequence[str] = (*(container.get("command") or ()), *(container.get("args") or ()))
    gates = ",".join(word.removeprefix(_GATES) for word in words if word.startswith(_GATES))
    files = [word.removeprefix(_CONFIG) for word in words if word.startswith(_CONFIG)]
    instance = Instance(_name_of(pod), _key_of(pod), feature_gates=gates)
    if not files:
        return instance
    kept = _config_map_of(pod, container, files[-1])
    if kept is None:
        problem = f"{files[-1]} is in no ConfigMap"
        return msgspec.structs.replace(instance, problem=problem)
    name, key = kept
    namespace = pod["metadata"]["namespace"]
    instance = msgspec.structs.replace(instance, config_map=f"{namespace}/{name}")
    path = f"/api/v1/namespaces/{quote(namespace)}/configmaps/{quote(name)}"
    try:
        answer = await session.request("GET", path)
        text = (_decoded(answer.body).get("data") or {}).get(key)
    except ApiError as problem:
        return msgspec.structs.replace(instance, problem=problem.message or str(problem))
    except UNREADABLE as problem:
        return msgspec.structs.replace(instance, problem=str(problem))
    if text is None:
        return msgspec.structs.replace(instance, problem=f"it has no key {key}")
    return msgspec.structs.replace(instance, text=text)


def _config_map_of(
    pod: Mapping[str, Any], container: Mapping[str, Any], file: str
) -> tuple[str, str] | None:
    """Return name and key of the ConfigMap from which a file of a container is mounted, or None."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        source = volumes.get(mount["name"], {}).get("configMap")
        if source is None:
            continue
        if mount["mountPath"] == file and mount.get("subPath"):
            return source["name"], _key(source, mount["subPath"])
        if posixpath.dirname(file) == mount["mountPath"].rstrip("/"):
            return source["name"], _key(source, posixpath.basename(file))
    return None


def _key(source: Mapping[str, Any], path: str) -> str:
    """Return the key at a path of a ConfigMap's volume."""
    items = source.get("items") or ()
    return next((str(item["key"]) for item in items if item["path"] == path), path)
