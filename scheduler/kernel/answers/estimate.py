"""Estimates when a pending pod or gang will fit, from the expected ends of running pods.

The known ends are sorted. Bisection finds how many of them free enough room; then the pods whose
ends do not matter are left out. This takes 2 + log2(number of ends) checks, and a bounded number
for the second step. All checks together search for a node at most `MOST_LOOKS` times. Other pending
pods are ignored, although one of them may take the room first.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.api.limits import exceeded_limit
from scheduler.api.pods import PodInfo
from scheduler.kernel.answers.ahead import Ahead, LooksSpentError
from scheduler.kernel.answers.judgement import PodVerdict
from scheduler.kernel.answers.waiting_model import Estimate, PodEnd
from scheduler.kernel.ends import EndSource, ExpectedEnd, expected_end, never_ends
from scheduler.kernel.ends.times import text_of
from scheduler.kernel.engine import Engine
from scheduler.kernel.extender import Verb
from scheduler.kernel.framework.placements import Placements
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.status import Status
from scheduler.kernel.framework.steps import Steps
from scheduler.kernel.snapshot import Indices

MOST_LOOKS: Final = 8192
"""Searches for a node at most; a check of a gang takes many."""
MOST_TRIALS: Final = 32
"""Checks at most to find the pods whose ends matter."""
_MOST_TRIED: Final = 1024
"""Of more pods than this, none is left out."""
_NODES_AT_ONCE: Final = 64
_PODS_TOLD: Final = 10
_NAMES_TOLD: Final = 3
_NOTHING_KNOWN: Final = "When it fits is not known: no running pod has a known end."
_GIVEN_UP: Final = "When it fits is not known: too many places would have to be tried."
_NOT_ASKED: Final = "Extenders are not asked."
_NO_DOMAIN: Final = "When the group fits is not known: {}."


class _Wanted(msgspec.Struct, frozen=True):
    """The pending pods whose placement is estimated.

    Attributes:
        pods: the pods in the order in which they are placed.
        needed: the number of them that must fit.
        group: namespace and name of their pod group; empty for a single pod.
        is_together: whether they must be in one topology domain.
    """

    pods: list[PodInfo]
    needed: int = 1
    group: tuple[str, str] = ("", "")
    is_together: bool = False

    @property
    def subject(self) -> str:
        """The beginning of the sentence of the estimate."""
        return "The group fits" if self.group[1] else "Fits"


class _Ending(msgspec.Struct, frozen=True):
    """A running pod with a known end."""

    pod: PodInfo
    end: ExpectedEnd


def pod_end(engine: Engine, pod: PodInfo, now: float) -> PodEnd | None:
    """Return the expected end of an assigned pod at time `now`; None if unknown."""
    end = expected_end(pod, now, engine.core.durations)
    return None if end is None else _pod_end(pod, end)


def _pod_end(pod: PodInfo, end: ExpectedEnd) -> PodEnd:
    owner = pod.controller
    controller = "" if owner is None else f"{owner.kind} {pod.namespace}/{owner.name}"
    return PodEnd(pod.key, pod.node_name, text_of(end.time), end.source.value, controller, end.runs)


def estimate(
    engine: Engine, framework: Framework, pod: PodInfo, now: float
) -> Steps[Estimate | None]:
    """Estimate when a pending pod fits, or its gang with its minimum of members.

    Args:
        engine: the engine with the cluster; the estimate does not change it.
        framework: the framework of the pod's profile.
        pod: a pod without a node.
        now: the time of day, in seconds since 1970.

    Returns:
        None for a pod that fits now, and if no estimate is possible: the pod or its group is gated,
        or a plugin fails. Extenders are not called; the text says so if they may matter.
    """
    wanted = _wanted(engine, framework, pod)
    if wanted is None:
        return None
    engine.core.catch_up()
    try:
        domains: Sequence[Indices | None] = [None]
        if wanted.is_together:
            found, status = _domains(engine, framework, wanted.pods)
            if not status.is_success:
                return Estimate(_NO_DOMAIN.format(status.message))
            domains = found.parts()
        ahead = Ahead(engine, framework, wanted.pods, wanted.needed, domains, MOST_LOOKS)
        yield
        ending, unknown = yield from _ending(engine, ahead, wanted, now)
        ahead.running = [each.pod for each in ending]
        estimate = yield from _bisect(ahead, wanted, ending, unknown, now)
    except PluginError:
        return None
    if estimate is None or not estimate.time or not _is_extended(engine, wanted):
        return estimate
    return replace(estimate, text=f"{estimate.text} {_NOT_ASKED}")


def _is_extended(engine: Engine, wanted: _Wanted) -> bool:
    """Return whether extenders may reject nodes or, for a group, change placements by scores."""
    verbs = (Verb.FILTER, Verb.PRIORITIZE) if wanted.group[1] else (Verb.FILTER,)
    return any(engine.core.extenders.interested_in(pod, *verbs) for pod in wanted.pods)


def _bisect(
    ahead: Ahead, wanted: _Wanted, ending: Sequence[_Ending], unknown: int, now: float
) -> Steps[Estimate | None]:
    """Find the fewest earliest ends after which the pods fit, and which of them matter."""
    counts = Estimate("", known=len(ending), unknown=unknown)
    try:
        if (yield from ahead.fits_without(())):
            return None
        if not ending:
            return replace(counts, text=_NOTHING_KNOWN)
        if not (yield from ahead.fits_without(range(len(ending)))):
            text = _never_text(wanted.subject, len(ending), unknown)
            return replace(counts, text=text)
    except LooksSpentError:
        return replace(counts, text=_GIVEN_UP)
    too_few, enough = 0, len(ending)
    with suppress(LooksSpentError):
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            if (yield from ahead.fits_without(range(middle))):
                enough = middle
            else:
                too_few = middle
    is_first = enough - too_few == 1
    matter = yield from _those_that_matter(ahead, ending[:enough], is_first=is_first)
    ends = [ending[number] for number in matter]
    time = max(each.end.time for each in ends)
    return replace(
        counts,
        text=_text(wanted.subject, ends, time, now, is_first=is_first),
        time=text_of(max(time, now)),
        at_latest=not is_first,
        count=len(ends),
        ends=tuple(_pod_end(each.pod, each.end) for each in ends[-_PODS_TOLD:]),
    )


def _those_that_matter(
    ahead: Ahead, ending: Sequence[_Ending], *, is_first: bool
) -> Steps[list[int]]:
    """Return a subset of ends that suffices, and of which none can be left out.

    The result may have more ends if the trials or the searches for a node are spent before.
    """
    kept = list(range(len(ending)))
    near = [number for number in kept if ending[number].pod.node_name in ahead.places]
    with suppress(LooksSpentError):
        if 0 < len(near) < len(kept) and (yield from ahead.fits_without(near)):
            kept = near
        if len(kept) > _MOST_TRIED or not is_first:
            return kept
        left, size = MOST_TRIALS, max(1, len(kept) // 2)
        while size:
            first = 0
            while first < len(kept) > 1 and left:
                left -= 1
                others = kept[:first] + kept[first + size :]
                if others and (yield from ahead.fits_without(others)):
                    kept = others
                else:
                    first += size
            size //= 2
    return kept


def may_be_estimated(judged: PodVerdict, framework: Framework, pod: PodInfo) -> bool:
    """Return whether a pod waits for room, by itself or with its group."""
    summary = judged.summary
    if summary.pre_enqueue is not None or isinstance(summary.error, str):
        return False
    waits = not judged.feasible and not exceeded_limit(pod)
    return waits or framework.is_member(pod)


def with_end(judged: PodVerdict, end: PodEnd | None) -> PodVerdict:
    """Return the verdict with the pod's expected end, if known."""
    if end is None or isinstance(judged.summary.error, str):
        return judged
    return replace(judged, summary=replace(judged.summary, expected_end=end))


def with_estimate(judged: PodVerdict, found: Estimate) -> PodVerdict:
    """Return the verdict with the estimate of when the pod fits."""
    return replace(judged, summary=replace(judged.summary, estimate=found))


# --- the pods to place ----------------------------------------------------------------------------


def _wanted(engine: Engine, framework: Framework, pod: PodInfo) -> _Wanted | None:
    """Return the pod, or the pending members of its gang; None if they are gated."""
    with framework.calls.unmeasured():
        if not framework.run_pre_enqueue_plugins(pod).is_success:
            return None
    groups = engine.core.groups
    if groups is None or not framework.is_member(pod):
        return _Wanted([pod])
    known = groups.of_pod(pod)
    if known is None or known.group is None:
        return _Wanted([pod])
    is_together = framework.tries_placements and bool(known.group.topology_key)
    needed = (known.group.min_count or 0) - known.scheduled
    if needed <= 0 and not is_together:
        return _Wanted([pod])
    members = [known.pending[uid] for uid in known.waiting]
    if any(each.spec.scheduler_name != pod.spec.scheduler_name for each in members):
        return None
    members.sort(key=lambda each: -each.priority)
    return _Wanted(members, max(1, needed), (pod.namespace, pod.group_name), is_together)


def _domains(
    engine: Engine, framework: Framework, pods: Sequence[PodInfo]
) -> tuple[Placements, Status]:
    """Return the candidate domains for all members together."""
    with framework.calls.unmeasured():
        return framework.run_placement_generate_plugins(pods, engine.core.snapshot)


def _ending(
    engine: Engine, ahead: Ahead, wanted: _Wanted, now: float
) -> Steps[tuple[list[_Ending], int]]:
    """Return the running pods with known ends, earliest first; and how many others will end."""
    found: list[_Ending] = []
    unknown, durations = 0, engine.core.durations
    for number, pods in enumerate(ahead.pods_by_node()):
        for pod in pods:
            if wanted.group[1] and (pod.namespace, pod.group_name) == wanted.group:
                continue
            end = expected_end(pod, now, durations)
            if end is not None:
                found.append(_Ending(pod, end))
            elif not never_ends(pod):
                unknown += 1
        if number % _NODES_AT_ONCE == _NODES_AT_ONCE - 1:
            yield
    found.sort(key=lambda each: each.end.time)
    return found, unknown


# --- words ----------------------------------------------------------------------------------------


def _never_text(subject: str, known: int, unknown: int) -> str:
    it = "It" if subject == "Fits" else "The group"
    pods = "the running pod with a known end has"
    if known > 1:
        pods = f"all {known} running pods with known ends have"
    others = "1 other pod has" if unknown == 1 else f"{unknown} other pods have"
    more = f"; {others} no known end" if unknown else ""
    return f"{it} does not fit once {pods} ended either{more}."


def _text(subject: str, ends: Sequence[_Ending], time: float, now: float, *, is_first: bool) -> str:
    """Return the estimate as a sentence, with the pods on which it depends."""
    when = "about" if is_first else "at the latest about"
    at = "any moment now" if time <= now else f"{when} {_moment(time, now)}"
    if_these = "this pod ends" if len(ends) == 1 else f"these {len(ends)} pods end"
    named = _named(ends)
    return f"{subject} {at}, if {if_these} as expected and nothing else takes the room: {named}."


def _moment(time: float, now: float) -> str:
    """Return a time of day in UTC, with the date if it is not today."""
    try:
        then, today = (datetime.fromtimestamp(each, UTC) for each in (time, now))
    except (OverflowError, ValueError, OSError):
        return text_of(time) or "in a far future"
    day = "" if then.date() == today.date() else f"{then:%Y-%m-%d} "
    return f"{day}{then:%H:%M} UTC"


def _named(ends: Sequence[_Ending]) -> str:
    """Return the controllers of the pods, those that end last first, and the source of each end."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in reversed(ends):
        owner = each.pod.controller
        kind, name = ("pod", each.pod.name) if owner is None else (owner.kind, owner.name)
        counts[f"{kind} {each.pod.namespace}/{name}", _known_by(each.end)] += 1
    names = [f"{name} ({_pods(count)}{known_by})" for (name, known_by), count in counts.items()]
    more = len(names) - _NAMES_TOLD
    listed = ", ".join(names[:_NAMES_TOLD])
    return f"{listed} and {more} more" if more > 0 else listed


def _pods(count: int) -> str:
    return f"{count} pods, " if count > 1 else ""


def _known_by(end: ExpectedEnd) -> str:
    return source_text(end.source.value, end.runs)


def source_text(source: str, runs: int) -> str:
    """Return the source of an expected end, in words."""
    return {
        EndSource.DELETION: "being deleted",
        EndSource.ANNOTATION: "as annotated",
        EndSource.RUNS: f"as most of its last {runs} runs",
        EndSource.DEADLINE: "at its deadline",
    }[EndSource(source)]


def end_text(end: PodEnd) -> str:
    """Return the expected end of a pod as a sentence."""
    day, _, time = end.end.partition("T")
    known_by = source_text(end.source, end.runs)
    return f"It is expected to end about {day} {time[:5]} UTC ({known_by})."
