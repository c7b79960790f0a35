"""Functions on quantities and versions.

Source: k8s.io/apiserver v0.36.3 pkg/cel/library (quantity.go, semverlib.go).
"""

from collections.abc import Callable
from typing import Final

from scheduler.kernel.cel import costs
from scheduler.kernel.cel.declarations import function
from scheduler.kernel.cel.errors import EvaluationError
from scheduler.kernel.cel.quantity import Quantity, parse_quantity
from scheduler.kernel.cel.semver import SemVer, parse_semver, parse_tolerant_semver
from scheduler.kernel.cel.values import INT_MAX, Value


def _read(parse: Callable[[str], Value], text: str) -> Value:
    try:
        return parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from error


def _is(parse: Callable[[str], Value], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _parser(tolerant: bool) -> Callable[[str], SemVer]:  # noqa: FBT001 - an argument of the function
    return parse_tolerant_semver if tolerant else parse_semver


def _semver(text: str, tolerant: bool = False) -> SemVer:  # noqa: FBT001, FBT002 - as above
    read: SemVer = _read(_parser(tolerant), text)
    return read


def _is_semver(text: str, tolerant: bool = False) -> bool:  # noqa: FBT001, FBT002 - as above
    return _is(_parser(tolerant), text)


def _integer(quantity: Quantity) -> int:
    value = quantity.integer()
    if value is None:
        raise EvaluationError("cannot convert value to integer")
    return value


def _sign(quantity: Quantity) -> int:
    amount = quantity.amount
    return (amount > 0) - (amount < 0)


def _add_int(quantity: Quantity, more: int) -> Quantity:
    return quantity.plus(Quantity(more))


def _subtract_int(quantity: Quantity, less: int) -> Quantity:
    return quantity.minus(Quantity(less))


def _part(read: Callable[[SemVer], int]) -> Callable[[SemVer], int]:
    def run(version: SemVer) -> int:
        # Upstream turns 64 bits without a sign into 64 bits with one.
        value = read(version)
        return value if value <= INT_MAX else value - 2**64

    return run


FUNCTIONS: Final = (
    function(
        ("quantity(string) quantity", lambda text: _read(parse_quantity, text)),
        cost=costs.traversal(),
    ),
    function(
        ("isQuantity(string) bool", lambda text: _is(parse_quantity, text)), cost=costs.traversal()
    ),
    function(("sign(quantity) int", _sign)),
    function(
        ("quantity.isGreaterThan(quantity) bool", lambda one, two: one.compare(two) > 0),
        ("semver.isGreaterThan(semver) bool", lambda one, two: one.compare(two) > 0),
    ),
    function(
        ("quantity.isLessThan(quantity) bool", lambda one, two: one.compare(two) < 0),
        ("semver.isLessThan(semver) bool", lambda one, two: one.compare(two) < 0),
    ),
    function(
        ("quantity.compareTo(quantity) int", Quantity.compare),
        ("semver.compareTo(semver) int", SemVer.compare),
    ),
    function(("quantity.asApproximateFloat() double", Quantity.approximate)),
    function(("quantity.asInteger() int", _integer)),
    function(("quantity.isInteger() bool", lambda quantity: quantity.integer() is not None)),
    function(
        ("quantity.add(quantity) quantity", Quantity.plus),
        ("quantity.add(int) quantity", _add_int),
    ),
    function(
        ("quantity.sub(quantity) quantity", Quantity.minus),
        ("quantity.sub(int) quantity", _subtract_int),
    ),
    function(
        ("semver(string) semver", _semver),
        ("semver(string, bool) semver", _semver),
        cost=costs.traversal(),
    ),
    function(
        ("isSemver(string) bool", _is_semver),
        ("isSemver(string, bool) bool", _is_semver),
        cost=costs.traversal(),
    ),
    function(("semver.major() int", _part(lambda version: version.major))),
    function(("semver.minor() int", _part(lambda version: version.minor))),
    function(("semver.patch() int", _part(lambda version: version.patch))),
)
