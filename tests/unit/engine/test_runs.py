"""What ends a run of look-alikes; that a run decides as its pods would one by one is a law."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from scheduler.api.pods import PodInfo
from scheduler.config.load import default_configuration, load_object
from scheduler.daemon.bootstrap import FrameworkBuilder, build_engine
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import Decide, ObjectSet
from scheduler.kernel.engine.instructions import Bind
from scheduler.kernel.engine.runs import MAX_CHANGES
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.interface import Plugin, PreFilterPlugin, PreFilterResult
from scheduler.kernel.framework.status import SUCCESS, Status, unschedulable
from scheduler.kernel.snapshot import Snapshot
from tests.support.builders import make_node, make_pod_info

PROFILE = "stowage"
FREE = [f"free{i}" for i in range(10)]
"""Nodes of ten cores; on all others eight of ten are taken."""
BUSY = [f"busy{i}" for i in range(60)]


def cluster(
    free: Iterable[str] = FREE,
    busy: Iterable[str] = BUSY,
    config: Any = None,
    out_of_tree: Mapping[str, type[Plugin]] | None = None,
) -> Engine:
    builder = FrameworkBuilder(lambda: 0.0, out_of_tree=out_of_tree)
    config = config or default_configuration(PROFILE)
    engine = build_engine(config, builder, builder.build(config), seed=1)
    for name in (*free, *busy):
        engine.handle(ObjectSet("nodes", make_node(name, allocatable={"cpu": 10})), 0.0)
    for name in busy:
        tell(engine, make_pod_info(f"on-{name}", node_name=name, requests={"cpu": 8}))
    return engine


def look_alike(name: str, **fields: Any) -> PodInfo:
    return make_pod_info(name, requests={"cpu": "500m"}, **fields)


def tell(engine: Engine, *pods: PodInfo) -> None:
    for pod in pods:
        engine.handle(ObjectSet("pods", pod), 0.0)


def decide(engine: Engine, times: int) -> list[str | None]:
    """Where the next pods go; None for one that fits nowhere."""
    nodes: list[str | None] = []
    for _ in range(times):
        told = engine.handle(Decide(), 0.0)
        nodes.append(next((each.node for each in told if isinstance(each, Bind)), None))
    return nodes


def is_in_run(engine: Engine) -> bool:
    """Whether the snapshot has not been told where the last pods went."""
    return len(engine.core.cache.changes) > 1


def test_those_who_follow_go_to_the_best_nodes() -> None:
    """Each to another one, as each takes what made its node the best."""
    engine = cluster()
    tell(engine, *(look_alike(f"p{i}") for i in range(8)))

    nodes = decide(engine, 8)

    assert is_in_run(engine)
    assert len(set(nodes)) == 8
    assert set(nodes) < set(FREE)


def test_a_nomination_ends_a_run() -> None:
    """What is kept free for somebody is not for those who follow."""
    engine = cluster()
    tell(engine, *(look_alike(f"p{i}") for i in range(6)))
    taken = decide(engine, 5)
    assert is_in_run(engine)

    for node in set(FREE).difference(map(str, taken)):
        large = {"requests": {"cpu": "9900m"}, "nominated_node_name": node}
        tell(engine, make_pod_info(f"for-{node}", **large))

    assert decide(engine, 1)[0] in taken


def test_nobody_follows_where_room_is_kept() -> None:
    """There was room beside those who are to come for the first ones, and is none for the next."""
    engine = cluster()
    tell(engine, *(look_alike(f"p{i}") for i in range(11)))
    first = decide(engine, 1)
    for node in set(FREE).difference(map(str, first)):
        large = {"requests": {"cpu": "9200m"}, "nominated_node_name": node}
        tell(engine, make_pod_info(f"for-{node}", **large))

    nodes = first + decide(engine, 10)

    assert set(nodes[:10]) == set(FREE)
    assert nodes[10] == nodes[0]


def test_a_pod_that_says_where_it_goes_does_not_follow() -> None:
    """Also if nobody remembers who nominated it."""
    engine = cluster()
    told = look_alike("told", nominated_node_name="busy7")
    tell(engine, *(look_alike(f"p{i}") for i in range(4)), told)
    engine.core.queue.nominator.delete_nominated_pod_if_exists(told.uid)
    decide(engine, 4)
    assert is_in_run(engine)

    assert decide(engine, 1) == ["busy7"]


class Moody(PreFilterPlugin):
    """Looks at single pods, whatever they are like."""

    NAME: ClassVar[str] = "Moody"

    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        del state, snapshot
        return None, unschedulable("not this one") if pod.name == "p4" else SUCCESS


def test_plugins_of_others_are_asked_about_each_pod() -> None:
    """Nobody knows what they look at."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": PROFILE,
                "plugins": {"multiPoint": {"enabled": [{"name": "Moody"}]}},
            }
        ],
    }
    points = {"Moody": frozenset({"preFilter"})}
    config = load_object(document, out_of_tree=points)
    engine = cluster(config=config, out_of_tree={"Moody": Moody})
    tell(engine, *(look_alike(f"p{i}") for i in range(7)))

    nodes = decide(engine, 7)

    assert [node is None for node in nodes] == [number == 4 for number in range(7)]


def test_the_snapshot_is_never_far_behind() -> None:
    """However long a run is: no step has very much to take over."""
    engine = cluster(free=[f"n{i}" for i in range(400)], busy=())
    tell(engine, *(look_alike(f"p{i}") for i in range(390)))
    behind = []

    for _ in range(390):
        decide(engine, 1)
        behind.append(len(engine.core.cache.changes))

    assert MAX_CHANGES / 2 < max(behind) <= MAX_CHANGES
