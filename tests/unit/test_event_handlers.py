"""What changes of pods do to cache and queue."""

from scheduler.cache import Cache
from scheduler.event_handlers import PodHandler
from scheduler.framework.runtime import WaitingPods
from tests.support.builders import make_node, make_pod_info
from tests.support.queueing import QueueUnderTest


class Timer:
    def event_handled(self, event: str, seconds: float) -> None:
        pass


def pod_handler(under_test: QueueUnderTest, cache: Cache) -> PodHandler:
    now = under_test.clock.monotonic
    return PodHandler(cache, under_test.queue, WaitingPods(), ["stowage"], Timer(), now)


def test_a_pod_that_changes_while_it_is_bound_comes_back_changed() -> None:
    """An update during binding adds no second entry, and is not lost when the binding fails."""
    under_test = QueueUnderTest()
    cache = Cache(under_test.clock.monotonic)
    handler = pod_handler(under_test, cache)
    cache.set_node(make_node("n"))
    old, new = make_pod_info("p"), make_pod_info("p", labels={"a": "1"})
    handler.on_add(old)
    queued = under_test.pop()
    cache.assume_pod(old.on_node("n"))
    under_test.queue.done_scheduling_cycle(old.uid)

    handler.on_update(old, new)
    during = under_test.places()
    cache.forget_pod(old.on_node("n"))
    under_test.fail(queued)

    assert (during, under_test.places()) == ({"p": "inFlight"}, {"p": "backoff"})
    assert under_test.queue.get(new.uid) is new


def test_an_update_after_the_binding_adds_nothing() -> None:
    """The pod is assumed until the watch confirms it; late updates do not bring it back."""
    under_test = QueueUnderTest()
    cache = Cache(under_test.clock.monotonic)
    handler = pod_handler(under_test, cache)
    cache.set_node(make_node("n"))
    old = make_pod_info("p")
    handler.on_add(old)
    under_test.pop()
    cache.assume_pod(old.on_node("n"))
    under_test.queue.done(old.uid)

    handler.on_update(old, make_pod_info("p", labels={"a": "1"}))

    assert under_test.places() == {}
