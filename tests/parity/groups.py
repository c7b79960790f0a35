"""Compare how attempts of single pods and of pod groups end with kube-scheduler's own.

    python -m tests.parity.groups --seeds 0:5000
    python -m tests.parity.groups --preempt        # groups preempt as a whole, and leave whole
    python -m tests.parity.groups --dump 17        # one case, both answers, the differences
    python -m tests.parity.groups --topology       # the same with racks that groups must run in
    python -m tests.parity.groups --topology --preempt    # with both gates
    python -m tests.parity.groups --basic          # without GangScheduling: all groups are basic
    python -m tests.parity.groups --extenders      # with extenders that are asked about members
    python -m tests.parity.groups --claims         # members of a group share claims for devices
    python -m tests.parity.groups --volumes        # pods and members have volumes

Each case is a small cluster with little room. Our engine tries every pod and group once, as the
daemon would, and the judge then tries the same units in the same order. Both take the first of
nodes that are equally good. Of racks that are equally good, and of those that are reported where
none will do, the judge takes ours. Compared are the members of each attempt, where they went or why
they did not, the condition of the group, and what holds the pods that were not tried.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
from typing_extensions import override

from scheduler.kernel.engine.algorithm import ScheduleResult, SchedulingAlgorithm
from scheduler.kernel.engine.events import Decide
from scheduler.kernel.engine.instructions import (
    Bind,
    Evict,
    Instruction,
    LogError,
    PatchGroupStatus,
    PatchStatus,
)
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.runtime import Feasibility
from scheduler.kernel.framework.runtime.scoring import Best
from scheduler.kernel.snapshot import Snapshot
from scheduler.tools.cli.progress import shown_progress
from scheduler.tools.offline.cases import load_case
from scheduler.tools.offline.cluster import ClusterState
from scheduler.tools.offline.driving import Driving
from tests.parity.answering import Answerer, oracle_command, pipelined, running
from tests.parity.compare import Difference
from tests.parity.extender import PLACE, moved
from tests.parity.generator.draw import Object
from tests.parity.generator.group_claims import make_claims_case, make_claims_topology_case
from tests.parity.generator.group_preemption import (
    make_group_preemption_case,
    make_preemption_in_racks_case,
)
from tests.parity.generator.group_volumes import (
    make_volumes_case,
    make_volumes_preemption_case,
    make_volumes_topology_case,
)
from tests.parity.generator.groups import (
    make_asking_case,
    make_asking_topology_case,
    make_groups_case,
    make_topology_case,
)

Makes: TypeAlias = Mapping[Sequence[str], Callable[[int], Object]]
GATES: Final = ("GenericWorkload", "GangScheduling")
WITH_TOPOLOGY: Final = (*GATES, "TopologyAwareWorkloadScheduling")
PREEMPTING: Final = (*GATES, "WorkloadAwarePreemption")
IN_RACKS_PREEMPTING: Final = (*WITH_TOPOLOGY, "WorkloadAwarePreemption")
BASIC: Final = GATES[:1]
BASIC_WITH_TOPOLOGY: Final = (*BASIC, "TopologyAwareWorkloadScheduling")
SYNCHRONOUS: Final = "SchedulerAsyncPreemption=false"
"""The judge's victims are known at the end of the attempt."""
MAKES: Final[Makes] = {
    **dict.fromkeys((GATES, BASIC), make_groups_case),
    **dict.fromkeys((WITH_TOPOLOGY, BASIC_WITH_TOPOLOGY), make_topology_case),
    PREEMPTING: make_group_preemption_case,
    IN_RACKS_PREEMPTING: make_preemption_in_racks_case,
}
"""The cases by the gates with which they are asked about."""
WITH_EXTENDERS: Final[Makes] = {
    **dict.fromkeys((GATES, BASIC), make_asking_case),
    **dict.fromkeys((WITH_TOPOLOGY, BASIC_WITH_TOPOLOGY), make_asking_topology_case),
}
"""The same of cases with extenders."""
WITH_CLAIMS: Final[Makes] = {GATES: make_claims_case, WITH_TOPOLOGY: make_claims_topology_case}
WITH_VOLUMES: Final[Makes] = {
    GATES: make_volumes_case,
    WITH_TOPOLOGY: make_volumes_topology_case,
    PREEMPTING: make_volumes_preemption_case,
}
PRINTED: Final = 20
"""Differences printed before only counting goes on."""
_BATCH: Final = 100
_CLAIMS: Final = r"( (no new claims to deallocate|still not schedulable),)?"
_POST_FILTER: Final = re.compile(_CLAIMS + " (preemption: .*|not found)$", re.DOTALL)
_UNCLEAR: Final = re.compile(r"(cannot determine domain for already scheduled pods: ).*", re.DOTALL)
_ENOUGH: Final = 300
"""No case has as many pods: what comes later is tried again."""


def groups_command(gates: Sequence[str] = GATES) -> list[str]:
    """Return the command line of the judge."""
    settings = ",".join([*(f"{gate}=true" for gate in gates), SYNCHRONOUS])
    return oracle_command("--groups", f"--feature-gates={settings}", admit=False)


def answer_groups(case: Object, gates: Sequence[str] = GATES) -> Object:
    """Try every pod and group of a case once, and tell how each attempt ended.

    Args:
        case: configuration and objects as the API server holds them.
        gates: the feature gates that are on.
    """
    _, cluster = load_case(case, gates)
    return Trial(cluster).run()


def answer_asking(case: Object, address: str, gates: Sequence[str] = GATES) -> Object:
    """The same where the extenders of the case are asked at an address."""
    if not case.get("config", {}).get("extenders"):
        return answer_groups(case, gates)
    return moved(answer_groups(moved(case, PLACE, address), gates), address, PLACE)


class _FirstOfEqual(SchedulingAlgorithm):
    """Takes the first of equally good nodes, as the judge does: each choice bears on the next."""

    @override
    def _pick(
        self, state: CycleState, best: Best, snapshot: Snapshot, found: Feasibility
    ) -> ScheduleResult:
        first = msgspec.structs.replace(best, rows=best.rows.min(keepdims=True))
        return super()._pick(state, first, snapshot, found)


class Trial(Driving):
    """Bindings stay under way, so that no pod is tried again."""

    def __init__(self, cluster: ClusterState, asker: Any = None) -> None:
        super().__init__(cluster.engine, asker or cluster.asker)
        cluster.engine.core.algorithm = _FirstOfEqual(Random(0))
        # Each attempt of a group is one step.
        cluster.engine.scheduler.group_cycle.step.units = sys.maxsize
        self._keys = {pod.uid: pod.key for pod in cluster.waiting}
        self._waiting = {pod.uid: pod for pod in cluster.waiting}
        pods = cluster.engine.core.cache.pods.values()
        self._terminating = {pod.key for pod in pods if pod.is_terminating}
        self._texts: set[str] = set()
        self._members = {pod.uid for pod in cluster.waiting if pod.group_name}
        self._groups = {pod.key: pod for pod in cluster.waiting if pod.group_name}
        self._order = {pod.key: at for at, pod in enumerate(_by_age(cluster))}
        self._pods: dict[str, Object] = {}
        self._condition: Object | None = None
        self._seen: set[str] = set()
        self.reports: list[LogError] = []

    def run(self) -> Object:
        """Try what is ready until a pod comes for the second time."""
        waiting = list(self.engine.core.queue.dump())
        gated = {
            entry["pod"]: {entry["gatingPlugin"]: [entry["message"]]}
            for entry in waiting
            if entry["queue"] == "gated"
        }
        units = list(self._units())
        reports = [f"{report.problem}\n{report.trace}" for report in self.reports]
        return {"units": units, "gated": gated, "reports": reports}

    def _units(self) -> Iterator[Object]:
        for _ in range(_ENOUGH):
            if not self.engine.has_ready:
                return
            self._pods, self._condition, self._texts = {}, None, set[str]()
            self.handle(Decide())
            if not self._pods or self._seen & self._pods.keys():
                continue
            self._seen |= self._pods.keys()
            victims = self._victims()
            pods = sorted(self._pods.values(), key=lambda pod: self._order[pod["pod"]])
            unit = {"pods": pods, "condition": self._condition}
            unit |= {"victims": victims, "victimTexts": sorted(self._texts)}
            placement = self._placement(pods[0]["pod"])
            yield {**unit, "placement": placement} if placement else unit

    def _placement(self, key: str) -> str:
        """Where the members of the group of a pod had to be."""
        pod, groups = self._groups.get(key), self.engine.core.groups
        known = None if pod is None or groups is None else groups.of_pod(pod)
        return "" if known is None or known.last is None else known.last.domain

    def _victims(self) -> list[str]:
        """Return what leaves for the group that was tried and was not leaving, in any order."""
        [first, *_] = (pod for pod in self._waiting.values() if pod.key in self._pods)
        groups = self.engine.core.groups
        known = None if groups is None else groups.of_pod(first)
        last = None if known is None else known.last
        return [] if last is None else sorted(set(last.victims) - self._terminating)

    @override
    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, Bind):
            self._note(instruction.uid, host=instruction.node)
        elif isinstance(instruction, PatchStatus) and instruction.condition is not None:
            condition, text = instruction.condition, instruction.condition.message
            if instruction.uid in self._members and text.startswith("0/"):
                text = _POST_FILTER.sub("", text)
            self._note(instruction.uid, reason=condition.reason, message=text)
        elif isinstance(instruction, PatchGroupStatus):
            condition = instruction.condition
            self._condition = {
                field: getattr(condition, field)
                for field in ("type", "status", "reason", "message")
            }
        elif isinstance(instruction, Evict):
            if instruction.condition is not None:
                self._texts.add(instruction.condition.message)
        elif isinstance(instruction, LogError):
            self.reports.append(instruction)
        else:
            super().carry_out(instruction)

    def _note(self, uid: str, **outcome: str) -> None:
        key = self._keys[uid]
        self._pods.setdefault(key, {"pod": key, "host": "", "reason": "", "message": ""})
        self._pods[key].update(outcome)


def _by_age(cluster: ClusterState) -> list[Any]:
    """Waiting pods in the order in which kube-scheduler tries the members of a group."""
    return sorted(
        cluster.waiting,
        key=lambda pod: (-pod.priority, pod.pod.metadata.creation_timestamp or "~", pod.key),
    )


def question(admitted: Object, ours: Object) -> Object:
    """Ask the judge to try the units that we tried."""
    return {
        **{key: admitted[key] for key in ("config", "objects") if key in admitted},
        "units": [[pod["pod"] for pod in unit["pods"]] for unit in ours["units"]],
        "placements": [unit.get("placement", "") for unit in ours["units"]],
    }


def compare_groups(theirs: Object, ours: Object) -> list[Difference]:
    """Return every difference between the judge's answer and ours."""
    return list(_differences(theirs, ours))


def _differences(theirs: Object, ours: Object) -> Iterator[Difference]:
    if theirs.get("error"):
        yield Difference("case", "error", theirs["error"], None)
        return
    if theirs["ready"]:
        yield Difference("case", "not tried", theirs["ready"], [])
    for number, (expected, actual) in enumerate(zip(theirs["units"], ours["units"], strict=True)):
        yield from _unit(f"attempt {number}", expected, actual)
    tried = {pod["pod"] for unit in theirs["units"] for pod in unit["pods"]}
    for name in sorted(theirs["gated"].keys() | ours["gated"].keys()):
        gates = ours["gated"].get(name, {})
        possible = theirs["gated"].get(name, {})
        if name not in tried and not (gates and gates.items() <= possible.items()):
            yield Difference(f"{name} gates", "gates", possible, gates)


def _unit(where: str, expected: Object, actual: Object) -> Iterator[Difference]:
    theirs = {pod["pod"]: pod for pod in expected["pods"]}
    ours = {pod["pod"]: pod for pod in actual["pods"]}
    if theirs.keys() != ours.keys():
        yield Difference(where, "members", sorted(theirs), sorted(ours))
        return
    for name, pod in theirs.items():
        for field in ("host", "reason", "message"):
            if _plain(pod.get(field, "")) != _plain(ours[name][field]):
                yield Difference(
                    f"{where} {name} {field}", field, pod.get(field, ""), ours[name][field]
                )
    if expected.get("victims", []) != actual["victims"]:
        yield Difference(
            f"{where} victims", "victims", expected.get("victims", []), actual["victims"]
        )
    victim_texts, texts = actual["victimTexts"], expected.get("victimTexts", [])
    if not set(victim_texts) <= set(texts):
        yield Difference(f"{where} victims' texts", "victimTexts", texts, victim_texts)
    if _plain_condition(expected["condition"]) != _plain_condition(actual["condition"]):
        yield Difference(
            f"{where} condition", "condition", expected["condition"], actual["condition"]
        )


def _plain(text: str) -> str:
    """Without what kube-scheduler takes from a map in any order: which member it looks at first."""
    return _UNCLEAR.sub(r"\1", text)


def _plain_condition(condition: Object | None) -> Object | None:
    return condition and {**condition, "message": _plain(condition["message"])}


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2000", metavar="A:B")
    parser.add_argument("--dump", type=int, metavar="SEED")
    for option in ("topology", "preempt", "basic", "extenders", "claims", "volumes"):
        parser.add_argument(f"--{option}", action="store_true")
    arguments = parser.parse_args()
    others = arguments.claims + (arguments.basic or arguments.extenders)
    if others + max(arguments.preempt, arguments.volumes) > 1:
        parser.error("--preempt or --volumes, --claims, and --basic or --extenders go alone")
    if arguments.volumes and arguments.preempt and arguments.topology:
        parser.error("--topology --preempt goes without --volumes")
    gates = _gates(arguments)
    makes = MAKES
    if arguments.claims:
        makes = WITH_CLAIMS
    elif arguments.volumes:
        makes = WITH_VOLUMES
    elif arguments.extenders:
        makes = WITH_EXTENDERS
    with running(groups_command(gates)) as judge:
        if arguments.dump is not None:
            return _dump(judge, arguments.dump, gates, makes)
        first, last = (int(part) for part in arguments.seeds.split(":"))
        return _run(judge, range(first, last), gates, makes)


def _gates(arguments: argparse.Namespace) -> tuple[str, ...]:
    if arguments.basic:
        return BASIC_WITH_TOPOLOGY if arguments.topology else BASIC
    if arguments.topology:
        return IN_RACKS_PREEMPTING if arguments.preempt else WITH_TOPOLOGY
    return PREEMPTING if arguments.preempt else GATES


def judged(
    judge: Answerer, seeds: Sequence[int], gates: Sequence[str] = GATES, makes: Makes = MAKES
) -> Iterator[tuple[Object, Object, Object]]:
    """Give each case as the API server holds it, our answer, and the judge's."""
    make = makes[tuple(gates)]
    for at in range(0, len(seeds), _BATCH):
        some = seeds[at : at + _BATCH]
        admitted = list(pipelined(judge, map(make, some)))
        ours = [
            answer_asking(case, judge.extender, gates)
            for case in admitted
            if not case.get("invalid")
        ]
        asked = (c for c in admitted if not c.get("invalid"))
        answers = pipelined(
            judge, [question(case, our) for case, our in zip(asked, ours, strict=True)]
        )
        mine = iter(ours)
        for case in admitted:
            if case.get("invalid"):
                yield case, {}, {}
            else:
                yield case, next(mine), next(answers)["groups"]


def _run(judge: Answerer, seeds: range, gates: Sequence[str], makes: Makes) -> int:
    differing = invalid = 0
    ends: Counter[str] = Counter()
    with shown_progress("groups") as progress:
        answers = judged(judge, seeds, gates, makes)
        for seed, (case, ours, theirs) in zip(seeds, answers, strict=True):
            progress((seed - seeds.start) / len(seeds))
            if case.get("invalid"):
                invalid += 1
                _print_limited(invalid, f"{seed} is invalid: {case['invalid'][0]}")
                continue
            ends.update(_ends(theirs))
            differences = compare_groups(theirs, ours)
            if differences:
                differing += 1
                ends.update(f"differs: {difference.kind}" for difference in differences)
                _print_limited(differing, f"{seed} {differences[0]}")
    print(f"groups: {len(seeds)} cases, {differing} differ, {invalid} invalid")
    for end, count in sorted(ends.items()):
        print(f"    {count:8} {end}")
    return 1 if differing or invalid else 0


def _ends(answer: Object) -> Iterator[str]:
    """How attempts ended: proof that the cases meet all of it."""
    for unit in answer["units"] or ():
        yield "attempts of groups" if unit["condition"] else "attempts without a condition"
        if unit["condition"]:
            yield f"condition {unit['condition']['status']} {unit['condition']['message']}"
        if unit.get("victims"):
            yield "attempts with victims"
        for pod in unit["pods"]:
            yield "members and pods placed" if pod["host"] else f"not placed: {pod['reason']}"
            if len(pod["best"]) > 1:
                yield "a choice among equals"
    for gates in (answer["gated"] or {}).values():
        yield from (f"gate {gate}: {texts[0].split(chr(34))[0]}" for gate, texts in gates.items())


def _print_limited(count: int, line: str) -> None:
    if count <= PRINTED:
        print(line, flush=True)


def _dump(judge: Answerer, seed: int, gates: Sequence[str], makes: Makes) -> int:
    [(case, ours, theirs)] = judged(judge, [seed], gates, makes)
    json.dump({"case": case, "ours": ours, "theirs": theirs}, sys.stdout, indent=1)
    print()
    if not case.get("invalid"):
        print(*compare_groups(theirs, ours), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
