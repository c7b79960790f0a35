"""A cluster in memory for tests, which add objects, schedule pods and advance the clock."""

import warnings
from collections.abc import Collection, Iterator, Mapping
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
from scheduler.kernel.engine.events import Activate, ObjectSet, Tick
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
from scheduler.tools.offline.configured import name_problem
from scheduler.tools.offline.documents import documents_from_text, items_of
from scheduler.tools.offline.reading import ClusterObjects, objects_from_documents
from scheduler.tools.offline.recorded import recorded_engine

_FILES: Final = (".yaml", ".yml", ".json")


class Cluster:
    """Nodes and pods, the engine, and a simulated API server that carries out its instructions.

    A pod is bound at once, and a victim is deleted at once. PreBind and Bind plugins do not run.
    Time advances only by `advance`.

    Attributes:
        reports: the errors that the daemon would have logged.
    """

    def __init__(self, seed: int = 0) -> None:
        self.reports: list[str] = []
        self._seed = seed
        self._document: Manifest = {"apiVersion": API_VERSION, "kind": KIND}
        self._source = "configuration"
        self._plugins: dict[str, type[Plugin]] = {}
        self._settings = ""
        self._world: SimulatedCluster | None = None
        self._admission = Admission()

    # --- configuration --------------------------------------------------------------------------

    def configure(self, config: str | Path | Mapping[str, Any]) -> None:
        """Use a KubeSchedulerConfiguration: a file, a text or a mapping.

        Raises:
            SchedulerError: objects were added already, or the configuration cannot be read.
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
        self._settings = "configure"

    def enable(
        self,
        plugin: type[Plugin],
        *,
        weight: int = 0,
        args: Mapping[str, Any] | None = None,
    ) -> None:
        """Enable a plugin, of an installed package or not, in every profile.

        Raises:
            ClusterError: objects were added already, or `plugin` is no class with a NAME.
        """
        self._check_empty("enable")
        if not isinstance(plugin, type):
            raise ClusterError(f"enable: expected the class of a plugin, got {plugin!r}")
        if problem := name_problem(plugin):
            raise ClusterError(f"enable: {problem}")
        self._plugins[plugin.NAME] = plugin
        if weight or args is not None:
            self._settings = "enable with a weight or args"
        for profile in self._document.setdefault("profiles", [{}]):
            multi_point = profile.setdefault("plugins", {}).setdefault("multiPoint", {})
            multi_point.setdefault("enabled", []).append({"name": plugin.NAME, "weight": weight})
            if args is not None:
                told = {"name": plugin.NAME, "args": dict(args)}
                profile.setdefault("pluginConfig", []).append(told)

    # --- objects --------------------------------------------------------------------------------

    def add(self, *objects: str | Path | Mapping[str, Any]) -> None:
        """Add or update objects: manifests, files, or texts in YAML or JSON.

        Pending pods among them are not scheduled before the next call of a method that schedules.

        Raises:
            SchedulerError: an object cannot be read.
        """
        for each in objects:
            self._add(each)

    def delete(self, name: str, namespace: str = "default") -> None:
        """Delete a pod, without a grace period; its claims are free then.

        Raises:
            ClusterError: there is no such pod.
        """
        pod = self.pod(f"{namespace}/{name}")
        self._ready.delete(pod.namespace, pod.name, pod.uid)

    def replay(self, *files: str | Path, until: float | None = None) -> None:
        """Replay a recording with its configuration, and continue from its state.

        `enable` gives the class of a plugin that the recording names.

        Args:
            files: all files of one recording, see `stowage run --record`.
            until: seconds since its start; None replays the whole recording.

        Raises:
            ClusterError: objects were added already, or the recorded configuration is not the
                one that was requested.
            RecordingError: a file is damaged.
        """
        self._check_empty("replay")
        recording = Recording([Path(file) for file in files])
        header = recording.header
        if self._settings:
            raise ClusterError(f"replay: a recording has its configuration; omit {self._settings}")
        self._document = header.configuration
        profiles = self._profiles(header.feature_gates)
        recorded = {
            name for profile in profiles.config.profiles for name in profile.plugins.names()
        }
        if missing := sorted(self._plugins.keys() - recorded):
            raise ClusterError(f"replay: the recording does not enable {', '.join(missing)}")
        engine = recorded_engine(profiles, header, with_extenders=False)
        world = self._world = SimulatedCluster(profiles, engine, self.reports)
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
        """Schedule a pod, and every other active pod.

        Args:
            pod: the name of a pending pod, or `namespace/name`; or a new pod: a manifest, a file,
                or a text.

        Raises:
            ClusterError: there is no such pod, or no profile for its schedulerName.
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
            order of the queue. Each describes the state at the decision about its pod.

        Raises:
            ClusterError: it has no pods, or there is no profile for a schedulerName.
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
        """Advance the clock: backoff and timeouts end, and requeued pods are scheduled."""
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
        """Return the node of a bound pod, or of a pod that waits in Permit; empty if pending.

        Raises:
            ClusterError: there is no such pod.
        """
        return self.pod(pod).node_name

    def pod(self, name: str) -> PodInfo:
        """Return the pod of this name or `namespace/name`, for tests that call PreBind or Bind.

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
        """The Permit plugins for which each pod waits, by `namespace/name`."""
        waiting = self._ready.engine.core.waiting
        return {held.pod.key: tuple(held.pending_plugins) for held in waiting}

    def shared(self, state_type: type[StateT]) -> StateT:
        """Return the shared state of this type."""
        return self._ready.profiles.shared(state_type)

    def check(self) -> None:
        """Check every invariant of the engine, and that no plugin has changed an object.

        Raises:
            SchedulerError: an invariant does not hold, or an object was changed.
        """
        if self._world is not None:
            self._world.check_given()
            validate_engine(self._world.engine)

    # --- within ---------------------------------------------------------------------------------

    @property
    def _ready(self) -> SimulatedCluster:
        if self._world is None:
            profiles = self._profiles()
            engine = profiles.engine(self._seed, with_extenders=False)
            self._world = SimulatedCluster(profiles, engine, self.reports)
        return self._world

    def _profiles(self, feature_gates: Collection[str] = ()) -> Profiles:
        plugins = out_of_tree_plugins(self._plugins)
        config = load_object(
            self._document,
            source=self._source,
            out_of_tree=own_plugins(plugins),
            args_types=args_types_of(plugins),
            default_scheduler_name=DEFAULT_PROFILE,
            feature_gates=feature_gates,
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
        slips = [each for each in objects.warnings if each not in objects.left_out]
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
