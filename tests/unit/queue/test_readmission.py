"""Another configuration while pods wait: they are admitted anew some at a time."""

from random import Random

import pytest

from scheduler.api.pods import PodInfo
from scheduler.kernel.framework.status import SUCCESS, Status, unschedulable
from scheduler.kernel.framework.types import QueuedPodInfo
from scheduler.kernel.queue import BackoffSettings, QueueingHints, SchedulingQueue
from scheduler.kernel.queue.scheduling_queue import _ADMITTED_AT_ONCE
from tests.support.builders import make_pod_info
from tests.support.fake_plugins import make_framework
from tests.support.queueing import Check, Gate, QueueUnderTest

MANY = 10_000
SOME = 3 * _ADMITTED_AT_ONCE


def least_first(queued: QueuedPodInfo) -> tuple[int, float]:
    return queued.pod_info.priority, queued.timestamp


def hints(check: Check, *names: str) -> QueueingHints:
    gate = Gate("Gate", check, ())
    frameworks = {name: make_framework(gate, profile=name) for name in names}
    for each in frameworks.values():
        vars(each)["sort_key"] = least_first
    return QueueingHints(frameworks)


def passes(_: PodInfo) -> Status:
    return SUCCESS


def waiting(count: int) -> QueueUnderTest:
    """Pods of which a third each is active, in back-off and rejected, the last ones gated."""
    under_test = QueueUnderTest({"Fit": ()}, {"Gate": gate_last})
    queue = under_test.queue
    for number in range(count // 3):
        under_test.add_rejected(make_pod_info(f"rejected-{number}"), "Fit")
    under_test.clock.advance(100)
    for number in range(count // 3):
        queue.add(make_pod_info(f"failed-{number}"))
        under_test.fail(under_test.pop())
    for number in range(count - 2 * (count // 3)):
        queue.add(make_pod_info(f"active-{number}", priority=number % 7))
    return under_test


def gate_last(pod: PodInfo) -> Status:
    return (
        unschedulable("gated")
        if pod.name.startswith("active") and pod.name.endswith("9")
        else SUCCESS
    )


def configure(queue: SchedulingQueue, check: Check = passes, *names: str) -> None:
    queue.configure(hints(check, *(names or ("stowage",))), BackoffSettings(2.0, 20.0))


def test_no_step_grows_with_the_pods_that_wait() -> None:
    """Of 10,000 so many are looked at in one step; all are before the first is popped."""
    under_test = waiting(MANY)
    queue, asked = under_test.queue, list[str]()

    def ask(pod: PodInfo) -> Status:
        asked.append(pod.name)
        return SUCCESS

    configure(queue, ask)
    steps = [len(asked)]
    while queue.has_ready and (popped := queue.pop()) is None:
        steps.append(len(asked) - sum(steps))

    assert steps == [0, *[_ADMITTED_AT_ONCE] * (MANY // _ADMITTED_AT_ONCE)]
    assert len(set(asked)) == len(asked) == MANY
    assert popped is not None
    assert popped.pod_info.name == "rejected-0"


def test_pods_are_popped_in_the_new_order() -> None:
    """Those first that were last, and among equals those that came first."""
    under_test = waiting(SOME)
    queue = under_test.queue
    for number in range(SOME // 3):
        queue.delete(make_pod_info(f"rejected-{number}"))
    configure(queue)
    while (first := queue.pop()) is None:
        pass

    names = [first.pod_info.name, *under_test.pop_names()]

    numbers = {f"active-{n}": n for n in range(SOME // 3)}
    # Gated ones, whose numbers end with 9, had waited elsewhere.
    expected = sorted(numbers, key=lambda name: (numbers[name] % 7, numbers[name] % 10 == 9))
    assert [name for name in names if name in numbers] == expected


def test_time_alone_admits_them() -> None:
    """While nothing is decided."""
    under_test = waiting(SOME)
    configure(under_test.queue)

    for _ in range(SOME // _ADMITTED_AT_ONCE + 1):
        under_test.queue.flush_backoff_completed()

    places = under_test.places()
    assert [places[f"active-{n}"] for n in range(SOME // 3)] == ["active"] * (SOME // 3)
    assert [places[f"failed-{n}"] for n in range(SOME // 3)] == ["backoff"] * (SOME // 3)


def test_a_pod_that_is_to_be_admitted_is_found_and_counted() -> None:
    """As one in back-off; of a profile that is gone there is nothing to be found."""
    under_test = waiting(6)
    queue = under_test.queue
    names = {f"{kind}-{n}" for kind in ("active", "failed", "rejected") for n in range(2)}

    configure(queue)

    assert under_test.places() == dict.fromkeys(names, "backoff")
    assert queue.counts().backoff == len(queue.pending_pods()) == 6
    place = queue.place_of("default/active-1")
    assert place is not None
    assert place.name == "backoff"
    configure(queue, passes, "other")
    assert queue.get("default/active-1") is None
    assert queue.pop() is None
    assert (under_test.places(), queue.has_ready, under_test.rejected_by) == ({}, False, {})


@pytest.mark.parametrize("seed", range(20))
def test_what_happens_meanwhile_happens_as_afterwards(seed: int) -> None:
    """Whatever is done before pods are admitted: the same ones wait in the same places."""

    def play(*, is_settled: bool) -> dict[str, str]:
        draw, under_test = Random(seed), waiting(60)
        queue = under_test.queue
        configure(queue, gate_last)
        if is_settled:
            queue._readmit_some()
        for step in range(40):
            kind = draw.choice(("active", "failed", "rejected", "new"))
            pod = make_pod_info(f"{kind}-{draw.randrange(20)}")
            known, changed = queue.get(pod.uid), make_pod_info(pod.name, labels={"step": f"{step}"})
            act = draw.randrange(6)
            if known is None:
                queue.add(pod)
            elif act == 0:
                queue.delete(known)
            elif act == 1:
                queue.update(known, changed)
            elif act == 2:
                queue.activate([pod.uid])
            elif act == 3:
                queue.try_again(pod.uid)
            elif act == 4:
                queue.add_nominated_pod(known, "n")
            elif step == 20:
                configure(queue, gate_last)
            under_test.places()
        queue._readmit_some()
        return under_test.places()

    assert play(is_settled=False) == play(is_settled=True)
