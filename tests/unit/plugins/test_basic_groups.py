"""GenericWorkload without GangScheduling: every group is basic, in whichever order all comes."""

from scheduler.api.objects import ObjectMeta
from scheduler.api.pod_groups import PodGroup
from scheduler.kernel.engine.events import ObjectSet
from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.events import POD_GROUP_KIND, POD_KIND
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.kernel.framework.status import SUCCESS
from scheduler.kernel.groups import PodGroups
from scheduler.kernel.plugins.basic_groups import BasicGroups
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments
from tests.support.builders import make_node, make_pod_info
from tests.unit.engine.answered import AnsweredCluster

GANG = PodGroup(ObjectMeta(name="g", namespace="default", uid="g"), 3)


def test_nothing_is_held_and_no_number_is_demanded() -> None:
    """Of a gang, and of a group that is not there; known before or after the plugin is made."""
    instruments = Instruments()
    states = SharedStates(FrameworkMetrics(instruments))
    states.watch(PodGroups.WATCHES)
    groups = states.shared(PodGroups, "GangScheduling")
    groups.on_event(POD_GROUP_KIND, None, GANG)
    handle = Handle(
        PluginServices(states, instruments, lambda: 0.0), "GangScheduling", "p", PodGroups.WATCHES
    )
    plugin, pod = BasicGroups(None, handle), make_pod_info("p", group="g")
    for known in (groups, groups.fork()):
        known.on_event(POD_KIND, None, pod)
        before = known.of("default", "g")
        assert before is not None
        assert before.has_quorum()
        known.on_event(POD_GROUP_KIND, GANG, GANG)
        assert before.has_quorum()
        assert known.why_held("default", "other") == ""

    assert plugin.pre_enqueue(pod) == SUCCESS
    assert plugin.permit(CycleState(), pod, "n") == (SUCCESS, 0.0)


def test_members_that_fit_are_bound_and_the_others_wait() -> None:
    """All of them in one step, with or without the PodGroup; single pods as ever."""
    cluster = AnsweredCluster(feature_gates=("GenericWorkload",))
    cluster.handle(ObjectSet("nodes", make_node("n", allocatable={"cpu": "2"})))
    cluster.handle(ObjectSet("podgroups", GANG))
    for number in range(3):
        cluster.add(f"g{number}", group="g", requests={"cpu": "1"})
    cluster.run()
    bound = [pod.name for pod in cluster.pods.values() if pod.node_name]
    cluster.end("g0")
    cluster.end("g1")
    cluster.add("of no group that is there", group="other", requests={"cpu": "1"})
    cluster.pass_time(12)

    assert bound == ["g0", "g1"]
    assert cluster.waiting() == []
