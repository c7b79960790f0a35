"""Devices as expressions see them, in columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler.kernel.cel import (
    ABSENT,
    AttributeValue,
    Column,
    Columns,
    UnreadableAttributeError,
    attribute_value,
)


@dataclass
class Devices:
    """A table of devices, filled from objects as the API has them."""

    count: int
    drivers: Column[str]
    allow_multiple_allocations: Any
    attributes: Columns[AttributeValue]
    capacities: Columns[str]
    unreadable: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.count


def devices(objects: Sequence[Mapping[str, Any]]) -> Devices:
    """Make the table of `{"driver", "allowMultipleAllocations", "attributes", "capacity"}`."""
    unreadable: dict[int, str] = {}
    attributes: list[dict[tuple[str, str], Any]] = []
    capacities: list[dict[tuple[str, str], Any]] = []
    for row, one in enumerate(objects):
        driver = one.get("driver", "")
        attributes.append({})
        for name, value in (one.get("attributes") or {}).items():
            try:
                attributes[-1][_split(name, driver)] = attribute_value(
                    integer=value.get("int"),
                    boolean=value.get("bool"),
                    string=value.get("string"),
                    version=value.get("version"),
                )
            except UnreadableAttributeError as error:
                unreadable.setdefault(row, f"attribute {name}: {error}")
        capacity = one.get("capacity") or {}
        capacities.append(
            {_split(name, driver): str(value["value"]) for name, value in capacity.items()}
        )
    return Devices(
        len(objects),
        _column([one.get("driver", "") for one in objects]),
        np.array([bool(one.get("allowMultipleAllocations")) for one in objects], np.bool_),
        _columns(attributes),
        _columns(capacities),
        unreadable,
    )


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _columns(rows: list[dict[tuple[str, str], Any]]) -> dict[str, dict[str, Column[Any]]]:
    found: dict[str, dict[str, Column[Any]]] = {}
    for domain, name in dict.fromkeys(key for row in rows for key in row):
        values = [row.get((domain, name)) for row in rows]
        found.setdefault(domain, {})[name] = _column(values)
    return found


def _column(values: list[Any]) -> Column[Any]:
    distinct: dict[Any, int] = {}
    codes = []
    kept: list[Any] = []
    for value in values:
        if value is None:
            codes.append(ABSENT)
            continue
        key = (type(value), getattr(value, "text", value))
        if key not in distinct:
            distinct[key] = len(kept)
            kept.append(value)
        codes.append(distinct[key])
    return Column(np.array(codes, np.int32), kept)
