"""The environment: all names that an expression about devices can use.

Source: k8s.io/dynamic-resource-allocation v0.36.3 cel/compile.go and k8s.io/apiserver v0.36.3
pkg/cel/environment/base.go, for stored expressions: all that any known version allows. Left out are
the authorizer's functions: no expression about a device can have a value of their types.
"""

from dataclasses import replace
from typing import Final

from scheduler.kernel.cel import formats, lists, network, operators, strings, times, types, versions
from scheduler.kernel.cel.declarations import Function
from scheduler.kernel.cel.types import Type
from scheduler.kernel.cel.values import TypeValue

DEVICE_FIELDS: Final = {
    "driver": types.STRING,
    "allowMultipleAllocations": types.BOOL,
    "attributes": types.map_of(types.STRING, types.map_of(types.STRING, types.ANY)),
    "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
}
"""The fields of `device`, with their types."""


def _merged() -> dict[str, Function]:
    found: dict[str, Function] = {}
    for room in (operators, times, strings, lists, versions, network, formats):
        for one in room.FUNCTIONS:
            before = found.get(one.name)
            if before is None:
                found[one.name] = one
            else:
                overloads = before.overloads + one.overloads
                found[one.name] = replace(one, overloads=overloads)
    return found


FUNCTIONS: Final = _merged()
"""By name, with all overloads in the order in which upstream tries them."""

_A: Final = types.parameter("A")
_B: Final = types.parameter("B")
TYPE_NAMES: Final[dict[str, tuple[Type, TypeValue]]] = {
    name: (types.type_of(kind), TypeValue(name))
    for name, kind in {
        "bool": types.BOOL,
        "bytes": types.BYTES,
        "double": types.DOUBLE,
        "int": types.INT,
        "list": types.list_of(_A),
        "map": types.map_of(_A, _B),
        "null_type": types.NULL,
        "string": types.STRING,
        "uint": types.UINT,
        "google.protobuf.Timestamp": types.TIMESTAMP,
        "google.protobuf.Duration": types.DURATION,
        "optional_type": types.optional_of(types.parameter("V")),
        "net.IP": types.IP,
        "net.CIDR": types.CIDR,
    }.items()
} | {"type": (types.type_of(Type("type", "type")), TypeValue("type"))}
"""Names that stand for types: the type of the name, and its value."""
