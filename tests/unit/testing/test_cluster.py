"""The kit for tests of policies and plugins: clusters, decisions, and what failures say."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest
from typing_extensions import override

from scheduler import plugin
from scheduler.api.nodes import NodeInfo
from scheduler.api.objects import Pod
from scheduler.api.pods import PodInfo
from scheduler.config.feature_gates import TAINT_TOLERATION_COMPARISON_OPERATORS
from scheduler.config.load import default_configuration
from scheduler.config.problems import ConfigError
from scheduler.config.types import API_VERSION, KIND
from scheduler.config.write import to_object
from scheduler.daemon.recording.files import whole_file
from scheduler.daemon.recording.records import Header, Writer
from scheduler.errors import SchedulerError
from scheduler.kernel.engine.events import Decide
from scheduler.kernel.framework.cycle_state import CycleState, StateKey
from scheduler.kernel.framework.events import (
    NODE_KIND,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ObjectKind,
)
from scheduler.kernel.framework.handle import Handle, SharedState
from scheduler.kernel.framework.interface import (
    EnqueueExtensions,
    NodeFilterPlugin,
    PermitPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
)
from scheduler.kernel.framework.results import PreFilterResult
from scheduler.kernel.framework.runtime import PluginError
from scheduler.kernel.framework.status import SUCCESS, Code, Status, unschedulable
from scheduler.kernel.snapshot import Snapshot
from scheduler.testing import Cluster, ClusterError, Decision, Manifest, node, pod
from scheduler.tools.offline.cluster import Profiles, events_of
from scheduler.tools.offline.reading import InputError, objects_from_documents
from tests.support.device_manifests import claim_manifest, class_manifest, slice_manifest
from tests.support.recordings import make_header

RACK = ObjectKind("Rack", "acme.com/v1", "racks")


class Story(PreEnqueuePlugin, PreFilterPlugin, PermitPlugin):
    """Says something else of every pod, by name; counts racks."""

    NAME: ClassVar[str] = "Story"
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (RACK,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        return unschedulable("not yet") if pod.name == "gated" else SUCCESS

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        if pod.name == "boom":
            raise ValueError("boom")
        if pod.name == "needs-racks" and not list(self._handle.lister(RACK)):
            return None, unschedulable("there are no racks")
        if pod.name == "restless":
            self._handle.activate([pod])
            return None, unschedulable("again")
        return None, SUCCESS

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 5.0) if pod.name == "held" else (SUCCESS, 0.0)


@pytest.fixture
def told(cluster: Cluster) -> Cluster:
    cluster.enable(Story)
    cluster.add(node("a"), node("b", allocatable={"cpu": "1"}))
    return cluster


APPROVAL = ObjectKind("Approval", "acme.com/v1", "approvals")


class Approved(SharedState):
    """The pods that are approved; tells of each new one."""

    WATCHES: ClassVar[tuple[ObjectKind, ...]] = (APPROVAL,)

    def __init__(self) -> None:
        self.pods: set[str] = set()
        self.on_approved: Callable[[str], None] = lambda _: None

    @override
    def on_event(self, kind: ObjectKind, old: Any, new: Any) -> None:
        if new is not None:
            self.pods.add(new["metadata"]["name"])
            self.on_approved(new["metadata"]["name"])

    @override
    def fork(self) -> "Approved":
        copy = Approved()
        copy.pods = self.pods.copy()
        return copy


class Approvals(PermitPlugin, EnqueueExtensions):
    """Holds a pod until an object of its name is there."""

    NAME: ClassVar[str] = "Approvals"
    WATCHES: ClassVar[tuple[ObjectKind, ...]] = Approved.WATCHES

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle
        handle.shared(Approved).on_approved = self._release

    @override
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        is_approved = pod.name in self._handle.shared(Approved).pods
        return (SUCCESS, 0.0) if is_approved else (Status(Code.WAIT), 30.0)

    @override
    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(APPROVAL, ActionType.ADD))]

    def _release(self, name: str) -> None:
        for held in self._handle.waiting:
            if held.pod.name == name:
                self._handle.waiting.allow(held.pod.uid, self.NAME)


def approval(pod: str) -> Manifest:
    return {"apiVersion": "acme.com/v1", "kind": "Approval", "metadata": {"name": pod}}


@pytest.mark.parametrize("moment", ["before", "while it is held", "late", "for another"])
def test_an_approval_from_outside(cluster: Cluster, moment: str) -> None:
    """As docs/plugins.md says: by an object, through a shared state."""
    cluster.enable(Approvals)
    cluster.add(node("a"))
    if moment == "before":
        cluster.add(approval("p"))
    cluster.schedule(pod("p"))
    assert bool(cluster.held) == (moment != "before")

    cluster.advance(31 if moment == "late" else 1)
    cluster.add(approval("q" if moment == "for another" else "p"))
    assert bool(cluster.held) == (moment == "for another")

    cluster.advance(20)
    assert (cluster.node_of("p"), bool(cluster.held)) == ("a", moment == "for another")


def test_a_state_that_fails_is_reported(cluster: Cluster) -> None:
    """The daemon logs it too."""
    cluster.enable(Approvals)

    def fails(pod: str) -> None:
        raise ValueError(pod)

    cluster.shared(Approved).on_approved = fails

    cluster.add(approval("p"))

    assert cluster.reports == [
        'Plugin failed: : running SharedState plugin "Approvals": ValueError: p'
    ]


class Waits(NodeFilterPlugin, PreEnqueuePlugin, EnqueueExtensions):
    """Gates the pod `gated` by failing; rejects others, with a hint that fails."""

    NAME: ClassVar[str] = "Waits"

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        if pod.name == "gated":
            raise ValueError("no gate")
        return SUCCESS

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return unschedulable("not here")

    @override
    def events_to_register(self) -> list[ClusterEventWithHint]:
        def hint(*_: object) -> NoReturn:
            raise ValueError("no hint")

        return [ClusterEventWithHint(ClusterEvent(NODE_KIND, ActionType.ADD), hint)]


def test_failures_that_fail_no_attempt_are_reported(cluster: Cluster) -> None:
    """The daemon logs them too, and no pod shows the failure of a hint."""
    cluster.enable(Waits)
    cluster.add(node("a"))

    cluster.schedule(pod("p"))
    cluster.add(node("b"))
    cluster.add(pod("gated"))

    assert set(cluster.reports) == {
        'Plugin failed: default/gated: running PreEnqueue plugin "Waits": ValueError: no gate',
        'Plugin failed: default/p: running QueueingHint plugin "Waits": ValueError: no hint',
    }


def test_an_event_of_a_kind_that_nothing_watches_is_refused(cluster: Cluster) -> None:
    """It would never come, and pods would wait for it without a word."""

    class Undeclared(Waits):
        @override
        def events_to_register(self) -> list[ClusterEventWithHint]:
            return [ClusterEventWithHint(ClusterEvent(RACK, ActionType.ADD))]

    cluster.enable(Undeclared)

    with pytest.raises(PluginError, match="expected the resource of an event to be one of its WAT"):
        cluster.add(node("a"))


def test_an_asynchronous_filter_fails_with_the_same_message_each_time(cluster: Cluster) -> None:
    """The address of the coroutine would change the pod's condition at each attempt."""

    class Late(NodeFilterPlugin):
        NAME: ClassVar[str] = "Waits"

        @override
        async def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:  # type: ignore[override] # the author's mistake
            return SUCCESS

    cluster.enable(Late)
    cluster.add(node("a"))

    because = "Late.filter>, expected a Status"
    cluster.schedule(pod("p")).must_wait(because=because)


def test_a_plugin_that_changes_an_object_fails_the_test() -> None:
    """Pods of one kind share their labels, so the change would reach other pods."""

    class Marks(NodeFilterPlugin):
        NAME: ClassVar[str] = "Marks"

        @override
        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            pod.metadata.labels["app"] = "seen"
            return SUCCESS

    cluster = Cluster()
    cluster.enable(Marks)
    cluster.add(node("a"))
    cluster.schedule(pod("p", labels={"app": "marked"}))

    with pytest.raises(
        ClusterError, match=r"changed metadata.labels.app of p: expected 'marked', got 'seen'"
    ):
        cluster.check()


class Count:
    """How many pods there are, for one attempt."""

    def __init__(self, pods: int) -> None:
        self.pods = pods

    def clone(self) -> "Count":
        return Count(self.pods)


COUNT: StateKey[Count] = StateKey("count")


class OnePod(plugin.PreFilterPlugin, plugin.NodeFilterPlugin, plugin.PreFilterExtensions):
    """The cluster takes one pod."""

    NAME: ClassVar[str] = "OnePod"

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        rows = snapshot.table.live_rows().tolist()
        state.write(COUNT, Count(sum(len(snapshot.info(row).pods) for row in rows)))
        return None, SUCCESS

    @override
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return unschedulable("there is a pod") if state.read(COUNT).pods else SUCCESS

    @override
    def add_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, added: PodInfo, row: int
    ) -> Status:
        state.read(COUNT).pods += 1
        return SUCCESS

    @override
    def remove_pod(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, removed: PodInfo, row: int
    ) -> Status:
        state.read(COUNT).pods -= 1
        return SUCCESS


def test_a_count_of_pre_filter_follows_the_victims_that_preemption_tries(cluster: Cluster) -> None:
    """The extension is public: without it no pod of the plugin can preempt."""
    cluster.enable(OnePod)
    cluster.add(node("a"))
    cluster.schedule(pod("low")).must_land_on("a")

    cluster.schedule(pod("high", priority=10)).must_evict("default/low")


@pytest.mark.parametrize("patience", ["5", None, 0, float("nan")])
def test_a_patience_that_is_no_number_of_seconds_is_refused(
    cluster: Cluster, patience: Any
) -> None:
    """Else each PreBind would fail, with a message that does not name it."""

    class Impatient(OnePod):
        NAME: ClassVar[str] = "Impatient"
        patience_seconds = patience

    cluster.enable(Impatient)

    told = f'"Impatient": patience_seconds: expected a number above 0, got {patience!r}'
    with pytest.raises(SchedulerError, match=re.escape(told)):
        cluster.add(node("a"))


def test_an_unknown_field_is_told_once(cluster: Cluster) -> None:
    """With the name of the object."""
    with pytest.raises(ClusterError) as raised:
        cluster.add(pod("p", scheduler="s"))

    told = "manifest: Pod p: spec.scheduler: unknown field (did you mean schedulerName?)"
    assert str(raised.value) == told


# --- what becomes of pods -------------------------------------------------------------------------


class Diary(PreFilterPlugin):
    """Rejects every pod, and notes the time of day."""

    NAME: ClassVar[str] = "Diary"
    times: ClassVar[list[float]] = []

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._handle = handle

    @override
    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot
    ) -> tuple[PreFilterResult | None, Status]:
        self.times.append(self._handle.wall())
        return None, unschedulable("not now")


def test_what_is_decided_has_happened(cluster: Cluster) -> None:
    """The next decision builds on it."""
    cluster.add(node("a"), node("b", allocatable={"cpu": "1"}))

    first = cluster.schedule(pod("p", requests={"cpu": "3"}))

    assert (first.node, first.best, first.message) == ("a", ("a",), "")
    cluster.schedule(pod("q", requests={"cpu": "2"})).must_wait(because="2 Insufficient cpu")
    cluster.delete("p")
    cluster.advance(10)
    assert cluster.node_of("default/q") == "a"


def test_a_deleted_pod_frees_its_claim(cluster: Cluster) -> None:
    """A pod that waits for the same device gets it."""
    cluster.add(node("a"), class_manifest(), slice_manifest("a", "gpu-0"))
    cluster.add(*map(claim_manifest, ("one", "two")))
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    cluster.schedule(pod("p", resourceClaims=claims)).must_land_on("a")
    claims = [{"name": "gpu", "resourceClaimName": "two"}]
    cluster.schedule(pod("q", resourceClaims=claims)).must_wait()

    cluster.delete("p")
    cluster.advance(10)

    assert cluster.node_of("q") == "a"


def test_who_waited_before_is_decided_about_before(cluster: Cluster) -> None:
    """A more important pod that comes later finds the room taken."""
    cluster.add(node("a"), pod("early", requests={"cpu": "4"}))

    late = cluster.schedule(
        pod("late", requests={"cpu": "4"}, priority=9, preemptionPolicy="Never")
    )

    late.must_wait(because="Insufficient cpu")
    assert cluster.node_of("early") == "a"


def test_preemption_goes_to_its_end(cluster: Cluster) -> None:
    """The victims are gone, and the preemptor runs."""
    cluster.add(node("a"), pod("low", node="a", requests={"cpu": "4"}))

    decision = cluster.schedule(pod("high", requests={"cpu": "4"}, priority=9))

    decision.must_land_on("a")
    decision.must_evict("default/low")
    assert "  evicted: default/low" in decision.explain()
    with pytest.raises(ClusterError, match="there is no pod low; pods: default/high"):
        cluster.node_of("low")


def test_time_passes_when_it_is_told_to(told: Cluster) -> None:
    """A held pod loses its place when its time is up, not before."""
    told.schedule(pod("held")).must_be_held(by="Story")

    told.advance(4.9)
    assert told.held == {"default/held": ("Story",)}
    told.delete("held")

    assert told.held == {}


def test_refused_bindings_are_tried_again(cluster: Cluster) -> None:
    cluster.add(node("a"))
    with cluster.bindings_refused("no entry"):
        cluster.schedule(pod("p")).must_wait(because="no entry")
    assert cluster.reports == ["Error scheduling pod; retrying: default/p: no entry"]

    cluster.advance(5)

    assert cluster.node_of("p") == "a"


def test_a_waiting_pod_is_scheduled_by_its_name(cluster: Cluster) -> None:
    cluster.add(pod("p", namespace="x"))
    cluster.schedule("x/p").must_wait(because="no nodes available")
    cluster.add(node("a"))

    cluster.schedule("p").must_land_on("a")


# --- where objects come from ----------------------------------------------------------------------

TEXT = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i}]
"""


@pytest.mark.parametrize("form", ["text", "file", "name of a file", "list"])
def test_objects_in_every_form(cluster: Cluster, tmp_path: Path, form: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(TEXT)
    items = [node("a"), pod("p")]
    forms: dict[str, Any] = {
        "text": TEXT,
        "file": file,
        "name of a file": str(file),
        "list": {"apiVersion": "v1", "kind": "List", "items": items},
    }

    cluster.add(forms[form])

    cluster.schedule("p").must_land_on("a")


def test_a_test_calls_pre_bind_itself(cluster: Cluster) -> None:
    """With the pod that plugins get, pending or bound: the builder only makes a manifest."""

    class Prepares(PreBindPlugin):
        NAME = "Prepares"

        @override
        async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
            return unschedulable(f"{pod.key}: {pod.pod.metadata.labels['app']}")

    cluster.add(node("n1"), pod("web-0", labels={"app": "web"}))

    for _ in range(2):
        call = Prepares(None, None).pre_bind(CycleState(), cluster.pod("web-0"), "n1")
        assert asyncio.run(call).message == "default/web-0: web"
        if not cluster.node_of("web-0"):
            cluster.schedule("web-0")
    with pytest.raises(ClusterError, match=r"there is no pod web-1; pods: default/web-0"):
        cluster.pod("web-1")


def test_a_workload_is_scheduled_pod_by_pod(cluster: Cluster) -> None:
    """As its controller would make them; those that find no room wait."""
    cluster.add(node("a", allocatable={"cpu": "4"}))
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 3, "template": {"spec": pod("t", requests={"cpu": "2"})["spec"]}},
    }

    first, second, third = cluster.schedule_all(job)

    assert [each.pod for each in (first, second, third)] == [f"default/j-{i}" for i in range(3)]
    first.must_land_on("a")
    second.must_land_on("a")
    third.must_wait(because="Insufficient cpu")


def test_a_plugin_that_runs_nowhere_is_refused(cluster: Cluster) -> None:
    """A class without a base of the contract would decide nothing, without a word."""

    class Baseless:
        NAME = "Baseless"

        def filter(self, state: object, pod: object, node: object) -> None: ...

    cluster.enable(Baseless)  # what a plugin author may write

    with pytest.raises(SchedulerError, match=r"Baseless.*runs at no extension point"):
        cluster.add(node("a"))


class Nameless(PreEnqueuePlugin):
    """Its author has forgotten the name."""

    @override
    def pre_enqueue(self, pod: PodInfo) -> Status:
        return SUCCESS


class Blank(Nameless):
    """A name that no configuration can say."""

    NAME = ""


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Nameless, "enable: Nameless needs a NAME, its name in configurations"),
        (Blank, "expected a text such as 'Blank', got ''"),
        ("Nameless", "enable: expected the class of a plugin, got 'Nameless'"),
    ],
)
def test_a_plugin_without_a_name_is_refused(cluster: Cluster, plugin: Any, message: str) -> None:
    """With what is missing, at the line that enables it."""
    with pytest.raises(ClusterError) as failed:
        cluster.enable(plugin)

    assert message in str(failed.value)


def test_objects_that_only_a_plugin_knows(told: Cluster) -> None:
    told.schedule(pod("needs-racks")).must_wait(because="there are no racks")
    rack = {"apiVersion": "acme.com/v1", "kind": "Rack", "metadata": {"name": "r"}}

    told.add({"kind": "List", "items": [rack]})
    told.advance(10)

    assert told.node_of("needs-racks")


def test_a_configuration_from_a_file(cluster: Cluster, tmp_path: Path) -> None:
    """Its profile decides, and answers to its own name only."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine, plugins: {filter: {disabled: [{name: '*'}]}}}]\n"
    )
    cluster.configure(file)
    cluster.add(node("a", allocatable={"cpu": "1"}))

    huge = pod("p", requests={"cpu": "64"}, schedulerName="mine")
    cluster.schedule(huge).must_land_on("a")
    with pytest.raises(ClusterError, match=r"schedulerName is default-scheduler; profiles: mine"):
        cluster.schedule(pod("q"))


@pytest.mark.parametrize(
    ("is_complete", "node_of_pod"), [(True, "a"), (False, "")], ids=["from the start", "its end"]
)
def test_a_recording(tmp_path: Path, is_complete: bool, node_of_pod: str) -> None:
    """Decisions under way are known only where it begins at the start; objects are always."""
    config = default_configuration()
    profiles = Profiles(config)
    engine, writer, lines = profiles.engine(0), Writer(), bytearray()
    objects = objects_from_documents([("node", node("a")), ("pod", of_ours("p"))])
    for time, event in enumerate((*events_of(objects), Decide())):
        writer.write(lines, event, time, engine.handle(event, time))
    header = Header(
        recording="r",
        version="",
        configuration=to_object(config),
        seed=0,
        max_in_unschedulable_seconds=300.0,
        started=0.0,
        clock=0.0,
        is_complete=is_complete,
    )
    file = tmp_path / "one.recording"
    file.write_bytes(whole_file(header, lines))
    cluster = Cluster()

    cluster.replay(file)

    assert cluster.node_of("p") == node_of_pod
    cluster.schedule(of_ours("q")).must_land_on("a")
    cluster.check()


def test_a_recording_has_its_feature_gates(tmp_path: Path) -> None:
    """Here that of tolerations which compare numbers."""
    gates = (TAINT_TOLERATION_COMPARISON_OPERATORS,)
    config = to_object(default_configuration(feature_gates=gates))
    file = tmp_path / "one.recording"
    header = make_header(configuration=config, feature_gates=gates)
    file.write_bytes(whole_file(header, bytearray()))
    cluster = Cluster()

    cluster.replay(file)

    cluster.add(node("a", taints=[{"key": "level", "value": "5", "effect": "NoSchedule"}]))
    tolerations = [{"key": "level", "operator": "Gt", "value": "3", "effect": "NoSchedule"}]
    cluster.schedule(pod("p", schedulerName="stowage", tolerations=tolerations)).must_land_on("a")


def test_a_recording_has_its_times(tmp_path: Path) -> None:
    """The time of day, and the time after which a rejected pod is tried again."""
    plugins = {"multiPoint": {"enabled": [{"name": "Diary"}]}}
    profile = {"schedulerName": "stowage", "plugins": plugins}
    header = make_header(
        configuration={"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]},
        max_in_unschedulable_seconds=60.0,
    )
    file = tmp_path / "one.recording"
    file.write_bytes(whole_file(header, bytearray()))
    cluster = Cluster()
    cluster.enable(Diary)
    Diary.times.clear()

    cluster.replay(file)

    cluster.add(node("a"))
    cluster.schedule(of_ours("p")).must_wait(because="not now")
    cluster.advance(120)
    first, *later = Diary.times
    assert first == pytest.approx(header.started - header.clock, abs=1)
    assert later


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda c: c.configure({"apiVersion": API_VERSION, "kind": KIND}), "omit configure"),
        (lambda c: c.enable(Diary, weight=2), "omit enable with a weight or args"),
        (lambda c: c.enable(Diary, args={}), "omit enable with a weight or args"),
        (lambda c: c.enable(Diary), "the recording does not enable Diary"),
    ],
    ids=["a configuration", "a weight", "arguments", "a plugin"],
)
def test_a_recording_keeps_its_configuration(
    tmp_path: Path, prepare: Callable[[Cluster], None], told: str
) -> None:
    """Another one would have no effect, unseen."""
    file = tmp_path / "one.recording"
    header = make_header(configuration=to_object(default_configuration()))
    file.write_bytes(whole_file(header, bytearray()))
    cluster = Cluster()
    prepare(cluster)

    with pytest.raises(ClusterError, match=told):
        cluster.replay(file)


def of_ours(name: str) -> Manifest:
    """A pod of the profile that is recorded."""
    return pod(name, schedulerName="stowage")


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        (lambda c: c.schedule("nobody"), ClusterError, "there is no pod nobody; pods: default/p"),
        (lambda c: c.schedule(node("x")), ClusterError, "expected exactly one pod, got 0"),
        (lambda c: c.schedule("p"), ClusterError, "it runs on a already"),
        (lambda c: c.delete("nobody"), ClusterError, "there is no pod default/nobody"),
        (lambda c: c.add("no-such.yaml"), ClusterError, "no-such.yaml: cannot be read"),
        (lambda c: c.add("kind: [\n"), InputError, "text:2:1: not valid YAML"),
        (lambda c: c.add(pod("x", nodeSelector=3)), InputError, "spec.nodeSelector: expected"),
        (lambda c: c.add(pod("x", nodeSelectr={})), ClusterError, "spec.nodeSelectr: "),
        (lambda c: c.enable(Story), ClusterError, "enable: only before anything is added"),
        (lambda c: c.configure({}), ClusterError, "configure: only before"),
        (lambda c: c.replay("x"), ClusterError, "replay: only before"),
    ],
)
def test_mistakes_have_one_message(
    cluster: Cluster, mistake: Callable[[Cluster], object], kind: type[Exception], message: str
) -> None:
    cluster.add(node("a"), pod("p", node="a"))

    with pytest.raises(kind) as raised:
        mistake(cluster)

    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("config", "kind", "message"),
    [
        ("- a list\n", ClusterError, "expected a KubeSchedulerConfiguration"),
        ({"kind": "Pod"}, ConfigError, 'kind: expected "KubeSchedulerConfiguration"'),
        ("none.yaml", ClusterError, "none.yaml: cannot be read"),
        ("kind: [\n", InputError, "text:2:1: not valid YAML"),
        ("kind: a\n---\nkind: b\n", ClusterError, "text: expected one Kube"),
    ],
)
def test_configurations_that_are_none(
    cluster: Cluster, config: Any, kind: type[SchedulerError], message: str
) -> None:
    def begin() -> None:
        cluster.configure(config)
        cluster.add(node("a"))

    with pytest.raises(kind, match=message):
        begin()


def test_a_plugin_that_never_rests(told: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is told apart from a long day."""
    monkeypatch.setattr("scheduler.testing.world._MAX_DECISIONS", 100)

    with pytest.raises(ClusterError, match="ready still after 100 decisions"):
        told.schedule(pod("restless"))


# --- what failed assertions say -------------------------------------------------------------------


def decided(cluster: Cluster) -> dict[str, Decision]:
    """One decision of each kind."""
    small = {"cpu": "100m"}
    return {
        "bound": cluster.schedule(pod("bound", requests={"cpu": "2"})),
        "waits": cluster.schedule(pod("waits", requests={"cpu": "9"})),
        "held": cluster.schedule(pod("held", requests=small)),
        "gated": cluster.schedule(pod("gated", requests=small)),
        "boom": cluster.schedule(pod("boom", requests=small)),
    }


@pytest.mark.parametrize(
    ("which", "check", "expected"),
    [
        ("bound", lambda d: d.must_land_on("b"), "default/bound should land on b, and is on a"),
        ("bound", lambda d: d.must_not_land_on("b", "a"), "must not land on b or a, and is on a"),
        ("bound", lambda d: d.must_wait(), "should wait, and is on a"),
        ("bound", lambda d: d.must_be_held("Story"), "should be held by Story, and is on a"),
        ("bound", lambda d: d.must_evict("x/y"), "should evict x/y, and evicted no pod"),
        ("bound", lambda d: d.must_land_on(), "should land on no node, and is on a"),
        ("waits", lambda d: d.must_land_on("a", "b"), "should land on a or b, and waits"),
        ("waits", lambda d: d.must_wait("taint"), 'because of "taint", and waits because of'),
        (
            "waits",
            lambda d: d.must_land_on("a"),
            "not on a, b: NodeResourcesFit: Insufficient",
        ),
        ("waits", lambda d: d.must_land_on("a"), "  message: 0/2 nodes are available: "),
        ("bound", lambda d: d.must_wait(), " points: TaintToleration 300, NodeResourcesFit "),
        ("held", lambda d: d.must_land_on("a", "b"), "and is held on"),
        ("gated", lambda d: d.must_land_on("a"), "  Story rejects the pod: not yet"),
        ("boom", lambda d: d.must_land_on("a"), "  a plugin failed: running PreFilter plugin"),
    ],
)
def test_failures_explain_themselves(
    told: Cluster, which: str, check: Callable[[Decision], None], expected: str
) -> None:
    decision = decided(told)[which]

    with pytest.raises(AssertionError) as failed:
        check(decision)

    assert expected in str(failed.value)
    assert decision.explain() in str(failed.value)


def test_chance_is_no_proof(cluster: Cluster) -> None:
    """A pod that went the right way by a tie has not been shown to go there."""
    cluster.add(node("a"), node("b"))
    decision = cluster.schedule(pod("p"))
    other = {"a": "b", "b": "a"}[decision.node]

    decision.must_land_on("a", "b")
    with pytest.raises(AssertionError, match=f"by chance only: {other} as good"):
        decision.must_land_on(decision.node)
    with pytest.raises(AssertionError, match=f"could be as well on {other}"):
        decision.must_not_land_on(other)


def test_long_lists_are_cut(cluster: Cluster) -> None:
    cluster.add(*(node(f"small-{i:02}", allocatable={"cpu": "1"}) for i in range(15)))
    cluster.add(*(node(f"large-{i:02}") for i in range(12)))

    text = cluster.schedule(pod("p", requests={"cpu": "2"})).explain()

    assert "  fits on 2 more nodes" in text
    assert "small-09 and 5 more: NodeResourcesFit: Insufficient cpu" in text
    assert len(text.splitlines()) == 13


def test_pytest_finds_the_fixture(tmp_path: Path) -> None:
    """By its entry point; what is shown of a failure is the explanation, not the kit."""
    (tmp_path / "test_policy.py").write_text(
        "from scheduler.testing import node, pod\n\n\n"
        "def test_promise(cluster):\n"
        "    cluster.add(node('a'))\n"
        "    cluster.schedule(pod('p', requests={'cpu': '5'})).must_land_on('a')\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode == 1, done.stdout
    assert "not on a: NodeResourcesFit: Insufficient cpu" in done.stdout
    assert re.search(r"test_policy.py:6: AssertionError", done.stdout)
    assert "decision.py" not in done.stdout
