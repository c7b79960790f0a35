"""Static types, and their assignability to one another.

Source: github.com/google/cel-go v0.26.0 checker/types.go, common/types/types.go.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from scheduler.kernel.cel.values import LISTS, Map, Value, kind_of


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its sort, its name, and its type parameters."""

    sort: str
    """simple, object, dyn, any, error, parameter, list, map, type or opaque."""
    name: str
    parameters: tuple["Type", ...] = ()

    @override
    def __str__(self) -> str:
        if self.sort == "parameter":
            return f"<{self.name}>"
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def is_dyn(self) -> bool:
        """Anything can be here; whether it fits is known at run time."""
        return self.sort in {"dyn", "any"}


def _simple(name: str) -> Type:
    return Type("simple", name)


BOOL: Final = _simple("bool")
INT: Final = _simple("int")
UINT: Final = _simple("uint")
DOUBLE: Final = _simple("double")
STRING: Final = _simple("string")
BYTES: Final = _simple("bytes")
NULL: Final = Type("null", "null_type")
TIMESTAMP: Final = Type("object", "google.protobuf.Timestamp")
DURATION: Final = Type("object", "google.protobuf.Duration")
DYN: Final = Type("dyn", "dyn")
ANY: Final = Type("any", "google.protobuf.Any")
ERROR: Final = Type("error", "*error*")
QUANTITY: Final = Type("object", "kubernetes.Quantity")
SEMVER: Final = Type("object", "kubernetes.Semver")
URL: Final = Type("object", "kubernetes.URL")
FORMAT: Final = Type("object", "kubernetes.NamedFormat")
IP: Final = Type("opaque", "net.IP")
CIDR: Final = Type("opaque", "net.CIDR")
DEVICE: Final = Type("object", "kubernetes.DRADevice")


def list_of(element: Type) -> Type:
    """The type of lists of something."""
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """The type of maps."""
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    """The type of optionals."""
    return Type("opaque", "optional_type", (value,))


def type_of(of: Type) -> Type:
    """The type of a type."""
    return Type("type", "type", (of,))


def parameter(name: str) -> Type:
    """A type that is found out from where it is used."""
    return Type("parameter", name)


def unwrap_optional(kind: Type) -> tuple[Type, bool]:
    """Return the element type of an optional, and whether the type was an optional."""
    if kind.sort == "opaque" and kind.name == "optional_type":
        return kind.parameters[0], True
    return kind, False


class Substitutions:
    """The current substitutions of type parameters."""

    def __init__(self) -> None:
        self._types: dict[Type, Type] = {}
        self._log: list[tuple[Type, Type | None]] = []
        self._fresh = 0

    def fresh(self) -> Type:
        """A parameter that nothing has used yet."""
        self._fresh += 1
        return parameter(f"_var{self._fresh}")

    def bind_if_assignable(self, ones: Sequence[Type], twos: Sequence[Type]) -> bool:
        """Tell whether each of `ones` is assignable to its partner; bind parameters if all are."""
        if len(ones) != len(twos):
            return False
        with self._attempt() as attempt:
            attempt.ok = all(self._fits(a, b) for a, b in zip(ones, twos, strict=True))
        return attempt.ok

    def resolve(self, kind: Type, *, final: bool = False) -> Type:
        """Replace parameters by their substitutions; if `final`, unknown ones by dyn."""
        while kind in self._types:
            kind = self._types[kind]
        if kind.sort == "parameter":
            return DYN if final else kind
        if not kind.parameters:
            return kind
        parts = tuple(self.resolve(part, final=final) for part in kind.parameters)
        return kind if parts == kind.parameters else Type(kind.sort, kind.name, parts)

    @contextmanager
    def _attempt(self) -> Iterator["_Attempt"]:
        mark, attempt = len(self._log), _Attempt()
        yield attempt
        if not attempt.ok:
            while len(self._log) > mark:
                key, before = self._log.pop()
                if before is None:
                    del self._types[key]
                else:
                    self._types[key] = before

    def _learn(self, key: Type, kind: Type) -> None:
        self._log.append((key, self._types.get(key)))
        self._types[key] = kind

    def _fits(self, one: Type, two: Type) -> bool:  # noqa: PLR0911 - one case per kind of type
        if two.sort == "parameter":
            valid, known = self._substitutes(one, two)
            if valid or known:
                return valid
        if one.sort == "parameter":
            return self._substitutes(two, one)[0]
        loose = {"dyn", "any", "error"}
        if one.sort in loose or two.sort in loose:
            return True
        if one.sort == "null" or two.sort == "null":
            other = two if one.sort == "null" else one
            return other.sort in {"null", "object", "opaque"}
        if one.sort == "type":
            return two.sort == "type"
        if one.sort != two.sort or one.name != two.name:
            return False
        return len(one.parameters) == len(two.parameters) and all(
            self._fits(a, b) for a, b in zip(one.parameters, two.parameters, strict=True)
        )

    def _substitutes(self, kind: Type, variable: Type) -> tuple[bool, bool]:
        if kind == variable:
            return True, True
        known = self._types.get(variable)
        if known is not None:
            if kind == known:
                return True, True
            if self._fits(kind, known):
                general = most_general(kind, known)
                if self._absent_in(variable, general):
                    self._learn(variable, general)
                return True, True
            return False, True
        if self._absent_in(variable, kind):
            self._learn(variable, kind)
            return True, False
        return False, False

    def _absent_in(self, variable: Type, within: Type) -> bool:
        if variable == within:
            return False
        if within.sort == "parameter":
            known = self._types.get(within)
            return known is None or self._absent_in(variable, known)
        return all(self._absent_in(variable, part) for part in within.parameters)


@dataclass(slots=True)
class _Attempt:
    ok: bool = False


def most_general(one: Type, two: Type) -> Type:
    """The more general of two assignable types."""
    return one if _less_specific(one, two) else two


def _less_specific(one: Type, two: Type) -> bool:
    if one.is_dyn or one.sort == "parameter":
        return True
    if two.is_dyn or two.sort == "parameter" or one.sort != two.sort:
        return False
    if one.sort == "type":
        return True
    if one.name != two.name or len(one.parameters) != len(two.parameters):
        return False
    return all(_less_specific(a, b) for a, b in zip(one.parameters, two.parameters, strict=True))


def equivalent(one: Type, two: Type) -> bool:
    """Tell whether two types are the same, up to the names of parameters."""
    if one.sort != two.sort or len(one.parameters) != len(two.parameters):
        return False
    if one.sort != "parameter" and one.name != two.name:
        return False
    return all(equivalent(a, b) for a, b in zip(one.parameters, two.parameters, strict=True))


def accepts(kind: Type, value: Value) -> bool:
    """Tell whether a value is of a type, by its first element or entry only, as upstream does."""
    if kind.is_dyn or kind.sort == "parameter":
        return True
    if kind.name != kind_of(value):
        return False
    if kind.sort == "list" and type(value) in LISTS and value:
        return accepts(kind.parameters[0], value[0])
    if kind.sort == "map" and type(value) is Map and len(value):
        first, held = next(value.items())
        return accepts(kind.parameters[0], first) and accepts(kind.parameters[1], held)
    return True
