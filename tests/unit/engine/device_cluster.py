"""A cluster in time whose pods claim devices: an API server and a controller mind the claims."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from scheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimStatus
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine.attempt import AttemptState
from scheduler.kernel.engine.events import ObjectGone, ObjectSet, PreBound
from scheduler.kernel.engine.instructions import Instruction, RunPreBind
from scheduler.kernel.framework.results import Write
from scheduler.kernel.preemption.kept_room import RoomReservation
from scheduler.tools.offline.resource_claims import (
    RESOURCE_CLAIMS,
    events_of_pre_bind,
    events_of_write,
)
from tests.support.claims import a_claim, a_class, a_device, a_slice, exactly
from tests.unit.engine.test_kept_room import CONFIGURATION, TimedCluster

Device = tuple[str, str]
"""Of a pool and with a name."""


class DeviceCluster(TimedCluster):
    """Pods claim devices of their nodes, and an API server and a controller mind the claims.

    Attributes:
        claims: by name.
        devices: by node, how many it has.
        wants: by claim, for how many devices it asks.
        owners: by claim, the UIDs of the pods that it is made for.
        is_stalled: whether the controller frees no claims.
    """

    def __init__(self, *places: int, devices: tuple[int, ...], after: int) -> None:
        self.claims: dict[str, ResourceClaim] = {}
        self.devices = {f"n{number}": count for number, count in enumerate(devices)}
        self.wants: dict[str, int] = {}
        self.owners: dict[str, list[str]] = {}
        self.is_stalled = False
        super().__init__(*places, configuration=CONFIGURATION % after)
        self.tell_all()

    @override
    def tell_all(self) -> None:
        self.handle(ObjectSet("deviceclasses", a_class()))
        for node, count in self.devices.items():
            self.set_devices(node, count)
        for claim in self.claims.values():
            self.handle(ObjectSet(RESOURCE_CLAIMS, claim))
        super().tell_all()

    @override
    def handle(self, event: Any) -> list[Instruction]:
        told = super().handle(event)
        runs = [each for each in told if isinstance(each, RunPreBind)]
        for run in runs:
            for made in events_of_pre_bind(self.engine, self._attempted(run)):
                self._set(made.object)
            told += self.handle(PreBound(run.attempt))
        for write in [each for each in told if isinstance(each, Write)]:
            for change in events_of_write(self.engine, write):
                assert isinstance(change, ObjectSet)
                self._set(change.object)
        return told

    def _attempted(self, run: RunPreBind) -> PodInfo:
        attempt = self.engine.attempts.get(run.attempt)
        assert attempt is not None
        return attempt.pod

    @override
    def placed(self, group: str) -> int:
        """Those are about to be bound, too, whose claims are being written."""
        writing = [
            each.pod
            for each in self.engine.attempts
            if each.state is AttemptState.PREBINDING and each.pod.group_name == group
        ]
        return super().placed(group) + len(writing)

    def set_devices(self, node: str, count: int) -> None:
        self.devices[node] = count
        devices = [a_device(f"d{number}") for number in range(count)]
        self.handle(ObjectSet("resourceslices", a_slice(node, devices)))

    def claim(self, count: int) -> str:
        """A claim for so many devices, which are on one node, comes; gives its name."""
        self.serial += 1
        name = f"c{self.serial}"
        self.wants[name] = count
        self.owners[name] = []
        self.make(name)
        return name

    def make(self, name: str) -> None:
        """A claim comes, or comes again."""
        made = a_claim(exactly(count=self.wants[name]), name=name)
        self.serial += 1
        metadata = replace(made.metadata, namespace="default", uid=f"{name}-{self.serial}")
        self._set(replace(made, metadata=metadata))

    def drop(self, name: str) -> None:
        claim = self.claims.pop(name)
        self.handle(ObjectGone(RESOURCE_CLAIMS, "default", name, claim.metadata.uid))

    @override
    def add(self, group: str = "", **fields: Any) -> PodInfo:
        devices = fields.pop("devices", 0)
        if devices:
            fields["claims"] = [self.claim(devices)]
        pod = super().add(group, **fields)
        for name in claims_of(pod):
            self.owners[name].append(pod.uid)
        return pod

    @override
    def pass_seconds(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            super().pass_seconds()
            if not self.is_stalled:
                self.mind_claims()

    def mind_claims(self) -> None:
        """As the controller of claims does, and the collector of garbage."""
        for claim in list(self.claims.values()):
            users = claim.status.reserved_for
            left = tuple(user for user in users if user.uid in self.pods)
            if len(left) < len(users):
                status = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
                self._set(replace(claim, status=status))
        for name, owners in list(self.owners.items()):
            if not any(uid in self.pods for uid in owners):
                if name in self.claims:
                    self.drop(name)
                del self.owners[name], self.wants[name]

    def held(self) -> list[Device]:
        """The devices that claims have."""
        every = (claim.status.allocation for claim in self.claims.values())
        return [device for each in every if each is not None for device in devices_of(each)]

    def held_by(self, uid: str) -> list[Device]:
        """The devices that a pod has."""
        claims = [self.claims[name] for name in claims_of(self.pods[uid])]
        every = (claim.status.allocation for claim in claims)
        return [device for each in every if each is not None for device in devices_of(each)]

    def kept(self) -> dict[str, list[Device]]:
        """By UID, the devices that are kept for a pod that is nominated."""
        catalog, nominator = self.profiles.shared(ClaimCatalog), self.engine.core.queue.nominator
        return {
            uid: [device for each in every for device in devices_of(each)]
            for uid, every in catalog.kept.items()
            if nominator.nodes.get(uid) is not None
        }

    def fits_now(self, pod: PodInfo) -> bool:
        """Whether a pod by itself has its place, and its devices, on a node at this moment."""
        taken = Counter(each.node_name for each in self.pods.values() if each.node_name)
        held, room = set(self.held()), self.room
        if room is not None and not self.may_use(pod, room, 2):
            taken += Counter(node for uid, node in room.places.items() if uid in self.nominated)
            held |= {device for each in self.kept().values() for device in each}
        wanted = sum(self.wants[name] for name in claims_of(pod))
        return any(
            places > taken[node]
            and wanted <= sum((node, f"d{n}") not in held for n in range(self.devices[node]))
            for node, places in self.nodes.items()
        )

    def may_use(self, pod: PodInfo, room: RoomReservation, slack: int) -> bool:
        """Whether a pod ends so long before room is needed, or needs not care."""
        if pod.uid in room.places or pod.priority > room.priority:
            return True
        duration = pod.pod.metadata.annotations.expected_duration
        seconds = int(duration.rstrip("s")) if duration else None
        return bool(seconds and room.until and self.now + seconds + slack <= room.until)

    def running(self) -> set[str]:
        return {uid for uid, pod in self.pods.items() if pod.node_name}

    def starts_alone(self, name: str, needs: int) -> bool:
        """Whether so many pods of a gang, or a pod by itself, have places where nothing runs.

        Gangs are left out whose members want different numbers of devices.
        """
        pods = [pod for pod in self.pods.values() if name in (pod.uid, pod.group_name)]
        waiting = [claims_of(pod) for pod in pods if not pod.node_name]
        wanted = {sum(self.wants[claim] for claim in claims) for claims in waiting}
        is_held = any(not self.claims.keys() >= {*claims} for claims in waiting)
        if is_held or len(wanted) != 1:
            return False
        per_pod = wanted.pop()
        return needs <= sum(
            min(count, self.devices[node] // per_pod) if per_pod else count
            for node, count in self.nodes.items()
        )

    def _set(self, claim: ResourceClaim) -> None:
        self.claims[claim.metadata.name] = claim
        self.handle(ObjectSet(RESOURCE_CLAIMS, claim))


def claims_of(pod: PodInfo) -> list[str]:
    return [each.name for each in pod.resource_claims]


def devices_of(allocation: AllocationResult) -> Iterator[Device]:
    return ((each.pool, each.device) for each in allocation.devices.results)
