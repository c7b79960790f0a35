"""Parses the changes requested from `what-if`, in the notation of its options and its page."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.kernel.framework.events import ObjectKind
from scheduler.tools.offline import edited_objects, hypothetical_changes
from scheduler.tools.offline.admission import Admission
from scheduler.tools.offline.reading import ClusterObjects, InputError, objects_beside
from scheduler.tools.offline.what_if import HypotheticalChange
from scheduler.tools.offline.workload_names import workload_parts

_MOST_DIGITS: Final = 9

Reader: TypeAlias = Callable[[ClusterObjects], ClusterObjects]
"""Reads a submitted file beside a cluster."""


class AddedNodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of nodes like another one."""

    count: int
    like: str


def changes_of(  # noqa: PLR0913 - one argument per option
    *,
    drained: Sequence[str] = (),
    taints: Sequence[str] = (),
    added: Sequence[AddedNodes] = (),
    scaled: Sequence[str] = (),
    deleted: Sequence[str] = (),
    uncordoned: Sequence[str] = (),
    labelled: Sequence[str] = (),
    tolerated: Sequence[str] = (),
) -> list[HypotheticalChange]:
    """Parse the requested changes, and return them in the order of execution.

    Raises:
        InputError: a change cannot be parsed, is too large, or undoes another one.
    """
    changes: list[HypotheticalChange] = [
        *(partial(hypothetical_changes.drain, name=name) for name in drained),
        *(partial(hypothetical_changes.remove_taint, taint=taint) for taint in taints),
        *map(_adding, added),
        *map(_scaling, scaled),
        *(partial(hypothetical_changes.delete, what=each) for each in deleted),
        *(partial(edited_objects.uncordon, name=name) for name in uncordoned),
        *(partial(edited_objects.label, text=each) for each in labelled),
        *(partial(edited_objects.tolerate, text=each) for each in tolerated),
    ]
    _check_once("--scale", scaled, _is_same_workload)
    _check_once("--label", labelled, _is_same_label)
    return changes


def readers_of(
    files: Iterable[Sequence[tuple[str, Any]]],
    cluster: ClusterObjects,
    admission: Admission,
    watched: Iterable[ObjectKind],
) -> list[Reader]:
    """Return a reader for the documents of each file; a file may use the classes of earlier ones.

    Each file is read once here, so that its mistakes are reported before anything is computed.

    Raises:
        InputError: a document cannot be read.
    """
    readers: list[Reader] = []
    for documents in files:
        admission = objects_beside(cluster, documents, admission, watched).admission
        readers.append(
            partial(objects_beside, documents=documents, admission=admission, watched=watched)
        )
    return readers


def applying(read: Reader) -> HypotheticalChange:
    """Return the change that applies a file; it is read beside the cluster as changed so far."""
    return lambda objects: hypothetical_changes.apply(objects, read(objects))


def _check_once(option: str, texts: Sequence[str], is_same: Callable[[str, str], bool]) -> None:
    """Refuse two values for the same thing: the last one would win in silence.

    Raises:
        InputError: there are two.
    """
    for one, other in combinations(texts, 2):
        if is_same(one, other):
            raise InputError(f"{option} {other}: {option} {one} is given too, expected one of them")


def _is_same_workload(one: str, other: str) -> bool:
    """Return whether two texts `KIND/[NAMESPACE/]NAME=N` may name one workload."""
    parts = (workload_parts(text.rpartition("=")[0], f"--scale {text}") for text in (one, other))
    return all(each == its or "" in (each, its) for each, its in zip(*parts, strict=True))


def _is_same_label(one: str, other: str) -> bool:
    """Return whether two texts `NODE:KEY=VALUE` or `NODE:KEY-` name one label of a node."""
    name, other_name = (text.partition("=")[0].removesuffix("-") for text in (one, other))
    return name == other_name


def _adding(added: AddedNodes) -> HypotheticalChange:
    most = hypothetical_changes.MAX_ADDED
    if not 1 <= added.count <= most:
        raise InputError(f"--add-nodes {added.count}: expected 1 to {most} nodes")
    return partial(hypothetical_changes.add_nodes, count=added.count, like=added.like)


def _scaling(text: str) -> HypotheticalChange:
    workload, has_number, number = text.rpartition("=")
    if not has_number or not number.isascii() or not number.isdigit():
        raise InputError(f"--scale {text}: expected KIND/[NAMESPACE/]NAME=N")
    most = hypothetical_changes.MAX_ADDED
    # Python refuses to read thousands of digits.
    if len(number) > _MOST_DIGITS or int(number) > most:
        raise InputError(f"--scale {text}: expected at most {most} pods")
    return partial(hypothetical_changes.scale, workload=workload, replicas=int(number))
