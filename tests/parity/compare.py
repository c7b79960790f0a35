"""Compare two answers to one case: the oracle's and ours.

Everything a user can see is compared: who is feasible, which plugin rejects with which code and
reasons, each plugin's normalised and weighted score, totals, the devices that claims would get,
messages, and the verdicts before nodes are looked at. Reasons are a set: kube-scheduler itself
gives extended resources in random order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from tests.parity.equally_good import equally_good

Answer = dict[str, Any]
"""One line of `stowage explain --jsonl -o json`."""


@dataclass(frozen=True)
class Difference:
    """One field in which two answers disagree."""

    where: str
    """Pod, node and field, as in `default/p n1 scores.NodeAffinity weighted`."""
    kind: str
    """The field's name, for counting: `plugin`, `code`, `weighted`, …"""
    expected: object
    actual: object

    @override
    def __str__(self) -> str:
        """Say where the answers part."""
        return f"{self.where}: expected {self.expected!r}, got {self.actual!r}"


def compare(expected: Answer, actual: Answer, objects: Sequence[Answer] = ()) -> list[Difference]:
    """Return every difference between the oracle's answer and ours.

    The objects that were asked about tell which nodes preemption may choose from by chance.
    """
    return list(_answers(expected, actual, objects))


def _answers(expected: Answer, actual: Answer, objects: Sequence[Answer]) -> Iterator[Difference]:
    if bool(expected.get("error")) != bool(actual.get("error")):
        yield Difference("case", "error", expected.get("error"), actual.get("error"))
        return
    theirs, ours = _by_key(expected["pods"], "pod"), _by_key(actual["pods"], "pod")
    for name in sorted(theirs.keys() | ours.keys()):
        if name not in ours or name not in theirs:
            yield Difference(name, "pod", name in theirs, name in ours)
        else:
            yield from _pods(name, theirs[name], ours[name])
            yield from _preemption(name, theirs[name], ours[name], objects)
    yield from _repeated(expected["pods"], actual["pods"], "pod", "case")


def _pods(name: str, expected: Answer, actual: Answer) -> Iterator[Difference]:
    if bool(expected.get("error")) != bool(actual.get("error")):
        yield Difference(name, "error", expected.get("error"), actual.get("error"))
        return
    for field in ("profile", "message"):
        yield from _field(name, field, expected.get(field), actual.get(field))
    for field in ("preEnqueue", "preFilter"):
        yield from _verdict(f"{name} {field}", field, expected[field], actual.get(field))
    theirs, ours = _by_key(expected["nodes"], "node"), _by_key(actual["nodes"], "node")
    for node in sorted(theirs.keys() | ours.keys()):
        where = f"{name} {node}"
        if node not in ours or node not in theirs:
            yield Difference(where, "node", node in theirs, node in ours)
        else:
            yield from _nodes(where, theirs[node], ours[node])
    yield from _repeated(expected["nodes"], actual["nodes"], "node", name)


def _preemption(
    name: str, expected: Answer, actual: Answer, objects: Sequence[Answer]
) -> Iterator[Difference]:
    theirs, ours = expected.get("preemption"), actual.get("preemption")
    if theirs is None or ours is None:
        if theirs is not ours:
            yield Difference(f"{name} preemption", "preemption", theirs, ours)
        return
    messages = (_errors(side["message"]) for side in (theirs, ours))
    yield from _field(f"{name} preemption", "message", *messages)
    found = _by_key(theirs["candidates"], "node"), _by_key(ours["candidates"], "node")
    for node in sorted(found[0].keys() | found[1].keys()):
        yield from _field(f"{name} {node}", "candidate", found[0].get(node), found[1].get(node))
    nodes = {theirs["nominatedNode"], ours["nominatedNode"]}
    if len(nodes) > 1 and not nodes <= equally_good(theirs["candidates"], objects):
        yield Difference(f"{name} nominatedNode", "nominatedNode", theirs, ours)
    for side in (theirs, ours):
        chosen = _by_key(side["candidates"], "node").get(side["nominatedNode"], {"victims": []})
        yield from _field(f"{name} preemption", "victims", chosen["victims"], side["victims"])


def _nodes(where: str, expected: Answer, actual: Answer) -> Iterator[Difference]:
    if expected["feasible"] != actual["feasible"]:
        yield Difference(f"{where} feasible", "feasible", _short(expected), _short(actual))
        return
    if not expected["feasible"]:
        yield from _verdict(where, "node", expected, actual)
        return
    theirs, ours = expected["scores"], actual["scores"]
    for plugin in sorted(theirs.keys() | ours.keys()):
        at = f"{where} scores.{plugin}"
        if plugin not in ours or plugin not in theirs:
            yield Difference(at, "scores", theirs.get(plugin), ours.get(plugin))
            continue
        for field in ("normalized", "weighted"):
            yield from _field(at, field, theirs[plugin][field], ours[plugin][field])
    yield from _field(where, "total", expected["total"], actual["total"])
    yield from _field(where, "devices", expected.get("devices"), actual.get("devices"))


def _verdict(
    where: str, kind: str, expected: Answer | None, actual: Answer | None
) -> Iterator[Difference]:
    """Compare two rejections, either of which may be missing."""
    if expected is None or actual is None:
        if expected is not actual:
            yield Difference(where, kind, expected, actual)
        return
    yield from _field(where, "plugin", expected["plugin"], actual["plugin"])
    if kind != "preEnqueue":
        yield from _field(where, "code", expected["code"], actual["code"])
    yield from _field(where, "reasons", sorted(expected["reasons"]), sorted(actual["reasons"]))


def _field(where: str, kind: str, expected: object, actual: object) -> Iterator[Difference]:
    # A score of 50.0 would print differently: types are part of the format.
    if expected != actual or type(expected) is not type(actual):
        yield Difference(f"{where} {kind}", kind, expected, actual)


def _errors(message: str) -> list[str]:
    """The parts of an aggregated error: candidates are tried in the order of a Go map."""
    is_aggregated = message.startswith("[") and message.endswith("]")
    return sorted(message[1:-1].split(", ")) if is_aggregated else [message]


def _repeated(
    expected: list[Answer], actual: list[Answer], key: str, where: str
) -> Iterator[Difference]:
    if len(expected) != len(actual) and {e[key] for e in expected} == {a[key] for a in actual}:
        yield Difference(where, key, len(expected), len(actual))


def _by_key(entries: list[Answer], key: str) -> dict[str, Answer]:
    return {entry[key]: entry for entry in entries}


def _short(node: Answer) -> str:
    if node["feasible"]:
        return "feasible"
    return f"{node['plugin']}: {', '.join(node['reasons'])}"
