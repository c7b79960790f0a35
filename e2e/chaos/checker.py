"""What must have held all the time, read from the API server and its audit log, nothing else.

The log is played back: pods and nodes as they came and went, what was promised where, who held the
lease. A backup that was put back takes the played state back too. An event takes room from when it
was answered and gives room back from when it was asked for, so what is close together is never
held against anybody.
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

_NEWS_SECONDS: Final = 3.0
"""After so long a scheduler must know of what another one did."""

_WRITES: Final = ("create", "update", "patch", "delete")
_DECIDED: Final = ("pods", "persistentvolumes", "resourceclaims")
"""What only the holder of the lease may change."""

_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Window:
    """A time, in seconds of wall time, during which something was wrong on purpose."""

    fault: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Rewind:
    """A backup was made, and put back later."""

    saved: float
    restored: float


@dataclass(frozen=True, slots=True)
class Census:
    """Which pods, and claims with devices, the API server showed when it was asked."""

    at: float
    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept."""

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
    """What the API server held at some moment."""

    pods: dict[str, _Pod] = field(default_factory=dict)
    """By UID."""
    uids: dict[str, str] = field(default_factory=dict)
    """By name."""
    room: dict[str, dict[str, int]] = field(default_factory=dict)
    """What nodes have, by name."""
    volumes: dict[str, str] = field(default_factory=dict)
    """UIDs of volumes, to those of their claims."""
    devices: Holders = field(default_factory=Holders)
    evicted: dict[str, float] = field(default_factory=dict)
    """UIDs of victims, and when."""
    holder: str = ""
    """Who wrote the lease last."""
    taken_at: float = 0.0


class Checker:
    """Plays the log back.

    Attributes:
        violations: what did not hold.
        bindings: how many bindings were accepted, by who asked.
        evictions: how many victims were asked to leave.
        repeated: evictions that were asked for again because nobody could know the first answer.
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
        """Make a checker that has seen nothing.

        Args:
            users: as whom the replicas ask.
            windows: when something was wrong.
            rewinds: when the API server was set back.
            censuses: what there was at some moments: a server that is killed does not write down
                what it did last.
            lost: by UID, when pods left of whose leaving nothing is written.
        """
        self.lost: dict[str, float] = {}
        """Pods that had left by a census although nothing says so, and since when at the most."""
        self.violations: list[Violation] = []
        self.bindings: Counter[str] = Counter()
        self.evictions = 0
        self.repeated = 0
        self._users = frozenset(users)
        self._windows = windows
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
        """Takes in all requests that were answered, in any order."""
        timed = sorted(((_effective(event), event) for event in events), key=lambda each: each[0])
        for at, event in timed:
            while self._moments and self._moments[0][0] < at:
                self._moments.popleft()[1]()
            if event.code < 300:
                self._take(at, event)
            elif event.code == 404 and event.verb == "delete" and event.resource == "pods":
                # Carried out by a server that was killed before it could write that down.
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
            self._hold_against_lease(at, event)
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

    def _hold_against_lease(self, at: float, event: AuditEvent) -> None:
        """Bindings, states and evictions are for who holds the lease; events are for everybody."""
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
        if event.verb == "delete":
            # The answer is a status that names the claim, or the claim, if something keeps it.
            if not claim.get("metadata", {}).get("finalizers"):
                meta = claim.get("details") or claim["metadata"]
                self._world.devices.take_back(meta.get("uid", ""))
            return
        for double in self._world.devices.give(claim, at):
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
            self._hold_against_others(at, pod)

    def _hold_against_others(self, at: float, pod: _Pod) -> None:
        """What we promise must be there, beside everything we know of."""
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
    """Plays the log back twice: first to find out what a killed server did not write down."""
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


def _effective(event: AuditEvent) -> float:
    is_leaving = event.verb == "delete" or (
        event.object_ref.resource == "resourceclaims"
        and event.verb in _WRITES
        and event.code < 300
        and not devices_of(_decoded(event.response_object))
    )
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
"""What the API server has to write down in full."""
