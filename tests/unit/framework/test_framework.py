"""The other extension points: PreEnqueue, PostFilter, Reserve, Permit, PreBind, Bind, PostBind."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.daemon.bootstrap.time_limit import PluginTimeLimit
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.interface import (
    BindPlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
)
from scheduler.kernel.framework.results import PostFilterResult, Write
from scheduler.kernel.framework.runtime import (
    Framework,
    PluginError,
    PluginSetError,
    ProfilePlugins,
)
from scheduler.kernel.framework.runtime.pre_bind import Work, one_after_another
from scheduler.kernel.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from scheduler.kernel.framework.types import QueuedPodInfo
from tests.support.builders import make_pod_info, make_queued_pod_info
from tests.support.clock import FakeClock
from tests.support.fake_plugins import (
    ColumnFilter,
    ColumnScore,
    Sort,
    make_calls,
    make_framework,
    make_snapshot,
)
from tests.support.virtual_time import run_in

POD = make_pod_info("p")
HERE = POD.on_node("n")
STATE = CycleState()


class Named:
    """Has a name of its own, an answer, and a shared log."""

    def __init__(self, name: str, answer: Any = SUCCESS, log: list[str] | None = None) -> None:
        self.NAME = name
        self.answer = answer
        self.log = [] if log is None else log

    def say(self, what: str) -> Any:
        self.log.append(f"{self.NAME}.{what}")
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Gate(Named, PreEnqueuePlugin):
    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        status: Status = self.say("pre_enqueue")
        return status


class Post(Named, PostFilterPlugin):
    @override
    def post_filter(self, *_: Any) -> tuple[PostFilterResult | None, Status]:
        answer: tuple[PostFilterResult | None, Status] = self.say("post_filter")
        return answer


class Reserve(Named, ReservePlugin):
    @override
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        status: Status = self.say("reserve")
        return status

    @override
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.log.append(f"{self.NAME}.unreserve")


class Permit(Named, PermitPlugin):
    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        answer: tuple[Status, float] = self.say("permit")
        return answer


class PreBind(Named, PreBindPlugin):
    def __init__(self, name: str, flight: Status, answer: Any, log: list[str]) -> None:
        super().__init__(name, answer, log)
        self._flight = flight

    @override
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return self._flight

    @override
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        status: Status = self.say("pre_bind")
        return status


class Bind(Named, BindPlugin):
    @override
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        status: Status = self.say("bind")
        return status


class PostBind(Named, PostBindPlugin):
    @override
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.say("post_bind")


def test_the_first_gate_holds_the_pod() -> None:
    """It is named, and nobody after it is asked."""
    log: list[str] = []
    framework = make_framework(
        Gate("A", log=log), Gate("B", unschedulable("wait"), log), Gate("C", log=log)
    )

    assert framework.run_pre_enqueue_plugins(POD) == unschedulable("wait").by("B")
    assert log == ["A.pre_enqueue", "B.pre_enqueue"]


NO_HELP = (None, unschedulable("no help"))
WRITES = PostFilterResult(None, writes=(Write("PATCH", "/api/v1/something"),))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([], (None, unschedulable()), id="no plugin"),
        pytest.param(
            [NO_HELP, (PostFilterResult("n"), SUCCESS)],
            (PostFilterResult("n"), SUCCESS.by("P1")),
            id="first success",
        ),
        pytest.param(
            [(PostFilterResult("n"), unschedulable("one")), (None, unschedulable("two"))],
            (PostFilterResult("n"), unschedulable("one", "two")),
            id="reasons together",
        ),
        pytest.param(
            [(PostFilterResult(""), unschedulable("one")), (WRITES, unschedulable("two"))],
            (PostFilterResult("", writes=WRITES.writes), unschedulable("one", "two")),
            id="what only writes nominates no other",
        ),
        pytest.param(
            [(WRITES, unschedulable("one")), (None, unschedulable("two"))],
            (WRITES, unschedulable("one", "two")),
            id="what only writes leaves a nomination",
        ),
        pytest.param(
            [(None, unresolvable("stop")), NO_HELP],
            (None, unresolvable("stop").by("P0")),
            id="unresolvable ends",
        ),
        pytest.param([(None, error("boom"))], (None, error("boom").by("P0")), id="error ends"),
        pytest.param(
            [(PostFilterResult("n"), error("boom"))],
            (None, error("boom").by("P0")),
            id="an error nominates no node",
        ),
    ],
)
def test_post_filter(answers: list[Any], expected: Any) -> None:
    """The first plugin that helps, or fails, ends it; rejections are collected."""
    framework = make_framework(*(Post(f"P{i}", answer) for i, answer in enumerate(answers)))
    snapshot = make_snapshot("a")
    diagnosis = framework.filtering.find_nodes_that_fit(POD, snapshot).diagnosis(snapshot)

    assert framework.run_post_filter_plugins(STATE, POD, snapshot, diagnosis) == expected


def test_unreserve_goes_backwards() -> None:
    """Reserve stops at the first failure; all are unreserved, the last one first."""
    log: list[str] = []
    framework = make_framework(
        Reserve("A", log=log), Reserve("B", unschedulable("taken"), log), Reserve("C", log=log)
    )

    status = framework.run_reserve_plugins(STATE, HERE)
    framework.run_unreserve_plugins(STATE, HERE)

    assert status == unschedulable("taken").by("B")
    assert log == ["A.reserve", "B.reserve", "C.unreserve", "B.unreserve", "A.unreserve"]


WAIT = Status(Code.WAIT)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([(SUCCESS, 0.0)], (SUCCESS, {}), id="allowed"),
        pytest.param(
            [(WAIT, 5.0), (SUCCESS, 0.0), (WAIT, 7.0)],
            (WAIT, {"P0": 5.0, "P2": 7.0}),
            id="everybody's time limit",
        ),
        pytest.param(
            [(WAIT, 5.0), (unschedulable("no"), 0.0)],
            (unschedulable("no").by("P1"), {}),
            id="rejection beats waiting",
        ),
    ],
)
def test_permit(answers: list[Any], expected: Any) -> None:
    """Wait is collected, a rejection ends it."""
    framework = make_framework(*(Permit(f"P{i}", answer) for i, answer in enumerate(answers)))

    assert framework.run_permit_plugins(STATE, HERE) == expected


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


def test_pre_bind_is_skipped_by_its_pre_flight() -> None:
    """A plugin with nothing to do is not run; the first failure ends it."""
    log: list[str] = []
    framework = make_framework(
        PreBind("A", SKIP, SUCCESS, log),
        PreBind("B", SUCCESS, error("no disk"), log),
        PreBind("C", SUCCESS, SUCCESS, log),
    )

    status = run(framework.run_pre_bind_plugins(STATE, HERE))

    told = error('running PreBind plugin "B": no disk').by("B")
    assert (status, log) == (told, ["B.pre_bind"])


def test_neighbours_that_allow_it_run_pre_bind_together() -> None:
    """One that has nothing to do is left out, and one that does not allow it runs by itself."""
    log: list[str] = []
    sizes: list[int] = []

    class Beside(PreBind):
        ALLOW_PARALLEL = True

    async def together(works: Sequence[Work]) -> Status:
        sizes.append(len(works))
        return await one_after_another(works)

    framework = make_framework(
        Beside("A", SUCCESS, SUCCESS, log),
        Beside("B", SKIP, SUCCESS, log),
        Beside("C", SUCCESS, SUCCESS, log),
        PreBind("D", SUCCESS, SUCCESS, log),
        Beside("E", SUCCESS, SUCCESS, log),
    )

    assert run(framework.run_pre_bind_plugins(STATE, HERE, together)) == SUCCESS
    assert (sizes, log) == ([2], ["A.pre_bind", "C.pre_bind", "D.pre_bind", "E.pre_bind"])


@pytest.mark.parametrize(
    ("point", "call"),
    [
        ("Reserve", lambda a: make_framework(Reserve("X", a)).run_reserve_plugins(STATE, HERE)),
        (
            "Permit",
            lambda a: make_framework(Permit("X", (a, 0))).run_permit_plugins(STATE, HERE)[0],
        ),
        (
            "PreBindPreFlight",
            lambda a: run(
                make_framework(PreBind("X", a, SUCCESS, [])).run_pre_bind_plugins(STATE, HERE)
            ),
        ),
        ("Bind", lambda a: run(make_framework(Bind("X", a)).run_bind_plugins(STATE, HERE))),
    ],
    ids=lambda value: value if isinstance(value, str) else "call",
)
def test_an_error_that_a_plugin_returns_names_it(
    point: str, call: Callable[[Status], Status]
) -> None:
    """As one that it raises; the text of a rejection stays as it is."""
    assert call(error("500")) == error(f'running {point} plugin "X": 500').by("X")
    assert call(unschedulable("full")) == unschedulable("full").by("X")


def test_the_first_plugin_that_does_not_skip_binds() -> None:
    """Skip hands the pod on; when all skip, nobody has bound it."""
    log: list[str] = []
    framework = make_framework(Bind("A", SKIP, log), Bind("B", log=log), Bind("C", log=log))

    assert run(framework.run_bind_plugins(STATE, HERE)) == SUCCESS.by("B")
    assert log == ["A.bind", "B.bind"]
    assert run(make_framework(Bind("A", SKIP)).run_bind_plugins(STATE, HERE)) == SKIP


BOOM = ValueError("boom")


@pytest.mark.parametrize(
    ("point", "call"),
    [
        (
            "Reserve",
            lambda: make_framework(Reserve("X", BOOM)).run_reserve_plugins(STATE, HERE),
        ),
        ("Permit", lambda: make_framework(Permit("X", BOOM)).run_permit_plugins(STATE, HERE)),
        (
            "PreBind",
            lambda: run(
                make_framework(PreBind("X", SUCCESS, BOOM, [])).run_pre_bind_plugins(STATE, HERE)
            ),
        ),
        ("Bind", lambda: run(make_framework(Bind("X", BOOM)).run_bind_plugins(STATE, HERE))),
    ],
    ids=lambda value: value if isinstance(value, str) else "call",
)
def test_a_plugin_that_raises_is_named(point: str, call: Callable[[], object]) -> None:
    """At every extension point, with the exception that it raised as the cause."""
    with pytest.raises(PluginError) as raised:
        call()

    assert str(raised.value) == f'running {point} plugin "X": ValueError: boom'
    assert raised.value.__cause__ is BOOM


def test_a_pre_bind_that_is_not_asynchronous_is_told_so() -> None:
    """Not only that its answer cannot be awaited."""

    class Plain(PreBind):
        @override
        def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:  # type: ignore[override] # the author's mistake
            return SUCCESS

    framework = make_framework(Plain("X", SUCCESS, SUCCESS, []))

    with pytest.raises(PluginError, match=r"expected an awaitable: the method must be `async def`"):
        run(framework.run_pre_bind_plugins(STATE, HERE))


def test_an_exception_without_a_message_is_named() -> None:
    """A bare assertion, for instance."""
    framework = make_framework(Reserve("X", AssertionError()))

    with pytest.raises(PluginError, match=r'running Reserve plugin "X": AssertionError$'):
        framework.run_reserve_plugins(STATE, HERE)


@pytest.mark.parametrize("problem", [SystemExit(3), asyncio.CancelledError()])
def test_a_plugin_cannot_end_the_process(problem: BaseException) -> None:
    """A library that calls `sys.exit`, or the result of a task that was cancelled."""
    reserve = make_framework(Reserve("X", problem)).run_reserve_plugins
    pre_bind = make_framework(PreBind("X", SUCCESS, problem, []), time_limit=PluginTimeLimit)

    with pytest.raises(PluginError, match='running Reserve plugin "X": '):
        reserve(STATE, HERE)
    with pytest.raises(PluginError, match='running PreBind plugin "X": '):
        run(pre_bind.run_pre_bind_plugins(STATE, HERE))


def test_a_plugins_own_timeout_is_not_taken_for_the_time_limit() -> None:
    """A library in the plugin has limits of its own."""
    late = PreBind("X", SUCCESS, TimeoutError("no answer from the store"), [])

    with pytest.raises(PluginError, match='"X": TimeoutError: no answer from the store'):
        run(make_framework(late, time_limit=PluginTimeLimit).run_pre_bind_plugins(STATE, HERE))


def test_a_plugin_that_never_ends_is_given_up() -> None:
    """After its own time limit, which is ten minutes unless it sets another."""

    class Hangs(PreBind):
        @override
        async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
            await asyncio.Event().wait()
            return SUCCESS

    hangs, clock = Hangs("X", SUCCESS, SUCCESS, []), FakeClock()
    begun = clock.now

    with pytest.raises(PluginError, match="did not return within 600 s"):
        run_in(
            clock,
            make_framework(hangs, time_limit=PluginTimeLimit).run_pre_bind_plugins(STATE, HERE),
        )
    assert clock.now == begun + 600


def test_ctrl_c_in_a_plugin_ends_the_command() -> None:
    """It is a wish of the user, not a fault of the plugin."""
    with pytest.raises(KeyboardInterrupt):
        make_framework(Reserve("X", KeyboardInterrupt())).run_reserve_plugins(STATE, HERE)


def test_a_sort_key_that_fails_comes_last_whoever_gives_it() -> None:
    """In-tree plugins are trusted to answer rightly, not to never raise."""

    class Broken(Sort):
        def sort_key(self, queued: QueuedPodInfo) -> Any:
            if queued.pod_info.name == "bad":
                raise BOOM
            return 0, queued.timestamp

    failed: list[PluginError] = []
    enabled = {"queueSort": [("Sort", 0)]}
    calls = make_calls(on_failed=failed.append)
    framework = Framework(ProfilePlugins(enabled, lambda _: Broken(), calls, trusted=["Sort"]))

    keys = [framework.sort_key(make_queued_pod_info(name, 1.0)) for name in ("bad", "good")]

    assert keys == [(1, 1.0), (0, 1.0)]
    assert [str(each) for each in failed] == ['running QueueSort plugin "Sort": ValueError: boom']
    assert calls.metrics.plugin_errors["Sort", "QueueSort"].value == 1


def test_calls_are_timed_in_sampled_cycles_only() -> None:
    """Each call with its plugin, extension point and outcome; failures are counted in all."""
    framework = make_framework(
        Gate("A", unschedulable("x")), Bind("B", BOOM), Permit("C", (WAIT, 1.0))
    )
    metrics = framework.calls.metrics

    framework.run_pre_enqueue_plugins(POD)
    framework.calls.begin_cycle(sampled=True)
    framework.run_pre_enqueue_plugins(POD)
    framework.run_permit_plugins(STATE, HERE)
    with pytest.raises(PluginError):
        run(framework.run_bind_plugins(STATE, HERE))

    assert {key: sum(child.counts) for key, child in metrics.plugin_execution_duration.items()} == {
        ("A", "PreEnqueue", "Unschedulable"): 1,
        ("C", "Permit", "Wait"): 1,
        ("B", "Bind", "Error"): 1,
    }
    assert {key: child.value for key, child in metrics.plugin_errors.items()} == {("B", "Bind"): 1}


def test_every_extension_point_is_reported_in_every_cycle() -> None:
    """With how it ended, whether it has plugins or not."""
    framework = make_framework(
        ColumnScore("S", {"a": 1}), Permit("C", (WAIT, 1.0)), Bind("B", unschedulable("no"))
    )
    snapshot = make_snapshot("a", "b")

    found = framework.filtering.find_nodes_that_fit(POD, snapshot)
    framework.scoring.best_nodes(found, POD, snapshot)
    framework.run_reserve_plugins(STATE, HERE)
    framework.run_permit_plugins(STATE, HERE)
    run(framework.run_bind_plugins(STATE, HERE))
    framework.run_unreserve_plugins(STATE, HERE)

    assert list(framework.calls.metrics.extension_point_duration) == [
        ("PreFilter", "Success", "test"),
        ("Filter", "Success", "test"),
        ("PreScore", "Success", "test"),
        ("Score", "Success", "test"),
        ("Reserve", "Success", "test"),
        ("Permit", "Wait", "test"),
        ("Bind", "Unschedulable", "test"),
        ("Unreserve", "Success", "test"),
    ]


@pytest.mark.parametrize("names", [[], ["S", "T"]], ids=["none", "two"])
def test_exactly_one_plugin_sorts_the_queue(names: list[str]) -> None:
    """Anything else cannot be a profile."""
    enabled = {"queueSort": [(name, 0) for name in names]}

    with pytest.raises(PluginSetError, match="exactly one queueSort plugin is needed"):
        ProfilePlugins(enabled, lambda name: Sort(), make_calls())


def test_a_plugin_is_built_once_for_all_points() -> None:
    """It may keep state between its extension points."""
    built = []

    def build(name: str) -> Any:
        built.append(name)
        return Sort() if name == "Sort" else ColumnFilter(name, {})

    enabled = {"queueSort": [("Sort", 0)], "filter": [("F", 0)], "postFilter": [], "reserve": []}
    plugins = ProfilePlugins(enabled, build, make_calls())

    assert built == ["Sort", "F"]
    assert [plugin.name for plugin in plugins.filter] == ["F"]


# --- state ----------------------------------------------------------------------------------------


class Countable:
    def __init__(self, count: int) -> None:
        self.count = count

    def clone(self) -> "Countable":
        return Countable(self.count)


def test_a_copy_of_the_state_is_independent_where_values_can_be_copied() -> None:
    """Trying pods on a node must not change the attempt."""
    key: StateKey[Countable] = StateKey("count")
    shared: StateKey[list[int]] = StateKey("list")
    state = CycleState()
    state.write(key, Countable(1))
    state.write(shared, [])

    copy = state.clone()
    copy.read(key).count = 5

    assert state.read(key).count == 1
    assert copy.read(shared) is state.read(shared)


def test_none_is_a_value_of_the_state() -> None:
    """A plugin that wrote it is not told that it wrote nothing."""
    key: StateKey[int | None] = StateKey("number")
    parent = CycleState()
    parent.write(key, None)

    assert parent.read(key) is None
    assert CycleState(parent).read(key) is None


def test_a_state_reads_through_to_its_parent() -> None:
    """What is known of the pod's class is found, and covered by what is written."""
    key: StateKey[int] = StateKey("number")
    parent = CycleState()
    parent.write(key, 1)

    child = CycleState(parent)
    assert child.read(key) == 1
    child.write(key, 2)

    assert (child.read(key), parent.read(key), child.clone().read(key)) == (2, 1, 2)
    with pytest.raises(KeyError, match="other"):
        child.read(StateKey("other"))
