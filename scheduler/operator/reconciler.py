"""Compares the desired objects of all Schedulers with the cluster, and applies them.

Each reconcile reads all objects, so the next one repairs a missed change. Schedulers are
independent: the status of each reports its failures, which are retried.
"""

import asyncio
import json
import traceback
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from scheduler.clock import Clock
from scheduler.config.problems import Problem
from scheduler.daemon.client.errors import ApiError, ConflictError, FencedError
from scheduler.observability.logs import get_logger
from scheduler.operator.cluster import PROFILES, SCHEDULERS, FencedClient, reference_of
from scheduler.operator.configuring import plan
from scheduler.operator.desired import (
    Reference,
    config_map_of,
    deployment_of,
    desired,
    has_configuration,
    reference,
    unwanted,
    without_owner,
)
from scheduler.operator.drafts import version_in
from scheduler.operator.ownership import refusal
from scheduler.operator.packages import Wheel, WheelPlace, Wheels, wheel_in, wheels_wanted
from scheduler.operator.plans import Configuration, Verdict
from scheduler.operator.resources import (
    FINALIZER,
    Json,
    Key,
    Scheduler,
    SchedulingProfile,
)
from scheduler.operator.status import leader_in, profile_status, scheduler_status

RESYNC_SECONDS: Final = 30.0
"""Seconds after which all objects are applied again; drift is repaired within this time."""
RETRY_SECONDS: Final = 5.0
"""Seconds until the first retry after a failure."""
MAX_RETRY_SECONDS: Final = 60.0
"""Longest pause until a retry; the pause doubles up to this."""
SETTLE_SECONDS: Final = 0.3
"""Seconds from a change to the reconcile, so that a burst of changes causes one reconcile."""
SYSTEM: Final = "kube-system"
"""The namespace of the cluster's own schedulers, in which no tenant may write."""
_AT_ONCE: Final = 10
"""Concurrent status requests at most."""
_REFUSED: Final = (ApiError, FencedError)
"""Expected failures of a write: the API server refuses it, or the lease is lost."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Applied:
    """The state that the last successful reconcile of a Scheduler applied."""

    objects: str
    deployment_generation: int
    until: float
    """The time of the resync that applies it again."""


class Reconciler:
    """Reconciles all Schedulers and SchedulingProfiles.

    Args:
        cluster: the client of the API server.
        image: the image of Schedulers without one in their spec.
        clock: the clock of conditions and pauses.
        reserved: schedulerNames that no SchedulingProfile may claim.
    """

    def __init__(
        self, cluster: FencedClient, image: str, clock: Clock, reserved: Iterable[str] = ()
    ) -> None:
        self._cluster = cluster
        self._image = image
        self._reserved = frozenset(reserved)
        self._clock = clock
        self._woken = asyncio.Event()
        self._next_resync = 0.0
        """The monotonic time of the next resync; changes do not defer it."""
        self._applied: dict[Key, _Applied] = {}
        self._unwritten: set[Key] = set()
        """The Schedulers whose configuration this reconcile could not write."""
        self._requests = asyncio.Semaphore(_AT_ONCE)
        self._logged: frozenset[str] = frozenset()

    def wake(self) -> None:
        """Make `run` reconcile soon, after a change."""
        self._woken.set()

    async def run(self) -> None:
        """Reconcile after changes and periodically, until cancelled; run it as a task."""
        retry = RETRY_SECONDS
        while True:
            is_read, has_failed = True, True
            try:
                has_failed = not await self.reconcile()
            except Exception as problem:  # noqa: BLE001 - the next reconcile may succeed
                is_read = False
                self._log([_failure(problem)])
            pause = self._next_resync - self._clock.monotonic()
            if has_failed:
                pause = min(pause, retry) if is_read else retry
            else:
                retry = RETRY_SECONDS
            # Changes do not end the pause after a failed read: they could cause three a second.
            changes = self._woken if is_read else asyncio.Event()
            try:
                async with asyncio.timeout(pause):
                    await changes.wait()
                    await asyncio.sleep(SETTLE_SECONDS)
            except TimeoutError:
                if has_failed:
                    retry = min(2 * retry, MAX_RETRY_SECONDS)

    async def reconcile(self) -> bool:
        """Reconcile all objects once; return whether all of them succeeded.

        Raises:
            ApiError: the custom resources cannot be listed.
        """
        self._woken.clear()
        now = self._clock.monotonic()
        if now >= self._next_resync:
            self._next_resync = now + RESYNC_SECONDS
        schedulers, unreadable = await self._cluster.list_objects(SCHEDULERS, Scheduler)
        leaving = [each for each in schedulers if each.is_leaving]
        # Before the profiles are listed: their kind may be deleted already.
        failures = await _failures_of(self._reconcile_scheduler(each, None) for each in leaving)
        profiles, more = await self._cluster.list_objects(PROFILES, SchedulingProfile)
        decided = await plan(
            schedulers,
            profiles,
            await self._namespaces(schedulers),
            await self._wheels(schedulers),
            await self._names_of_others(schedulers),
        )
        self._applied = {
            each.key: self._applied[each.key] for each in schedulers if each.key in self._applied
        }
        self._unwritten.clear()
        failures += await _failures_of(
            self._reconcile_scheduler(each, decided.configurations[each.key])
            for each in schedulers
            if not each.is_leaving
        )
        # A profile is in force only if the configuration that it is part of was written.
        failures += await _failures_of(
            self._update_profile_status(each, decided.verdicts[each.key]) for each in profiles
        )
        self._log([*unreadable, *more, *failures])
        return not failures

    # --- instances ------------------------------------------------------------------------------

    async def _reconcile_scheduler(
        self, scheduler: Scheduler, configuration: Configuration | None
    ) -> list[str]:
        """Reconcile one Scheduler; return its failures."""
        try:
            if configuration is None:
                failures = await self._finalize(scheduler)
                return [f"Scheduler {scheduler.key}: {failure}" for failure in failures]
            if FINALIZER not in scheduler.metadata.finalizers:
                finalizers = (*scheduler.metadata.finalizers, FINALIZER)
                await self._cluster.set_finalizers(scheduler, finalizers)
            deployment = await self._cluster.read(deployment_of(scheduler))
            try:
                failures = await self._apply(scheduler, configuration, deployment)
            except ApiError as problem:
                # An object cannot be read: the status must not report success.
                failures = [str(problem)]
            if failures and not await self._is_written(scheduler, configuration):
                self._unwritten.add(scheduler.key)
            await self._report(scheduler, configuration, failures)
        except ConflictError:
            # The Scheduler has changed since the list: its watch event wakes the reconciler.
            return []
        except Exception as problem:  # noqa: BLE001 - one object must not stop the others
            return [f"Scheduler {scheduler.key}: {_failure(problem)}"]
        return [f"Scheduler {scheduler.key}: {failure}" for failure in failures]

    async def _apply(  # noqa: C901, PLR0912 - one step after the other, each with its failures
        self, scheduler: Scheduler, configuration: Configuration, deployment: Json | None
    ) -> list[str]:
        """Apply the desired objects of an instance; return the failures."""
        if not configuration.is_applied:
            return []
        objects = desired(scheduler, configuration, self._image)
        written = json.dumps(objects)
        before = self._applied.get(scheduler.key)
        generation = _generation(deployment)
        if before is not None and self._is_current(before, written, generation):
            return []
        uids, failures = await self._owned(scheduler, map(reference, objects), may_adopt=True)
        if failures:
            # Apply all objects or none: a binding must not give rights to a foreign ServiceAccount.
            return failures
        # While objects are applied, the cluster may have both new and old ones.
        self._applied.pop(scheduler.key, None)
        for each in objects:
            what = reference(each)
            try:
                made = await self._cluster.apply(each, uids.get(what, ""))
            except _REFUSED as problem:
                failures.append(f"{each['kind']} {each['metadata']['name']}: {problem}")
            else:
                if each["kind"] == "Deployment":
                    generation = _generation(made)
        if before is None or before.objects != written:
            failures += await self._remove(scheduler, unwanted(scheduler))
        if not failures:
            self._applied[scheduler.key] = _Applied(written, generation, self._next_resync)
        return failures

    def _is_current(self, before: _Applied, written: str, generation: int) -> bool:
        """Return whether the same desired objects were applied since the last resync."""
        return (
            before.objects == written
            and before.deployment_generation == generation
            and before.until >= self._next_resync
        )

    async def _is_written(self, scheduler: Scheduler, configuration: Configuration) -> bool:
        """Return whether the ConfigMap of an instance has its configuration."""
        if configuration.text is None:
            return True
        try:
            found = await self._cluster.read(config_map_of(scheduler))
        except ApiError:
            return False
        return has_configuration(found, configuration.text)

    async def _report(
        self, scheduler: Scheduler, configuration: Configuration, failures: list[str]
    ) -> None:
        lease = Reference("coordination.k8s.io/v1", "Lease", *scheduler.key)
        leader = leader_in(await self._cluster.read(lease), self._clock.wall())
        deployment = await self._cluster.read(deployment_of(scheduler))
        if deployment is not None and refusal(deployment, scheduler, may_adopt=False):
            # Its pods are not those of this instance.
            deployment = None
        status = scheduler_status(
            scheduler,
            configuration,
            deployment=deployment,
            leader=leader,
            failures=failures,
            now=self._clock.wall(),
        )
        if status != scheduler.status:
            await self._cluster.set_status(reference_of(scheduler), status)

    async def _finalize(self, scheduler: Scheduler) -> list[str]:
        """Delete the cluster-scoped objects, then remove the finalizer; return the failures."""
        if FINALIZER not in scheduler.metadata.finalizers:
            return []
        if failures := await self._remove(scheduler, without_owner(scheduler)):
            return failures
        left = [each for each in scheduler.metadata.finalizers if each != FINALIZER]
        await self._cluster.set_finalizers(scheduler, left)
        log.info("Scheduler removed", scheduler=str(scheduler.key))
        return []

    async def _remove(self, scheduler: Scheduler, unwanted: Iterable[Reference]) -> list[str]:
        """Delete those of the objects that the Scheduler owns; return the failures."""
        uids, _ = await self._owned(scheduler, unwanted, may_adopt=False)
        failures = []
        for each, uid in uids.items():
            try:
                await self._cluster.delete(each, uid)
            except _REFUSED as problem:
                failures.append(f"{each}: {problem}")
        return failures

    async def _owned(
        self, scheduler: Scheduler, objects: Iterable[Reference], *, may_adopt: bool
    ) -> tuple[dict[Reference, str], list[str]]:
        """Return the UIDs of existing owned objects, and the reasons for leaving out others.

        Raises:
            ApiError: an object cannot be read.
        """
        uids, foreign = {}, []
        for each in objects:
            found = await self._cluster.read(each)
            if found is None:
                continue
            if why := refusal(found, scheduler, may_adopt=may_adopt):
                foreign.append(f"{each}: {why}")
            else:
                uids[each] = found["metadata"]["uid"]
        return uids, foreign

    # --- profiles -------------------------------------------------------------------------------

    async def _update_profile_status(
        self, profile: SchedulingProfile, verdict: Verdict
    ) -> list[str]:
        """Write the status of a SchedulingProfile; return its failures."""
        key = verdict.scheduler
        if key is not None and verdict.reason == "InForce" and key in self._unwritten:
            message = f"The configuration of Scheduler {key} cannot be written; see its status."
            verdict = Verdict("NotApplied", message, key, version_in(key, profile))
        try:
            status = profile_status(profile, verdict, self._clock.wall())
            if status == profile.status:
                return []
            async with self._requests:
                await self._cluster.set_status(reference_of(profile), status)
        except Exception as problem:  # noqa: BLE001 - one object must not stop the others
            return [f"SchedulingProfile {profile.key}: {_failure(problem)}"]
        return []

    # --- around ---------------------------------------------------------------------------------

    async def _namespaces(self, schedulers: Iterable[Scheduler]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of all namespaces, if a Scheduler selects by them."""
        if any(each.spec.profile_namespace_selector is not None for each in schedulers):
            return await self._cluster.namespaces()
        return {}

    async def _names_of_others(self, schedulers: Iterable[Scheduler]) -> Mapping[str, str]:
        """Return the schedulerNames of other schedulers, as far as known.

        By convention a scheduler's Lease has its name. Only Leases of kube-system are read: others
        may be a tenant's.
        """
        ours = {each.metadata.name for each in schedulers if each.metadata.namespace == SYSTEM}
        leases = {*await self._cluster.leases(SYSTEM)} - ours
        told = dict.fromkeys(self._reserved, "another scheduler (--reserved-scheduler-name)")
        return {name: f"Lease {SYSTEM}/{name}" for name in leases} | told

    async def _wheels(self, schedulers: Iterable[Scheduler]) -> Wheels:
        """Return all wheels that Schedulers name, or the problem of each."""
        found: dict[WheelPlace, Wheel | Problem] = {}
        for place in {place for each in schedulers for place in wheels_wanted(each)}:
            config_map = Reference("v1", "ConfigMap", place.namespace, place.config_map)
            try:
                found[place] = wheel_in(await self._cluster.read(config_map), place)
            except Exception as problem:  # noqa: BLE001 - one object must not stop the others
                found[place] = Problem(("configMap",), _failure(problem))
        return found

    def _log(self, failures: Iterable[str]) -> None:
        """Log each failure once while it lasts."""
        found = frozenset(failures)
        for failure in sorted(found - self._logged):
            log.warning("Reconcile failed; retrying", reason=failure)
        if self._logged and not found:
            log.info("Reconcile succeeded again")
        self._logged = found


async def _failures_of(work: Iterable[Coroutine[Any, Any, list[str]]]) -> list[str]:
    """Run coroutines for several objects concurrently; return their failures."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
    return [failure for task in tasks for failure in task.result()]


def _failure(problem: Exception) -> str:
    """Describe a failure in one line; an unexpected one with its type and its line of code."""
    if isinstance(problem, _REFUSED):
        return str(problem)
    [*_, frame] = traceback.extract_tb(problem.__traceback__)
    place = f"{PurePath(frame.filename).name}:{frame.lineno}"
    return f"{type(problem).__name__}: {problem} ({place})"


def _generation(deployment: Json | None) -> int:
    generation: int = (deployment or {}).get("metadata", {}).get("generation", 0)
    return generation
