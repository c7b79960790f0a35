"""DefaultPreemption: what the plugin adds to the decision."""

from scheduler.config.args import DefaultPreemptionArgs
from scheduler.kernel.framework.status import SUCCESS, unresolvable
from scheduler.kernel.plugins.default_preemption import DefaultPreemption
from scheduler.kernel.preemption import Evictions
from tests.support.builders import make_pod_info
from tests.support.handles import make_handle


def test_a_preemptor_is_held_while_evictions_are_under_way() -> None:
    """And let go when they are done; a copy of the state goes its own way."""
    evictions = Evictions()
    plugin = DefaultPreemption(DefaultPreemptionArgs(), make_handle({Evictions: evictions}))
    pod = make_pod_info("p")

    before = plugin.pre_enqueue(pod)
    evictions.under_way.add(pod.uid)
    copy = evictions.fork()
    meanwhile = plugin.pre_enqueue(pod)
    evictions.under_way.discard(pod.uid)

    assert meanwhile == unresolvable("waiting for the preemption for this pod to be finished")
    assert before == plugin.pre_enqueue(pod) == SUCCESS
    assert pod.uid in copy.under_way


def test_no_event_is_looked_at_for_held_pods() -> None:
    """The plugins that rejected a pod decide about events, once it is let go."""
    plugin = DefaultPreemption(DefaultPreemptionArgs(), make_handle())

    assert plugin.events_to_register() == ()
