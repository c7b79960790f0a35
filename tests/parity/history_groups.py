"""Histories with pod groups: members, groups and nodes come, change and go, in any order.

Our engine says which pod is tried next, and in which order the members of its group are. The judge
tries the same. Where our engine has nothing to try, the judge tries every group that nothing gates:
none of them may fit. These differences are meant, and are kept out, beside those of
`tests.parity.living`:

- A failed group waits for events, and members are gated as soon as they have to wait: for members
  the place in the queue, failures and backoff are not compared.
- A new member waits with those that back off: here it does not.
- Victims for members are evicted after all were tried: members preempt no pods.
- The nominated node of a member in the same attempt: no member has one, and clients nominate none.
- Affinity terms of members placed in the same attempt: on each node a pod with such a term stays.
- New pods without a node wake pods that rules between pods rejected: not in the judge.
- A group that changes wakes its gated members: in the judge, too.
- Of racks that are equally good, and of those reported where none will do, the judge takes ours.
"""

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from msgspec.structs import replace
from typing_extensions import override

from scheduler.kernel.engine.events import Decide, Event, Tick
from scheduler.kernel.engine.instructions import (
    Bind,
    Instruction,
    LogError,
    PatchGroupStatus,
    PatchStatus,
    RecordEvent,
)
from scheduler.kernel.queue.values import ACTIVE, BACKOFF, GATED, IN_FLIGHT, UNSCHEDULABLE
from tests.parity.compare import Difference
from tests.parity.generator.draw import Object
from tests.parity.generator.groups import RACK
from tests.parity.generator.history_groups import new_policy
from tests.parity.history_state import UNITS
from tests.parity.history_steps import STEPS, History
from tests.parity.living import QUIET, noted_condition
from tests.parity.world import is_leaving, key_of

GROUP_GATES: Final = ("GenericWorkload", "GangScheduling")
WHOLE_GATES: Final = (*GROUP_GATES, "WorkloadAwarePreemption")
RACK_GATES: Final = (*GROUP_GATES, "TopologyAwareWorkloadScheduling")
_STAYS: Final = "sentinel-"
_UNCLEAR: Final = "cannot determine domain for already scheduled pods: "
"""What follows is about any of these pods, with kube-scheduler."""
_BACKOFF: Final = 11
"""After so many seconds no pod backs off, but in cases with other settings."""
_MOST: Final = 40
_CompareAttempts: TypeAlias = Callable[[str, Object, Object], Iterator[Difference]]


def live_through_groups(case: Object, seed: int, steps: int = STEPS) -> Object:
    """Let our engine live through a history with pod groups; see `history_steps.live_through`."""
    return HistoryWithGroups(case, seed).lived(steps)


def live_through_racks(case: Object, seed: int, steps: int = STEPS) -> Object:
    """The same where groups must run in racks."""
    return HistoryWithRacks(case, seed).lived(steps)


def live_through_whole(case: Object, seed: int, steps: int = STEPS) -> Object:
    """The same where groups preempt as a whole."""
    return HistoryOfWholeGroups(case, seed).lived(steps)


class HistoryWithGroups(History):
    """A life with pod groups."""

    GATES: ClassVar[Sequence[str]] = GROUP_GATES

    def __init__(self, case: Object, seed: int) -> None:
        super().__init__(case, seed)
        self._members: dict[str, Object] = {}
        """The ends of the attempts of the members that are tried, by the key of the pod."""
        self._condition: Object | None = None
        self._written_groups: list[str] = []
        """Groups whose conditions were written, and are not shown yet."""
        # Each attempt of a group is one step.
        self.engine.scheduler.group_cycle.step.units = sys.maxsize
        core, begin = self.engine.core, self.engine.core.attempts.begin

        def begun(profiles: Any, queued: Any, order: Any = None) -> Any:
            pod = queued.pod_info
            if pod.group_name:
                self._members[pod.key] = {"pod": pod.key}
            return begin(profiles, queued, order)

        core.attempts.begin = begun  # type: ignore[method-assign]
        core.queue.backing_off = lambda *_, **__: {}  # type: ignore[method-assign]

    # --- steps ------------------------------------------------------------------------------------

    @override
    def begin(self) -> None:
        for _ in range(len(self.world.to_come["PodGroup"])):
            if self.draw.maybe(0.8):
                self.create("PodGroup")
            else:
                self.world.to_come["PodGroup"].append(self.world.to_come["PodGroup"].pop(0))
        super().begin()
        for _ in range(len(self.world.to_come["Pod"]) // 2):
            self.create("Pod")

    @override
    def ways(self) -> list[tuple[float, Callable[[], None]]]:
        return [*super().ways(), (8, self._rest)]

    @override
    def changes(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            *super().changes(),
            (4, lambda: self.create("PodGroup")),
            (2, self._change_group),
            (1, self._delete_group),
        ]

    @override
    def meanwhile(self) -> None:
        if not self._members:
            super().meanwhile()

    @override
    def step(self, step: Object, do: Callable[[], None]) -> None:
        super().step(step, do)
        while self._written_groups and self._then is None and self.during is None:
            held = self.world.held["PodGroup"].get(self._written_groups.pop())
            if held is not None:
                self.show(held)

    @override
    def _try(self) -> None:
        if self.evictions and self._may_displace():
            self._answer_eviction()
            return
        step: Object = {"do": "try"}
        self.step(step, lambda: self._attempt(step))
        self._members, self._condition = {}, None

    def _attempt(self, step: Object) -> None:
        if not self.engine.has_ready:
            return
        ready = self._waiting_members(ACTIVE, BACKOFF, UNSCHEDULABLE)
        self.handle(Decide())
        if self.tried is None:
            return
        step["pod"] = self.tried["pod"]
        if self._members:
            step["members"] = list(self._members)
            step["placement"] = self._placement()
            for member in self._members.values():
                member.pop("nomination", None)
            left = [pod for pod in ready if self._is_left(pod)]
            self.tried |= {"members": self._members, "group": self._condition, "left": left}

    def _placement(self) -> str:
        """Where the members of the group that was tried had to be."""
        groups = self.engine.core.groups
        known = None if groups is None else groups.of(*self._group_of(next(iter(self._members))))
        return "" if known is None or known.last is None else known.last.domain

    def _is_left(self, key: str) -> bool:
        """Whether a pod could have been tried with those that were, and was not."""
        raw, group = self.world.shown["Pod"][key], self._group_of(next(iter(self._members)))
        return key not in self._members and self._group_of(key) == group and not is_leaving(raw)

    def _group_of(self, key: str) -> tuple[str, str]:
        raw = self.world.shown["Pod"][key]
        return raw["metadata"]["namespace"], raw["spec"]["schedulingGroup"]["podGroupName"]

    @override
    def _may_displace(self) -> bool:
        return super()._may_displace() or bool(self._waiting_members(ACTIVE, BACKOFF))

    def _rest(self) -> None:
        """Where our engine has nothing to try, the judge tries every group."""
        if self.preempts:
            return
        self._try_all()
        if self._waiting_members(BACKOFF):
            self.units += _BACKOFF * UNITS
            self.step({"do": "flush"}, lambda: self.handle(Tick()))
            self._try_all()
        if self.engine.has_ready or self._waiting_members(BACKOFF):
            return
        groups, queue = self.engine.core.groups, self.engine.core.queue
        assert groups is not None
        waiting = (queue.get(uid) for _, known in groups.all() for uid in known.waiting)
        members = [pod.key for pod in waiting if pod is not None]
        self.step({"do": "idle", "members": members}, lambda: None)

    def _try_all(self) -> None:
        """Try what is ready, unless there is no end of it."""
        for _ in range(_MOST):
            if not self.engine.has_ready:
                return
            self._try()

    @override
    def _pass_time(self) -> None:
        """Let less time pass than that after which pods are tried anyway."""
        seconds = self.draw.pick((0.1, 0.5, 1, 1, 2, 3, 5, 10, 20, 31))
        self.units += int(seconds * UNITS)
        self.step({"do": "flush"}, lambda: self.handle(Tick()))

    def _waiting_members(self, *places: str) -> list[str]:
        rows = self.engine.core.queue.rows()
        return [str(r["pod"]) for r in rows if r["queue"] in places and self._is_member(r["pod"])]

    def _is_member(self, key: object) -> bool:
        shown = self.world.shown["Pod"].get(str(key))
        return shown is not None and "schedulingGroup" in shown["spec"]

    def groups_that_may_change(self) -> list[Object]:
        """The groups that may be changed or deleted now."""
        return list(self.world.held["PodGroup"].values())

    def _change_group(self) -> None:
        """Let the policy change, as 1.37 allows for `minCount`."""
        raw = self.any(self.groups_that_may_change())
        if raw is not None:
            raw["spec"]["schedulingPolicy"] = new_policy(self.draw, self.draw.randint(1, 5))
            self.show(self.world.write(raw))

    def _delete_group(self) -> None:
        raw = self.any(self.groups_that_may_change())
        if raw is None:
            return
        self.delete(raw)
        again = copy.deepcopy(raw)
        again["metadata"]["uid"] += "+"
        again["metadata"].pop("generation", None)
        again.pop("status", None)
        if self.draw.maybe(0.5):
            again["spec"]["schedulingPolicy"] = new_policy(self.draw, self.draw.randint(1, 5))
        self.world.to_come["PodGroup"].append(again)

    @override
    def changing(self) -> list[Object]:
        """No pod whose binding is under way: no event would show that it needs less."""
        return [each for each in super().changing() if key_of(each) not in self.bindings]

    @override
    def _change_namespace(self) -> None:
        """Labels of namespaces wake pods of our engine only."""

    @override
    def may_nominate(self, raw: Object) -> bool:
        return False

    @override
    def _end(self, raw: Object, phase: str) -> None:
        if not raw["metadata"]["name"].startswith(_STAYS):
            super()._end(raw, phase)

    @override
    def handle(self, event: Event) -> None:
        super().handle(event)
        if self.during is not None:
            # The engine does so after each event, and takes none within an attempt.
            self.engine.scheduler.waking.some()

    # --- what is compared -------------------------------------------------------------------------

    @override
    def written(self, step: Object) -> Object:
        groups = self.engine.core.groups
        assert groups is not None
        members = {
            str(row["pod"]): {
                "place": row["queue"],
                "gate": row["gatingPlugin"],
                "why": row["message"] if row["gatingPlugin"] == "GangScheduling" else "",
            }
            for row in self.engine.core.queue.rows()
            if row["queue"] != IN_FLIGHT and self._is_member(row["pod"])
        }
        counts = {
            "/".join(place): [known.known(groups.profiles), known.scheduled]
            for place, known in groups.all()
        }
        known = {name: each for name, each in counts.items() if any(each)}
        return {**super().written(step), "members": members, "groups": known}

    @override
    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, PatchGroupStatus):
            self._patch_group(instruction)
            return
        member = self._members.get(_about(instruction))
        if member is None:
            super()._carry_out(instruction)
            return
        whole, self.tried = self.tried, member
        super()._carry_out(instruction)
        self.tried = whole

    def _patch_group(self, patch: PatchGroupStatus) -> None:
        self._condition = noted_condition(patch.condition)
        key = f"{patch.namespace}/{patch.name}"
        raw = copy.deepcopy(self.world.held["PodGroup"].get(key))
        if raw is None or raw["metadata"]["uid"] != patch.uid:
            return
        noted = {**self._condition, "lastTransitionTime": "2026-01-02T03:04:05Z"}
        raw["status"] = {"conditions": [noted]}
        self.world.write(raw)
        self._written_groups.append(key)


class HistoryWithRacks(HistoryWithGroups):
    """A life with pod groups that must run in one rack; nodes move between racks."""

    GATES: ClassVar[Sequence[str]] = RACK_GATES

    @override
    def _change_node(self) -> None:
        raw = self.any(list(self.world.held["Node"].values()))
        if raw is None or self.draw.maybe(0.7):
            super()._change_node()
            return
        labels = raw["metadata"].setdefault("labels", {})
        labels[RACK] = self.draw.pick(("r1", "r2", "r3"))
        if self.draw.maybe(0.2):
            del labels[RACK]
        self.show(self.world.write(raw))


class HistoryOfWholeGroups(HistoryWithGroups):
    """A life with pod groups that preempt as a whole; no member is nominated."""

    GATES: ClassVar[Sequence[str]] = WHOLE_GATES

    def __init__(self, case: Object, seed: int) -> None:
        super().__init__(case, seed)
        queue = self.engine.core.queue
        nominate = queue.add_nominated_pod

        def nominated(pod: Any, node_name: str | None = None, needed_at: float = 0.0) -> None:
            nominate(pod, "" if pod.group_name else node_name, needed_at)

        queue.add_nominated_pod = nominated  # type: ignore[method-assign]

    @override
    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, PatchStatus) and self._is_member(_about(instruction)):
            if instruction.condition is None:
                return
            instruction = replace(instruction, nominated_node_name=None)
        super()._carry_out(instruction)

    @override
    def _may_displace(self) -> bool:
        return True

    @override
    def _preempts_now(self, raw: Object) -> bool:
        name = raw["spec"].get("schedulingGroup", {}).get("podGroupName")
        group = self.world.shown["PodGroup"].get(f"{raw['metadata']['namespace']}/{name}")
        is_of_group = group is not None and self._is_preempting(group)
        return is_of_group or super()._preempts_now(raw)

    def _is_preempting(self, group: Object) -> bool:
        return group["metadata"]["uid"] in self.engine.preemption_executor._runs

    @override
    def groups_that_may_change(self) -> list[Object]:
        return [each for each in super().groups_that_may_change() if not self._is_preempting(each)]


def _about(instruction: Instruction) -> str:
    """The key of the pod that an instruction is about, as far as it matters here."""
    if isinstance(instruction, Bind | PatchStatus):
        return f"{instruction.namespace}/{instruction.name}"
    if isinstance(instruction, RecordEvent):
        return f"{instruction.regarding.namespace}/{instruction.regarding.name}"
    return instruction.pod if isinstance(instruction, LogError) else ""


def compare_groups(
    where: str, expected: Object, actual: Object, compare_attempts: _CompareAttempts
) -> Iterator[Difference]:
    """Yield the differences in what concerns groups and their members."""
    if expected.get("placed"):
        yield Difference(f"{where} could be placed", "waits in vain", expected["placed"], [])
    theirs, ours = expected["tried"] or {}, actual["tried"] or {}
    their_ends, our_ends = theirs.get("members") or {}, ours.get("members") or {}
    for name in sorted(their_ends.keys() | our_ends.keys()):
        yield from compare_attempts(
            f"{where} {name}", their_ends.get(name, {}), our_ends.get(name, {})
        )
    if our_ends or their_ends:
        yield from _conditions(where, theirs.get("group") or {}, ours.get("group") or {})
    if ours.get("left"):
        yield Difference(f"{where} not tried", "not tried", [], ours["left"])
    known = expected.get("groups") or {}
    if known != actual["groups"]:
        yield Difference(f"{where} groups", "groups", known, actual["groups"])
    yield from _gates(where, expected.get("gates") or {}, actual["members"])


def _conditions(where: str, theirs: Object, ours: Object) -> Iterator[Difference]:
    """kube-scheduler writes the fields that change."""
    is_unclear = theirs.get("message", "").startswith(_UNCLEAR)
    if is_unclear and not (theirs["status"] or ours):
        return
    is_text = is_unclear or ours.get("reason") == QUIET
    changed = {field: value for field, value in theirs.items() if value}
    if is_text:
        changed.pop("message", None)
    if bool(theirs) != bool(ours) or changed.items() - ours.items():
        yield Difference(f"{where} condition of the group", "group", theirs, ours)


def _gates(where: str, theirs: Object, ours: Object) -> Iterator[Difference]:
    """A member that is gated or backs off is gated if and only if a gate is closed there."""
    if theirs.keys() != ours.keys():
        yield Difference(f"{where} waiting members", "members", sorted(theirs), sorted(ours))
        return
    for name, member in ours.items():
        gates = theirs[name]
        if member["place"] == GATED:
            why = gates.get(member["gate"])
            is_equal = why is not None and member["why"] in ("", *why)
        else:
            is_equal = member["place"] != BACKOFF or not gates
        if not is_equal:
            yield Difference(f"{where} {name} gates", "gates", gates, member)
