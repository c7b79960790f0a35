"""The law of the engine: whatever happens and whatever plugins do, no pod is lost or undone."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.api.written import NORMAL
from scheduler.config.args import DefaultPreemptionArgs
from scheduler.config.types import Extender
from scheduler.errors import SchedulerError
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.engine import EngineSettings
from scheduler.kernel.engine.engine_state import EngineProfiles
from scheduler.kernel.engine.events import Configure
from scheduler.kernel.engine.instructions import Ask, Configured
from scheduler.kernel.extender import Verb
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import ObjectKind
from scheduler.kernel.framework.handle import Handle, SharedState
from scheduler.kernel.framework.interface import PreFilterPlugin
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.runtime import Framework, PluginError
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.kernel.framework.status import Status
from scheduler.kernel.plugins.default_preemption import BUDGETS, DefaultPreemption
from scheduler.kernel.preemption import Evictions
from scheduler.kernel.queue import BackoffSettings
from scheduler.kernel.snapshot import Snapshot
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments
from tests.support.engines import no_other_profiles, validating
from tests.support.fake_plugins import make_plugin_set
from tests.support.rogues import rogue_framework
from tests.unit.engine.cluster import Cluster
from tests.unit.engine.driven import Holds, Prepares, Room

STEPS = 800
QUICK = BackoffSettings(0.5, 2.0)
SERVICE = ObjectKind("Service")
BROKEN = 3
"""A configuration that cannot be built."""


class Ledger(SharedState):
    """Every place that is kept by somebody; a contradiction is an error of the engine."""

    WATCHES = (SERVICE,)

    def __init__(self) -> None:
        self.places: dict[str, str] = {}
        self.by_us: dict[str, str] = {}
        self.wrong: list[str] = []

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        if pod.uid in self.places and pod.uid not in self.by_us:
            self.wrong.append(f"{pod.uid} gets a place twice")
        self.places[pod.uid] = node_name

    @override
    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        if self.places.pop(pod.uid, None) != node_name:
            self.wrong.append(f"{pod.uid} gives back a place on {node_name} that it has not")
        if self.by_us.get(pod.uid) == node_name:
            self.wrong.append(f"{pod.uid} is undone although it is bound")

    @override
    def fork(self) -> "Ledger":
        return self


class Meddler(PreFilterPlugin):
    """Uses its handle at random, in the middle of others' attempts."""

    NAME = "Meddler"

    def __init__(self, handle: Handle, draw: Random) -> None:
        self._handle = handle
        self._draw = draw

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        handle, draw = self._handle, self._draw
        for waiting in handle.waiting:
            if draw.random() < 0.2:
                handle.waiting.allow(waiting.pod.uid, draw.choice(("Rows", "Cluster", "Nodes")))
            elif draw.random() < 0.1:
                handle.waiting.reject(waiting.pod.uid, "Nodes", "meddled")
        if draw.random() < 0.2:
            handle.activate([pod])
            handle.record_event(pod, NORMAL, "Meddled", "for no reason")
        return None, Status()


def cluster_of_rogues(seed: int, rate: float) -> tuple[Cluster, Ledger, list[Any]]:
    """A cluster whose profile is made of rogues; they behave until the engine is there."""
    draw = Random(seed)
    swallowed: list[PluginError] = []
    states = SharedStates(FrameworkMetrics(Instruments()))
    states.watch((SERVICE, BUDGETS))
    ledger = states.shared(Ledger, "Ledger")
    services = PluginServices(states, Instruments(), lambda: 0.0)
    meddler = Meddler(Handle(services), Random(seed + 1))
    preemption = DefaultPreemption(
        DefaultPreemptionArgs(100, 100), Handle(services, watches=(BUDGETS,))
    )
    framework, rogues = rogue_framework(Random(seed + 2), swallowed, Room(4), meddler, preemption)
    for rogue in rogues:
        rogue.rate = 0.0
    engine = validating(
        Engine(
            EngineProfiles({"test": framework}, backoff=QUICK),
            EngineSettings(seed, 10.0),
            services=services,
            rules_of=no_other_profiles,
            states=states,
            kinds={"services": SERVICE},
        )
    )
    for rogue in rogues:
        rogue.rate, rogue.kindness = rate, 0.9
    cluster = Cluster(engine, "test", draw)
    ledger.by_us = cluster.by_us
    return cluster, ledger, rogues


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_no_pod_is_lost_or_undone(seed: int, rate: float) -> None:
    """Not while things happen, and not when everything has come to rest."""
    cluster, ledger, rogues = cluster_of_rogues(seed, rate)

    for number in range(STEPS):
        cluster.step()
        if number % 20 == 0:
            cluster.check_columns()
    for rogue in rogues:
        rogue.rate = 0.0
    cluster.settle()

    cluster.check()
    cluster.check_columns()
    assert cluster.known == cluster.pods
    assert ledger.wrong == []
    kept = {pod.uid for pod in cluster.engine.attempts.assumed()}
    assert set(ledger.places) <= kept | cluster.bound, "a place is kept for nobody"


FILTERING = (
    Extender(url_prefix="http://strict", filter_verb="f", prioritize_verb="p", weight=1),
    Extender(url_prefix="http://lax", filter_verb="f", preempt_verb="x", ignorable=True),
)
EVICTING = (
    Extender(url_prefix="http://strict", preempt_verb="x"),
    Extender(url_prefix="http://lax", preempt_verb="x", bind_verb="b", ignorable=True),
)


@pytest.mark.parametrize("extenders", [(), FILTERING, EVICTING], ids=["none", "filter", "evict"])
@pytest.mark.parametrize("seed", range(12))
def test_room_is_made_without_losing_anybody(seed: int, extenders: tuple[Extender, ...]) -> None:
    """Nobody is evicted twice; whoever was held back for it is let go in the end."""
    states = SharedStates(FrameworkMetrics(Instruments()))
    states.watch((SERVICE, BUDGETS))
    services = PluginServices(states, Instruments(), lambda: 0.0)
    handle = Handle(services, watches=(BUDGETS,))
    preemption = DefaultPreemption(DefaultPreemptionArgs(100, 100), handle)
    plugins = (Room(2), preemption, Holds("Rows", 5.0), Prepares())
    framework = Framework(make_plugin_set(plugins, profile="test"), has_extenders=bool(extenders))
    engine = validating(
        Engine(
            EngineProfiles({"test": framework}, backoff=QUICK),
            EngineSettings(seed, 10.0, extenders),
            services=services,
            rules_of=no_other_profiles,
            states=states,
            kinds={"services": SERVICE},
        )
    )
    cluster = Cluster(engine, "test", Random(seed))

    for _ in range(STEPS):
        cluster.step()
    # By chance nothing may have had to make room so far.
    for _ in range(0 if extenders or cluster.evicted else STEPS):
        cluster.step()
    cluster.settle()

    cluster.check()
    cluster.check_columns()
    asked = {i.verb for i in cluster.instructions if isinstance(i, Ask)}
    if extenders is FILTERING:
        assert Verb.FILTER in asked
    else:
        assert asked == ({Verb.PREEMPT} if extenders else set())
    if not extenders:
        assert cluster.evicted
    assert engine.extender_calls.counts() == (0, 0)
    assert states.shared(Evictions, "").under_way == set()


@pytest.mark.parametrize("extenders", [(), FILTERING, EVICTING], ids=["none", "filter", "evict"])
@pytest.mark.parametrize("seed", range(8))
def test_nobody_is_lost_while_the_configuration_changes(
    seed: int, extenders: tuple[Extender, ...]
) -> None:
    """Plugins, their arguments and the back-off change under pods in every state."""
    states = SharedStates(FrameworkMetrics(Instruments()))
    states.watch((SERVICE, BUDGETS))
    services = PluginServices(states, Instruments(), lambda: 0.0)

    def rules_of(configuration: dict[str, Any]) -> EngineProfiles:
        variant = configuration["variant"]
        if variant == BROKEN:
            raise SchedulerError("broken")
        handle = Handle(services, watches=(BUDGETS,))
        args = DefaultPreemptionArgs(100, 100)
        plugins = (
            (Room(2), DefaultPreemption(args, handle), Holds("Rows", 5.0), Prepares()),
            (Room(4), Holds("Cluster", 5.0)),
            (Room(3), DefaultPreemption(args, handle), Prepares()),
        )[variant]
        framework = Framework(
            make_plugin_set(plugins, profile="test"), has_extenders=bool(extenders)
        )
        return EngineProfiles({"test": framework}, 0, BackoffSettings(variant + 0.5, 2.0 + variant))

    first = rules_of({"variant": 0})
    engine = validating(
        Engine(
            replace(first, backoff=QUICK),
            EngineSettings(seed, 10.0, extenders),
            services=services,
            states=states,
            kinds={"services": SERVICE},
            rules_of=rules_of,
        )
    )
    cluster = Cluster(engine, "test", Random(seed))

    for number in range(STEPS):
        cluster.step()
        if number % 15 == 0:
            before, told = engine.core.frameworks, len(cluster.instructions)
            variant = cluster.draw.randrange(BROKEN + 1)
            cluster.handle(Configure({"variant": variant}))
            # Pods that a plugin held may follow it, if the plugin is gone.
            [answer] = [i for i in cluster.instructions[told:] if isinstance(i, Configured)]
            assert answer == Configured("broken" if variant == BROKEN else "")
            assert (engine.core.frameworks is before) == (variant == BROKEN)
    cluster.settle()

    cluster.check()
    cluster.check_columns()
    assert cluster.known == cluster.pods
    assert states.shared(Evictions, "").under_way == set()
    assert engine.extender_calls.counts() == (0, 0)
