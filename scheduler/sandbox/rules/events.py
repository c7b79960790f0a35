"""Rules for events, in both forms.

Source: pkg/apis/core/validation/events.go (ValidateEventCreate, legacyValidateEvent).
"""

from collections.abc import Iterator
from typing import Final

from scheduler.sandbox.field_errors import FieldError, invalid, required
from scheduler.sandbox.names import is_qualified_name
from scheduler.sandbox.rules.checks import named
from scheduler.sandbox.rules.contract import Rules
from scheduler.sandbox.schema.codec import Object

_LIMITS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_LEGACY_FIELDS: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_CLUSTER_NAMESPACES: Final = ("default", "kube-system")


def _default(event: Object) -> None:
    event.setdefault("involvedObject", {})


def _validate_core(event: Object) -> Iterator[FieldError]:
    if "eventTime" in event:
        yield from _modern_faults(event, "reportingComponent")
    else:
        namespace = event["metadata"].get("namespace", "")
        about = event["involvedObject"].get("namespace", "")
        if about != namespace and (about or namespace != "default"):
            yield _mismatch(about)


def _mismatch(namespace: str) -> FieldError:
    return invalid("involvedObject.namespace", namespace, "does not match event.namespace")


def _modern_faults(event: Object, controller_field: str) -> Iterator[FieldError]:
    about = event["involvedObject"].get("namespace", "")
    if not about and event["metadata"].get("namespace") not in _CLUSTER_NAMESPACES:
        yield _mismatch(about)
    controller = event.get("reportingComponent", "")
    if not controller:
        yield required(controller_field)
    yield from named(controller_field, controller, is_qualified_name)
    for field, limit in _LIMITS.items():
        value = event.get(field, "")
        if not value and field != "message":
            yield required(field)
        if len(value) > limit:
            yield invalid(field, "", f"can have at most {limit} characters")


def _validate_modern(event: Object) -> Iterator[FieldError]:
    if "eventTime" in event:
        yield from _modern_faults(event, "reportingController")
    else:
        yield required("eventTime")
    if event.get("type") not in {"Normal", "Warning"}:
        yield invalid("type", "", f"has invalid value: {event.get('type', '')}")
    for field in _LEGACY_FIELDS:
        if event.get(field):
            yield invalid(field, "", "needs to be unset")
    series = event.get("series")
    if series is not None:
        yield from _series_faults(series)


def _series_faults(series: Object) -> Iterator[FieldError]:
    if series.get("count", 0) < len(("first", "second")):
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


CORE_RULES = Rules(default=_default, validate=_validate_core)
MODERN_RULES = Rules(default=_default, validate=_validate_modern)
