"""Plugins that do at random what they must not, at every extension point and in every form."""

import asyncio
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import numpy as np
from typing_extensions import override

from scheduler.daemon.bootstrap.time_limit import PluginTimeLimit
from scheduler.kernel.framework.events import (
    NODE_ADD,
    ClusterEventWithHint,
    QueueingHint,
)
from scheduler.kernel.framework.interface import (
    BindPlugin,
    EnqueueExtensions,
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
)
from scheduler.kernel.framework.results import PostFilterResult, PreFilterResult, Reason, Write
from scheduler.kernel.framework.runtime import Framework, PluginError, ProfilePlugins
from scheduler.kernel.framework.runtime.bound import row_indices
from scheduler.kernel.framework.runtime.plugin_calls import FAILS_NO_ATTEMPT
from scheduler.kernel.framework.runtime.plugin_set import IMPLEMENTS, extension_points
from scheduler.kernel.framework.shortcuts import Shortcuts
from scheduler.kernel.framework.status import SKIP, SUCCESS, Code, Status, error, unschedulable
from tests.support.fake_plugins import make_calls

NODES = ("a", "b", "c", "d")


class MuteError(Exception):
    """Cannot even say what is wrong."""

    @override
    def __str__(self) -> str:
        raise RuntimeError("mute")


class Prickly:
    """Breaks whatever touches it."""

    @override
    def __repr__(self) -> str:
        raise ValueError("no")

    @override
    def __eq__(self, other: object) -> bool:
        raise ValueError("no")

    @override
    def __hash__(self) -> int:
        raise ValueError("no")


async def never() -> Status:
    return SUCCESS


def nonsense(draw: Random) -> Any:
    """What no extension point wants; an exception is to be raised."""
    return draw.choice(
        (
            lambda: ValueError("boom"),
            MuteError,
            lambda: RecursionError("deep"),
            lambda: SystemExit(3),
            asyncio.CancelledError,
            lambda: None,
            lambda: "no room",
            lambda: 7,
            Prickly,
            never,
            lambda: (SUCCESS,),
            lambda: (None, None),
            lambda: (SUCCESS, "5"),
            lambda: (SUCCESS, float("nan")),
            lambda: (Status(Code.WAIT), -1.0),
            lambda: (PreFilterResult(["a"]), SUCCESS),
            lambda: (PreFilterResult(frozenset({1})), SUCCESS),
            lambda: (PostFilterResult(3), SUCCESS),
            lambda: Status(5),
            lambda: Status(Code.UNSCHEDULABLE, "no"),
            lambda: Status(Code.UNSCHEDULABLE, (1,)),
            lambda: Status(Code.WAIT),
            lambda: np.zeros(9, np.uint64),
            lambda: np.zeros(0),
            lambda: np.full(4, np.nan),
            lambda: np.full(4, 101.0),
            lambda: np.full(1, -1.0),
            lambda: np.full((2, 2), 1.0),
            lambda: np.array([None] * 4, object),
            lambda: np.full(4, 2**40, np.uint64),
            lambda: [Reason("x")],
            lambda: [Reason("x", 4)],
            lambda: ["x"],
            lambda: [ClusterEventWithHint("x")],
            lambda: [Write("PATCH", "/x", {"spec": object()})],
            lambda: (PostFilterResult("a", writes=(Write("PATCH", "/\ud800"),)), SUCCESS),
            dict,
        )
    )()


class Rogue(
    PreEnqueuePlugin,
    QueueSortPlugin,
    EnqueueExtensions,
    SignPlugin,
    PreFilterPlugin,
    PreFilterExtensions,
    PostFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
    Shortcuts,
):
    """Does what it should, or anything else.

    Attributes:
        rate: how often it misbehaves.
        kindness: how often it says yes without a thought when it does not.
    """

    def __init__(self, name: str, draw: Random) -> None:
        self.NAME = name
        self.draw = draw
        self.rate = 0.3
        self.kindness = 0.0
        self.state = Status()

    def answer(self, good: Callable[[], Any]) -> Any:
        if self.draw.random() >= self.rate:
            return good()
        found = nonsense(self.draw)
        if isinstance(found, BaseException):
            raise found
        return found

    def pick(self, *answers: Any) -> Any:
        """The first one is the kind one."""
        return answers[0] if self.draw.random() < self.kindness else self.draw.choice(answers)

    def say(self, *others: Status) -> Any:
        return self.answer(lambda: self.pick(SUCCESS, SUCCESS, SUCCESS, *others))

    def sort_key(self, queued: Any) -> Any:
        keys = (1, 2.5, 3, 4, "text", (1, 2), float("nan"))
        return self.answer(lambda: self.draw.choice(keys))

    def pre_enqueue(self, pod: Any) -> Any:
        return self.say(unschedulable("gate"), error("gate"))

    def events_to_register(self) -> Any:
        return self.answer(lambda: [ClusterEventWithHint(NODE_ADD, self.hint)])

    def hint(self, *_: Any) -> Any:
        return self.answer(lambda: self.draw.choice(list(QueueingHint)))

    def sign(self, pod: Any) -> Any:
        return self.answer(lambda: self.draw.choice((None, 1, "x")))

    def pre_filter(self, *_: Any) -> Any:
        result = self.pick(None, None, PreFilterResult(frozenset(NODES[:3])))
        status = self.pick(SUCCESS, SUCCESS, SUCCESS, SKIP, unschedulable("pod"))
        return self.answer(lambda: (result, status))

    def add_pod(self, *_: Any) -> Any:
        return self.say(unschedulable("x"))

    def remove_pod(self, *_: Any) -> Any:
        return self.say(SKIP)

    def post_filter(self, *_: Any) -> Any:
        return self.answer(lambda: (PostFilterResult("a"), self.pick(SUCCESS, SKIP)))

    def pre_score(self, *_: Any) -> Any:
        return self.say(SKIP, unschedulable("late"))

    def skips_all(self, *_: Any) -> Any:
        return self.answer(lambda: self.draw.choice((True, False)))

    def skips_score(self, *_: Any) -> Any:
        return self.answer(lambda: self.draw.choice((True, False)))

    def reserve(self, *_: Any) -> Any:
        return self.say(unschedulable("taken"))

    def unreserve(self, *_: Any) -> Any:
        return self.answer(lambda: None)

    def permit(self, *_: Any) -> Any:
        return self.answer(lambda: (self.pick(SUCCESS, Status(Code.WAIT)), 5))

    def pre_bind_pre_flight(self, *_: Any) -> Any:
        return self.say(SKIP)

    async def pre_bind(self, *_: Any) -> Any:
        if self.draw.random() < self.rate / 5:
            await asyncio.Event().wait()
        if self.draw.random() < self.rate / 5:
            raise asyncio.CancelledError
        return self.say(error("disk"))

    async def bind(self, *_: Any) -> Any:
        return self.say(SKIP)

    def post_bind(self, *_: Any) -> Any:
        return self.answer(lambda: None)


class ColumnRogue(Rogue, FilterPlugin, ScorePlugin, NormalizeScorePlugin):
    def __init__(self, name: str, draw: Random, reads: Reads) -> None:
        super().__init__(name, draw)
        self.READS = reads

    def filter(self, state: Any, pod: Any, snapshot: Any, rows: Any) -> Any:
        count = len(row_indices(rows))
        bits = [self.pick(0, 0, 1) for _ in range(count)]
        return self.answer(lambda: np.array(bits, np.uint64))

    def reasons(self, *_: Any) -> Any:
        return self.answer(lambda: [Reason("one")])

    def score(self, state: Any, pod: Any, snapshot: Any, rows: Any) -> Any:
        count = len(row_indices(rows))
        if self.draw.random() < self.rate / 2:
            return np.full(count, self.draw.choice((-1.0, 101.0, 0.5, math.nan)))
        return self.answer(lambda: np.full(count, 5.0))

    def normalize_score(self, state: Any, pod: Any, scores: Any) -> Any:
        return self.answer(lambda: scores)


class NodeRogue(Rogue, NodeFilterPlugin, NodeScorePlugin):
    def filter(self, *_: Any) -> Any:
        return self.say(unschedulable("node"))

    def score(self, *_: Any) -> Any:
        return self.answer(lambda: 5)


def rogue_framework(
    draw: Random, swallowed: list[PluginError], *others: Plugin
) -> tuple[Framework, list[Rogue]]:
    """A profile of rogues, and of others that behave.

    Args:
        draw: how the rogues behave, and in which order they come.
        swallowed: takes the failures that fail no attempt.
        others: they come after the rogues, but for PostFilter.
    """
    rogues: list[Rogue] = [
        ColumnRogue("Rows", draw, draw.choice((Reads.NODE, Reads.PODS))),
        ColumnRogue("Cluster", draw, Reads.CLUSTER),
        NodeRogue("Nodes", draw),
    ]
    draw.shuffle(rogues)
    plugins: dict[str, Any] = {plugin.NAME: plugin for plugin in (*rogues, *others)}
    enabled = {
        point: [(n, 1) for n, p in plugins.items() if point in extension_points(type(p))]
        for point in IMPLEMENTS
    }
    enabled["queueSort"] = enabled["queueSort"][:1]
    # A rogue's nomination is the last word; preemption could not say anything after it.
    enabled["postFilter"].reverse()

    def limit(seconds: float) -> AbstractAsyncContextManager[None]:
        return PluginTimeLimit(seconds / 1e6)

    def note(problem: PluginError) -> None:
        if problem.point in FAILS_NO_ATTEMPT:
            swallowed.append(problem)

    calls = make_calls(time_limit=limit, on_failed=note)
    return Framework(ProfilePlugins(enabled, plugins.__getitem__, calls)), rogues
