"""Compare Stowage with kube-scheduler over families of random clusters.

    python -m tests.parity.run --family spread --seeds 0:2000
    python -m tests.parity.run                     # every family, its first 2,000 seeds
    python -m tests.parity.run --as-written        # Stowage reads objects as people write them

Prints counts per family and every difference with its seed; exits 1 when there is any.
`--dump FAMILY:SEED` prints a case and both answers instead. With `--as-written` only the judge gets
the objects as an API server holds them.
"""

import argparse
import copy
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from scheduler.tools.cli.progress import shown_progress
from scheduler.tools.offline.progress import Progress, no_progress
from tests.parity.answering import (
    Answerer,
    oracle_command,
    pipelined,
    running,
    stowage_command,
)
from tests.parity.choices import choice_differences
from tests.parity.compare import compare
from tests.parity.generator.families import FAMILIES, FLAGS, make_case

PRINTED = 20
"""Differences printed per family before only counting goes on."""

REPEATED = 5
"""So often the judge is asked again about a case that differs."""


@dataclass
class Tally:
    """What a family's run has come to."""

    cases: int = 0
    pods: int = 0
    nodes: int = 0
    feasible: int = 0
    invalid: int = 0
    failed: int = 0
    """Cases or pods for which kube-scheduler itself ended in an error."""
    differing: int = 0
    undecided: int = 0
    """Cases on which kube-scheduler contradicts itself: its informers race at a start. A waiting
    pod that it sees before the pod's claims, for one, is gated, and not nominated for good."""
    kinds: Counter[str] = field(default_factory=Counter)
    plugins: Counter[str] = field(default_factory=Counter)
    """How often each plugin decided something: proof that the family meets it."""

    def count(self, answer: dict[str, Any]) -> None:
        """Add the oracle's answer to the totals."""
        self.cases += 1
        self.failed += bool(answer.get("error"))
        for pod in answer["pods"]:
            self.pods += 1
            self.failed += bool(pod.get("error"))
            for early in ("preEnqueue", "preFilter"):
                if pod[early]:
                    self.plugins[f"{early}:{pod[early]['plugin']}"] += 1
            for node in pod["nodes"]:
                self.nodes += 1
                self.feasible += node["feasible"]
                if not node["feasible"]:
                    self.plugins[node["plugin"] or "(node-name set)"] += 1
            preemption = pod.get("preemption")
            if preemption:
                self.plugins[f"preemption: {_sort_of(preemption)}"] += 1


def _sort_of(preemption: dict[str, Any]) -> str:
    if not preemption["nominatedNode"]:
        return "nobody" if preemption["message"].startswith("0/") else preemption["message"]
    return "one candidate" if len(preemption["candidates"]) == 1 else "a choice"


def main() -> int:
    """Run what the command line asks for."""
    arguments = _arguments()
    if arguments.dump:
        return _dump(arguments.dump)
    families = arguments.family or list(FAMILIES)
    first, last = (int(part) for part in arguments.seeds.split(":"))
    differing = 0
    for family in families:
        with _judge(family) as oracle, _ours(arguments, family) as stowage:
            with shown_progress(family) as progress:
                seeds = range(first, last)
                if arguments.as_written:
                    tally = _run_as_written(family, seeds, oracle, stowage)
                else:
                    tally = _run_family(family, seeds, oracle, stowage, progress)
            _print_tally(family, tally, verbose=arguments.verbose)
            differing += tally.differing + tally.invalid
    return 1 if differing else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", action="append", choices=list(FAMILIES))
    parser.add_argument("--seeds", default="0:2000", metavar="A:B")
    parser.add_argument("--dump", metavar="FAMILY:SEED")
    parser.add_argument("--as-written", action="store_true")
    parser.add_argument("--oracle-only", action="store_true", help="only check the generator")
    parser.add_argument("--verbose", action="store_true", help="count what each plugin decided")
    return parser.parse_args()


class _Nobody:
    """Stands where Stowage would when only the generator is checked."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _judge(family: str) -> Any:
    return running(oracle_command(*FLAGS.get(family, ())))


def _ours(arguments: argparse.Namespace, family: str) -> Any:
    if arguments.oracle_only:
        return _Nobody()
    return running(stowage_command(*FLAGS.get(family, ())))


def _run_family(
    family: str,
    seeds: range,
    oracle: Answerer,
    stowage: Answerer | None,
    progress: Progress = no_progress,
) -> Tally:
    tally = Tally()
    for seed, admitted in zip(seeds, pipelined(oracle, _cases(family, seeds)), strict=True):
        progress((seed - seeds.start) / len(seeds))
        if admitted.get("invalid"):
            tally.invalid += 1
            _print_limited(tally.invalid, f"{family}:{seed} is invalid: {admitted['invalid'][0]}")
            continue
        tally.count(admitted["answer"])
        if stowage is None:
            continue
        stowage.send({key: admitted[key] for key in ("config", "objects") if key in admitted})
        differences = compare(admitted["answer"], stowage.receive(), admitted["objects"])
        flags = FLAGS.get(family, ())
        if not (differences or admitted["answer"].get("error")):
            # A configuration that is refused chooses nothing.
            differences = choice_differences(admitted, admitted["answer"], flags)[0]
        if differences and _contradicts_itself(family, seed, admitted):
            tally.undecided += 1
        elif differences:
            tally.differing += 1
            tally.kinds.update(difference.kind for difference in differences)
            _print_limited(tally.differing, f"{family}:{seed} {differences[0]}")
    return tally


def _run_as_written(family: str, seeds: range, oracle: Answerer, stowage: Answerer) -> Tally:
    tally = Tally()
    for seed, admitted in zip(seeds, pipelined(oracle, _cases(family, seeds)), strict=True):
        if admitted.get("invalid"):
            tally.invalid += 1
            continue
        tally.count(admitted["answer"])
        case = as_written(make_case(family, seed))
        stowage.send(case)
        differences = compare(admitted["answer"], stowage.receive(), case["objects"])
        if differences and _contradicts_itself(family, seed, admitted):
            tally.undecided += 1
        elif differences:
            tally.differing += 1
            _print_limited(tally.differing, f"{family}:{seed} {differences[0]}")
    return tally


def as_written(case: Any) -> Any:
    """A case as people write it; only UIDs that other objects name are there.

    Pods with label keys in their affinity have none: they are still to be created.
    """
    case = copy.deepcopy(case)
    created = {}
    for raw in case["objects"]:
        meta = raw["metadata"]
        name = f"{meta.get('namespace', 'default')}/{meta['name']}"
        if raw["kind"] == "Pod" and "atchLabelKeys" in str(raw["spec"].get("affinity")):
            created[f"Pod/{name}"] = name
        elif raw["kind"] in ("Pod", "PersistentVolumeClaim"):
            meta["uid"] = f"{raw['kind']}/{name}"
    for raw in case["objects"]:
        for owner in raw["metadata"].get("ownerReferences") or ():
            owner["uid"] = created.get(owner["uid"], owner["uid"])
    return case


def _contradicts_itself(family: str, seed: int, admitted: Any) -> bool:
    answer, objects = admitted["answer"], admitted["objects"]
    with _judge(family) as oracle:
        for _ in range(REPEATED):
            oracle.send(make_case(family, seed))
            # It gives reasons in any order, which is no contradiction.
            if compare(answer, oracle.receive()["answer"], objects):
                print(f"{family}:{seed} the judge contradicts itself", flush=True)
                return True
    return False


def _cases(family: str, seeds: range) -> Iterator[object]:
    for seed in seeds:
        yield make_case(family, seed)


def _print_limited(count: int, line: str) -> None:
    if count <= PRINTED:
        print(line, flush=True)


def _print_tally(family: str, tally: Tally, *, verbose: bool) -> None:
    print(
        f"{family}: {tally.cases} cases, {tally.pods} pods, {tally.nodes} verdicts on nodes"
        f" ({tally.feasible} feasible), {tally.differing} cases differ",
        *([f"{tally.invalid} invalid cases"] if tally.invalid else []),
        *([f"{tally.undecided} undecided"] if tally.undecided else []),
        *([f"{tally.failed} errors of kube-scheduler"] if tally.failed else []),
        *([str(dict(tally.kinds))] if tally.kinds else []),
        sep=", ",
        flush=True,
    )
    if verbose:
        for plugin, count in tally.plugins.most_common():
            print(f"    {count:8} {plugin}")


def _dump(name: str) -> int:
    family, _, seed = name.rpartition(":")
    with _judge(family) as oracle:
        oracle.send(make_case(family, int(seed)))
        admitted = oracle.receive()
    json.dump(admitted, sys.stdout, indent=1)
    if not admitted.get("invalid"):
        with running(stowage_command(*FLAGS.get(family, ()))) as stowage:
            stowage.send({key: admitted[key] for key in ("config", "objects") if key in admitted})
            actual = stowage.receive()
        json.dump(actual, sys.stdout, indent=1)
        print()
        print(*compare(admitted["answer"], actual, admitted["objects"]), sep="\n")
        flags = FLAGS.get(family, ())
        print(*choice_differences(admitted, admitted["answer"], flags)[0], sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
