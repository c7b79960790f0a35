"""Checks invariants with nothing but the API server's audit log and its lists.

The checker replays the log: pods and nodes, bindings, and holders of the lease. When a backup was
restored, the replayed state is restored too. An event reserves capacity from its response on and
frees capacity from its request on, so concurrent events are never counted as violations.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from e2e.chaos.load import NAMESPACE
from e2e.chaos.replicas import ACCOUNTS, LEASE
from e2e.support.audit import AuditEvent
from e2e.support.devices import Holders, devices_of
from e2e.support.objects import Json
from scheduler.api.quantity import ceil, milli_value, parse

_RESTORE_SECONDS: Final = 10.0
"""Time after a restore in which the API server starts, and schedulers list the restored claims."""
_NEWS_SECONDS: Final = 3.0
"""Time after which a scheduler must know of another scheduler's bindings."""

_WRITES: Final = ("create", "update", "patch", "delete")
_DECIDED: Final = ("pods", "persistentvolumes", "resourceclaims")
"""Resources that only the holder of the lease may change."""

_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Window:
    """A period of injected faults, in seconds of wall time."""

    fault: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Rewind:
    """A backup's time, and the time of its restore."""

    saved: float
    restored: float


@dataclass(frozen=True, slots=True)
class Census:
    """UIDs of pods and allocated claims that the API server listed at one time."""

    at: float
    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant."""

    at: float
    promise: str
    what: str


@dataclass(slots=True)
class _Pod:
    uid: str
    name: str
    spec: Json
    labels: Json
    made_at: float
    node: str = ""
    bound_at: float = 0.0
    bound_by: str = ""
    ask: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _World:
    """The API server's state at one time of the replay."""

    pods: dict[str, _Pod] = field(default_factory=dict)
    """Pods by UID."""
    uids: dict[str, str] = field(default_factory=dict)
    """UIDs of pods by name."""
    room: dict[str, dict[str, int]] = field(default_factory=dict)
    """Allocatable resources of nodes by name."""
    volumes: dict[str, str] = field(default_factory=dict)
    """UID of a volume to UID of its claim."""
    devices: Holders = field(default_factory=Holders)
    evicted: dict[str, float] = field(default_factory=dict)
    """UID of a preemption victim to the time of the request."""
    holder: str = ""
    """User that last renewed the lease."""
    taken_at: float = 0.0


class Checker:
    """Replays the audit log.

    Attributes:
        violations: the violated invariants.
        bindings: number of accepted bindings by user.
        evictions: number of accepted evictions of victims.
        repeated: evictions requested again because the first response was lost.
    """

    def __init__(
        self,
        users: Sequence[str],
        windows: Sequence[Window],
        rewinds: Sequence[Rewind],
        *,
        censuses: Sequence[Census] = (),
        lost: Mapping[str, float] | None = None,
    ) -> None:
        """Create a checker with an empty state.

        Args:
            users: user names of the replicas.
            windows: periods of injected faults.
            rewinds: restored backups.
            censuses: lists of the API server, since a killed server may not log its last requests.
            lost: by UID, when pods were deleted by requests that the log lacks.
        """
        self.lost: dict[str, float] = {}
        """Pods that a census lacks although the log has no deletion, and the earliest possible
        time."""
        self.violations: list[Violation] = []
        self.bindings: Counter[str] = Counter()
        self.evictions = 0
        self.repeated = 0
        self._users = frozenset(users)
        self._windows = windows
        self._rewinds = rewinds
        moments: list[tuple[float, Callable[[], None]]] = []
        for index, rewind in enumerate(rewinds):
            moments.append((rewind.saved, partial(self._save, index)))
            moments.append((rewind.restored, partial(self._set_back, index)))
        moments += [(each.at, partial(self._count, each)) for each in censuses]
        moments += [(at, partial(self._forget_uid, uid)) for uid, at in (lost or {}).items()]
        self._moments = deque(sorted(moments, key=lambda each: each[0]))
        self._saved: dict[int, _World] = {}
        self._world = _World()

    def check(self, events: Iterable[AuditEvent]) -> None:
        """Replay completed requests, given in any order."""
        timed = sorted(((_effective(event), event) for event in events), key=lambda each: each[0])
        for at, event in timed:
            while self._moments and self._moments[0][0] < at:
                self._moments.popleft()[1]()
            if event.code < 300:
                self._take(at, event)
            elif event.code == 404 and event.verb == "delete" and event.resource == "pods":
                # A killed API server executed the request but did not log it.
                self._forget(event.object_ref.name)

    def _save(self, index: int) -> None:
        self._saved[index] = deepcopy(self._world)

    def _set_back(self, index: int) -> None:
        self._world = self._saved.pop(index)

    def _count(self, census: Census) -> None:
        begin = max((each.begin for each in self._windows if each.begin < census.at), default=0.0)
        for uid, pod in self._world.pods.items():
            if uid not in census.uids and pod.made_at < census.at - 1:
                self.lost.setdefault(uid, max(begin, pod.made_at))
        for uid, claim in self._world.devices.held.items():
            if uid not in census.uids and claim.since < census.at - 1:
                self.lost.setdefault(uid, max(begin, claim.since))

    def _take(self, at: float, event: AuditEvent) -> None:
        is_ours = event.user.username in self._users
        if is_ours:
            self._check_leader(at, event)
        resource, verb = event.resource, event.verb
        if resource == "leases" and event.object_ref.name == LEASE:
            self._take_lease(at, event)
        elif event.is_binding():
            self._bind(at, event)
        elif resource == "nodes":
            self._take_node(event)
        elif resource == "pods" and event.object_ref.namespace == NAMESPACE:
            if verb == "create":
                self._add(at, _decoded(event.response_object))
            elif verb == "delete":
                self._leave(at, event, is_ours=is_ours)
        elif resource == "persistentvolumes" and verb in ("update", "patch"):
            self._take_volume(at, event)
        elif event.object_ref.resource == "resourceclaims" and verb in _WRITES:
            self._take_claim(at, event)

    # --- the lease --------------------------------------------------------------------------------

    def _take_lease(self, at: float, event: AuditEvent) -> None:
        if event.verb in ("create", "update", "patch"):
            holder = (_decoded(event.request_object).get("spec") or {}).get("holderIdentity")
            writer = event.user.username if holder else ""
            if writer != self._world.holder:
                self._world.holder, self._world.taken_at = writer, at

    def _check_leader(self, at: float, event: AuditEvent) -> None:
        """Check that only the leader sends bindings, pod statuses and evictions."""
        is_write = event.verb in _WRITES
        is_about_pods = event.object_ref.resource in _DECIDED
        if not (is_write and is_about_pods) or event.user.username == self._world.holder:
            return
        asked = _seconds(event.request_received_timestamp)
        if self._world.holder and asked > self._world.taken_at:
            what = f"{event.user.username} {event.verb} {event.request_uri}"
            self._violated(at, "no write without the lease", what)

    # --- nodes and volumes ------------------------------------------------------------------------

    def _take_node(self, event: AuditEvent) -> None:
        name = event.object_ref.name
        if event.verb == "create":
            node = _decoded(event.response_object)
            allocatable = node["status"]["allocatable"]
            self._world.room[node["metadata"]["name"]] = {
                "cpu": milli_value(allocatable["cpu"]),
                "memory": ceil(parse(allocatable["memory"])),
                "pods": ceil(parse(allocatable["pods"])),
            }
        elif event.verb == "delete":
            self._world.room.pop(name, None)

    def _take_volume(self, at: float, event: AuditEvent) -> None:
        name, volumes = event.object_ref.name, self._world.volumes
        if event.user.username in self._users:
            volume = _decoded(event.response_object)
            claim = (volume["spec"].get("claimRef") or {}).get("uid", "")
            known = volumes.setdefault(volume["metadata"]["uid"], claim)
            if claim and known != claim:
                self._violated(at, "no volume bound twice", f"{name}: {known}, then {claim}")

    def _take_claim(self, at: float, event: AuditEvent) -> None:
        claim = _decoded(event.response_object)
        if _is_gone(event, claim):
            meta = claim.get("details") or claim["metadata"]
            self._world.devices.delete(meta.get("uid", ""))
            return
        if event.verb == "delete":
            return
        # A scheduler does not know at once that a claim has its devices again.
        restored = (each for each in self._rewinds if each.restored < at)
        saved = (each.saved for each in restored if at < each.restored + _RESTORE_SECONDS)
        for double in self._world.devices.give(claim, at, since=max(saved, default=0.0)):
            self._violated(at, "no device in two claims", double)

    # --- pods -------------------------------------------------------------------------------------

    def _add(self, at: float, pod: Json) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        made = _Pod(metadata["uid"], metadata["name"], spec, metadata.get("labels", {}), at)
        made.ask = _ask(spec)
        self._world.pods[made.uid] = made
        self._world.uids[made.name] = made.uid

    def _leave(self, at: float, event: AuditEvent, *, is_ours: bool) -> None:
        world, name = self._world, event.object_ref.name
        if is_ours:
            self._count_eviction(at, world.uids.get(name, name))
        left = _decoded(event.response_object).get("metadata", {})
        if not left.get("deletionGracePeriodSeconds"):
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._world.pods.pop(self._world.uids.pop(name, ""), None)

    def _forget_uid(self, uid: str) -> None:
        self._world.devices.take_back(uid)
        pod = self._world.pods.pop(uid, None)
        if pod is not None and self._world.uids.get(pod.name) == uid:
            del self._world.uids[pod.name]

    def _count_eviction(self, at: float, uid: str) -> None:
        self.evictions += 1
        before = self._world.evicted.get(uid)
        self._world.evicted[uid] = at
        if before is None:
            return
        if any(each.begin < at and before < each.end + 1 for each in self._windows):
            self.repeated += 1
        else:
            self._violated(at, "no victim evicted twice", uid)

    def _bind(self, at: float, event: AuditEvent) -> None:
        binding = _decoded(event.request_object)
        uid = binding.get("metadata", {}).get("uid") or self._world.uids.get(
            event.object_ref.name, ""
        )
        self.bindings[event.user.username] += 1
        pod = self._world.pods.get(uid)
        if pod is None:
            return
        node = binding["target"]["name"]
        if pod.node:
            what = f"{pod.name}: {pod.node} by {pod.bound_by}, then {node}"
            self._violated(at, "no pod bound twice", what)
        pod.node, pod.bound_at, pod.bound_by = node, at, event.user.username
        if event.user.username in self._users:
            self._check_capacity(at, pod)

    def _check_capacity(self, at: float, pod: _Pod) -> None:
        """Check that a binding's requests fit beside all pods that the scheduler must know of."""
        room = self._world.room.get(pod.node)
        if room is None:
            return
        known = [
            other
            for other in self._world.pods.values()
            if other.node == pod.node
            and other is not pod
            and (other.bound_by in self._users or other.bound_at < at - _NEWS_SECONDS)
        ]
        for name, there in room.items():
            promised = sum(other.ask[name] for other in (pod, *known))
            if promised > there:
                what = f"{pod.node}: {name} {promised} of {there}, by {pod.name}"
                self._violated(at, "no node promised more than it has", what)
        for other in known:
            if _in_conflict(pod, other):
                what = f"{pod.node}: {other.name}, then {pod.name}"
                self._violated(at, "no two pods in conflict", what)

    def _violated(self, at: float, promise: str, what: str) -> None:
        self.violations.append(Violation(at, promise, what))


def checked(
    events: Sequence[AuditEvent],
    users: Sequence[str],
    windows: Sequence[Window],
    rewinds: Sequence[Rewind],
    censuses: Sequence[Census],
) -> Checker:
    """Replay the log twice; the first pass finds the requests that a killed server did not log."""
    first = Checker(users, windows, rewinds, censuses=censuses)
    first.check(events)
    checker = Checker(users, windows, rewinds, lost=first.lost)
    checker.check(events)
    checker.lost = first.lost
    return checker


def _in_conflict(one: _Pod, other: _Pod) -> bool:
    if _ports(one.spec) & _ports(other.spec):
        return True
    return any(_keeps_away(here.spec, there.labels) for here, there in ((one, other), (other, one)))


def _keeps_away(spec: Json, labels: Json) -> bool:
    rule = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    return any(
        term["topologyKey"] == _HOSTNAME
        and term["labelSelector"]["matchLabels"].items() <= labels.items()
        for term in rule.get("requiredDuringSchedulingIgnoredDuringExecution", ())
    )


def _ports(spec: Json) -> set[int]:
    return {
        port["hostPort"]
        for container in spec["containers"]
        for port in container.get("ports", ())
        if "hostPort" in port
    }


def _ask(spec: Json) -> dict[str, int]:
    requests = [each.get("resources", {}).get("requests", {}) for each in spec["containers"]]
    return {
        "cpu": sum(milli_value(each.get("cpu", "0")) for each in requests),
        "memory": sum(ceil(parse(each.get("memory", "0"))) for each in requests),
        "pods": 1,
    }


def _is_gone(event: AuditEvent, answer: Json) -> bool:
    """Report whether a request removed a claim: a deletion, or that of its last finalizer.

    The response to a deletion is a Status, or the claim if finalizers keep it.
    """
    metadata = answer.get("metadata", {})
    is_deleted = event.verb == "delete" or bool(metadata.get("deletionTimestamp"))
    return is_deleted and not metadata.get("finalizers")


def _effective(event: AuditEvent) -> float:
    is_leaving = event.verb == "delete"
    if event.object_ref.resource == "resourceclaims" and event.code < 300:
        answer = _decoded(event.response_object)
        is_leaving |= event.verb in _WRITES and not devices_of(answer)
        is_leaving |= _is_gone(event, answer)
    return _seconds(event.request_received_timestamp if is_leaving else event.stage_timestamp)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _decoded(raw: msgspec.Raw) -> dict[str, Any]:
    return msgspec.json.decode(raw) or {}


AUDIT_RULES: Final = (
    {
        "level": "RequestResponse",
        "verbs": list(_WRITES),
        "namespaces": [NAMESPACE],
        "resources": [{"group": "", "resources": ["pods", "pods/binding"]}],
    },
    {
        "level": "RequestResponse",
        "verbs": list(_WRITES),
        "resources": [{"group": "", "resources": ["nodes", "persistentvolumes"]}],
    },
    {
        "level": "RequestResponse",
        "verbs": ["create"],
        "resources": [{"group": "scheduling.k8s.io", "resources": ["podgroups"]}],
    },
    {
        "level": "RequestResponse",
        "verbs": list(_WRITES),
        "namespaces": [NAMESPACE],
        "resources": [
            {
                "group": "resource.k8s.io",
                "resources": ["resourceclaims", "resourceclaims/status"],
            }
        ],
    },
    {
        "level": "Request",
        "verbs": ["create", "update", "patch"],
        "namespaces": [ACCOUNTS],
        "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
    },
)
"""Audit policy rules for requests whose bodies the checker reads."""
