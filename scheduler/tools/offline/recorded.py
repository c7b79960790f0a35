"""Profiles and engine that a recording was made with, to replay it; and others."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.config.load import load_object
from scheduler.config.write import to_object
from scheduler.daemon.bootstrap import args_types_of, out_of_tree_plugins, own_plugins
from scheduler.daemon.bootstrap.recording import version_of
from scheduler.daemon.client.errors import cut
from scheduler.daemon.informers.kinds import watched_kind
from scheduler.daemon.recording.records import Header, Record, scheduler_names
from scheduler.kernel.answers.assumed import assumed_on
from scheduler.kernel.answers.waiting_model import Assumed
from scheduler.kernel.ends import RunDurations
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import BindFailed, Bound, ObjectGone, ObjectSet
from scheduler.kernel.engine.instructions import Bind, Instruction
from scheduler.kernel.engine.outcome import TakeOutcome
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.runtime.shared_states import place_of
from scheduler.observability.build_info import stowage_version
from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.reading import ClusterObjects
from scheduler.tools.offline.strictness import missing_nodes

Place: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""


def recorded_profiles(header: Header, *, tries_all_nodes: bool = False) -> Profiles:
    """The profiles that were in force when a recording began; see `Profiles`.

    Raises:
        SchedulerError: they cannot be built here.
    """
    out_of_tree = out_of_tree_plugins()
    config = load_object(
        header.configuration,
        source="recorded configuration",
        out_of_tree=own_plugins(out_of_tree),
        feature_gates=header.feature_gates,
        args_types=args_types_of(out_of_tree),
    )
    return Profiles(config, out_of_tree, tries_all_nodes=tries_all_nodes)


def recorded_engine(
    profiles: Profiles,
    header: Header,
    take_outcome: TakeOutcome | None = None,
    *,
    with_extenders: bool = True,
) -> Engine:
    """Build a fresh engine with the seed and the times of a recording.

    With the recorded profiles it gives the recorded answers.
    """
    return profiles.engine(
        header.seed,
        header.max_in_unschedulable_seconds,
        with_extenders=with_extenders,
        take_outcome=take_outcome,
        epoch=header.epoch,
    )


def other_versions(header: Header) -> Iterator[str]:
    """Yield a sentence for each version that differs from the recorded one."""
    recorded, here = header.version, stowage_version()
    if recorded != here:
        yield f"Stowage {cut(recorded)} recorded it; this is {here}."
    plugins = out_of_tree_plugins()
    for name, then in header.plugins.items():
        now = version_of(plugins[name]) if name in plugins else "missing"
        if now != then:
            yield f"The plugin {name} was of {cut(then)} when it was recorded; here it is of {now}."


def with_plugins(
    profiles: Profiles,
    added: Mapping[str, tuple[type[Plugin], int]],
    feature_gates: Collection[str],
) -> Profiles:
    """The same profiles, each with more plugins at all their extension points.

    `added` has class and weight by name; a weight of 0 is the plugin's default.

    Raises:
        SchedulerError: they cannot be built.
    """
    document = to_object(profiles.config)
    for profile in document["profiles"]:
        enabled = profile["plugins"].setdefault("multiPoint", {}).setdefault("enabled", [])
        enabled += [{"name": name, "weight": weight} for name, (_, weight) in added.items()]
    plugins = out_of_tree_plugins({name: plugin for name, (plugin, _) in added.items()})
    config = load_object(
        document,
        source="configuration with --plugin",
        out_of_tree=own_plugins(plugins),
        feature_gates=feature_gates,
        args_types=args_types_of(plugins),
    )
    return Profiles(config, plugins, is_named=profiles.is_named)


def for_recorded_pods(profiles: Profiles, header: Header) -> Profiles:
    """The same; a profile without a name serves only the pods that the recorded ones served."""
    served = set(scheduler_names(header.configuration))
    shared = {name: found for name, found in profiles.frameworks.items() if name in served}
    if shared and not profiles.is_named:
        profiles.frameworks = shared
    return profiles


class RecordedCluster(msgspec.Struct, frozen=True):
    """A cluster in the state of a recorded engine.

    Attributes:
        header: of the recording, with the configuration that was in force at the end.
        objects: by kind, namespace and name; a pod with a binding under way is on its node.
        assumed: the pods whose binding the API server had not confirmed yet.
        durations: run times of pods that ended meanwhile.
        time: the time of day at the end, in seconds since 1970.
    """

    header: Header
    objects: dict[Place, Any]
    assumed: tuple[PodInfo, ...] = ()
    durations: RunDurations = msgspec.field(default_factory=RunDurations)
    time: float | None = None

    def read_for(self, profiles: Profiles) -> ClusterObjects:
        """The same for commands that read clusters; kinds that no plugin watches are left out."""
        read = objects_for(profiles, self.objects)
        read.durations, read.time = self.durations, self.time
        read.warnings.extend(map(_assumed_text, assumed_on(self.assumed)))
        return read


def objects_for(profiles: Profiles, objects: Mapping[Place, Any]) -> ClusterObjects:
    """Build the cluster for commands from objects of events."""
    declared = {watched_kind(kind).name: kind for kind in profiles.watched}
    read = ClusterObjects()
    lists: dict[str, list[Any]] = {
        "pods": read.pods,
        "nodes": read.nodes,
        "namespaces": read.namespaces,
    }
    for (kind, *_), obj in sorted(objects.items(), key=lambda item: item[0]):
        if kind in lists:
            lists[kind].append(obj)
        if kind in declared:
            read.watched.append((declared[kind], obj))
    read.warnings.extend(missing_nodes(read.nodes, read.pods))
    return read


def cluster_of(header: Header, records: Iterable[Record]) -> RecordedCluster:
    """The cluster at the end of a recording, or of the part that is given.

    Raises:
        RecordingError: a file is damaged.
    """
    course = _Course(header)
    for record in records:
        course.take(record)
    return course.cluster()


class _Course:
    """The cluster of a recording, as its records change it one after the other."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._epoch = header.epoch
        self._time = header.started
        self._objects: dict[Place, Any] = {}
        self._sent: dict[int, tuple[Place, PodInfo, PodInfo]] = {}
        """By attempt: pods that were sent to nodes, as they were before and on the node."""
        self._durations = RunDurations()

    def take(self, record: Record) -> None:
        event, self._time = record.event, self._epoch + record.time
        if isinstance(event, ObjectSet):
            self._objects[event.kind, *place_of(event.object)] = event.object
        elif isinstance(event, ObjectGone):
            self._forget(event)
        elif (configuration := record.new_configuration) is not None:
            self._header = replace(self._header, configuration=configuration)
        elif isinstance(event, Bound):
            self._sent.pop(event.attempt, None)
        elif isinstance(event, BindFailed) and event.attempt in self._sent:
            self._take_back(event.attempt)
        if b'"Bind"' in record.answer:
            for place, pod, bind in _bound(self._objects, record.instructions):
                assumed = pod.on_node(bind.node)
                self._sent[bind.attempt] = place, pod, assumed
                self._objects[place] = assumed

    def _forget(self, gone: ObjectGone) -> None:
        """Remove an object; for a pod, note its run time."""
        known = self._objects.pop((gone.kind, gone.namespace, gone.name), None)
        if isinstance(known, PodInfo):
            self._durations.note_end(known, self._time)

    def _take_back(self, attempt: int) -> None:
        """Restore a pod whose binding failed, unless the watch has shown it since."""
        place, pod, assumed = self._sent.pop(attempt)
        if self._objects.get(place) is assumed:
            self._objects[place] = pod

    def cluster(self) -> RecordedCluster:
        sent = self._sent.values()
        assumed = tuple(pod for place, _, pod in sent if self._objects.get(place) is pod)
        return RecordedCluster(self._header, self._objects, assumed, self._durations, self._time)


def _assumed_text(found: Assumed) -> str:
    amounts = ", ".join(f"{amount} {name}" for name, amount in found.requests.items())
    return (
        f"{amounts} of node {found.node} are only assumed, for {', '.join(found.pods)}: "
        "kubectl describe node does not count them"
    )


def _bound(
    objects: Mapping[Place, Any], answer: list[Instruction]
) -> Iterator[tuple[Place, PodInfo, Bind]]:
    """Yield the pods that an answer binds, before the watch shows it."""
    for instruction in answer:
        if isinstance(instruction, Bind):
            place = ("pods", instruction.namespace, instruction.name)
            pod = objects.get(place)
            if isinstance(pod, PodInfo) and pod.uid == instruction.uid and not pod.node_name:
                yield place, pod, instruction
