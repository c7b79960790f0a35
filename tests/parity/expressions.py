"""Compare verdicts of expressions about devices with those of kube-scheduler's own evaluator.

    python -m tests.parity.expressions --seeds 0:12500     # eight devices each: 100,000 pairs

Compared are whether an expression is refused, and for each device whether it matches, does not, or
fails; with `--texts` also what is said of a failure. Prints counts and every difference with its
seed, and exits 1 when there is any. `--show SEED` prints a question and both answers instead.
"""

import argparse
import json
import sys
from collections import Counter
from typing import Any

from scheduler.kernel.cel import ERROR, TRUE, CompileError, compile_expression
from tests.parity.answering import oracle_command, pipelined, running
from tests.parity.generator.draw import Object
from tests.parity.generator.expressions import make_question
from tests.support.devices import devices

PRINTED = 40


def expressions_command() -> list[str]:
    """Return the command line of the oracle that evaluates expressions."""
    return [*oracle_command(admit=False), "-cel"]


def own_answer(question: Object) -> Object:
    """Answer a question as the oracle does."""
    try:
        program = compile_expression(question["expression"])
    except CompileError as error:
        return {"refused": str(error), "verdicts": []}
    table = devices(question["devices"])
    found = program.evaluate(table)
    verdicts: list[Object] = []
    for index, code in enumerate(found.codes.tolist()):
        verdict: Object = {"match": code == TRUE}
        if code == ERROR:
            verdict["error"] = found.error(index)
        verdicts.append(verdict)
    return {"verdicts": verdicts}


def differences(theirs: Object, ours: Object, *, texts: bool = False) -> list[str]:
    """Say where two answers part."""
    if theirs.get("error"):
        return [f"the oracle says {theirs['error']}"]
    if ("refused" in theirs) != ("refused" in ours):
        return [f"refused: expected {theirs.get('refused')!r}, got {ours.get('refused')!r}"]
    return [
        f"device {index}: expected {_text(one)}, got {_text(two)}"
        for index, (one, two) in enumerate(zip(theirs["verdicts"], ours["verdicts"], strict=True))
        if _kind(one) != _kind(two) or (texts and one.get("error") != two.get("error"))
    ]


def _kind(verdict: Object) -> str:
    return "error" if "error" in verdict else str(verdict["match"])


def _text(verdict: Object) -> str:
    return f"error {verdict['error']!r}" if "error" in verdict else str(verdict["match"])


def main() -> int:
    """Ask both about all seeds and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2000", metavar="A:B")
    parser.add_argument("--texts", action="store_true", help="compare what is said of failures")
    parser.add_argument("--show", type=int, metavar="SEED")
    arguments = parser.parse_args()
    if arguments.show is not None:
        return _show(arguments.show)
    first, last = (int(part) for part in arguments.seeds.split(":"))
    tally: Counter[str] = Counter()
    differing = 0
    with running(expressions_command()) as oracle:
        questions = [make_question(seed) for seed in range(first, last)]
        answers = pipelined(oracle, questions)
        for seed, question, theirs in zip(range(first, last), questions, answers, strict=True):
            ours = own_answer(question)
            tally["refused" if "refused" in theirs else "compiled"] += 1
            tally.update(f"pairs: {_kind(verdict)}" for verdict in theirs["verdicts"])
            found = differences(theirs, ours, texts=arguments.texts)
            differing += bool(found)
            if found and differing <= PRINTED:
                print(f"{seed}: {question['expression']}\n    {found[0]}")
    print(", ".join(f"{name} {count}" for name, count in sorted(tally.items())))
    print(f"{differing} of {last - first} expressions differ")
    return 1 if differing else 0


def _show(seed: int) -> int:
    question = make_question(seed)
    with running(expressions_command()) as oracle:
        theirs: list[Any] = list(pipelined(oracle, [question]))
    for thing in (question, theirs[0], own_answer(question)):
        print(json.dumps(thing, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
