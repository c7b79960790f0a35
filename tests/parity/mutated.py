"""Compare Stowage with kube-scheduler over clusters whose objects were changed at random places.

    python -m tests.parity.mutated --seeds 0:500
    python -m tests.parity.mutated --as-written      # Stowage reads objects as people write them
    python -m tests.parity.mutated --hints           # do such changes wake a pending pod?
    python -m tests.parity.mutated --family odd --seeds 17:18 --dump

The generated families have the values that their authors thought of. Here fields of their objects
are removed, emptied, doubled and exchanged with those of other objects, wherever the type allows
it. Objects that the API server refuses then are left as they were. Prints counts and every
difference with its seed, and exits 1 when there is any.
"""

import argparse
import copy
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, TypeAlias

from tests.parity.answering import Answerer, oracle_command, running, stowage_command
from tests.parity.choices import choice_differences
from tests.parity.compare import Difference, compare
from tests.parity.generator.draw import Draw, Object
from tests.parity.generator.families import FAMILIES, FLAGS, make_case
from tests.parity.hints import compared, differences, hints_command
from tests.parity.run import REPEATED, as_written

MUTATED: Final = (
    "resources",
    "taints",
    "node-affinity",
    "ports",
    "images",
    "spread",
    "inter-pod",
    "declared-features",
    "nominated",
    "preemption",
    "configuration",
    "compared-taints",
    "odd",
    "odd-profiles",
)
"""Families that are asked about unless others are named.

Others meet deliberate differences, as about broken pools of devices and about claims of other pods,
and a panic of kube-scheduler.
"""
DONORS: Final = 12
"""Cases of each family whose objects give values to others."""
_KEPT: Final = frozenset({"kind", "apiVersion", "name", "namespace", "uid", "step"})
"""Fields by which objects and parts of them are found; changing them makes another cluster.

With a `step` of 0 the API server's validation divides by zero.
"""
_UNCHECKED: Final = frozenset({"PodDisruptionBudget"})
"""Kinds that the judge admits without validation."""
_OF_STRUCTS: Final = frozenset({"attributes", "capacity", "counters"})
"""Maps that no null is written to: only drivers write them."""
_AMOUNTS: Final = ("0", "1", "1m", "1e3", "0.5", "1Ki", "1500m", "3M", "2", "00", "7n")
_NUMBERS: Final = (0, 1, -1, 2, 100, 2**31 - 1)

_UNREADABLE: Final = re.compile(r"^(?:objects|questions)\[([0-9]+)\]")
QUESTIONS: Final = 40

Path: TypeAlias = tuple[str, ...]
"""Kind, then the keys down to a value; `*` stands for any place in a list."""


@cache
def _donated() -> dict[Path, list[Any]]:
    """Values by path, of the objects of many cases."""
    found: dict[Path, list[Any]] = defaultdict(list)
    for family in FAMILIES:
        for seed in range(1_000_000, 1_000_000 + DONORS):
            for each in make_case(family, seed)["objects"]:
                for path, _, _, value in _places(each, (each["kind"],)):
                    found[path].append(value)
    return found


def _places(value: Any, path: Path) -> Iterator[tuple[Path, Any, Any, Any]]:
    """The path of each value below this one, its container, its key there, and the value."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield (*path, key), value, key, each
            yield from _places(each, (*path, key))
    if isinstance(value, list):
        for i, each in enumerate(value):
            yield (*path, "*"), value, i, each
            yield from _places(each, (*path, "*"))


def mutated(draw: Draw, thing: Object) -> Object:
    """Change an object at a few places."""
    changed = copy.deepcopy(thing)
    for _ in range(draw.pick((1, 1, 2, 3, 5))):
        places = [place for place in _places(changed, (changed["kind"],)) if _may_change(place)]
        if places:
            _change(draw, *draw.pick(places))
    meta = thing["metadata"]
    identity = {key: meta[key] for key in ("name", "namespace", "uid") if key in meta}
    others = {k: v for k, v in (changed.get("metadata") or {}).items() if k not in _KEPT}
    kind = {key: thing[key] for key in ("apiVersion", "kind")}
    return {**changed, **kind, "metadata": {**others, **identity}}


def _may_change(place: tuple[Path, Any, Any, Any]) -> bool:
    path, _, key, _ = place
    return key not in _KEPT or (len(path) > 3 and key in ("name", "namespace"))


def _change(draw: Draw, path: Path, container: Any, key: Any, value: Any) -> None:
    others = _donated().get(path, [value])
    choice = draw.random()
    if choice < 0.15:
        del container[key]
    elif choice < 0.2 and isinstance(container, dict) and path[-2] not in _OF_STRUCTS:
        container[key] = None
    elif choice < 0.55:
        container[key] = copy.deepcopy(draw.pick(others))
    elif isinstance(value, dict):
        _change_fields(draw, path, value)
    elif isinstance(value, list):
        container[key] = _changed_list(draw, value, copy.deepcopy(draw.pick(others)))
    elif isinstance(value, bool):
        container[key] = not value
    elif isinstance(value, int):
        container[key] = draw.pick(_NUMBERS)
    elif isinstance(value, str):
        container[key] = draw.pick(("", *_AMOUNTS) if value[:1].isdigit() else ("", "x", value))


def _change_fields(draw: Draw, path: Path, value: Object) -> None:
    """Give a part of an object a field that others have there, or take all of its fields."""
    if draw.maybe(0.2):
        value.clear()
        return
    below = [each for each in _donated() if len(each) == len(path) + 1 and each[:-1] == path]
    if below:
        chosen = draw.pick(below)
        value[chosen[-1]] = copy.deepcopy(draw.pick(_donated()[chosen]))


def _changed_list(draw: Draw, value: list[Any], other: Any) -> list[Any]:
    others = other if isinstance(other, list) else []
    return draw.pick(
        (
            [],
            value[1:],
            [*value, *copy.deepcopy(value[:1])],
            value[::-1],
            [*value, *others],
            [*others, *value],
        )
    )


def make_mutated(family: str, seed: int) -> tuple[Object, Object]:
    """The case of a seed, and the same with changed objects."""
    draw = Draw(f"mutated:{family}:{seed}")
    case = make_case(family, seed)
    rate = draw.pick((0.15, 0.3, 0.6))
    objects = [
        mutated(draw, each) if draw.maybe(rate) and each["kind"] not in _UNCHECKED else each
        for each in case["objects"]
    ]
    return case, {**case, "objects": objects}


def _name(thing: Object) -> str:
    meta = thing["metadata"]
    return f"{thing['kind']} {meta.get('namespace', '')}/{meta['name']}"


def _admitted(oracle: Answerer, case: Object, changed: Object) -> tuple[Any, Object]:
    """The judge's answer about the changed case, and the case without changes that it refuses."""
    objects = list(changed["objects"])
    while True:
        oracle.send({**changed, "objects": objects})
        answer = oracle.receive()
        refused = set(map(int, _UNREADABLE.findall(answer.get("error") or "")))
        names = {line.split(": ")[0] for line in answer.get("invalid") or ()}
        refused |= {i for i, each in enumerate(objects) if _name(each) in names}
        refused = {i for i in refused if objects[i] != case["objects"][i]}
        if not (answer.get("error") or names) or objects == case["objects"]:
            return answer, {**changed, "objects": objects}
        for i in refused or range(len(objects)):
            objects[i] = case["objects"][i]


def _contradicts_itself(oracle: Answerer, changed: Object, answer: Any) -> bool:
    for _ in range(REPEATED):
        oracle.send(changed)
        if compare(answer["answer"], oracle.receive()["answer"], answer["objects"]):
            return True
    return False


def _differences(
    judged: Any,
    changed: Object,
    ours: Answerer,
    flags: tuple[str, ...],
    arguments: argparse.Namespace,
) -> list[Difference]:
    given = as_written(changed) if arguments.as_written else judged
    ours.send({key: given[key] for key in ("config", "objects") if key in given})
    answer = ours.receive()
    if arguments.dump:
        json.dump({"judge": judged, "ours": answer}, sys.stdout, indent=1)
    found = compare(judged["answer"], answer, given["objects"])
    if found or judged["answer"].get("error") or arguments.as_written:
        return found
    return choice_differences(judged, judged["answer"], flags)[0]


def _decisions(family: str, seeds: range, arguments: argparse.Namespace) -> Counter[str]:
    flags = FLAGS.get(family, ())
    total: Counter[str] = Counter()
    with running(oracle_command(*flags)) as oracle, running(stowage_command(*flags)) as ours:
        for seed in seeds:
            answer, changed = _admitted(oracle, *make_mutated(family, seed))
            found = _differences(answer, changed, ours, flags, arguments)
            total.update(cases=1, pods=len(answer["answer"]["pods"]))
            if found and _contradicts_itself(oracle, changed, answer):
                total["undecided"] += 1
            elif found:
                total["differing"] += 1
                print(f"{family}:{seed} {found[0]}", flush=True)
    return total


# --- queueing hints -------------------------------------------------------------------------------


def make_mutated_questions(family: str, seed: int) -> Object:
    """The case of a seed, with random changes of pods and nodes and a pod that each may wake."""
    case = make_case(family, seed)
    case.pop("config", None)
    draw = Draw(f"mutated-hints:{family}:{seed}")
    nodes, pods = ([o for o in case["objects"] if o["kind"] == kind] for kind in ("Node", "Pod"))
    for node in nodes:
        _without_times(node)
    for pod in pods:
        pod["spec"].pop("schedulerName", None)
    waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]
    questions = []
    for _ in range(QUESTIONS):
        pod = draw.pick(waiting)
        old = pod if draw.maybe(0.3) else draw.pick(nodes if nodes and draw.maybe(0.6) else pods)
        questions.append({"pod": pod, "old": old, "new": _without_times(mutated(draw, old))})
    return {**case, "questions": questions}


def _without_times(node: Object) -> Object:
    """Drop the times of a node's taints: only kube-scheduler has an event for them."""
    spec = node.get("spec")
    taints = spec.get("taints") if isinstance(spec, dict) else None
    for taint in taints or ():
        if isinstance(taint, dict):
            taint.pop("timeAdded", None)
    return node


def _answered(oracle: Answerer, case: Object) -> Any:
    """The judge's hints, without the questions that it cannot read."""
    while True:
        oracle.send(case)
        answered = oracle.receive()
        unreadable = list(map(int, _UNREADABLE.findall(answered.get("error") or "")))
        if not unreadable:
            return answered
        kept = [each for i, each in enumerate(case["questions"]) if i not in unreadable]
        case = {**case, "questions": kept}


def _hints(family: str, seeds: range) -> Counter[str]:
    total: Counter[str] = Counter()
    with running(hints_command()) as oracle:
        for seed in seeds:
            answered = _answered(oracle, make_mutated_questions(family, seed))
            for i, theirs, ours in compared(answered):
                total["refused" if theirs is None else "questions"] += 1
                found = [] if theirs is None else differences(theirs, ours)
                total["differing"] += bool(found)
                if found:
                    print(f"{family}:{seed} question {i}: {found[0]}", flush=True)
    return total


def main() -> int:
    """Ask both about all seeds and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:200", metavar="A:B")
    parser.add_argument("--family", action="append", choices=list(FAMILIES))
    parser.add_argument("--as-written", action="store_true", help="as people write the objects")
    parser.add_argument("--hints", action="store_true", help="ask about queueing hints instead")
    parser.add_argument("--dump", action="store_true", help="print the objects and both answers")
    arguments = parser.parse_args()
    first, last = (int(part) for part in arguments.seeds.split(":"))
    total: Counter[str] = Counter()
    seeds = range(first, last)
    # Hints are asked about without flags.
    usual = [family for family in MUTATED if not (arguments.hints and family in FLAGS)]
    for family in arguments.family or usual:
        total += _hints(family, seeds) if arguments.hints else _decisions(family, seeds, arguments)
    print(", ".join(f"{count} {name}" for name, count in total.items()))
    return 1 if total["differing"] else 0


if __name__ == "__main__":
    sys.exit(main())
