"""Selection and indexing, with optional values on the way.

Source: github.com/google/cel-go v0.26.0 interpreter/attributes.go (applyQualifiers, refQualify).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.kernel.cel.errors import EvaluationError
from scheduler.kernel.cel.quantity import Quantity
from scheduler.kernel.cel.reads import MISSING, Frame, Run
from scheduler.kernel.cel.semver import SemVer
from scheduler.kernel.cel.values import (
    INT_MAX,
    INT_MIN,
    LISTS,
    NONE,
    Address,
    Map,
    Network,
    Optional,
    TypeValue,
    Uint,
    Url,
    Value,
    kind_of,
    shown,
)


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One selection: its key, and whether an absent value is no error."""

    key: Run
    optional: bool


def property_of(index: int, cost: int, name: str) -> Run:
    """Return a run that reads a property of the device.

    Args:
        index: of the read.
        cost: charged for it.
        name: of the property in errors.
    """

    def run(frame: Frame) -> Value:
        frame.cost += cost
        value = frame.inputs[index]
        if value is MISSING:
            raise EvaluationError(f"no such key: {name}")
        return value

    return run


def has_property(index: int, cost: int) -> Run:
    """Return a run that tells whether the device has a property."""

    def run(frame: Frame) -> bool:
        frame.cost += cost
        return frame.inputs[index] is not MISSING

    return run


def optional_at(index: int, cost: int) -> Run:
    """Return a run that reads a property of the device as an optional."""

    def run(frame: Frame) -> Optional:
        value = frame.inputs[index]
        # Upstream counts steps that find something.
        frame.cost += cost - (value is MISSING)
        return NONE if value is MISSING else Optional(value, present=True)

    return run


def map_at(path: Sequence[str], cost: int) -> Run:
    """Return a run that reads the device, one of its maps, or one domain of a map."""

    def run(frame: Frame) -> Value:
        frame.cost += cost
        if not path:
            return frame.device()
        return frame.whole(path[0]) if len(path) == 1 else frame.inner(path[0], path[1])

    return run


def chain(base: Run, steps: Sequence[Qualifier], cost: int) -> Run:
    """Return a run that selects from a base, step by step."""

    def run(frame: Frame) -> Value:
        value = base(frame)
        frame.cost += cost
        optional = type(value) is Optional
        if optional:
            if not value.present:
                frame.cost -= len(steps)
                return value
            value = usable(round_trip(value.value))
        for index, step in enumerate(steps):
            optional = optional or step.optional
            key = key_of(step.key(frame))
            found, held = find(value, key)
            if not found:
                # Upstream counts the steps that it takes, a failing one among them.
                frame.cost -= len(steps) - index - (not optional)
                if optional:
                    return NONE
                raise _missing(value, key)
            value = held
        return Optional(value, present=True) if optional else value

    return run


def presence(base: Run, steps: Sequence[Qualifier], cost: int) -> Run:
    """Return a run that tells whether the last step would find a value."""

    def run(frame: Frame) -> bool:
        value = base(frame)
        frame.cost += cost
        optional = type(value) is Optional
        if optional:
            if not value.present:
                return False
            value = usable(round_trip(value.value))
        last = len(steps) - 1
        for index, step in enumerate(steps):
            optional = optional or step.optional
            key = key_of(step.key(frame))
            found, held = find(value, key)
            if not found:
                if optional or index == last:
                    return False
                frame.cost -= last - index
                raise _missing(value, key)
            value = held
        return True

    return run


def key_of(key: Value) -> Value:
    """Return a key that something can be selected by.

    Raises:
        EvaluationError: nothing can.
    """
    if type(key) in {str, int, Uint, bool, float}:
        return key
    raise EvaluationError(f"invalid qualifier type: {kind_of(key)}")


def find(value: Value, key: Value) -> tuple[bool, Value]:
    """Return whether a map or list has a key, and its value.

    Raises:
        EvaluationError: the key is no index of a list.
    """
    if type(value) is Map:
        found, held = value.find(key)
        return found, held
    if type(value) in LISTS:
        index = _index(key)
        return (True, value[index]) if 0 <= index < len(value) else (False, None)
    return False, None


def _index(key: Value) -> int:
    if type(key) is int:
        return key
    if type(key) is float:
        if key.is_integer() and INT_MIN < key < float(INT_MAX):
            return int(key)
    elif type(key) is Uint:
        if key <= INT_MAX:
            return int(key)
    else:
        raise EvaluationError(f"unsupported index type '{kind_of(key)}' in list")
    raise EvaluationError(f"unsupported index value {shown(key)} in list")


def _missing(value: Value, key: Value) -> EvaluationError:
    if type(value) in LISTS:
        return EvaluationError(f"index out of bounds: {shown(key)}")
    return EvaluationError(f"no such key: {shown(key)}")


def usable(value: Value) -> Value:
    """Return the value of an optional.

    Raises:
        EvaluationError: the value is an error.
    """
    if isinstance(value, EvaluationError):
        raise value
    return value


def round_trip(value: Value) -> Value:
    """Return an optional's value after upstream's conversion to a native value and back.

    Upstream's own types do not survive that: the optional then holds an error.
    """
    if type(value) is Optional:
        return round_trip(value.value) if value.present else None
    if type(value) is TypeValue:
        return value.name
    if type(value) in {Quantity, SemVer, Address, Network, Url}:
        return EvaluationError(f"unsupported conversion to ref.Val: ({kind_of(value)})")
    return value
