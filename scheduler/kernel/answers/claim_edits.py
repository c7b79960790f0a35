"""Finds possible edits of a pod's claims, and applies edits to claims."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from scheduler.api.devices import (
    CELDeviceSelector,
    DeviceClaim,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.edits import (
    ClaimEdit,
    DropDeviceRule,
    LoosenSelector,
    LowerCount,
    TolerateDevices,
)
from scheduler.kernel.answers.selector_edits import loosened
from scheduler.kernel.devices.columns import DeviceColumns
from scheduler.kernel.devices.obstacles import constraint_text
from scheduler.kernel.framework.obstacles import DeviceObstacle

_TAINT: Final = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?(:(?P<effect>.+))?")
_TAINTS_TRIED: Final = 2
_Ask = TypeVar("_Ask", ExactDeviceRequest, DeviceSubRequest)


class Written:
    """Claims that a user has written, or their templates.

    Attributes:
        claims: the claims.
        templates: by `namespace/name` of a claim, its template; empty for a claim without one.
    """

    def __init__(self, pod: PodInfo, claims: Sequence[ResourceClaim]) -> None:
        self.claims = claims
        statuses = {
            status.name: status.resource_claim_name
            for status in pod.pod.status.resource_claim_statuses
        }
        names = {
            statuses.get(each.name): each.resource_claim_template_name
            for each in pod.resource_claims
            if each.resource_claim_template_name is not None
        }
        self.templates = {claim.key: names.get(claim.metadata.name) or "" for claim in claims}


def changes_of_claims(written: Written, obstacles: Sequence[DeviceObstacle]) -> list[ClaimEdit]:
    """Return edits that drop rules of the claims, and edits that tolerate device taints."""
    tolerated = (each for obstacle in obstacles for each in _tolerations(written, obstacle))
    return [*tolerated, *(each for claim in written.claims for each in _drops(written, claim))]


def _tolerations(written: Written, obstacle: DeviceObstacle) -> Iterator[TolerateDevices]:
    if obstacle.claim not in written.templates:
        return
    where = obstacle.claim, written.templates[obstacle.claim], obstacle.request
    for tainted in obstacle.taints[:_TAINTS_TRIED]:
        found = _TAINT.fullmatch(tainted.taint)
        if found is not None:
            key, value, effect = found["key"], found["value"] or "", found["effect"] or ""
            yield TolerateDevices(*where, key, value, effect)


def selectors_loosened(written: Written, columns: DeviceColumns) -> Iterator[list[LoosenSelector]]:
    """Yield for each selector its possible replacements, the strictest first."""
    for claim in written.claims:
        for drop in _drops(written, claim):
            if drop.request:
                where = drop.claim, drop.template, drop.request, drop.path, drop.text
                yield [LoosenSelector(*where, text) for text in loosened(drop.text, columns)]


def _drops(written: Written, claim: ResourceClaim) -> Iterator[DropDeviceRule]:
    at = claim.key, written.templates[claim.key]
    devices = claim.spec.devices
    for name, ask in (each for request in devices.requests for each in asks_of(request)):
        for i, selector in enumerate(ask.selectors):
            if selector.cel is not None:
                path = f"requests[{name}].selectors[{i}]"
                yield DropDeviceRule(*at, name, path, selector.cel.expression)
    for i, constraint in enumerate(devices.constraints):
        yield DropDeviceRule(*at, "", f"constraints[{i}]", constraint_text(constraint))


def edited(claims: Iterable[ResourceClaim], edits: Iterable[ClaimEdit]) -> list[ResourceClaim]:
    """Return the claims with edits applied."""
    edits = list(edits)
    found = []
    for claim in claims:
        own = [edit for edit in edits if edit.claim == claim.key]
        devices = _edited(claim.spec.devices, own)
        found.append(replace(claim, spec=replace(claim.spec, devices=devices)))
    return found


def _edited(devices: DeviceClaim, edits: Sequence[ClaimEdit]) -> DeviceClaim:
    dropped = {edit.path for edit in edits if isinstance(edit, DropDeviceRule)}
    return replace(
        devices,
        requests=tuple(_request(request, edits) for request in devices.requests),
        constraints=tuple(
            constraint
            for i, constraint in enumerate(devices.constraints)
            if f"constraints[{i}]" not in dropped
        ),
    )


def _request(request: DeviceRequest, edits: Sequence[ClaimEdit]) -> DeviceRequest:
    if request.exactly is not None:
        request = replace(request, exactly=_ask(request.name, request.exactly, edits))
    return replace(
        request,
        first_available=tuple(
            _ask(f"{request.name}/{each.name}", each, edits) for each in request.first_available
        ),
    )


def _ask(name: str, ask: _Ask, edits: Sequence[ClaimEdit]) -> _Ask:
    for edit in edits:
        if edit.request != name:
            continue
        if isinstance(edit, LowerCount):
            ask = replace(ask, count=edit.at_most)
        elif isinstance(edit, TolerateDevices):
            more = DeviceToleration(edit.key, "Equal", edit.value, edit.effect)
            ask = replace(ask, tolerations=(*ask.tolerations, more))
    dropped = {edit.path for edit in edits if isinstance(edit, DropDeviceRule)}
    instead = {edit.path: edit.instead for edit in edits if isinstance(edit, LoosenSelector)}
    kept = tuple(
        _written_otherwise(selector, instead.get(f"requests[{name}].selectors[{i}]"))
        for i, selector in enumerate(ask.selectors)
        if f"requests[{name}].selectors[{i}]" not in dropped
    )
    return replace(ask, selectors=kept)


def _written_otherwise(selector: DeviceSelector, text: str | None) -> DeviceSelector:
    return selector if text is None else DeviceSelector(CELDeviceSelector(text))


def asks_of(request: DeviceRequest) -> Iterator[tuple[str, ExactDeviceRequest | DeviceSubRequest]]:
    """Yield the exact request or the alternatives of a request, with their names in allocations."""
    if request.exactly is not None:
        yield request.name, request.exactly
    for each in request.first_available:
        yield f"{request.name}/{each.name}", each
