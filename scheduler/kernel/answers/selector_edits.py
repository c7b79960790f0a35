"""Loosens CEL selectors: replaces values of simple comparisons by values that devices have.

A regular expression finds the comparisons in the text. A trial checks each new value, so a
comparison that is overlooked or misread does no harm.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from scheduler.api.quantity import parse
from scheduler.kernel.devices.columns import DeviceColumns

_FIELD: Final = (
    r"device\.(?P<what>capacity|attributes)\[['\"](?P<domain>[^'\"]+)['\"]\]\.(?P<name>\w+)"
)
_QUANTITY: Final = r"quantity\(['\"](?P<quantity>[^'\"]+)['\"]\)"
_COMPARED: Final = re.compile(
    rf"(?P<field>{_FIELD})(?:"
    rf"\.(?:isGreaterThan\({_QUANTITY}\)"
    rf"|compareTo\({_QUANTITY.replace('<quantity>', '<other>')}\)\s*>=?\s*0)"
    r"|\s*(?:>=|>|==)\s*(?P<number>[0-9]+)"
    r"|\s*==\s*['\"](?P<text>[^'\"\\]+)['\"]"
    r")(?![\w.])"
)
_VALUES_TRIED: Final = 3


def loosened(expression: str, columns: DeviceColumns) -> Iterator[str]:
    """Yield variants of an expression with one looser comparison each, nearest values first."""
    for found in _COMPARED.finditer(expression):
        for instead in _instead(found, _values(found, columns)):
            yield f"{expression[: found.start()]}{instead}{expression[found.end() :]}"


def _values(found: re.Match[str], columns: DeviceColumns) -> list[Any]:
    """Return the values of devices for the compared attribute or capacity."""
    views = columns.capacities if found["what"] == "capacity" else columns.attributes
    column = views.get(found["domain"], {}).get(found["name"])
    if column is None:
        return []
    codes = column.codes[: columns.size]
    used = set(codes[columns.alive[: columns.size] & (codes >= 0)].tolist())
    return [column.values[code] for code in sorted(used)]


def _instead(found: re.Match[str], values: list[Any]) -> Iterator[str]:
    field, quantity = found["field"], found["quantity"] or found["other"]
    if quantity:
        lower = {parse(each): each for each in values if isinstance(each, str)}
        for amount in _nearest(lower, parse(quantity)):
            yield f'{field}.compareTo(quantity("{lower[amount]}")) >= 0'
    elif found["number"]:
        numbers = {Decimal(v): v for v in values if isinstance(v, int) and not isinstance(v, bool)}
        for amount in _nearest(numbers, Decimal(found["number"])):
            yield f"{field} >= {numbers[amount]}"
    else:
        others = [each for each in values if isinstance(each, str) and each != found["text"]]
        for other in others[:_VALUES_TRIED]:
            yield f'{field} in ["{found["text"]}", "{other}"]'


def _nearest(values: dict[Decimal, Any], asked: Decimal) -> list[Decimal]:
    return sorted((each for each in values if each <= asked), reverse=True)[:_VALUES_TRIED]
