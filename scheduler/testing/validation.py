"""Checks the engine's invariants in tests; no daemon runs these checks."""

from collections.abc import Iterator, Sequence

from scheduler.errors import SchedulerError
from scheduler.kernel.cache import PodState
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.attempt import ACQUIRED, UNDECIDED, Attempt, Attempts, AttemptState
from scheduler.kernel.engine.engine_state import EngineState


class EngineInvariantError(SchedulerError):
    """The engine's state is inconsistent: a bug."""


def validate_engine(engine: Engine) -> None:
    """Check the invariants that hold between two events. Cost: O(nodes + pods).

    Raises:
        SchedulerError: invariants are broken; the message lists all of them.
    """
    core, attempts, cycle = engine.core, engine.attempts, engine.scheduler.group_cycle
    # Members of the group in progress, and of groups that wait for extenders.
    members = [*cycle.members, *cycle.asking.members()]
    core.queue.validate()
    problems = [
        *_attempts(engine, members),
        *_assumed(core, attempts),
        *_held(core, attempts),
    ]
    problems.extend(engine.preemption_executor.problems())
    problems.extend(_unserved(core))
    problems.extend(_miscounted(core))
    if problems:
        raise EngineInvariantError("; ".join(problems))


def _attempts(engine: Engine, members: Sequence[Attempt]) -> Iterator[str]:
    core, undecided = engine.core, {each.id for each in members}
    for attempt in engine.attempts:
        key = attempt.pod.key
        if attempt.state is AttemptState.ASKING:
            yield from _asking(engine, attempt, is_member=attempt.id in undecided)
            continue
        may_be_undecided = attempt.id in undecided
        if attempt.state not in ACQUIRED or (attempt.state in UNDECIDED and not may_be_undecided):
            yield f"attempt {attempt.id} of {key} was left in {attempt.state.value}"
            continue
        if attempt.placed is None:
            continue
        uid = attempt.placed.uid
        if core.cache.state_of(uid) is not PodState.ASSUMED:
            yield f"{key} is {attempt.state.value} and has no place in the cache"
        in_flight = uid in core.queue.in_flight
        if in_flight is (attempt.state is AttemptState.BOUND):
            yield f"{key} is {attempt.state.value}, and in flight: {in_flight}"


def _asking(engine: Engine, attempt: Attempt, *, is_member: bool) -> Iterator[str]:
    """An attempt that asks extenders is not assumed; it waits for an answer or for its turn.

    A member of a group may have its answers, and wait for those of the other members.
    """
    core, calls, key, uid = engine.core, engine.extender_calls, attempt.pod.key, attempt.pod.uid
    if attempt.placed is not None or core.cache.pods.get(uid) is not None:
        yield f"{key} is asking, and has a place in the cache"
    if uid not in core.queue.in_flight:
        yield f"{key} is asking, and not in flight"
    questions = () if attempt.extender_calls is None else attempt.extender_calls.open
    is_idle = not questions and not calls.is_in_line(attempt)
    if is_idle and not is_member:
        yield f"{key} is asking nothing, and waits for no turn"
    if any(calls.question(number) is None for number in questions):
        yield f"{key} has an open question that is not known"


def _assumed(core: EngineState, attempts: Attempts) -> Iterator[str]:
    """Every assumed pod and every in-flight pod has an attempt."""
    assumed = {pod.uid for pod in core.cache.assumed_pods()}
    wanted = {pod.uid for pod in attempts.assumed()}
    for uid in assumed - wanted:
        yield f"pod {uid} is assumed without an attempt"
    if core.queue.counts().in_flight > len(attempts):
        yield "pods are in flight that no attempt is about"


def _miscounted(core: EngineState) -> Iterator[str]:
    """Groups count a member as assumed or assigned exactly if the cache does."""
    for members in core.groups or ():
        for uid in members.assigned.keys() | members.pending.keys():
            state = core.cache.state_of(uid)
            if (uid in members.assumed) is not (state is PodState.ASSUMED):
                yield f"member {uid} is {state}, and assumed: {uid in members.assumed}"
            if (uid in members.assigned) is not (state is PodState.ADDED):
                yield f"member {uid} is {state}, and assigned: {uid in members.assigned}"


def _unserved(core: EngineState) -> Iterator[str]:
    """No pod of a removed profile is in the queue; the queue forgets those that it readmits."""
    for pod in core.queue.pending_pods():
        is_served = pod.spec.scheduler_name in core.frameworks
        if not is_served and core.queue.get(pod.uid) is not None:
            yield f"{pod.key} waits for {pod.spec.scheduler_name}, which is no profile"


def _held(core: EngineState, attempts: Attempts) -> Iterator[str]:
    held = {waiting.pod.uid for waiting in core.waiting} | core.waiting.settled.keys()
    wanted = {each.pod.uid for each in attempts if each.state is AttemptState.HELD}
    if held != wanted:
        yield f"held pods {sorted(held)} are not those of held attempts {sorted(wanted)}"
