"""Record cases with the oracle's answers, for the tests that run without Go.

    python -m tests.parity.record [FAMILY]...

Rewrites `tests/parity/recorded/`. The seeds differ from those `tests.parity.run` starts with, so
that the recorded cases add to a run instead of repeating it.
"""

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.parity import history
from tests.parity.answering import oracle_command, pipelined, running
from tests.parity.expressions import expressions_command
from tests.parity.generator.expressions import make_question
from tests.parity.generator.families import FAMILIES, FLAGS, make_case
from tests.parity.generator.histories import make_history_case
from tests.parity.generator.history_both import make_both_history_case
from tests.parity.generator.history_claims import make_claims_history_case
from tests.parity.generator.history_devices import (
    make_devices_history_case,
    make_wide_history_case,
)
from tests.parity.generator.history_extenders import make_extenders_history_case
from tests.parity.generator.history_groups import (
    make_groups_history_case,
    make_racks_history_case,
    make_whole_history_case,
)
from tests.parity.generator.history_more import make_more_history_case
from tests.parity.generator.history_profiles import make_profiles_history_case
from tests.parity.generator.history_sampling import make_sampling_history_case
from tests.parity.generator.history_volumes import make_volumes_history_case
from tests.parity.generator.worked import WORKED, worked_case
from tests.parity.groups import (
    GATES,
    MAKES,
    WITH_EXTENDERS,
    WITH_TOPOLOGY,
    WITH_VOLUMES,
    Makes,
    groups_command,
    judged,
    question,
)
from tests.parity.hints import FAMILIES as HINT_FAMILIES, hints_command, make_questions
from tests.parity.sampling import make_sampling_case, sampling_command

RECORDED = Path(__file__).parent / "recorded"
FIRST_SEED = 1_000_000
CASES = 40
"""Cases per family."""
FEWER = {"devices-wide": 20, "odd-extenders": 20, "in-tree": 20, "everything-preempts": 10}
"""Families with fewer cases."""
SAMPLING = "sampling"
"""The file of the recorded searches among many nodes."""
SAMPLING_CASES = 12
WORKED_OUT = "worked"
"""The file of the clusters made by hand."""
HINTS = "hints"
"""The file of the recorded questions about queueing hints."""
HINT_CASES = 4
"""Cases with questions about queueing hints per family."""
GROUPS = "groups"
"""The file of the recorded attempts of single pods and pod groups."""
ASKING = "groups-asking"
"""The same with extenders, in racks."""
VOLUME_GROUPS = "groups-volumes"
"""The same with volumes."""
ALL_GROUPS: Mapping[str, tuple[Sequence[str], Makes]] = {
    GROUPS: (GATES, MAKES),
    ASKING: (WITH_TOPOLOGY, WITH_EXTENDERS),
    VOLUME_GROUPS: (GATES, WITH_VOLUMES),
}
HISTORIES = "histories"
"""The file of the recorded histories."""
HISTORY_CASES = 16
FEWER_HISTORIES = {"histories-sampling": 3}
"""Kinds of histories with fewer cases."""
CLAIM_HISTORIES = "histories-claims"
"""The same with resource claims."""
DEVICE_HISTORIES = "histories-devices"
"""The same with all sorts of devices."""
WIDE_HISTORIES = "histories-wide"
"""The same with pools that several nodes publish together."""
VOLUME_HISTORIES = "histories-volumes"
"""The same with volumes."""
BOTH_HISTORIES = "histories-both"
"""The same with resource claims and volumes."""
MORE_HISTORIES = "histories-more"
"""The same with more resources and odd values."""
PROFILE_HISTORIES = "histories-profiles"
"""The same with several profiles, and nodes that start."""
EXTENDER_HISTORIES = "histories-extenders"
"""The same with extenders."""
SAMPLING_HISTORIES = "histories-sampling"
"""The same with samples of many nodes."""
GROUP_HISTORIES = "histories-groups"
"""The same with pod groups."""
RACK_HISTORIES = "histories-racks"
"""The same with pod groups that must run in racks."""
WHOLE_HISTORIES = "histories-whole"
"""The same with pod groups that preempt as a whole."""
ALL_HISTORIES: Mapping[str, Callable[[int], Any]] = {
    HISTORIES: make_history_case,
    CLAIM_HISTORIES: make_claims_history_case,
    DEVICE_HISTORIES: make_devices_history_case,
    WIDE_HISTORIES: make_wide_history_case,
    VOLUME_HISTORIES: make_volumes_history_case,
    BOTH_HISTORIES: make_both_history_case,
    MORE_HISTORIES: make_more_history_case,
    PROFILE_HISTORIES: make_profiles_history_case,
    EXTENDER_HISTORIES: make_extenders_history_case,
    SAMPLING_HISTORIES: make_sampling_history_case,
    GROUP_HISTORIES: make_groups_history_case,
    RACK_HISTORIES: make_racks_history_case,
    WHOLE_HISTORIES: make_whole_history_case,
}
EXPRESSIONS = "expressions"
"""The file of the recorded expressions about devices."""
EXPRESSION_CASES = 1000
"""Expressions recorded, each about eight devices."""


def main() -> int:
    """Record every family, or those named; `worked` is that of the clusters made by hand."""
    RECORDED.mkdir(exist_ok=True)
    families = sys.argv[1:] or [
        *FAMILIES,
        WORKED_OUT,
        EXPRESSIONS,
        *ALL_GROUPS,
        SAMPLING,
        HINTS,
        *ALL_HISTORIES,
    ]
    for name, (gates, makes) in ALL_GROUPS.items():
        if name in families:
            families.remove(name)
            _record_groups(name, gates, makes)
    for name, make in ALL_HISTORIES.items():
        if name in families:
            families.remove(name)
            _record_histories(name, make)
    if EXPRESSIONS in families:
        families.remove(EXPRESSIONS)
        _record_expressions()
    if WORKED_OUT in families:
        families.remove(WORKED_OUT)
        _record_worked()
    if SAMPLING in families:
        families.remove(SAMPLING)
        _record_sampling()
    if HINTS in families:
        families.remove(HINTS)
        _record_hints()
    for family in families:
        with running(oracle_command(*FLAGS.get(family, ()))) as oracle:
            seeds = range(FIRST_SEED, FIRST_SEED + FEWER.get(family, CASES))
            answers = pipelined(oracle, (make_case(family, seed) for seed in seeds))
            lines = [_line(seed, admitted) for seed, admitted in zip(seeds, answers, strict=True)]
            _write(family, lines)
    return 0


def _record_hints() -> None:
    with running(hints_command()) as oracle:
        lines = []
        for family in HINT_FAMILIES:
            seeds = range(FIRST_SEED, FIRST_SEED + HINT_CASES)
            answers = pipelined(oracle, (make_questions(family, seed) for seed in seeds))
            lines.extend(
                json.dumps({"seed": f"{family}:{seed}", **admitted}, separators=(",", ":")) + "\n"
                for seed, admitted in zip(seeds, answers, strict=True)
            )
        _write(HINTS, lines)


def _record_sampling() -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + SAMPLING_CASES)
    with running(sampling_command()) as oracle:
        answers = pipelined(oracle, map(make_sampling_case, seeds))
        lines = [
            json.dumps({"seed": seed, **answer}, separators=(",", ":")) + "\n"
            for seed, answer in zip(seeds, answers, strict=True)
        ]
        _write(SAMPLING, lines)


def _record_expressions() -> None:
    with running(expressions_command()) as oracle:
        seeds = range(FIRST_SEED, FIRST_SEED + EXPRESSION_CASES)
        answers = pipelined(oracle, map(make_question, seeds))
        lines = [
            json.dumps({"seed": seed, **make_question(seed), **answer}, separators=(",", ":"))
            + "\n"
            for seed, answer in zip(seeds, answers, strict=True)
        ]
        _write(EXPRESSIONS, lines)


def _record_groups(name: str, gates: Sequence[str], makes: Makes) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + CASES)
    with running(groups_command(gates)) as oracle:
        lines = [
            json.dumps({"seed": seed, **asked, "groups": theirs}, separators=(",", ":")) + "\n"
            for seed, (case, ours, theirs) in zip(
                seeds, judged(oracle, seeds, gates, makes), strict=True
            )
            for asked in [question(case, ours)]
        ]
        _write(name, lines)


def _record_histories(name: str, make: Callable[[int], Any]) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + FEWER_HISTORIES.get(name, HISTORY_CASES))
    with running(history.history_command(name.removeprefix(f"{HISTORIES}-"))) as oracle:
        lines = [
            json.dumps({"seed": seed, **case, "history": theirs}, separators=(",", ":")) + "\n"
            for seed, (case, _, theirs) in zip(
                seeds, history.judged(oracle, seeds, make), strict=True
            )
        ]
        _write(name, lines)


def _record_worked() -> None:
    with running(oracle_command()) as oracle:
        answers = pipelined(oracle, map(worked_case, WORKED))
        pairs = zip(WORKED, answers, strict=True)
        _write(WORKED_OUT, [_line(make.__name__, admitted) for make, admitted in pairs])


def _write(name: str, lines: list[str]) -> None:
    # No time stamp in the header: the same cases make the same file.
    content = gzip.compress("".join(lines).encode(), 9, mtime=0)
    (RECORDED / f"{name}.jsonl.gz").write_bytes(content)
    print(f"{name}: {len(lines)} cases, {len(content)} bytes")


def _line(seed: int | str, admitted: dict[str, Any]) -> str:
    if admitted.get("invalid"):
        message = f"seed {seed} makes an invalid object: {admitted['invalid'][0]}"
        raise SystemExit(message)
    for pod in admitted["answer"]["pods"]:
        for node in pod["nodes"]:
            # Extended resources are named in random order; a recording is to be reproducible.
            node.get("reasons", []).sort()
    return json.dumps({"seed": seed, **admitted}, separators=(",", ":")) + "\n"


def recorded_cases(family: str) -> Iterator[dict[str, Any]]:
    """Read a family's recorded cases: `seed`, `config`, `objects` and `answer` or `questions`."""
    with gzip.open(RECORDED / f"{family}.jsonl.gz") as file:
        yield from map(msgspec.json.decode, file)


if __name__ == "__main__":
    sys.exit(main())
