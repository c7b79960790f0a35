"""The devices as programs read them: columns with few distinct values, one row per device.

A column is written as codes into its distinct values, so that a program evaluates an expression
once per distinct value and then only gathers. The room that keeps devices fills these types; this
room never changes them.

Rows and values of a column may be appended and codes changed between two evaluations. A value keeps
its code as long as `values` is the same list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.cel.semver import SemVer, parse_semver

ABSENT: Final = -1
"""The code of a row that has no value."""

AttributeValue = bool | int | str | SemVer
"""The types of attribute values. `True` and `1` are two values: intern by type and value."""

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Column(Generic[T_co]):
    """One property of every row."""

    codes: NDArray[np.int32]
    """By row, the index of its value in `values`, or `ABSENT`."""
    values: Sequence[T_co]


Columns = Mapping[str, Mapping[str, Column[T_co]]]
"""By domain, then by id. A name without a domain is filed under the device's driver, as upstream
does (`parseQualifiedName` in dynamic-resource-allocation/cel/compile.go, v0.36.3)."""


class DeviceTable(Protocol):
    """All devices, in columns."""

    def __len__(self) -> int:
        """The number of rows. Columns have at least as many codes."""
        ...

    @property
    def drivers(self) -> Column[str]:
        """The driver of each row; never absent."""
        ...

    @property
    def allow_multiple_allocations(self) -> NDArray[np.bool_]:
        """By row, whether the device is shared; false where the field is not set."""
        ...

    @property
    def attributes(self) -> Columns[AttributeValue]:
        """Attributes by domain and id."""
        ...

    @property
    def capacities(self) -> Columns[str]:
        """Capacities by domain and id, as the API writes quantities: `80Gi`."""
        ...

    @property
    def unreadable(self) -> Mapping[int, str]:
        """By row, why no expression can be evaluated on it: `attribute NAME: TEXT`.

        TEXT is that of `attribute_value`'s error. Mostly empty.
        """
        ...


class UnreadableAttributeError(ValueError):
    """An attribute that no expression can read; the device fails every expression."""


def attribute_value(
    *,
    integer: int | None = None,
    boolean: bool | None = None,
    string: str | None = None,
    version: str | None = None,
) -> AttributeValue:
    """Return the one value of an attribute, whose fields are those of the API.

    Source: `getAttributeValue` in dynamic-resource-allocation/cel/compile.go, v0.36.3. Lists need
    the gate DRAListTypeAttributes, which is off: an attribute that only has a list has no value.

    Raises:
        UnreadableAttributeError: no field that is read is set, or the version does not parse.
    """
    for value in (integer, boolean, string):
        if value is not None:
            return value
    if version is None:
        raise UnreadableAttributeError("unsupported attribute value")
    try:
        return parse_semver(version)
    except ValueError as error:
        raise UnreadableAttributeError(f"parse semantic version: {error}") from error
