"""Reloads the --config file when it changes: as a whole, or not at all.

The reloader checks the new configuration as at start, and refuses changes of fields that are read
only once. The engine then rebuilds the profiles between two decisions. On any problem the old one
stays in force. The log, an Event about the Lease and metrics report both results.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scheduler.api.pods import PodInfo
from scheduler.api.written import NORMAL, WARNING, ObjectReference
from scheduler.clock import Clock
from scheduler.config.options import RunOptions
from scheduler.config.problems import ConfigError, Path as Place, Problem
from scheduler.config.source import read_file
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.walker import shown
from scheduler.config.write import to_object
from scheduler.daemon.bootstrap.configuration import read_configuration
from scheduler.daemon.bootstrap.measuring import counted
from scheduler.daemon.bootstrap.recording import without_secrets
from scheduler.daemon.driver.driver import Driver
from scheduler.daemon.informers.store import Store
from scheduler.daemon.serving.files import FollowedFiles, look_again_and_again
from scheduler.errors import SchedulerError
from scheduler.kernel.engine.events import Configure, ObjectSet
from scheduler.kernel.engine.instructions import Configured, RecordEvent
from scheduler.kernel.framework.interface import Plugin
from scheduler.observability.logs import get_logger
from scheduler.observability.metrics import SchedulerMetrics

LOOK_SECONDS: Final = 2.0
"""Interval at which the file is checked for changes."""

FIXED: Final = ("leaderElection", "clientConnection", "enableProfiling")
"""Fields that are read once: the lease, the connection and the endpoints are made from them. The
connections to extenders are read once as well."""

log = get_logger(__name__)


class RefusedError(SchedulerError):
    """The engine could not build the profiles of a configuration."""


class Reloader:
    """Keeps the configuration in force equal to its file.

    Attributes:
        in_force: the configuration of the engine.
    """

    def __init__(  # noqa: PLR0913 - the parts that take a new configuration
        self,
        options: RunOptions,
        in_force: KubeSchedulerConfiguration,
        out_of_tree: Mapping[str, type[Plugin]],
        *,
        driver: Driver,
        pods: Store[PodInfo],
        metrics: SchedulerMetrics,
        clock: Clock,
        lease_uid: Callable[[], str],
    ) -> None:
        """Begin with the configuration that was read at start.

        `pods` has all pods of the informer; of pending pods the engine keeps those of its profiles.
        `lease_uid` returns the UID of the Lease, or empty.
        """
        self.in_force = in_force
        self._options = options
        self._out_of_tree = out_of_tree
        self._driver = driver
        self._pods = pods
        self._metrics = metrics
        self._clock = clock
        self._lease_uid = lease_uid
        self._answer = Configured()
        self._is_owed = True
        """Whether the next check reads an unchanged file too, as at start or after a read error."""
        self._problem = ""
        path = Path(options.config)
        self._is_followed = bool(options.config) and not path.is_fifo()
        """A pipe, such as `<(...)` of a shell, has its content once; a second read may block."""
        self._followed = FollowedFiles([path])
        self._digest = ""
        driver.on_configured = self._on_configured
        metrics.config_info.from_source(lambda: {self._digest: 1})
        self._note(is_success=True)

    async def follow(self) -> None:
        """Check the file every `LOOK_SECONDS` until cancelled; run it as a task."""
        await look_again_and_again(
            self.look,
            LOOK_SECONDS,
            lambda error: log.error("Configuration cannot be looked at", exc_info=error),
        )

    def look(self) -> None:
        """Load the file if it has changed, or could not be read at the last check."""
        has_changed = self._followed.have_changed()
        if not self._is_followed or not (has_changed or self._is_owed):
            return
        self._is_owed, before = False, self._problem
        try:
            changed = self._take_over()
        except Exception as problem:  # noqa: BLE001 - plugins check their arguments with any code
            # The file may become readable without a change of its content.
            self._is_owed = isinstance(problem.__cause__, OSError)
            self._problem = _text_of(problem)
            if has_changed or self._problem != before:
                self._refuse(problem)
        else:
            self._problem = ""
            self._note(is_success=True)
            if changed:
                self._report_in_force()

    # --- steps ----------------------------------------------------------------------------------

    def _take_over(self) -> bool:
        """Put the configuration of the file in force; return whether it differs.

        Raises:
            SchedulerError: the new configuration is refused; the old one stays in force.
        """
        config, notices = read_configuration(self._options, self._out_of_tree)
        digest = hashlib.sha256(read_file(self._options.config)).hexdigest()
        if config == self.in_force:
            self._digest = digest
            return False
        stuck = tuple(_stuck(to_object(self.in_force), to_object(config)))
        if stuck:
            raise ConfigError(self._options.config, stuck)
        before = self._driver.engine.core.frameworks.keys()
        # If a plugin raises an unexpected error, the engine logs it and returns no `Configured`.
        self._answer = Configured("the profiles cannot be used; the log has the error before")
        self._driver.submit(Configure(to_object(without_secrets(config))))
        if self._answer.problem:
            raise RefusedError(f"{self._options.config}: {self._answer.problem}")
        for notice in notices:
            log.warning("Not in effect", notice=notice)
        self.in_force, self._digest = config, digest
        self._welcome(self._driver.engine.core.frameworks.keys() - before)
        return True

    def _on_configured(self, answer: Configured) -> None:
        self._answer = answer

    def _welcome(self, profiles: set[str]) -> None:
        """Submit the pending pods of new profiles: the engine has not kept them."""
        frameworks = self._driver.engine.core.frameworks
        for name, framework in frameworks.items():
            self._metrics.declare_plugins(name, counted(framework.plugins))
        for pod in list(self._pods.values()):
            if not pod.node_name and pod.spec.scheduler_name in profiles:
                self._driver.submit(ObjectSet("pods", pod))

    # --- reporting ------------------------------------------------------------------------------

    def _refuse(self, problem: Exception) -> None:
        self._note(is_success=False)
        text = _text_of(problem)
        trace = None if isinstance(problem, SchedulerError) else problem
        log.error("Configuration refused; what was in force stays so", err=text, exc_info=trace)
        self._record_event(WARNING, "ConfigurationRefused", f"What was in force stays so: {text}")

    def _report_in_force(self) -> None:
        profiles = [profile.scheduler_name for profile in self.in_force.profiles]
        log.info("Configuration in force", sha256=self._digest, profiles=profiles)
        note = f"{self._digest[:12]} is in force; profiles: {', '.join(profiles)}"
        self._record_event(NORMAL, "ConfigurationChanged", note)

    def _record_event(self, event_type: str, reason: str, note: str) -> None:
        lease = lease_of(self.in_force, self._lease_uid())
        controller = self.in_force.profiles[0].scheduler_name
        self._driver.outbox.record_event(
            RecordEvent(lease, reason, "Configuring", note, controller, event_type=event_type)
        )

    def _note(self, *, is_success: bool) -> None:
        self._metrics.config_reload_success.set(int(is_success))
        if is_success:
            self._metrics.config_reload_seconds.set(self._clock.wall().timestamp())


def lease_of(config: KubeSchedulerConfiguration, uid: str) -> ObjectReference:
    """Return the reference of the Lease, the object of events about the process.

    `kubectl describe` shows only events with the UID of the object.
    """
    election = config.leader_election
    name, namespace = election.resource_name, election.resource_namespace
    return ObjectReference("Lease", name, namespace, uid, api_version="coordination.k8s.io/v1")


def _text_of(problem: Exception) -> str:
    if isinstance(problem, SchedulerError):
        return str(problem)
    return f"unexpected {type(problem).__name__}: {problem}"


def _stuck(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each differing field that is read only once."""
    for name in FIXED:
        yield from _differences(before.get(name), now.get(name), (name,))
    if before.get("extenders") != now.get("extenders"):
        # No values: they may contain keys and passwords, which must not be logged.
        yield Problem(("extenders",), "cannot change without a restart")


def _differences(before: Any, now: Any, place: Place) -> Iterator[Problem]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in sorted(before.keys() | now.keys()):
            yield from _differences(before.get(name), now.get(name), (*place, name))
    elif before != now:
        told = f"{shown(before)} is in force, the file says {shown(now)}"
        yield Problem(place, f"cannot change without a restart: {told}")
