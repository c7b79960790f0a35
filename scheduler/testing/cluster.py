"""A cluster in memory: objects are added, pods scheduled, and time passes on request."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.api.pods import PodInfo
from scheduler.config.load import load_object
from scheduler.config.types import API_VERSION, KIND
from scheduler.daemon.bootstrap import args_types_of, out_of_tree_plugins, own_plugins
from scheduler.daemon.recording.files import Recording
from scheduler.daemon.recording.replay import restore
from scheduler.kernel.engine.events import Activate, ObjectGone, ObjectSet, Tick
from scheduler.kernel.framework.handle import StateT
from scheduler.kernel.framework.interface import Plugin
from scheduler.testing.decision import Decision
from scheduler.testing.objects import Manifest
from scheduler.testing.validation import validate_engine
from scheduler.testing.world import ClusterError, SimulatedCluster
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.cluster import (
    DEFAULT_PROFILE,
    Profiles,
    events_of,
)
from scheduler.tools.offline.documents import documents_from_text, items_of
from scheduler.tools.offline.reading import ClusterObjects, objects_from_documents
from scheduler.tools.offline.strictness import unknown_fields

_FILES: Final = (".yaml", ".yml", ".json")


class Cluster:
    """Nodes and pods, the engine that decides, and a world that carries out its decisions.

    A pod is bound at once, and an evicted pod is gone at once. PreBind and Bind plugins do not run.
    Time stands still but for `advance`.

    Attributes:
        reports: the problems that the daemon would have logged.
    """

    def __init__(self, seed: int = 0) -> None:
        self.reports: list[str] = []
        self._seed = seed
        self._document: Manifest = {"apiVersion": API_VERSION, "kind": KIND}
        self._source = "configuration"
        self._plugins: dict[str, type[Plugin]] = {}
        self._world: SimulatedCluster | None = None
        self._admission = Admission()

    # --- configuration --------------------------------------------------------------------------

    def configure(self, config: str | Path | Mapping[str, Any]) -> None:
        """Take a KubeSchedulerConfiguration: a file, a text or a mapping.

        Raises:
            SchedulerError: something has been added already, or it cannot be read.
        """
        self._check_empty("configure")
        document: Any = config
        if not isinstance(config, Mapping):
            self._source, text = _text(config)
            [(_, document), *more] = documents_from_text(text, self._source)
            if more:
                raise ClusterError(f"{self._source}: expected one KubeSchedulerConfiguration")
        if not isinstance(document, Mapping):
            raise ClusterError(f"{self._source}: expected a KubeSchedulerConfiguration")
        self._document = msgspec.to_builtins(document)

    def enable(
        self,
        plugin: type[Plugin],
        *,
        weight: int = 0,
        args: Mapping[str, Any] | None = None,
    ) -> None:
        """Enable a plugin in every profile, installed or not.

        Raises:
            ClusterError: something has been added already.
        """
        self._check_empty("enable")
        self._plugins[plugin.NAME] = plugin
        for profile in self._document.setdefault("profiles", [{}]):
            multi_point = profile.setdefault("plugins", {}).setdefault("multiPoint", {})
            multi_point.setdefault("enabled", []).append({"name": plugin.NAME, "weight": weight})
            if args is not None:
                told = {"name": plugin.NAME, "args": dict(args)}
                profile.setdefault("pluginConfig", []).append(told)

    # --- objects --------------------------------------------------------------------------------

    def add(self, *objects: str | Path | Mapping[str, Any]) -> None:
        """Add objects, or change those that are there: manifests, files, or texts in YAML or JSON.

        Waiting pods among them wait until something is scheduled or time passes.

        Raises:
            SchedulerError: one cannot be read.
        """
        for each in objects:
            self._add(each)

    def delete(self, name: str, namespace: str = "default") -> None:
        """Delete a pod, as if its containers had ended at once.

        Raises:
            ClusterError: there is none.
        """
        pod = self.pod(f"{namespace}/{name}")
        self._ready.handle(ObjectGone("pods", pod.namespace, pod.name, pod.uid))

    def replay(self, *files: str | Path, until: float | None = None) -> None:
        """Bring the cluster to where a recording was; from then on it goes its own way.

        Args:
            files: all files of one recording, see `stowage run --record`.
            until: seconds since its start; without them everything is replayed.

        Raises:
            ClusterError: something has been added already.
            RecordingError: a file is damaged.
        """
        self._check_empty("replay")
        recording = Recording([Path(file) for file in files])
        header = recording.header
        self._document, self._seed = header.configuration, header.seed
        world = self._ready
        end = None if until is None else header.clock + until
        records = (record for record in recording if end is None or record.time <= end)
        if header.is_complete:
            for record in records:
                world.engine.handle(record.event, record.time)
        else:
            restore(records, world.engine)
        world.now = world.engine.core.now

    # --- events ---------------------------------------------------------------------------------

    def schedule(self, pod: str | Path | Mapping[str, Any]) -> Decision:
        """Schedule a pod, and every other waiting pod that is ready.

        Args:
            pod: the name of a waiting pod, `namespace/name` if need be, or a new one: a manifest,
                a file, or a text.

        Raises:
            ClusterError: there is no such pod, or no profile answers to it.
            SchedulerError: the manifest cannot be read.
        """
        world = self._ready
        if isinstance(pod, str) and "\n" not in pod and not pod.endswith(_FILES):
            found = self.pod(pod)
            world.handle(Activate((found.uid,)))
        else:
            world.settle()
            pods = self._add(pod).pods
            if len(pods) != 1:
                raise ClusterError(
                    f"schedule: expected exactly one pod, got {len(pods)}; schedule_all takes more"
                )
            found = pods[0]
        return self._decide(found)

    def schedule_all(self, workload: str | Path | Mapping[str, Any]) -> tuple[Decision, ...]:
        """Schedule the pods of a new workload, one after the other.

        Args:
            workload: a Deployment, ReplicaSet, StatefulSet, Job, ..., or several pods: manifests,
                a file, or a text.

        Returns:
            One decision for each pod, by priority and then in the order of the manifests: the
            order in which the queue hands them out. Each describes the moment of its pod.

        Raises:
            ClusterError: there are no pods in it, or no profile serves one.
            SchedulerError: the manifest cannot be read.
        """
        world = self._ready
        world.settle()
        objects = self._read(workload)
        pods, objects.pods = objects.pods, []
        if not pods:
            raise ClusterError("schedule_all: expected a workload or pods, got none")
        world.take(events_of(objects))
        decisions = []
        for pod in sorted(pods, key=lambda pod: -(pod.spec.priority or 0)):
            world.take([ObjectSet("pods", pod)])
            decisions.append(self._decide(pod))
        return tuple(decisions)

    def advance(self, seconds: float) -> None:
        """Let time pass: back-off ends, patience ends, pods are tried again."""
        world = self._ready
        end = world.now + seconds
        while world.now < end:
            world.now = min(world.now + 1.0, end)
            world.handle(Tick())
            world.settle()

    @contextmanager
    def bindings_refused(self, message: str = "refused by the test") -> Iterator[None]:
        """Make the API server refuse every binding within this context."""
        world = self._ready
        world.refusal = message
        try:
            yield
        finally:
            world.refusal = ""

    # --- looking in -----------------------------------------------------------------------------

    def node_of(self, pod: str) -> str:
        """Return the node of a pod, bound or held; empty while it waits.

        Raises:
            ClusterError: there is no such pod.
        """
        return self.pod(pod).node_name

    def pod(self, name: str) -> PodInfo:
        """The pod as plugins get it, by name or `namespace/name`: to call PreBind or Bind with.

        Raises:
            ClusterError: there is no such pod.
        """
        core = self._ready.engine.core
        known = list(core.cache.pods.values())
        waiting = core.queue.pending_pods()
        for pod in (*known, *waiting):
            if name in (pod.name, pod.key):
                return pod
        names = ", ".join(sorted(pod.key for pod in (*known, *waiting))) or "none"
        raise ClusterError(f"there is no pod {name}; pods: {names}")

    @property
    def held(self) -> dict[str, tuple[str, ...]]:
        """The plugins that hold each held pod, by `namespace/name`."""
        waiting = self._ready.engine.core.waiting
        return {held.pod.key: tuple(held.pending_plugins) for held in waiting}

    def shared(self, state_type: type[StateT]) -> StateT:
        """The state of this type that plugins share."""
        return self._ready.profiles.shared(state_type)

    def check(self) -> None:
        """Check every invariant of the engine.

        Raises:
            SchedulerError: one does not hold.
        """
        if self._world is not None:
            validate_engine(self._world.engine)

    # --- within ---------------------------------------------------------------------------------

    @property
    def _ready(self) -> SimulatedCluster:
        if self._world is None:
            self._world = SimulatedCluster(self._profiles(), self._seed, self.reports)
        return self._world

    def _profiles(self) -> Profiles:
        plugins = out_of_tree_plugins(self._plugins)
        config = load_object(
            self._document,
            source=self._source,
            out_of_tree=own_plugins(plugins),
            args_types=args_types_of(plugins),
            default_scheduler_name=DEFAULT_PROFILE,
        )
        written = self._document.get("profiles") or [{}]
        return Profiles(config, plugins, is_named=bool(written[0].get("schedulerName")))

    def _check_empty(self, what: str) -> None:
        if self._world is not None:
            raise ClusterError(f"{what}: only before anything is added or scheduled")

    def _decide(self, pod: PodInfo) -> Decision:
        profiles, name = self._ready.profiles.frameworks, pod.spec.scheduler_name
        if name not in profiles:
            raise ClusterError(
                f"{pod.key}: its schedulerName is {name}; profiles: {', '.join(profiles)}"
            )
        if pod.node_name:
            raise ClusterError(f"{pod.key}: it runs on {pod.node_name} already")
        return self._ready.decide(pod)

    def _add(self, given: str | Path | Mapping[str, Any]) -> ClusterObjects:
        objects = self._read(given)
        self._ready.take(events_of(objects))
        return objects

    def _read(self, given: str | Path | Mapping[str, Any]) -> ClusterObjects:
        documents = [("manifest", given)]
        if not isinstance(given, Mapping):
            source, text = _text(given)
            documents = list(documents_from_text(text, source))
        items = [item for place, document in documents for item in items_of(document, place)]
        objects = objects_from_documents(
            items,
            admission=self._admission,
            nodes=self._ready.nodes,
            watched=self._ready.profiles.watched,
            is_whole=False,
        )
        self._admission = objects.admission
        slips = [
            f"{place}: {problem}"
            for place, item in items
            for problem in unknown_fields(item, str(item.get("kind")))
        ]
        slips += [each for each in objects.warnings if each not in {*slips, *objects.left_out}]
        if slips:
            raise ClusterError("; ".join(slips))
        for warning in objects.left_out:
            warnings.warn(warning, stacklevel=4)
        return objects


def _text(given: str | Path) -> tuple[str, str]:
    """Return the name of an input in messages, and its text."""
    if isinstance(given, Path) or ("\n" not in given and given.endswith(_FILES)):
        try:
            return str(given), Path(given).read_text(encoding="utf-8")
        except OSError as problem:
            raise ClusterError(f"{given}: cannot be read: {problem.strerror}") from problem
    return "text", given
