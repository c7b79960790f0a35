"""Field types by name, read once from the generated table."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from scheduler.sandbox.schema.fields import FIELDS

LIST: Final = "[]"
MAP: Final = "{}"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a type, and how patches merge its value."""

    name: str
    type_text: str
    """The type in the notation of the table, such as `[]core.Container`."""
    proto_path: tuple[int, ...]
    """The field's number in protobuf, after those of the messages it is inlined from."""
    merge_key: str = ""
    """The field that identifies a list's items; empty where lists are replaced."""
    merges_primitives: bool = False
    """Whether a list of plain values is merged as a set."""
    retains_keys: bool = False
    """Whether a patch may name the only keys that stay (a union type)."""
    apply_keys: tuple[str, ...] = ()
    """The fields that identify a list's items in server-side apply."""
    atomic: bool = False
    """Whether a map is replaced as a whole by server-side apply."""

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return self.type_text.startswith(LIST)

    @property
    def inner(self) -> str:
        """The type of the value, or of the items of a list or map of it."""
        return self.type_text.removeprefix(LIST).removeprefix(MAP)


ObjectType = Mapping[str, Field]
_UNKNOWN: Final[ObjectType] = {}


@cache
def all_types() -> Mapping[str, ObjectType]:
    """Every type of the table by name."""
    types: dict[str, dict[str, Field]] = {}
    current: dict[str, Field] = {}
    for line in FIELDS.strip().splitlines():
        if line.startswith(" "):
            field = _field(line.split())
            current[field.name] = field
        else:
            current = types[line] = {}
    return types


def object_type(name: str) -> ObjectType:
    """The fields of a type; none for a scalar or a type whose inside is not known."""
    return all_types().get(name, _UNKNOWN)


def _field(words: list[str]) -> Field:
    name, type_text, numbers, *notes = words
    named = dict(note.split("=", 1) for note in notes if "=" in note)
    keys = tuple((named.get("merge") or named.get("keys") or "").split(","))
    keys = keys if keys[0] else ()
    return Field(
        name=name,
        type_text=type_text,
        proto_path=tuple(map(int, numbers.split("."))),
        merge_key=keys[0] if "merge" in named else "",
        merges_primitives="merge" in notes,
        retains_keys="retain" in notes,
        apply_keys=keys,
        atomic="atomic" in notes,
    )
