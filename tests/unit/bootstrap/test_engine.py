"""Every setting of the configuration has its effect on the engine that is built of it."""

from msgspec.structs import replace

from scheduler.api.objects import ObjectMeta
from scheduler.api.pods import PodInfo
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.config.feature_gates import SWITCHES, TAINT_TOLERATION_COMPARISON_OPERATORS
from scheduler.config.load import default_configuration
from scheduler.config.types import KubeSchedulerConfiguration
from scheduler.config.write import to_object
from scheduler.daemon.bootstrap import FrameworkBuilder, build_engine
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import BindFailed, Configure, Decide, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Configured
from scheduler.kernel.plugins.registry import BEHIND_GATES
from scheduler.observability.engine_metrics import EngineMetrics
from scheduler.observability.instruments import Instruments
from scheduler.observability.queue_metrics import QueueMetrics
from scheduler.observability.tracing import CycleTracer
from tests.support.builders import make_node, make_pod_info
from tests.support.engines import validating
from tests.unit.observability.test_tracing import RecordingLog

START = 1000.0


def engine_of(
    config: KubeSchedulerConfiguration | None = None, *, nodes: int = 1, **settings: object
) -> Engine:
    """An engine of some nodes."""
    config = config or default_configuration("stowage")
    builder = FrameworkBuilder(lambda: 0.0)
    engine = validating(
        build_engine(
            config,
            builder,
            builder.build(config),
            **settings,
        )
    )
    for number in range(nodes):
        engine.handle(ObjectSet("nodes", make_node(f"n{number}")), START)
    return engine


def place_of(engine: Engine, pod: PodInfo) -> str:
    [place] = [e["queue"] for e in engine.core.queue.dump() if e["pod"] == pod.key]
    return str(place)


def decide(engine: Engine, **fields: object) -> PodInfo:
    """A new pod, tried once."""
    pod = make_pod_info("p", **fields)
    engine.handle(ObjectSet("pods", pod), START)
    engine.handle(Decide(), START)
    return pod


def test_back_off_is_as_configured() -> None:
    """It begins with the one setting, doubles, and ends at the other."""
    config = replace(
        default_configuration("stowage"), pod_initial_backoff_seconds=6, pod_max_backoff_seconds=9
    )
    engine = engine_of(config)
    pod = decide(engine)
    now = START

    for seconds in (6, 9, 9):
        attempt = engine.attempts.of(pod.uid)
        assert attempt is not None
        engine.handle(BindFailed(attempt.id, "refused"), now)
        engine.handle(Tick(), now + seconds - 1)
        assert place_of(engine, pod) == "backoff"
        now += seconds + 1
        engine.handle(Tick(), now)
        assert place_of(engine, pod) == "active"
        engine.handle(Decide(), now)


def test_another_configuration_keeps_the_feature_gates() -> None:
    """These are flags: a file that changes while the daemon runs says nothing of them."""
    gates = SWITCHES
    before = default_configuration("stowage", gates)
    engine = engine_of(before)
    changed = replace(before, pod_max_backoff_seconds=60)

    answers = engine.handle(Configure(to_object(changed)), START)

    assert [each for each in answers if isinstance(each, Configured)] == [Configured("")]
    [framework] = engine.core.frameworks.values()
    assert framework.is_member(make_pod_info("p", group="g"))
    plugins = framework.plugins.by_name
    assert type(plugins["TaintToleration"]) in BEHIND_GATES[TAINT_TOLERATION_COMPARISON_OPERATORS]


def test_the_time_in_unschedulable_is_as_told() -> None:
    """Five minutes unless told otherwise."""
    for settings, seconds in (({}, 300.0), ({"max_in_unschedulable_seconds": 60.0}, 60.0)):
        engine = engine_of(**settings)
        pod = decide(engine, node_selector={"disk": "ssd"})
        engine.handle(Tick(), START)

        engine.handle(Tick(), START + seconds)
        assert place_of(engine, pod) == "unschedulable"
        engine.handle(Tick(), START + seconds + 30)
        assert place_of(engine, pod) == "active"


def test_the_percentage_of_nodes_is_as_configured() -> None:
    """No more nodes are looked for than are enough."""
    config = replace(default_configuration("stowage"), percentage_of_nodes_to_score=50)
    engine = engine_of(config, nodes=300, take_outcome=lambda _: None)
    pod = decide(engine)

    attempt = engine.attempts.of(pod.uid)

    assert attempt is not None
    assert attempt.choice is not None
    assert attempt.choice["feasible"] == 150


def test_the_seed_breaks_ties() -> None:
    """The same seed the same way, another seed not always."""

    def chosen(seed: int) -> str:
        engine = engine_of(nodes=50, seed=seed)
        attempt = engine.attempts.of(decide(engine).uid)
        assert attempt is not None
        return attempt.pod.node_name

    assert chosen(1) == chosen(1)
    assert len({chosen(seed) for seed in range(5)}) > 1


def test_kinds_that_only_plugins_read_are_known() -> None:
    """A Service spreads the pods that it selects."""
    engine = engine_of()
    service = Service(ObjectMeta(name="s", namespace="default"), ServiceSpec({"app": "web"}))

    assert engine.handle(ObjectSet("services", service), START) == []


def test_what_is_measured_is_counted() -> None:
    """In the builder's instruments, with the stopwatch given; a slow cycle is told of."""
    instruments, log, times = Instruments(), RecordingLog(), iter(range(100))
    config = default_configuration("stowage")
    builder = FrameworkBuilder(lambda: 0.0, instruments=instruments)
    engine = build_engine(
        config,
        builder,
        builder.build(config),
        tracer=CycleTracer(log),
        stopwatch=lambda: float(next(times)),
    )

    pod = decide(engine)

    assert EngineMetrics(instruments).scheduling_algorithm_duration.sum >= 1
    incoming = QueueMetrics(instruments).queue_incoming_pods
    assert incoming["active", "UnschedulablePodAdd"].value == 1
    assert [keys["pod"] for _, keys in log.lines] == [pod.key]
