"""Changes a recorded cluster for a what-if: more or fewer nodes, from the first event.

An added node runs the same pods of DaemonSets and static pods as the node that it is like, and has
the same devices.
"""

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.api.devices import ResourceSlice
from scheduler.api.objects import Node, is_terminal
from scheduler.api.pods import PodInfo
from scheduler.daemon.recording.records import Record
from scheduler.kernel.answers.hypothetical_nodes import copy_on
from scheduler.kernel.devices.table import slices_like
from scheduler.kernel.engine.events import Event, ObjectGone, ObjectSet
from scheduler.tools.offline.hypothetical_changes import MAX_ADDED, node_like, pending
from scheduler.tools.offline.reading import InputError

_SLICES: Final = "resourceslices"


class NodeChanges(msgspec.Struct, frozen=True):
    """Changes to the nodes of a recording.

    Attributes:
        name: the requested change as text; empty for the recorded cluster.
        added: by name of a node, the number of additional nodes like it while it exists.
        removed: patterns (`old-*`) of nodes to leave out.
    """

    name: str = ""
    added: dict[str, int] = {}
    removed: tuple[str, ...] = ()

    def applied(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of the changed cluster, in order.

        A pod that is first seen on a removed node arrives pending instead.

        Raises:
            InputError: at the end, if the recording has none of the nodes of a change.
        """
        seen: set[str] = set()
        for record in self._with_devices(self._with_tied(self._with_displaced(records))):
            match record.event:
                case ObjectSet(kind="nodes" | "csinodes" as kind, object=found):
                    name = found.metadata.name
                    seen.add(name)
                    if not self._is_removed(name):
                        yield record
                    for copy in self._copies(name):
                        yield replace(record, event=ObjectSet(kind, _like(found, copy)), answer=b"")
                case ObjectGone(kind="nodes" | "csinodes", name=name):
                    if not self._is_removed(name):
                        yield record
                    for copy in self._copies(name):
                        gone = replace(record.event, name=copy, uid=f"{name}-{copy}")
                        yield replace(record, event=gone, answer=b"")
                case _:
                    yield record
        self._check(seen)

    def _with_tied(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records, and those of the pods that are tied to added nodes."""
        tied: dict[str, PodInfo] = {}
        """The pods that added nodes have as well, by UID."""
        for record in records:
            yield record
            match record.event:
                case ObjectSet(kind="pods", object=pod) if self._is_tied(pod):
                    tied[pod.uid] = pod
                    for node in self._copies(pod.node_name):
                        event = ObjectSet("pods", copy_on(node, pod))
                        yield replace(record, event=event, answer=b"")
                case ObjectGone(kind="pods", uid=uid) if uid in tied:
                    pod = tied.pop(uid)
                    for node in self._copies(pod.node_name):
                        copy = copy_on(node, pod)
                        gone = replace(record.event, name=copy.name, uid=copy.uid)
                        yield replace(record, event=gone, answer=b"")

    def _is_tied(self, pod: PodInfo) -> bool:
        return pod.node_name in self.added and pod.is_tied_to_node

    def _with_devices(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records, and those of the slices that added nodes publish."""
        published: dict[str, ResourceSlice] = {}
        copied: dict[str, ResourceSlice] = {}
        for record in records:
            yield record
            if not self._note_slice(record.event, published):
                continue
            wanted = {
                each.metadata.name: each
                for node in self.added
                for copy in self._copies(node)
                for each in slices_like(published.values(), node, copy)
            }
            for name in copied.keys() - wanted.keys():
                yield replace(record, event=ObjectGone(_SLICES, "", name, ""), answer=b"")
            for name, each in wanted.items():
                if copied.get(name) != each:
                    yield replace(record, event=ObjectSet(_SLICES, each), answer=b"")
            copied = wanted

    def _note_slice(self, event: Event, published: dict[str, ResourceSlice]) -> bool:
        """Update the slices on which copies depend, by name; return whether they changed."""
        match event:
            case ObjectSet(kind=kind, object=found) if kind == _SLICES:
                was = published.pop(found.metadata.name, None)
                spec = found.spec
                is_copied = spec.node_name in self.added if spec.node_name else spec.shared_counters
                if is_copied:
                    published[found.metadata.name] = found
                return bool(is_copied) or was is not None
            case ObjectGone(kind=kind, name=name) if kind == _SLICES:
                return published.pop(name, None) is not None
        return False

    def _with_displaced(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records; pods that are first seen on a removed node have none."""
        known: set[str] = set()
        for record in records:
            match record.event:
                case ObjectSet(kind="pods", object=pod) if pod.uid not in known:
                    known.add(pod.uid)
                    if self._displaces(pod):
                        yield replace(record, event=ObjectSet("pods", pending(pod)))
                        continue
            yield record

    def _displaces(self, pod: PodInfo) -> bool:
        if not pod.node_name or not self._is_removed(pod.node_name):
            return False
        return not pod.is_tied_to_node and not pod.is_terminating and not is_terminal(pod.pod)

    def _check(self, names: Collection[str]) -> None:
        missing = [name for name in self.added if name not in names]
        missing += (
            pattern
            for pattern in self.removed
            if not any(fnmatchcase(name, pattern) for name in names)
        )
        if missing:
            raise InputError(
                f"--what-if {self.name}: the recording has no node {', '.join(missing)}"
            )

    def _is_removed(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.removed)

    def _copies(self, name: str) -> Iterator[str]:
        return (f"{name}-new-{number}" for number in range(self.added.get(name, 0)))


AS_IT_WAS: Final = NodeChanges()


def parse_what_if(text: str) -> NodeChanges:
    """Parse `add=NODE:COUNT` and `remove=PATTERN`, separated by commas.

    Raises:
        InputError: the text has another form.
    """
    added: dict[str, int] = {}
    removed: list[str] = []
    for part in text.split(","):
        verb, _, what = part.partition("=")
        node, _, count = what.rpartition(":")
        is_text = part.isprintable()
        if verb == "remove" and what and is_text:
            removed.append(what)
        elif verb == "add" and node and is_text and count.isascii() and count.isdigit():
            if int(count) > MAX_ADDED:
                raise InputError(f"--what-if {text}: at most {MAX_ADDED} nodes are added")
            if node in added:
                raise InputError(f"--what-if {text}: node {node} is given twice")
            added[node] = int(count)
        else:
            raise InputError(
                f"--what-if {text}: expected add=NODE:COUNT or remove=PATTERN, found {part!r}"
            )
    return NodeChanges(text, added, tuple(removed))


def _like(found: Any, name: str) -> Any:
    if isinstance(found, Node):
        return node_like(found, name)
    return replace(found, metadata=replace(found.metadata, name=name, uid=f"{name}-csi"))
