"""Handles and shared states: what plugins see of the rest, and what they do not."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from scheduler.api.pods import PodInfo
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.config.load import load_object
from scheduler.daemon.bootstrap import FrameworkBuilder, PluginLoadError
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.framework.events import NODE_KIND, EventResource, ObjectKind
from scheduler.kernel.framework.handle import Handle, HandleError, SharedState
from scheduler.kernel.framework.interface import PermitPlugin, Plugin, PostBindPlugin
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.runtime.shared_states import SharedStates, kinds_to_watch
from scheduler.kernel.framework.services import Lister
from scheduler.kernel.framework.status import SUCCESS, Status
from scheduler.kernel.plugins.default_preemption import DefaultPreemption
from scheduler.kernel.plugins.default_selector import SERVICE, Workloads
from scheduler.kernel.plugins.node_resources_fit import NodeResourcesFit
from scheduler.kernel.volumes.catalog import VolumeCatalog
from tests.support.builders import make_pod_info
from tests.support.fake_plugins import make_framework, make_snapshot
from tests.support.handles import make_handle, make_services

WIDGET = ObjectKind("Widget", "acme.com/v1", "widgets")
BOOM = {"metadata": {"name": "boom"}}


def service(name: str, version: str = "1") -> Service:
    pod = make_pod_info(name, resource_version=version)
    return Service(pod.pod.metadata, ServiceSpec({"app": name}))


class Places(SharedState):
    """How many pods each node holds, widgets as well."""

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (WIDGET,)

    def __init__(self) -> None:
        self.held: dict[str, int] = {}

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        if new == BOOM:
            raise ValueError("boom")
        self.held["widgets"] = self.held.get("widgets", 0) + (old is None) - (new is None)

    @override
    def reserve(self, pod: PodInfo, node_name: str) -> None:
        self.held[node_name] = self.held.get(node_name, 0) + 1

    @override
    def unreserve(self, pod: PodInfo, node_name: str) -> None:
        self.held[node_name] -= 1

    @override
    def fork(self) -> "Places":
        copy = Places()
        copy.held = self.held.copy()
        return copy


class Counting(PermitPlugin):
    """Uses what it declares."""

    NAME: ClassVar[str] = "Counting"
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (WIDGET, SERVICE)
    built: ClassVar[list[Any]] = []

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.shared(Places)
        self.handle = handle
        self.built.append(args)

    @override
    def permit(self, *_: Any) -> tuple[Status, float]:
        return SUCCESS, self.handle.shared(Places).held.get("a", 0)


class Undeclared(Counting):
    NAME: ClassVar[str] = "Undeclared"
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = ()


class Bare(PostBindPlugin):
    """Needs neither arguments nor handle."""

    NAME: ClassVar[str] = "Bare"

    @override
    def post_bind(self, *_: Any) -> None:
        pass


def build(*plugins: type[Plugin], args: Any = None) -> tuple[FrameworkBuilder, Any]:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "s",
                "plugins": {"multiPoint": {"enabled": [{"name": p.NAME} for p in plugins]}},
                "pluginConfig": [{"name": "Counting", "args": args}] if args else [],
            }
        ],
    }
    out_of_tree = {p.NAME: p for p in plugins}
    builder = FrameworkBuilder(lambda: 7.0, out_of_tree=out_of_tree)
    points: Any = {"Counting": {"permit"}, "Undeclared": {"permit"}, "Bare": {"postBind"}}
    config = load_object(document, out_of_tree={p.NAME: points[p.NAME] for p in plugins})
    return builder, builder.build(config)["s"]


def failures_of(states: SharedStates) -> list[PluginError]:
    """The failures of states from now on."""
    failed: list[PluginError] = []
    states.on_failed = failed.append
    return failed


def test_every_plugin_is_built_alike() -> None:
    """With its arguments as they are written, or None, and a handle; base class or not."""
    Counting.built.clear()

    _, framework = build(Counting, Bare, args={"x": 1})

    assert Counting.built == [{"x": 1}]
    assert isinstance(framework.plugins.by_name["Bare"], Bare)


def test_the_kinds_to_watch_are_those_of_the_plugins() -> None:
    """Each once, in-tree and out-of-tree together; the engine watches nodes in any case."""
    _, framework = build(Counting)

    expected = {
        WIDGET,
        *Workloads.WATCHES,
        *VolumeCatalog.WATCHES,
        *DefaultPreemption.WATCHES,
        *ClaimCatalog.WATCHES,
    }
    assert set(kinds_to_watch([framework, framework])) == expected - {NODE_KIND}


def test_what_is_not_declared_is_refused() -> None:
    """While the plugin is built, with its name."""
    with pytest.raises(PluginLoadError, match=r'"Undeclared" asks for Widget.*not in its WATCHES'):
        build(Undeclared)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda handle, pod: handle.run_filters(pod.pod, ["a"]),
            "run_filters: expected a PodInfo, got a Pod",
        ),
        (
            lambda handle, pod: handle.run_filters(pod, "a"),
            "run_filters: expected names of nodes, got the text 'a'",
        ),
        (
            lambda handle, pod: handle.run_filters(pod, ["a"], add=[pod.name]),
            "run_filters: expected a PodInfo, got a str",
        ),
        (
            lambda handle, pod: handle.activate([pod.uid]),
            "activate: expected a PodInfo, got a str",
        ),
        (
            lambda handle, pod: handle.record_event(pod.pod, "Normal", "Held", "waits"),
            "record_event: expected a PodInfo, got a Pod",
        ),
        (
            lambda handle, pod: handle.record_event(pod, "Info", "Held", "waits"),
            "record_event: expected Normal or Warning, got 'Info'",
        ),
        (
            lambda handle, pod: handle.record_event(pod, "Normal", "Held", None),
            r"record_event: expected texts as reason and note, got \('Held', None\)",
        ),
    ],
)
def test_arguments_of_other_types_are_refused(
    call: Callable[[Handle, PodInfo], object], message: str
) -> None:
    """A plugin in node form gets a `Pod`, and has no `PodInfo`."""
    handle = Handle(make_services(activate=list, record_event=print))

    with pytest.raises(HandleError, match=message):
        call(handle, make_pod_info("p"))


def test_what_nobody_filled_in_is_named() -> None:
    """In a command without an API server, for instance."""
    with pytest.raises(HandleError, match="api is not there"):
        _ = make_handle().api


def test_the_rest_of_the_scheduler_shows_through() -> None:
    """Whatever whoever composes has filled in, and time and metrics from the start."""
    told: list[Any] = []
    services = make_services(
        snapshot=make_snapshot("a"),
        activate=told.append,
        record_event=lambda *what: told.append(what),
    )
    handle = Handle(services)
    pod = make_pod_info("p")

    handle.activate([pod])
    handle.record_event(pod, "Normal", "Held", "waits")
    handle.metrics.counter("acme_total", "a").pop((), None)

    assert told == [(pod,), (pod, "Normal", "Held", "waits")]
    assert handle.snapshot is services.snapshot
    assert handle.now() == 0.0
    assert handle.metrics.counter("acme_total", "a") is handle.metrics.counter("acme_total", "a")
    with pytest.raises(ValueError, match="declared already"):
        handle.metrics.counter("acme_total", "a", "label")


def test_listers_follow_the_watch() -> None:
    """By namespace and name, whatever form the objects have."""
    builder, framework = build(Counting)
    handle = framework.plugins.by_name["Counting"].handle
    states = builder.states
    failed = failures_of(states)
    widget = {"metadata": {"name": "w"}}

    for kind, old, new in (
        (SERVICE, None, service("s")),
        (SERVICE, service("s"), service("s", "2")),
        (SERVICE, None, service("t")),
        (SERVICE, service("t"), None),
        (WIDGET, None, widget),
    ):
        states.object_changed(kind, old, new)
    assert failed == []

    def names(lister: Lister) -> list[str]:
        return [s.metadata.name + s.metadata.resource_version for s in lister]

    assert names(handle.lister(SERVICE)) == ["s2"]
    assert handle.lister(SERVICE).get("s", "default") is not None
    assert handle.lister(SERVICE).get("s", "other") is None
    assert handle.lister(WIDGET).get("w") is widget


def test_states_hear_of_everything_and_are_forked() -> None:
    """In order; a fork and its original go their own ways, and a fork can stand in."""
    builder, framework = build(Counting)
    states, pod = builder.states, make_pod_info("p", node_name="a")
    permit = framework.run_permit_plugins
    plugin = framework.plugins.by_name["Counting"]

    states.reserved(pod)
    states.object_changed(WIDGET, None, {"metadata": {"name": "w"}})
    fork = states.fork()
    fork.reserved(pod)
    states.unreserved(pod)

    assert plugin.handle.shared(Places).held == {"a": 0, "widgets": 1}
    with builder.services.on_fork(make_snapshot("x"), fork):
        assert plugin.handle.shared(Places).held == {"a": 2, "widgets": 1}
        assert list(plugin.handle.snapshot.table.row_of) == ["x"]
        assert permit(None, pod) == (SUCCESS, {})
    assert plugin.handle.shared(Places).held["a"] == 0
    with pytest.raises(HandleError):
        _ = plugin.handle.snapshot


def test_a_state_that_fails_is_named_and_counted() -> None:
    """And harms nobody else."""
    builder, framework = build(Counting)
    failed = failures_of(builder.states)

    builder.states.object_changed(WIDGET, None, BOOM)

    (problem,) = failed
    assert str(problem) == 'running SharedState plugin "Counting": ValueError: boom'
    assert framework.calls.metrics.plugin_errors["Counting", "SharedState"].value == 1


def test_a_state_that_cannot_be_forked_is_named_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fork without it would answer questions wrongly."""
    builder, framework = build(Counting)

    def fails(_: Places) -> Places:
        raise ValueError("boom")

    monkeypatch.setattr(Places, "fork", fails)

    for fork in (builder.states.fork, lambda: builder.states.with_own(Places)):
        with pytest.raises(PluginError, match='SharedState plugin "Counting": ValueError: boom'):
            fork()
    assert framework.calls.metrics.plugin_errors["Counting", "SharedState"].value == 2


@pytest.mark.parametrize("problem", [SystemExit(3), asyncio.CancelledError()])
def test_a_state_or_a_constructor_cannot_end_the_process(
    monkeypatch: pytest.MonkeyPatch, problem: BaseException
) -> None:
    """A library that calls `sys.exit`, or the result of a task that was cancelled."""
    builder, _ = build(Counting)
    failed = failures_of(builder.states)

    def fails(*_: object) -> None:
        raise problem

    monkeypatch.setattr(Places, "on_event", fails)
    monkeypatch.setattr(Places, "fork", fails)
    monkeypatch.setattr(Counting, "__init__", fails)

    builder.states.object_changed(WIDGET, None, BOOM)
    assert [f'"Counting": {type(problem).__name__}' in str(each) for each in failed] == [True]
    for fork in (builder.states.fork, lambda: builder.states.with_own(Places)):
        with pytest.raises(PluginError, match='running SharedState plugin "Counting": '):
            fork()
    with pytest.raises(PluginLoadError, match='plugin "Counting" cannot be built: '):
        build(Counting)


@pytest.mark.parametrize("answer", [None, {}])
def test_a_fork_of_another_type_is_refused(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """Such as a forgotten return: plugins would be given it in the place of their state."""
    builder, _ = build(Counting)
    monkeypatch.setattr(Places, "fork", lambda _: answer)

    for fork in (builder.states.fork, lambda: builder.states.with_own(Places)):
        with pytest.raises(PluginError) as failed:
            fork()

        assert str(failed.value) == (
            f'running SharedState plugin "Counting": returned {answer}, '
            "expected a copy of type Places from fork"
        )


def test_a_state_that_has_no_fork_is_refused_at_once() -> None:
    """Not by the first question, which may come a month later."""

    class Forkless(SharedState):
        pass

    class Asks(Bare):
        NAME: ClassVar[str] = "Bare"

        def __init__(self, args: Any, handle: Handle) -> None:
            super().__init__(args, handle)
            handle.shared(Forkless)

    with pytest.raises(PluginLoadError, match=r"plugin \"Bare\" cannot be built: .* method '?fork"):
        build(Asks)


def test_forked_workloads_are_independent() -> None:
    """A Service that comes to the one does not select pods for the other."""
    workloads = Workloads()
    workloads.on_event(SERVICE, None, service("web"))
    pod = make_pod_info("p", labels={"app": "web"})
    workloads.selector_of(pod)

    fork = workloads.fork()
    fork.on_event(SERVICE, service("web"), None)
    later = workloads.fork()
    workloads.on_event(SERVICE, None, service("web2"))

    assert fork.selector_of(pod).is_everything
    assert not workloads.selector_of(pod).is_everything
    assert later.selector_of(pod) == workloads.selector_of(pod)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (ObjectKind("Service"), EventResource.SERVICE),
        (ObjectKind("CSINode", "storage.k8s.io/v1"), EventResource.CSI_NODE),
        (WIDGET, WIDGET),
    ],
)
def test_objects_wake_pods_by_their_kind(kind: ObjectKind, expected: object) -> None:
    """Known kinds under upstream's name, others under their own."""
    assert kind.event_resource == expected


def walk(names: dict[str, Status]) -> Iterator[tuple[str, bool]]:
    return ((name, status.is_success) for name, status in names.items())


def test_filters_run_on_a_fork() -> None:
    """As if pods had come and gone; the snapshot stays as it is."""
    resident = make_pod_info("r", node_name="a", requests={"cpu": "3"})
    guest = make_pod_info("g", node_name="b", requests={"cpu": "3"})
    pod = make_pod_info("p", requests={"cpu": "2"})
    snapshot = make_snapshot("a", "b", pods=[resident])
    framework = make_framework(NodeResourcesFit())
    services = make_services(snapshot=snapshot, filters={"test": framework.filtering.run_filters})
    run = Handle(services, profile="test").run_filters

    present = dict(walk(run(pod, ["a", "b", "gone"])))
    changed = dict(walk(run(pod, ["a", "b"], add=[guest], remove=[resident])))

    assert (present, changed) == ({"a": False, "b": True}, {"a": True, "b": False})
    assert dict(walk(run(pod, ["a", "b"]))) == present
