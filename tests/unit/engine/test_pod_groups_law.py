"""A law over random histories: gangs run whole or not at all, none waits in vain, none for ever.

All members are alike, so what fits is a matter of counting. The history is drawn from a seed, and
played a second time: the same instructions come of it.
"""

from random import Random

import pytest

from scheduler.api.pods import PodInfo
from scheduler.config.types import Extender
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.events import (
    Answered,
    BindFailed,
    Bound,
    Decide,
    Evicted,
    ObjectGone,
    ObjectSet,
)
from scheduler.kernel.engine.instructions import Ask, Bind, Evict, PatchStatus
from scheduler.kernel.extender import (
    Answer,
    Filtered,
    MetaVictims,
    NoAnswer,
    Preempted,
    Verb,
)
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.gangs import Gangs

ROOM = 3
STEPS = 120


class World:
    """What happens to an engine, drawn from a seed; checked after each step."""

    def __init__(self, seed: int, *extenders: Extender) -> None:
        self.draw = Random(seed)
        self.driven = Gangs(ROOM, nodes=(), extenders=extenders)
        self._has_extenders = bool(extenders)
        self.nodes: list[str] = []
        self.least: dict[str, int | None] = {}
        self.pods: dict[str, PodInfo] = {}
        """As the API server has them, by UID."""
        self._victims: list[str] = []
        """Pods that are to be evicted."""
        self._patches: list[PatchStatus] = []
        """Nominations that the watch is to show."""
        self._made = 0
        self._asked = 0
        """How many instructions were looked at."""

    def run(self) -> None:
        """A history, and then a time in which all that is under way comes to its end."""
        ways = [
            self._new_gang,
            self._new_pod,
            self._new_pod,
            self._new_pod,
            self._delete_pod,
            self._new_node,
            self._answer,
            self._answer,
            self._evict,
            self._nominate,
            self._decide,
            self._decide,
            self._pass_time,
            self._change_gang,
            *([self._reply] * 3 if self._has_extenders else ()),
        ]
        for _ in range(STEPS):
            self.draw.choice(ways)()
            self._check()
        for _ in range(40):
            while self._settles():
                self._check()
            self.driven.tick(1.0)
            self._decide()
            self._check()

    def _settles(self) -> bool:
        """Something that is under way comes to its end; says whether there was anything."""
        is_replied = self._has_extenders and self._reply(may_fail=False)
        return is_replied or self._answer(may_fail=False) or self._evict() or self._nominate()

    # --- what happens ---------------------------------------------------------------------------

    def _new_gang(self) -> None:
        name = f"gang{len(self.least)}"
        least = self.draw.choice((None, 1, 2, 3, 4, 5))
        self.least[name] = least
        for _ in range(self.draw.randint(0, 5)):
            self._new_pod(name)
        self.driven.group(name, least)

    def _change_gang(self) -> None:
        if self.least:
            name = self.draw.choice(sorted(self.least))
            if self.least[name] is not None:
                self.least[name] = self.draw.choice((1, 2, 3))
                self.driven.group(name, self.least[name])

    def _new_pod(self, group: str = "") -> None:
        self._made += 1
        if not group and self.least and self.draw.random() < 0.7:
            group = self.draw.choice(sorted(self.least))
        self._set_pod(f"p{self._made}", group, self.draw.choice((0, 0, 0, 5)))

    def _delete_pod(self) -> None:
        if self.pods:
            pod = self.pods.pop(self.draw.choice(sorted(self.pods)))
            self.driven.handle(ObjectGone("pods", pod.namespace, pod.name, pod.uid))

    def _new_node(self) -> None:
        if len(self.nodes) < 5:
            self.nodes.append(f"n{len(self.nodes)}")
            self.driven.handle(ObjectSet("nodes", make_node(self.nodes[-1])))

    def _answer(self, *, may_fail: bool = True) -> bool:
        """The API server answers a binding; the watch shows it. Says whether there was one."""
        engine = self.driven.engine
        asked = [each for each in engine.attempts if each.state is AttemptState.BINDING]
        if not asked:
            return False
        attempt = self.draw.choice(asked)
        if may_fail and self.draw.random() < 0.3:
            self.driven.handle(BindFailed(attempt.id, "the server says no"))
            return True
        bound = attempt.pod
        self.pods[bound.uid] = bound
        self.driven.handle(Bound(attempt.id))
        self.driven.set(bound)
        return True

    def _reply(self, *, may_fail: bool = True) -> bool:
        """An extender agrees, or fails; says whether one was asked."""
        calls = self.driven.engine.extender_calls
        numbers = [ask.question for ask in self.driven.all(Ask)]
        found = {number: calls.question(number) for number in numbers}
        numbers = [number for number in numbers if found[number] is not None]
        if not numbers:
            return False
        number = self.draw.choice(numbers)
        known = found[number]
        assert known is not None
        question = known[0]
        answer: Answer = Filtered(question.nodes)
        if question.verb is Verb.PREEMPT:
            victims = {
                each.node_name: MetaVictims(tuple(pod.uid for pod in each.victims))
                for each in question.candidates
            }
            answer = Preempted(victims)
        if may_fail and self.draw.random() < 0.2:
            answer = NoAnswer("down")
        self.driven.handle(Answered(number, answer))
        return True

    def _evict(self) -> bool:
        """A victim is gone; says whether there was one."""
        if not self._victims:
            return False
        uid = self._victims.pop(0)
        pod = self.pods.pop(uid, None)
        self.driven.handle(Evicted(uid, was_there=pod is not None))
        if pod is not None:
            self.driven.gone(pod)
        return True

    def _nominate(self) -> bool:
        """The watch shows where a pod is nominated to; says whether there was such a write."""
        if not self._patches:
            return False
        patch = self._patches.pop(0)
        pod = self.pods.get(patch.uid)
        if pod is not None and not pod.node_name:
            self._set_pod(pod.name, pod.group_name, pod.priority, patch.nominated_node_name or "")
        return True

    def _set_pod(self, name: str, group: str, priority: int, nominated: str = "") -> None:
        pod = make_pod_info(
            name,
            scheduler_name="test",
            group=group,
            priority=priority,
            nominated_node_name=nominated,
        )
        self.pods[pod.uid] = pod
        self.driven.set(pod)

    def _decide(self) -> None:
        for _ in range(200):
            if not self.driven.engine.has_ready:
                return
            self.driven.handle(Decide(self.draw.choice((1, 64))))
        raise AssertionError("there is no end of decisions although nothing happens")

    def _pass_time(self) -> None:
        self.driven.tick(self.draw.choice((1.0, 5.0, 11.0)))

    # --- what must hold -------------------------------------------------------------------------

    def _check(self) -> None:
        """No binding leaves for a gang that is not whole with it."""
        instructions = self.driven.instructions[self._asked :]
        self._asked += len(instructions)
        self._victims += [each.uid for each in instructions if isinstance(each, Evict)]
        patches = [each for each in instructions if isinstance(each, PatchStatus)]
        self._patches += [each for each in patches if each.nominated_node_name is not None]
        for bind in instructions:
            pod = self.pods.get(bind.uid) if isinstance(bind, Bind) else None
            least = self.least.get(pod.group_name) if pod is not None else None
            if pod is not None and least is not None and not self._has_changed(pod):
                assert self._placed(pod.group_name) >= least

    def _has_changed(self, pod: PodInfo) -> bool:
        """Whether a member of its gang was deleted, or the gang changed, since the decision."""
        known = self.driven.known(pod.group_name)
        return known.last is None or not known.last.is_success

    def _placed(self, group: str) -> int:
        """How many members run, or are on their way."""
        return self.driven.known(group).scheduled

    def check_end(self) -> None:
        """No gang waits that would fit, and none is placed by half by the engine's doing."""
        free = ROOM * len(self.nodes) - self.driven.used
        for name, least in self.least.items():
            members = [pod for pod in self.pods.values() if pod.group_name == name]
            waiting = sum(not pod.node_name for pod in members)
            lacking = max(0, (least or 1) - (len(members) - waiting))
            could_run = waiting > 0 and max(lacking, 1) <= min(free, waiting)
            assert not could_run, f"{waiting} of {len(members)} in {name} wait, {free} places free"
        single = [pod for pod in self.pods.values() if not (pod.group_name or pod.node_name)]
        assert not (single and free)


@pytest.mark.parametrize("seed", range(20))
def test_gangs_run_whole_or_wait_for_a_reason(seed: int) -> None:
    """Nothing else happens at the end, and the same history gives the same instructions."""
    worlds = [World(seed), World(seed)]
    for world in worlds:
        world.run()

    worlds[0].check_end()
    assert worlds[0].driven.instructions == worlds[1].driven.instructions


@pytest.mark.parametrize("seed", range(15))
def test_they_do_so_with_extenders_that_answer_late_or_fail(seed: int) -> None:
    """Whatever happens while one thinks; at the end no question is open."""
    world = World(seed, Extender(url_prefix="http://e", filter_verb="f", preempt_verb="x"))
    world.run()

    world.check_end()
    assert world.driven.engine.extender_calls.counts() == (0, 0)
    cycle = world.driven.engine.scheduler.group_cycle
    assert not cycle.members
    assert not cycle.asking.members()
