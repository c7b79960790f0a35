"""What is kept of what happened: so many entries over all pods, the oldest go first."""

from random import Random

from scheduler.kernel.engine.story import Entry, Story


def test_a_pod_has_the_entries_that_are_among_the_latest() -> None:
    """Whoever they are about; of a pod of which nothing is left nothing is known."""
    random, told = Random(1), [Entry(0.0, "first", 1, "failed", "")]
    story = Story(length=20)
    story.append(told[0])
    for number in range(200):
        entry = Entry(float(number), f"pod-{random.randrange(8)}", number, "assumed", "a node")
        told.append(entry)
        story.append(entry)

        for uid in {entry.uid for entry in told}:
            assert story.of(uid) == [entry for entry in told[-20:] if entry.uid == uid]


def test_what_was_told_stays_as_it_was() -> None:
    """Who has asked keeps the answer."""
    story = Story(length=2)
    story.append(Entry(1.0, "a", 1, "assumed", ""))

    before = story.of("a")
    for number in range(50):
        story.append(Entry(2.0, f"other-{number}", 1, "assumed", ""))

    assert before == [Entry(1.0, "a", 1, "assumed", "")]
    assert story.of("a") == []
