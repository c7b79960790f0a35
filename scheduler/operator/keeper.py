"""Brings about what is to be: looks at everything, plans, and puts right what differs.

One look after another, each from fresh lists, so nothing that was missed stays missed. Instances
are independent of each other: what one's objects meet with is told in its status and tried again.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.client.errors import ApiError, ConflictError, FencedError
from scheduler.clock import Clock
from scheduler.config.problems import Problem
from scheduler.observability.logs import get_logger
from scheduler.operator.cluster import PROFILES, SCHEDULERS, Cluster, reference_of
from scheduler.operator.configuring import Configuration, Plan, plan
from scheduler.operator.desired import (
    Reference,
    deployment_of,
    desired,
    unwanted,
    without_owner,
)
from scheduler.operator.packages import Wheel, WheelPlace, Wheels, wheel_in, wheels_wanted
from scheduler.operator.resources import (
    FINALIZER,
    Json,
    Key,
    Scheduler,
    SchedulingProfile,
)
from scheduler.operator.status import profile_status, scheduler_status

RESYNC_SECONDS: Final = 30.0
"""How often everything is put right although nothing has told of a change."""
RETRY_SECONDS: Final = 5.0
"""Pause after something has failed."""
SETTLE_SECONDS: Final = 0.3
"""Changes that come together are looked at together."""
_AT_ONCE: Final = 10
"""Requests at the same time."""
_REFUSED: Final = (ApiError, FencedError)
"""What a write may meet with: the server's refusal, or the end of our lease."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Applied:
    """What was last brought about for an instance."""

    objects: str
    at: float
    deployment_generation: int


class Keeper:
    """Looks after all instances and profiles; `image` is for instances that name none."""

    def __init__(self, cluster: Cluster, image: str, clock: Clock) -> None:
        self._cluster = cluster
        self._image = image
        self._clock = clock
        self._woken = asyncio.Event()
        self._applied: dict[Key, _Applied] = {}
        self._requests = asyncio.Semaphore(_AT_ONCE)
        self._told: frozenset[str] = frozenset()

    def wake(self) -> None:
        """Something has changed: look soon."""
        self._woken.set()

    async def run(self) -> None:
        """Look again and again; run it as a task, which nothing ends."""
        while True:
            try:
                is_well = await self.look()
            except ApiError as problem:
                self._tell([str(problem)])
                is_well = False
            try:
                async with asyncio.timeout(RESYNC_SECONDS if is_well else RETRY_SECONDS):
                    await self._woken.wait()
                    await asyncio.sleep(SETTLE_SECONDS)
            except TimeoutError:
                pass

    async def look(self) -> bool:
        """Bring everything about once; says whether all of it worked.

        Raises:
            ApiError: what there is cannot be listed.
        """
        self._woken.clear()
        schedulers, unreadable = await self._cluster.list_objects(SCHEDULERS, Scheduler)
        profiles, more = await self._cluster.list_objects(PROFILES, SchedulingProfile)
        decided = plan(
            schedulers,
            profiles,
            await self._namespaces(schedulers),
            await self._wheels(schedulers),
        )
        self._applied = {
            each.key: self._applied[each.key] for each in schedulers if each.key in self._applied
        }
        async with asyncio.TaskGroup() as group:
            kept = [
                group.create_task(self._keep(each, decided.configurations.get(each.key)))
                for each in schedulers
            ]
            told = [group.create_task(self._judge(each, decided)) for each in profiles]
        failures = [text for task in (*kept, *told) for text in task.result()]
        self._tell([*unreadable, *more, *failures])
        return not failures

    # --- instances ------------------------------------------------------------------------------

    async def _keep(self, scheduler: Scheduler, configuration: Configuration | None) -> list[str]:
        """Look after one instance; gives what has failed."""
        try:
            if configuration is None:
                await self._let_go(scheduler)
                return []
            if FINALIZER not in scheduler.metadata.finalizers:
                finalizers = (*scheduler.metadata.finalizers, FINALIZER)
                await self._cluster.set_finalizers(scheduler, finalizers)
            deployment = await self._cluster.read(deployment_of(scheduler))
            failures = await self._bring_about(scheduler, configuration, deployment)
            await self._report(scheduler, configuration, failures)
        except ConflictError:
            # It has changed since it was listed; that wakes us.
            return []
        except _REFUSED as problem:
            return [f"Scheduler {scheduler.key}: {problem}"]
        return [f"Scheduler {scheduler.key}: {failure}" for failure in failures]

    async def _bring_about(
        self, scheduler: Scheduler, configuration: Configuration, deployment: Json | None
    ) -> list[str]:
        objects = desired(scheduler, configuration, self._image)
        written = json.dumps(objects)
        before = self._applied.get(scheduler.key)
        generation = _generation(deployment)
        if (
            before is not None
            and before.objects == written
            and before.deployment_generation == generation
            and self._clock.monotonic() - before.at < RESYNC_SECONDS
        ):
            return []
        failures = []
        for each in objects:
            try:
                made = await self._cluster.apply(each)
            except _REFUSED as problem:
                failures.append(f"{each['kind']} {each['metadata']['name']}: {problem}")
            else:
                if each["kind"] == "Deployment":
                    generation = _generation(made)
        if before is None or before.objects != written:
            failures += await self._remove(unwanted(scheduler))
        if not failures:
            now = self._clock.monotonic()
            self._applied[scheduler.key] = _Applied(written, now, generation)
        return failures

    async def _report(
        self, scheduler: Scheduler, configuration: Configuration, failures: list[str]
    ) -> None:
        lease = Reference("coordination.k8s.io/v1", "Lease", *scheduler.key)
        held = await self._cluster.read(lease)
        holder: str = ((held or {}).get("spec", {})).get("holderIdentity") or ""
        status = scheduler_status(
            scheduler,
            configuration,
            deployment=await self._cluster.read(deployment_of(scheduler)),
            # The name of the pod; what follows tells its starts apart.
            leader=holder.partition("_")[0],
            failures=failures,
            now=self._clock.wall(),
        )
        if status != scheduler.status:
            await self._cluster.set_status(reference_of(scheduler), status)

    async def _let_go(self, scheduler: Scheduler) -> None:
        """Delete what has no owner, then allow the instance to go; the rest goes with it."""
        if FINALIZER not in scheduler.metadata.finalizers:
            return
        for each in without_owner(scheduler):
            await self._cluster.delete(each)
        left = [each for each in scheduler.metadata.finalizers if each != FINALIZER]
        await self._cluster.set_finalizers(scheduler, left)
        log.info("Scheduler removed", scheduler=str(scheduler.key))

    async def _remove(self, unwanted: Iterable[Reference]) -> list[str]:
        failures = []
        for each in unwanted:
            try:
                await self._cluster.delete(each)
            except _REFUSED as problem:
                failures.append(f"{each}: {problem}")
        return failures

    # --- profiles -------------------------------------------------------------------------------

    async def _judge(self, profile: SchedulingProfile, decided: Plan) -> list[str]:
        """Tell a profile what has become of it; gives what has failed."""
        status = profile_status(profile, decided.verdicts[profile.key], self._clock.wall())
        if status == profile.status:
            return []
        try:
            async with self._requests:
                await self._cluster.set_status(reference_of(profile), status)
        except _REFUSED as problem:
            return [f"SchedulingProfile {profile.key}: {problem}"]
        return []

    # --- around ---------------------------------------------------------------------------------

    async def _namespaces(self, schedulers: Iterable[Scheduler]) -> Mapping[str, Mapping[str, str]]:
        """Labels of all namespaces, where somebody selects by them."""
        if any(each.spec.profile_namespace_selector is not None for each in schedulers):
            return await self._cluster.namespaces()
        return {}

    async def _wheels(self, schedulers: Iterable[Scheduler]) -> Wheels:
        """All wheels that instances name, or what is wrong with them."""
        found: dict[WheelPlace, Wheel | Problem] = {}
        for place in {place for each in schedulers for place in wheels_wanted(each)}:
            config_map = Reference("v1", "ConfigMap", place.namespace, place.config_map)
            try:
                found[place] = wheel_in(await self._cluster.read(config_map), place)
            except ApiError as problem:
                found[place] = Problem(("configMap",), str(problem))
        return found

    def _tell(self, failures: Iterable[str]) -> None:
        """Log what has failed, once; a failure that stays is not news."""
        found = frozenset(failures)
        for failure in sorted(found - self._told):
            log.warning("Not brought about; trying again", reason=failure)
        if self._told and not found:
            log.info("Everything is brought about again")
        self._told = found


def _generation(deployment: Json | None) -> int:
    generation: int = (deployment or {}).get("metadata", {}).get("generation", 0)
    return generation
