"""Formats obstacles and edits of devices as short sentences."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, assert_never

from scheduler.api.objects import Taint
from scheduler.api.taints import taint_text
from scheduler.kernel.answers.edits import (
    ClaimEdit,
    DropDeviceRule,
    FreeClaim,
    LoosenSelector,
    LowerCount,
    TolerateDevices,
)
from scheduler.kernel.devices.extended_resources import IN_MEMORY
from scheduler.kernel.framework.obstacles import (
    AllocatedClaimObstacle,
    DeviceHolder,
    DeviceObstacle,
    DevicePoolObstacle,
    DevicesLeft,
    DevicesTogetherObstacle,
)

AboutDevices: TypeAlias = (
    DeviceObstacle | DevicePoolObstacle | DevicesTogetherObstacle | AllocatedClaimObstacle
)
AboutClaims: TypeAlias = ClaimEdit | FreeClaim
_SHOWN: Final = 3


def device_text(obstacle: AboutDevices) -> str:
    """Return the obstacle as one line of text."""
    match obstacle:
        case DeviceObstacle():
            return _request(obstacle)
        case DevicePoolObstacle():
            why = f" ({obstacle.problem})" if obstacle.problem else ", which its driver updates"
            where = _count(obstacle.nodes, "node")
            return f"pool {obstacle.pool} is {obstacle.state}{why}: not used on {where}"
        case DevicesTogetherObstacle():
            return _together(obstacle)
        case AllocatedClaimObstacle():
            return _allocated(obstacle)
        case _ as unreachable:
            assert_never(unreachable)


def device_steps(obstacle: DeviceObstacle) -> Iterator[str]:
    """Yield the number of devices left after each step of the device search, as text."""
    for left in obstacle.left:
        yield f"{left.devices} on {_count(left.nodes, 'node')}: {_step(obstacle, left)}"


def claim_edit_text(edit: AboutClaims) -> str:
    """Return the edit of a claim as an instruction."""
    match edit:
        case LowerCount():
            what = _count(edit.at_most, "device")
            return f"ask for {what} instead of {edit.count} in {_where(edit)}"
        case LoosenSelector():
            return f"write `{edit.instead}` instead of `{edit.text}` in {_where(edit)}"
        case DropDeviceRule():
            what = "selector" if edit.request else "constraint"
            return f"drop the {what} `{edit.text}` of {_where(edit)}"
        case TolerateDevices():
            taint = taint_text(Taint(edit.key, edit.value, edit.effect))
            return f"tolerate {taint} in {_where(edit)}"
        case FreeClaim():
            how = _deleted(edit.pods) if edit.pods else "delete it, no pod uses it"
            return f"free claim {edit.claim} on {edit.node} ({how})"
        case _ as unreachable:
            assert_never(unreachable)


def _deleted(pods: Sequence[str]) -> str:
    if len(pods) == 1:
        return f"delete pod {pods[0]}"
    more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    return f"delete {len(pods)} pods: {', '.join(pods[:_SHOWN])}{more}"


def _where(edit: ClaimEdit) -> str:
    written = f"template {edit.template}" if edit.template else f"claim {edit.claim}"
    return f"request {edit.request} of {written}" if edit.request else written


def _request(found: DeviceObstacle) -> str:
    wanted = "all" if found.wanted is None else str(found.wanted)
    whose = f"claim {found.claim}, request {found.request}"
    if found.claim.endswith(f"/{IN_MEMORY}"):
        whose = "extended resources"
    text = f"{whose}: {wanted} of class {found.device_class}, "
    if found.enough:
        return f"{text}enough left on {_count(found.enough, 'node')}"
    if found.wanted is None:
        return f"{text}on no node are all that match free"
    if not found.most:
        return f"{text}none left"
    return f"{text}{found.most} left at most, on {found.nearest}"


def _step(found: DeviceObstacle, left: DevicesLeft) -> str:
    match left.step:
        case "seen":
            return "devices in all"
        case "class" | "selector":
            failing = f" (fails on {_count(left.failing, 'device')})" if left.failing else ""
            where = f"of class {found.device_class}" if left.step == "class" else "that satisfy"
            return f"{where}: {left.text}{failing}"
        case "capacity":
            return "with the capacity"
        case "taints":
            named = [f"{_have(each.devices)} {each.taint}" for each in found.taints]
            return f"without taints that it does not tolerate ({_few(named, len(named))})"
        case "in use":
            held = [_holder(each) for each in found.holders]
            return f"not in use ({_few(held, found.holder_count)})"
        case _:
            return "with the counters of their pool"


def _have(devices: int) -> str:
    return "1 has" if devices == 1 else f"{devices} have"


def _holder(holder: DeviceHolder) -> str:
    return f"{holder.devices} by claim {holder.claim}{_users(holder.pods)}"


def _users(pods: Sequence[str]) -> str:
    if not pods:
        return ", which no pod uses"
    return f" of pod {pods[0]}" if len(pods) == 1 else f" of pods {', '.join(pods[:_SHOWN])}"


def _together(found: DevicesTogetherObstacle) -> str:
    where = _count(found.nodes, "node")
    if not found.constraints:
        return f"on {where} each request finds devices, but not all of them together"
    constraints = "; ".join(found.constraints)
    return f"on {where} each request finds devices, but not together with: {constraints}"


def _allocated(found: AllocatedClaimObstacle) -> str:
    where = f"{found.node} can" if found.node else "no other can either"
    return (
        f"claim {found.claim} is allocated where {_count(found.nodes, 'node')} cannot use it, "
        f"{where}{_used(found.pods)}"
    )


def _used(pods: Sequence[str]) -> str:
    return f"; used by {', '.join(pods[:_SHOWN])}" if pods else "; no pod uses it"


def _few(texts: Sequence[str], count: int) -> str:
    more = count - min(_SHOWN, len(texts))
    return f"{', '.join(texts[:_SHOWN])}{f' and {more} more' if more > 0 else ''}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
