"""CEL on columns: expressions about devices, evaluated on all of them at once.

    program = compile_expression('device.attributes["gpu.example.com"].model == "h100"')
    verdicts = program.evaluate(table)
    rows = numpy.flatnonzero(verdicts.matches)

The language and its libraries are those of k8s.io/dynamic-resource-allocation v0.36.3 (docs/cel.md
says what that is). `table` is anything that has the columns of `DeviceTable`.
"""

from scheduler.kernel.cel.errors import CompileError
from scheduler.kernel.cel.program import (
    ERROR,
    FALSE,
    PENDING,
    TRUE,
    DeviceMatches,
    Program,
    compile_expression,
)
from scheduler.kernel.cel.semver import SemVer
from scheduler.kernel.cel.table import (
    ABSENT,
    AttributeValue,
    Column,
    Columns,
    DeviceTable,
    UnreadableAttributeError,
    attribute_value,
)

__all__ = [
    "ABSENT",
    "ERROR",
    "FALSE",
    "PENDING",
    "TRUE",
    "AttributeValue",
    "Column",
    "Columns",
    "CompileError",
    "DeviceMatches",
    "DeviceTable",
    "Program",
    "SemVer",
    "UnreadableAttributeError",
    "attribute_value",
    "compile_expression",
]
