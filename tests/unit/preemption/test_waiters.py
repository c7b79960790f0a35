"""The order in which KeepRoom tries those that wait, and waiters whose pods are gone."""

from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.preemption.kept_room import ASKED_AGAIN_SECONDS, KeptRoom, Turns
from tests.support.builders import make_pod_info

AFTER = 10.0
LATE = 300.0


def pods_of(count: int) -> list[PodInfo]:
    """So many pods that differ."""
    return [make_pod_info(f"p{number}", labels={"app": str(number)}) for number in range(count)]


def waiting(pods: list[PodInfo], gone: set[str]) -> tuple[Turns, list[str]]:
    """Turns of pods that were rejected one after the other, and the UIDs that were asked for."""
    kept, asked = KeptRoom(), list[str]()

    def equal_to(_: PodKind, uid: str) -> str:
        asked.append(uid)
        return "" if uid in gone else uid

    kept.equal_to = equal_to
    turns = kept.of("profile", AFTER)
    for number, pod in enumerate(pods):
        turns.note(pod.kind, pod, float(number))
    return turns, asked


def test_a_waiter_without_pods_is_asked_about_once() -> None:
    """The others have their turns in order, however many have none."""
    pods = pods_of(6)
    turns, asked = waiting(pods, {pod.uid for pod in pods[:4]})

    found = [turns.to_be_tried(LATE + second) for second in range(3)]

    assert found == [pods[4].uid, "", ""]
    assert asked == [pod.uid for pod in pods[:5]]


def test_a_waiter_that_has_pods_again_keeps_its_place() -> None:
    """It waits longer than those that were rejected after it."""
    pods = pods_of(3)
    gone = {pods[1].uid}
    turns, _ = waiting(pods, gone)
    turns.forget(pods[0].kind)
    before = turns.to_be_tried(LATE)

    gone.clear()
    turns.note(pods[1].kind, pods[1], LATE)
    after = turns.to_be_tried(LATE + ASKED_AGAIN_SECONDS)

    assert (before, after) == (pods[2].uid, pods[1].uid)


def test_a_waiter_that_was_without_pods_for_long_is_a_new_one() -> None:
    """Its earlier wait has ended."""
    pods = pods_of(2)
    turns, _ = waiting(pods, {pods[0].uid})
    turns.to_be_tried(LATE)
    much_later = 10 * LATE

    for pod in reversed(pods):
        turns.note(pod.kind, pod, much_later)

    assert turns.is_next(pods[1].kind, much_later + AFTER)
