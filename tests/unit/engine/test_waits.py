"""Directed histories: what is waited for never comes, comes too late, or is another of its name."""

import pytest

from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.engine import AttemptState
from scheduler.kernel.engine.events import (
    Allowed,
    Answered,
    BindFailed,
    Bound,
    Configure,
    Decide,
    Evicted,
    ObjectGone,
    ObjectSet,
    PodRead,
    PreBound,
    Rejected,
    Tick,
)
from scheduler.kernel.engine.instructions import Ask, Bind, Evict
from scheduler.kernel.engine.pending_extender_calls import MAX_ASKING
from scheduler.kernel.engine.profiles import EngineProfiles
from scheduler.kernel.extender import Filtered
from scheduler.kernel.framework.runtime import Framework
from tests.support.builders import make_node, make_pod_info
from tests.support.fake_plugins import make_plugin_set
from tests.unit.engine.driven import DrivenEngine, Holds, Room, engine_at
from tests.unit.engine.extenders import FILTERS
from tests.unit.engine.gangs import Gangs, HoldsOne
from tests.unit.engine.test_asking import Asking
from tests.unit.engine.test_events_that_never_come import Cluster
from tests.unit.engine.test_pod_group_placements import Racks
from tests.unit.plugins.test_dynamic_resources import device_class, make_claim, pod_of

S = AttemptState

# --- what never comes -----------------------------------------------------------------------------


def test_a_held_pod_of_a_removed_profile_gives_its_place_back() -> None:
    """No plugin is left that could allow it, and its timeout is a quarter of an hour."""
    other = Framework(make_plugin_set([Room(1)], profile="other"))
    profiles = EngineProfiles({"other": other})
    driven = DrivenEngine(Room(1), Holds(seconds=900.0), rules_of=lambda _: profiles)
    pod = driven.add("p")
    driven.run()
    before = driven.stage(pod)

    driven.handle(Configure({}))
    driven.settle()

    assert (before, driven.stage(pod), driven.used) == ("held", "nowhere", 0)


def test_a_pod_that_joins_a_gang_counts_with_its_place() -> None:
    """Permit holds it for long; the gang does not wait for its binding."""
    gangs = Gangs(3, HoldsOne("joins"))
    joins = gangs.add("joins")
    gangs.run()
    gangs.group(least=3)
    gangs.members(2)
    gangs.run()
    before = gangs.bound()

    gangs.set(make_pod_info("joins", scheduler_name="test", group="g"))
    gangs.run()

    assert (before, gangs.bound(), gangs.stage(joins)) == ([], ["g0", "g1"], "held")
    gangs.handle(Rejected(joins.uid, "HoldsOne", "no"))
    assert gangs.known().scheduled == 2


def test_equal_pods_do_not_wait_for_the_answer_about_one_of_them() -> None:
    """All fit on the new node, as far as plugins can tell; an extender is slow."""
    racks = Racks(extenders=(FILTERS,))
    racks.node("n", cpu="1")
    racks.pod("x", node_name="n")
    for number in range(3):
        racks.pod(f"p{number}")
    racks.run()
    before = [each for each in racks.told if isinstance(each, Ask)]

    racks.node("m")
    racks.run()

    assert before == []
    assert len([each for each in racks.told if isinstance(each, Ask)]) == 3


def test_pods_that_are_deleted_in_line_for_an_extender_are_not_kept() -> None:
    """The extender never answers, and the line is never empty."""
    engine = Asking(FILTERS, room=1000)
    for number in range(MAX_ASKING):
        engine.add(f"a{number}")
    stays = engine.add("stays")
    for number in range(100):
        engine.gone(engine.add(f"z{number}"))

    calls = engine.engine.attempts.extender_calls
    assert calls.counts() == (MAX_ASKING, 1)
    assert len(calls._line) <= 3
    assert engine.stage(stays) == "asking"


# --- what comes too late, or is another of its name -----------------------------------------------


