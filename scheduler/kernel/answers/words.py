"""Formats obstacles, changes and guesses as short sentences."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, assert_never

from scheduler.api.objects import Taint
from scheduler.api.taints import taint_text
from scheduler.kernel.answers.device_words import (
    AboutDevices,
    claim_edit_text,
    device_steps,
    device_text,
)
from scheduler.kernel.answers.edits import (
    AddNodes,
    AddToleration,
    DropRule,
    Edit,
    EvictPod,
    LowerRequest,
    SetLabel,
    Uncordon,
)
from scheduler.kernel.answers.model import (
    ForeignPods,
    Guess,
    KeptFor,
    NearNode,
    PodAnswer,
    SuggestedChange,
)
from scheduler.kernel.answers.report import amount_for_people
from scheduler.kernel.answers.requests import amount_of
from scheduler.kernel.framework.obstacles import (
    AllocatedClaimObstacle,
    DeviceObstacle,
    DevicePoolObstacle,
    DevicesTogetherObstacle,
    LabelObstacle,
    Obstacle,
    PodOnNode,
    PodTermObstacle,
    PortObstacle,
    ResourceObstacle,
    SpreadObstacle,
    TaintObstacle,
)

_DOMAINS_SHOWN: Final = 6
_PATHS: Final = (
    (".requiredDuringSchedulingIgnoredDuringExecution", ""),
    ("spec.affinity.", ""),
    ("spec.", ""),
)
"""Parts of a field path that are left out, with their replacements."""


def obstacle_text(obstacle: Obstacle) -> str:  # noqa: PLR0911 - one case per kind of obstacle
    """Return the obstacle as one line of text."""
    match obstacle:
        case ResourceObstacle():
            return _resource(obstacle)
        case TaintObstacle():
            return f"taint {obstacle.taint} on {nodes_text(obstacle.nodes)}"
        case LabelObstacle():
            return _label(obstacle)
        case PodTermObstacle():
            return _pod_term(obstacle)
        case SpreadObstacle():
            return _spread(obstacle)
        case PortObstacle():
            port = f"{obstacle.port}/{obstacle.protocol}"
            on = nodes_text(obstacle.nodes)
            return f"host port {port} is held on {on}{_examples(obstacle.pods, obstacle.count)}"
        case (
            DeviceObstacle()
            | DevicePoolObstacle()
            | DevicesTogetherObstacle()
            | AllocatedClaimObstacle()
        ):
            return device_text(obstacle)
        case _ as unreachable:
            assert_never(unreachable)


def obstacle_details(obstacle: Obstacle) -> list[str]:
    """Return the lines below `obstacle_text`: the devices left after each step."""
    return list(device_steps(obstacle)) if isinstance(obstacle, DeviceObstacle) else []


def change_text(change: SuggestedChange) -> str:
    """Return the change as an instruction, with the nodes on which the pod then fits."""
    if change.kind == "evictPod":
        what = _evictions(change.edits)
    else:
        what = ", and ".join(edit_text(edit) for edit in change.edits)
    where = change.node if change.nodes == 1 else f"{change.nodes} nodes, such as {change.node}"
    if any(isinstance(edit, AddNodes) for edit in change.edits):
        return what
    return f"{what}: then it fits on {where}"


def untried_text(answer: PodAnswer) -> str:
    """The kinds of new nodes that were not tried, as a sentence; empty if there are none."""
    left = answer.untried_nodes or 0
    if left == 1:
        return "1 more kind of new node was not tried."
    return f"{left} more kinds of new nodes were not tried." if left else ""


def device_advice(answer: PodAnswer) -> str:
    """Return a change that gets the pod its devices, else what it lacks; empty for other pods."""
    obstacles = [o for check in answer.checks or () for o in check.obstacles]
    if not any(isinstance(o, AboutDevices) for o in obstacles):
        return ""
    changes = map(change_text, answer.changes or ())
    lacks = (device_text(o) for o in obstacles if isinstance(o, DeviceObstacle) and not o.enough)
    text = next(chain(changes, lacks), "")
    return f"{text[0].upper()}{text[1:]}." if text else ""


def guess_text(guess: Guess) -> str:
    """Return the guess as a question."""
    fits = f" Then it fits on {nodes_text(guess.fits)}." if guess.fits else ""
    have = "1 node has" if guess.nodes == 1 else f"{guess.nodes} nodes have"
    asked = f'is "{guess.meant}" meant, which {have}?'
    return f'no node has "{guess.written}" ({short_path(guess.path)}): {asked}{fits}'


def near_text(near: NearNode) -> str:
    """Return a node with all its rejections of the pod."""
    reasons = "; ".join(
        f"{each.plugin}: {', '.join(each.reasons)}" if each.reasons else each.plugin
        for each in near.rejections
    )
    return f"{near.node}: {reasons}"


def foreign_text(found: ForeignPods) -> str:
    """Return the pods of another scheduler on the profile's own nodes, and their requests."""
    pods = "1 pod" if found.pods == 1 else f"{found.pods} pods"
    amounts = [f"{amount_for_people(name, n)} {name}" for name, n in found.requests.items()]
    room = f" with {', '.join(amounts)}" if amounts else ""
    return (
        f"Scheduler {found.scheduler_name} has {pods}{room} on {nodes_text(found.nodes)} that "
        f"would have room otherwise{_examples(found.examples, found.pods)}"
    )


def kept_text(found: KeptFor) -> str:
    """Return the pod or group for which room is kept, and the time until which it is kept."""
    text = f"Room on {nodes_text(found.nodes)} is kept for {found.waiter}"
    if not found.until:
        return text
    day, _, time = found.until.partition("T")
    return f"{text} until about {day} {time[:5]} UTC; a pod that ends before may use it"


def nodes_text(count: int) -> str:
    """Return the number of nodes as text."""
    return "1 node" if count == 1 else f"{count} nodes"


def lead_text(scores: Mapping[str, int]) -> str:
    """Return the score differences of two nodes by plugin, the greatest first."""
    leads = sorted(scores.items(), key=lambda item: (-abs(item[1]), item[0]))
    return ", ".join(f"{plugin} {lead:+d}" for plugin, lead in leads if lead)


def short_path(path: str) -> str:
    """Return a field path without the parts that all paths have."""
    for part, instead in _PATHS:
        path = path.replace(part, instead)
    return path


# --- obstacles ------------------------------------------------------------------------------------


def _resource(found: ResourceObstacle) -> str:
    if found.resource == "pods":
        return f"no place for another pod on {nodes_text(found.nodes)}"
    asked = amount_for_people(found.resource, found.requested)
    missing = amount_for_people(found.resource, found.missing)
    text = (
        f"{asked} {found.resource} asked for: {nodes_text(found.nodes)} short, "
        f"by {missing} on the nearest ({found.nearest})"
    )
    if found.hopeless == found.nodes:
        return f"{text}; too small even when empty"
    return f"{text}; {found.hopeless} too small even when empty" if found.hopeless else text


def _label(found: LabelObstacle) -> str:
    values = f" {', '.join(found.values)}" if found.values else ""
    text = f"{short_path(found.path)} asks for {found.key} {found.operator}{values}: "
    if not found.having:
        return f"{text}no node has such a label"
    text += f"{nodes_text(found.nodes)} not so"
    if found.found:
        have = ", ".join(f"{each.value} ({each.nodes})" for each in found.found)
        text += f"; nodes have {have}"
    return text


def _pod_term(found: PodTermObstacle) -> str:
    per, on = found.topology_key, nodes_text(found.nodes)
    examples = _examples(found.pods, found.count)
    if found.rule == "existingAntiAffinity":
        pods = "1 pod keeps" if found.count == 1 else f"{found.count} pods keep"
        return f"{pods} away from their {per} what is {found.selector}: {on}{examples}"
    where = short_path(found.path)
    if found.rule == "antiAffinity":
        return f"{where} keeps away from {found.selector} per {per}: {on}{examples}"
    text = f"{where} wants to be with {found.selector} per {per}: not on {on}"
    if found.missing_key:
        text += f", {found.missing_key} of which lack the label"
    return f"{text}; {'no such pod runs' if not found.count else 'there are'}{examples}"


def _spread(found: SpreadObstacle) -> str:
    text = (
        f"{short_path(found.path) or 'the profile'} spreads {found.selector} per "
        f"{found.topology_key}, maxSkew {found.max_skew}: {nodes_text(found.nodes)} rejected"
    )
    if found.missing_key:
        text += f", {found.missing_key} lack the label"
    if not found.domain_count:
        text += "; there are no domains"
    elif found.domain_count < found.min_domains:
        text += f"; {found.domain_count} domains, minDomains {found.min_domains}"
    if found.domains:
        shown = found.domains[:_DOMAINS_SHOWN]
        counts = ", ".join(f"{each.domain} {each.pods}" for each in shown)
        more = found.domain_count - len(shown)
        text += f"; pods: {counts}{f' and {more} more domains' if more > 0 else ''}"
        worst = max(each.skew_with_pod for each in found.domains)
        text += f"; the skew would be up to {worst}"
    return text


def _examples(pods: Sequence[PodOnNode], count: int) -> str:
    if not pods:
        return ""
    named = ", ".join(f"{each.pod} on {each.node}" for each in pods[:2])
    return f" ({named}{f' and {count - 2} more' if count > 2 else ''})"  # noqa: PLR2004 - two are named


# --- changes --------------------------------------------------------------------------------------


def edit_text(edit: Edit) -> str:
    """Return the edit as an instruction."""
    match edit:
        case LowerRequest():
            amount = amount_of(edit)
            amount_text = amount_for_people(edit.resource, amount, rounds_down=True)
            at_most = f"at most {amount_text}" if amount else "no"
            return f"request {at_most} {edit.resource} instead of {_asked(edit)}"
        case AddToleration():
            return f"tolerate {taint_text(Taint(edit.key, edit.value, edit.effect))}"
        case DropRule():
            return f"drop {short_path(edit.path)} ({edit.text})"
        case SetLabel() | Uncordon() | EvictPod() | AddNodes():
            return _of_cluster(edit)
        case _:
            return claim_edit_text(edit)


def _of_cluster(edit: SetLabel | Uncordon | EvictPod | AddNodes) -> str:
    match edit:
        case SetLabel():
            # The form of the arguments of `kubectl label`.
            label = f"{edit.key}-" if edit.value is None else f"{edit.key}={edit.value}"
            return f"label node {edit.node} {label}"
        case Uncordon():
            return f"uncordon {edit.node}"
        case EvictPod():
            return f"evict {edit.pod}"
        case AddNodes():
            count = "a node" if edit.count == 1 else f"{edit.count} nodes"
            return f"add {count} like {edit.like}"
        case _ as unreachable:
            assert_never(unreachable)


def _evictions(edits: Sequence[Edit]) -> str:
    victims = [edit for edit in edits if isinstance(edit, EvictPod)]
    named = ", ".join(edit.pod for edit in victims)
    highest = max(edit.priority for edit in victims)
    return f"evict {named} from {victims[0].node} (priority up to {highest})"


def _asked(edit: LowerRequest) -> str:
    asked = LowerRequest(edit.resource, edit.requested, edit.requested)
    return amount_for_people(edit.resource, amount_of(asked))
