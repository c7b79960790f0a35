"""Compare how pods wait, wake and are tried over time with kube-scheduler's own.

    python -m tests.parity.history --seeds 0:500
    python -m tests.parity.history --claims --seeds 0:500    # with resource claims
    python -m tests.parity.history --devices --seeds 0:500   # with all sorts of devices
    python -m tests.parity.history --wide --seeds 0:500      # with pools of several nodes
    python -m tests.parity.history --volumes --seeds 0:500   # with volumes
    python -m tests.parity.history --both --seeds 0:500      # with resource claims and volumes
    python -m tests.parity.history --all --seeds 0:500       # with all sorts of devices and volumes
    python -m tests.parity.history --more --seeds 0:500      # with more resources and odd values
    python -m tests.parity.history --profiles --seeds 0:500  # with several profiles
    python -m tests.parity.history --extenders --seeds 0:500 # with extenders
    python -m tests.parity.history --sampling --seeds 0:100  # with samples of many nodes
    python -m tests.parity.history --groups --seeds 0:500    # with pod groups
    python -m tests.parity.history --racks --seeds 0:500     # with pod groups in racks
    python -m tests.parity.history --whole --seeds 0:500     # with preemption for whole groups
    python -m tests.parity.history --dump 17       # one case, both answers, the differences

Each case is a small cluster with little room and a list of steps. Objects are created, changed and
deleted, some of them between the decision about a pod and its return to the queue. Time passes,
the next pod is tried, and the API server answers its binding or refuses it. Our engine lives
through the steps first, then the judge lives through the same. After each step are compared: where
each pod waits and since when, its attempts and failures, the end of its backoff, the plugins that
rejected it, the order in which pods would be tried, the pods on each node, and for which pods nodes
keep room, and the evictions that were requested. Of each attempt: the pod, its node or reasons, its
victims, the pods that lose their nomination, and what is written to its status.

What is kept out is in `tests.parity.living`.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from scheduler.tools.cli.progress import shown_progress
from tests.parity.answering import Answerer, oracle_command, pipelined, running
from tests.parity.compare import Difference
from tests.parity.generator.draw import Object
from tests.parity.generator.histories import make_history_case
from tests.parity.generator.history_both import (
    has_both,
    make_all_history_case,
    make_both_history_case,
)
from tests.parity.generator.history_claims import has_claims, make_claims_history_case
from tests.parity.generator.history_devices import (
    has_devices,
    make_devices_history_case,
    make_wide_history_case,
)
from tests.parity.generator.history_extenders import has_extenders, make_extenders_history_case
from tests.parity.generator.history_groups import (
    has_groups,
    has_racks,
    has_whole_groups,
    make_groups_history_case,
    make_racks_history_case,
    make_whole_history_case,
)
from tests.parity.generator.history_more import has_more, make_more_history_case
from tests.parity.generator.history_profiles import has_profiles, make_profiles_history_case
from tests.parity.generator.history_sampling import has_samples, make_sampling_history_case
from tests.parity.generator.history_volumes import has_volumes, make_volumes_history_case
from tests.parity.history_both import live_through_both
from tests.parity.history_claims import live_through_claims
from tests.parity.history_devices import live_through_devices
from tests.parity.history_extenders import live_through_extenders
from tests.parity.history_groups import (
    GROUP_GATES,
    RACK_GATES,
    WHOLE_GATES,
    compare_groups,
    live_through_groups,
    live_through_racks,
    live_through_whole,
)
from tests.parity.history_more import live_through_more
from tests.parity.history_profiles import live_through_profiles
from tests.parity.history_sampling import live_through_sampling
from tests.parity.history_steps import live_through
from tests.parity.history_volumes import live_through_volumes
from tests.parity.living import QUIET
from tests.parity.world import kinds_of_steps

MAKES: Final[Mapping[str, Callable[[int], Object]]] = {
    "claims": make_claims_history_case,
    "devices": make_devices_history_case,
    "wide": make_wide_history_case,
    "volumes": make_volumes_history_case,
    "both": make_both_history_case,
    "all": make_all_history_case,
    "more": make_more_history_case,
    "profiles": make_profiles_history_case,
    "extenders": make_extenders_history_case,
    "sampling": make_sampling_history_case,
    "groups": make_groups_history_case,
    "racks": make_racks_history_case,
    "whole": make_whole_history_case,
}
"""What makes the cases of an option."""
_GATES: Final[Mapping[str, Sequence[str]]] = {
    "groups": GROUP_GATES,
    "racks": RACK_GATES,
    "whole": WHOLE_GATES,
}
"""The feature gates that are on, by option."""
_WAYS: Final[Sequence[tuple[Callable[[Object], bool], Callable[[Object, int], Object]]]] = (
    (has_both, live_through_both),
    (has_whole_groups, live_through_whole),
    (has_racks, live_through_racks),
    (has_groups, live_through_groups),
    (has_devices, live_through_devices),
    (has_claims, live_through_claims),
    (has_volumes, live_through_volumes),
    (has_profiles, live_through_profiles),
    (has_more, live_through_more),
    (has_extenders, live_through_extenders),
    (has_samples, live_through_sampling),
)
"""How our engine lives through cases; the first that applies."""
_PROBLEMS: Final = re.compile(r"preemption: \[(.*)\]")
PRINTED: Final = 20
"""Differences printed before only counting goes on."""
_BATCH: Final = 50


def history_command(kind: str = "") -> list[str]:
    """Return the command line of the judge of a kind, which decides about each pod by itself."""
    on = [f"{gate}=true" for gate in _GATES.get(kind, ())]
    gates = ",".join(["OpportunisticBatching=false", *on])
    return oracle_command("--history", f"--feature-gates={gates}", admit=False)


def question(admitted: Object, ours: Object) -> Object:
    """Ask the judge to live through the steps that we lived through."""
    kinds = kinds_of_steps(admitted)
    asked = {"objects": [raw for raw in admitted["objects"] if raw["kind"] not in kinds]}
    if "config" in admitted:
        asked["config"] = admitted["config"]
    return {**asked, "steps": ours["steps"]}


def compare_histories(theirs: Object, ours: Object) -> list[Difference]:
    """Return the differences after the first step after which there are any."""
    for number, actual in enumerate(ours["answers"]):
        if number == len(theirs["steps"] or ()):
            return [Difference("case", "error", theirs.get("error"), None)]
        where = f"step {number} {ours['steps'][number]['do']}"
        found = list(_differences(where, theirs["steps"][number], actual))
        if found:
            return found
    return []


def _differences(where: str, expected: Object, actual: Object) -> Iterator[Difference]:
    groups = actual.get("members")
    if groups is not None:
        yield from compare_groups(where, expected, actual, compare_attempts)
    # What kube-scheduler writes about a pod that is gone is written to no pod.
    if actual["tried"] or where.rpartition(" ")[2] not in ("unbound", "delete"):
        yield from compare_attempts(where, expected["tried"] or {}, actual["tried"] or {})
    members = (expected.get("gates") or {}).keys() | (groups or {}).keys()
    for name in sorted((expected["pods"].keys() | actual["pods"].keys()) - members):
        theirs, ours = expected["pods"].get(name, {}), actual["pods"].get(name, {})
        is_woken = "active" in (theirs.get("place"), ours.get("place"))
        for field in sorted(theirs.keys() | ours.keys()):
            # What rejected an active pod before bears on nothing.
            if is_woken and field in ("unschedulable", "pending"):
                continue
            if (theirs.get(field) or 0) != (ours.get(field) or 0):
                yield Difference(f"{where} {name} {field}", field, theirs, ours)
    fields = ["next", "nodes", "nominated", "evictions", "devices", "consumed", "written"]
    # Without samples Stowage has no such index.
    fields += ["start"] if "start" in actual else []
    for field in fields:
        theirs, ours = expected.get(field), actual.get(field)
        if field == "next" and members:
            theirs, ours = ([p for p in each or () if p not in members] for each in (theirs, ours))
        if theirs != ours:
            yield Difference(f"{where} {field}", field, theirs, ours)


def compare_attempts(where: str, expected: Object, actual: Object) -> Iterator[Difference]:
    """Yield the differences between two ends of the attempt of a pod."""
    fields = ["pod", "host", "reason", "nomination", "victims", "displaced"]
    if expected.get("reason") != QUIET:
        fields.append("message")
    for field in fields:
        if _plain(expected.get(field, "")) != _plain(actual.get(field, "")):
            yield Difference(f"{where} attempt {field}", field, expected, actual)
    theirs, ours = expected.get("condition"), actual.get("condition")
    if expected.get("reason") == QUIET and theirs and not (theirs["status"] or ours):
        return  # only the text of an error is another than before
    if bool(theirs) != bool(ours):
        yield Difference(f"{where} attempt condition", "condition", theirs, ours)
    elif theirs and ours:
        for field, value in (theirs or {}).items():
            is_text = field == "message" and ours["reason"] == QUIET
            if value and _plain(value) != _plain(ours[field]) and not is_text:
                yield Difference(f"{where} attempt condition {field}", "condition", theirs, ours)


def _plain(value: Any) -> Any:
    """The problems of several nodes in one order; kube-scheduler tells them in any."""
    found = _PROBLEMS.search(value) if isinstance(value, str) else None
    if found is None:
        return value
    return value[: found.start(1)] + ", ".join(sorted(found[1].split(", "))) + value[found.end(1) :]


def lived(case: Object, seed: int) -> Object:
    """Let our engine live through a case."""
    live = next((live for is_it, live in _WAYS if is_it(case)), live_through)
    return live(case, seed)


def judged(
    judge: Answerer, seeds: Sequence[int], make: Callable[[int], Object] = make_history_case
) -> Iterator[tuple[Object, Object, Object]]:
    """Give each case as the API server holds it, our answer, and the judge's."""
    for at in range(0, len(seeds), _BATCH):
        some = seeds[at : at + _BATCH]
        admitted = list(pipelined(judge, map(make, some)))
        ours = [
            {} if case.get("invalid") else lived(case, seed)
            for seed, case in zip(some, admitted, strict=True)
        ]
        asked = [question(case, our) for case, our in zip(admitted, ours, strict=True) if our]
        answers = pipelined(judge, asked)
        for case, our in zip(admitted, ours, strict=True):
            yield case, our, next(answers)["history"] if our else {}


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:300", metavar="A:B")
    with_what = parser.add_mutually_exclusive_group()
    for option in MAKES:
        with_what.add_argument(f"--{option}", action="store_const", const=option, dest="what")
    parser.add_argument("--dump", type=int, metavar="SEED")
    arguments = parser.parse_args()
    make = MAKES.get(arguments.what, make_history_case)
    with running(history_command(arguments.what or "")) as judge:
        if arguments.dump is not None:
            return _dump(judge, arguments.dump, make)
        first, last = (int(part) for part in arguments.seeds.split(":"))
        return _run(judge, range(first, last), make)


def _run(judge: Answerer, seeds: range, make: Callable[[int], Object]) -> int:
    differing = invalid = 0
    met: Counter[str] = Counter()
    with shown_progress("histories") as progress:
        for seed, (case, ours, theirs) in zip(seeds, judged(judge, seeds, make), strict=True):
            progress((seed - seeds.start) / len(seeds))
            if not ours:
                invalid += 1
                print(f"{seed} is invalid: {case['invalid'][0]}", flush=True)
                continue
            met.update(_met(ours))
            differences = compare_histories(theirs, ours)
            if differences:
                differing += 1
                met.update(f"differs: {difference.kind}" for difference in differences[:1])
                if differing <= PRINTED:
                    print(f"{seed} {differences[0]}", flush=True)
    print(f"histories: {len(seeds)} cases, {differing} differ, {invalid} invalid")
    for what, count in sorted(met.items()):
        print(f"    {count:8} {what}")
    return 1 if differing or invalid else 0


def _met(ours: Object) -> Iterator[str]:
    """What there was in a history: proof that the cases meet all of it."""
    for step, answer in zip(ours["steps"], ours["answers"], strict=True):
        yield f"step {step['do']}"
        for when in ("during", "then"):
            yield from (f"{when} an attempt: {each['do']}" for each in step.get(when, ()))
        yield from (f"state {pod['place']}" for pod in answer["pods"].values())
        yield from (f"gate {pod['gate']}" for pod in answer["pods"].values() if pod["gate"])
        yield from ("a claim is written" for _ in answer.get("written", ()))
        answered = [each for some in step.get("wrote", {}).values() for each in some]
        yield from ("a write to a claim is refused" for each in answered if each is None)
        noted = [each for some in answer.get("written", {}).values() for each in some]
        yield from (f"written: {name}" for each in noted for name in each)
        if answer.get("consumed"):
            yield "shares of devices are in use"
        if answer["tried"]:
            tried = answer["tried"]
            yield f"attempt: {'placed' if 'host' in tried else tried.get('reason', 'skipped')}"
            if "victims" in tried:
                yield "attempt: with victims"
            if "displaced" in tried:
                yield "attempt: others lose their nomination"
            ends = [*tried.get("members", {}).values()]
            if ends:
                placed = sum("host" in end for end in ends)
                many = "none" if not placed else "all" if placed == len(ends) else "some"
                yield f"attempt of a group: {many} placed"
            if tried.get("group"):
                yield f"condition of a group: {tried['group']['status']} {tried['group']['reason']}"


def _dump(judge: Answerer, seed: int, make: Callable[[int], Object]) -> int:
    [(case, ours, theirs)] = judged(judge, [seed], make)
    json.dump({"case": case, "ours": ours, "theirs": theirs}, sys.stdout, indent=1)
    print()
    if ours:
        print(*compare_histories(theirs, ours), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
