"""Stands in for `scheduler.operator.cluster.Cluster`: objects in a dictionary, and the writes."""

from collections.abc import Sequence
from copy import deepcopy

import msgspec

from scheduler.daemon.client.errors import ConflictError, ForbiddenError
from scheduler.operator.cluster import reference_of
from scheduler.operator.desired import Reference, reference
from scheduler.operator.resources import Json, Scheduler, SchedulingProfile


class FakeCluster:
    """One API server.

    Attributes:
        customs: the custom resources.
        objects: everything else.
        asked: writes in their order, as texts.
        refused: what may not be written, as `Kind namespace/name`.
        hidden: what may not be read.
        held_leases: names of Leases that something holds, by namespace.
        outdated: custom resources that have changed since they were listed.
    """

    def __init__(self, *customs: Scheduler | SchedulingProfile) -> None:
        self.customs = {reference_of(each): each for each in customs}
        self.objects: dict[Reference, Json] = {}
        self.asked: list[str] = []
        self.refused: set[str] = set()
        self.hidden: set[str] = set()
        self.held_leases: dict[str, list[str]] = {}
        self.outdated: set[Reference] = set()

    async def list_objects(
        self, _plural: str, kind: type[Scheduler | SchedulingProfile]
    ) -> tuple[list[Scheduler | SchedulingProfile], list[str]]:
        return [each for each in self.customs.values() if isinstance(each, kind)], []

    async def namespaces(self) -> dict[str, dict[str, str]]:
        return {}

    async def read(self, what: Reference) -> Json | None:
        if str(what) in self.hidden:
            raise ForbiddenError(f"GET {what.name}", status=403, message="no such right")
        return self.objects.get(what)

    async def leases(self, namespace: str) -> list[str]:
        return self.held_leases.get(namespace, [])

    async def apply(self, written: Json, uid: str) -> Json:
        what = reference(written)
        self._ask("apply", what)
        before = self.objects.get(what, {})
        self._expect(before, uid)
        kept = {name: before[name] for name in ("status",) if name in before}
        generation = before.get("metadata", {}).get("generation", 0)
        if before.get("spec") != written.get("spec"):
            generation += 1
        made = {**deepcopy(written), **kept}
        made["metadata"]["generation"] = generation
        made["metadata"]["uid"] = uid or f"uid-of-{what}"
        self.objects[what] = made
        return made

    async def delete(self, what: Reference, uid: str) -> None:
        self._ask("delete", what)
        self._expect(self.objects.get(what, {}), uid)
        self.objects.pop(what, None)

    async def set_status(self, what: Reference, status: Json) -> None:
        self._ask("status", what)
        self._change(what, status=status)

    async def set_finalizers(self, scheduler: Scheduler, finalizers: Sequence[str]) -> None:
        what = reference_of(scheduler)
        if what in self.outdated:
            raise ConflictError("PATCH", status=409)
        self._ask("finalizers", what)
        if scheduler.is_leaving and not finalizers:
            del self.customs[what]
            return
        metadata = msgspec.structs.replace(scheduler.metadata, finalizers=tuple(finalizers))
        self._change(what, metadata=metadata)

    def status(self, custom: Scheduler | SchedulingProfile) -> Json:
        """What a custom resource says now."""
        return self.customs[reference_of(custom)].status

    def replace(self, custom: Scheduler | SchedulingProfile) -> None:
        """Another version of a custom resource, whose status stays."""
        what = reference_of(custom)
        self.customs[what] = msgspec.structs.replace(custom, status=self.customs[what].status)

    def _change(self, what: Reference, **fields: object) -> None:
        self.customs[what] = msgspec.structs.replace(self.customs[what], **fields)

    def _expect(self, there: Json, uid: str) -> None:
        if there.get("metadata", {}).get("uid", "") != uid:
            raise ConflictError("PATCH", status=409, message="another object is there")

    def _allow(self, what: Reference) -> None:
        if str(what) in self.refused:
            raise ForbiddenError(f"PATCH {what.name}", status=403, message="no such right")

    def _ask(self, verb: str, what: Reference) -> None:
        self._allow(what)
        self.asked.append(f"{verb} {what}")
