"""GangScheduling: what it says of single pods; what it says of members, the engine's tests show."""

from scheduler.kernel.framework.cycle_state import CycleState
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.kernel.framework.status import SUCCESS, error, unresolvable
from scheduler.kernel.groups import PodGroups
from scheduler.kernel.plugins.gang_scheduling import GangScheduling
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments
from tests.support.builders import make_pod_info


def plugin() -> GangScheduling:
    instruments = Instruments()
    states = SharedStates(FrameworkMetrics(instruments))
    states.watch(PodGroups.WATCHES)
    services = PluginServices(states, instruments, lambda: 0.0)
    return GangScheduling(None, Handle(services, "GangScheduling", "p", PodGroups.WATCHES))


def test_single_pods_pass() -> None:
    """At both points."""
    gangs, pod = plugin(), make_pod_info("p")

    assert gangs.pre_enqueue(pod) == SUCCESS
    assert gangs.permit(CycleState(), pod, "n") == (SUCCESS, 0.0)


def test_a_group_that_is_not_there_holds_its_pods() -> None:
    """One that goes while its pods are being placed is an error, which is tried again."""
    gangs, pod = plugin(), make_pod_info("p", group="g")
    held = 'waiting for pods\'s pod group "g" to appear in scheduling queue'

    assert gangs.pre_enqueue(pod) == unresolvable(held)
    assert gangs.permit(CycleState(), pod, "n") == (error("failed to get pod group default/g"), 0)
