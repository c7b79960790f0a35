"""What is kept of what happened: so many entries over all pods, the oldest go first."""

from scheduler.kernel.engine.attempt import STORY_LENGTH, Entry
from tests.unit.engine.engine import EngineUnderTest


def test_a_pod_has_the_entries_that_are_among_the_latest() -> None:
    """An answer stays as it was, even when its entries are dropped."""
    engine = EngineUnderTest().engine
    story = engine.attempts.story
    story.append(Entry(1.0, "a", 1, "assumed", ""))

    before = engine.story("a")
    for number in range(STORY_LENGTH):
        story.append(Entry(2.0, f"other-{number}", 1, "assumed", ""))

    assert before == [Entry(1.0, "a", 1, "assumed", "")]
    assert engine.story("a") == []
    assert [entry.uid for entry in engine.story("other-0")] == ["other-0"]
