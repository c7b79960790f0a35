"""When each waiting pod is tried again although nothing happened."""

from random import Random

from scheduler.kernel.queue.unschedulable_pods import Deadlines


def test_deadlines_are_as_a_dictionary_would_have_them() -> None:
    """Over random histories; a deadline is over after its instant, not at it."""
    draw, deadlines, model = Random(1), Deadlines(), dict[str, float]()
    found = 0
    for _ in range(3000):
        uid = f"p{draw.randrange(40)}"
        if draw.random() < 0.6:
            model[uid] = draw.choice((draw.uniform(0, 50), float(draw.randrange(50))))
            deadlines.set(uid, model[uid])
        else:
            deadlines.remove(uid)
            model.pop(uid, None)
        now = float(draw.randrange(60))
        over = {each for each, deadline in model.items() if deadline < now}
        found += len(over)
        assert set(deadlines.before(now)) == over
        assert deadlines.has_before(now) >= bool(over)
        assert {each: deadlines.of(each) for each in model} == model

    assert found


def test_earlier_seconds_come_first() -> None:
    deadlines = Deadlines()
    for uid, deadline in (("late", 20.5), ("early", 10.5), ("never", 99.0)):
        deadlines.set(uid, deadline)

    assert deadlines.before(50.0) == ["early", "late"]
