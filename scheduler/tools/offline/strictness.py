"""Warnings of likely mistakes in the input: fields, kinds and nodes that do not exist.

An API server warns of unknown fields and drops them; scheduling would never notice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.config.walker import nearest


class _Known(msgspec.Struct, frozen=True):
    """The API as far as it is read; `python -m tests.unit.offline.known_fields` writes it.

    Attributes:
        kinds: the names of Kubernetes' own kinds.
        types: by type, its fields, each with its type or the type of its items (or nothing).
    """

    kinds: frozenset[str]
    types: dict[str, dict[str, str]]


_FIELDS: Final = "fields.json"
_NAMED: Final = 3
_NOT_SUPPORTED: Final[Mapping[str, str]] = {"CompositePodGroup": "composite pod groups"}
"""Kinds that kube-scheduler decides by and that are not read here."""


@cache
def _known() -> _Known:
    text = files("scheduler.tools.offline").joinpath(_FIELDS).read_bytes()
    return msgspec.json.decode(text, type=_Known)


def unknown_fields(raw: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Yield the fields of an object that its kind does not have, with a guess of each right name.

    Objects from an API server have none: it has dropped such fields itself.
    """
    metadata = raw.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("resourceVersion"):
        return
    known = f"V1{kind}"
    if is_core(str(raw.get("apiVersion", ""))) and known in _known().types:
        yield from _unknown(raw, known, "")


def is_core(api_version: str) -> bool:
    """Whether an API is one of Kubernetes' own, judged by its name."""
    group = api_version.rpartition("/")[0]
    return "." not in group or group.endswith(".k8s.io")


def unknown_kind(kind: str, *, is_core: bool) -> str | None:
    """Describe a mistake in a kind that is not read; None if leaving it out is expected.

    `is_core`: whether its API is one of Kubernetes' own.
    """
    kinds = _known().kinds
    if is_core and kind in _NOT_SUPPORTED:
        return f"{kind}: {_NOT_SUPPORTED[kind]} are not supported by this scheduler: left out"
    if is_core and kind in kinds:
        return None
    if not is_core:
        return f"{kind} is a kind of another API, which scheduling does not read: left out"
    return f"{kind} is not a kind of Kubernetes{_guess(kind, kinds)}: left out"


def missing_nodes(nodes: Sequence[Node], pods: Iterable[PodInfo]) -> Iterator[str]:
    """The nodes that pods are on and that are not there; or that there are none at all."""
    if not nodes:
        yield "there are no nodes: no pod can have one"
        return
    known = {node.metadata.name for node in nodes}
    missing: dict[str, list[str]] = {}
    for pod in pods:
        if pod.node_name and pod.node_name not in known:
            missing.setdefault(pod.node_name, []).append(pod.key)
    for name, on_it in sorted(missing.items()):
        more = f" and {len(on_it) - _NAMED} more" if len(on_it) > _NAMED else ""
        listed = ", ".join(sorted(on_it)[:_NAMED])
        yield f"there is no node {name}, on which there are pods: {listed}{more}"


def _unknown(value: Any, type_: str, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _unknown(item, type_, f"{path}[{i}]")
        return
    if not isinstance(value, Mapping):
        return
    fields = _known().types[type_]
    for key, item in value.items():
        below = fields.get(key)
        if below == "":
            continue
        at = f"{path}.{key}" if path else str(key)
        if below is None:
            yield f"{at}: unknown field{_guess(str(key), fields)}"
        else:
            yield from _unknown(item, below, at)


def _guess(word: str, known: Mapping[str, str] | frozenset[str]) -> str:
    similar = nearest(word, known)
    return f" (did you mean {similar}?)" if similar is not None else ""
