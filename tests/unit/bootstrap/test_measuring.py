"""Which pod groups are whole, and what room is kept, as a scrape finds it."""

from prometheus_client import CollectorRegistry, generate_latest

from scheduler.daemon.bootstrap.measuring import watch_groups
from scheduler.kernel.engine import Engine
from scheduler.observability.instruments import Instruments
from scheduler.observability.pod_group_metrics import PodGroupMetrics
from scheduler.tools.offline.cluster import DEFAULT_PROFILE
from tests.unit.engine.gangs import Gangs
from tests.unit.engine.test_kept_room import AFTER, PLAIN, TimedCluster, waiting_gang


def scraped(engine: Engine) -> dict[str, float]:
    """The gauges by name and label values, without those of kube-scheduler."""
    registry = CollectorRegistry()
    watch_groups(engine, PodGroupMetrics(Instruments(registry)))
    lines = generate_latest(registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line.startswith("stowage_"))
    return {name: float(value) for name, _, value in pairs}


def states(engine: Engine) -> list[float]:
    """How many groups are whole, partial and waiting."""
    found = scraped(engine)
    names = ("whole", "partial", "waiting")
    return [found[f'stowage_pod_groups{{state="{name}"}}'] for name in names]


def room(engine: Engine) -> list[float]:
    """Pods and nodes of the room that is kept, since and until when."""
    found, profile = scraped(engine), f'profile="{DEFAULT_PROFILE}"'
    sizes = [found[f'stowage_kept_room{{of="{of}",{profile}}}'] for of in ("pods", "nodes")]
    times = (found[f"stowage_kept_room_{at}_seconds{{{profile}}}"] for at in ("since", "until"))
    return [*sizes, *times]


def test_a_running_gang_that_loses_a_member_is_partial_until_it_has_a_successor() -> None:
    """If none comes, it stays so."""
    driven = Gangs(2)
    driven.group(least=2)
    pods = driven.members(2)
    before = states(driven.engine)
    driven.run()
    running = states(driven.engine)
    driven.gone(pods[0])
    driven.tick(400.0)
    driven.run()
    short = states(driven.engine)
    driven.add("next", group="g")
    driven.run()

    assert (before, running, short) == ([0, 0, 1], [1, 0, 0], [0, 1, 0])
    assert states(driven.engine) == [1, 0, 0]


def test_the_room_of_a_gang_is_shown_from_when_it_is_kept_until_it_is_given_up() -> None:
    """It is the same room while its places are chosen anew."""
    cluster = waiting_gang(60, 60, 60)
    known = cluster.room
    assert known is not None
    pods, nodes, since, until = room(cluster.engine)
    assert (pods, nodes, until) == (4, 2, known.until)
    assert cluster.now - AFTER < since <= cluster.now

    for uid in cluster.seconds:
        cluster.seconds[uid] = 900
    cluster.pass_seconds(120)
    # No pod has ended: since when it is kept stays, and until when is not known.
    assert room(cluster.engine) == [4, 2, since, 0]

    cluster.drop_gang("a")
    cluster.pass_seconds(2)
    assert room(cluster.engine) == [0, 0, 0, 0]


def test_profiles_that_keep_no_room_have_no_gauge_of_it() -> None:
    found = scraped(TimedCluster(2, configuration=PLAIN).engine)

    assert not any(name.startswith("stowage_kept_room") for name in found)
