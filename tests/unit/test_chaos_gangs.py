"""The judge of gangs in ``make chaos`` tells a gang that runs by half from what others did."""

from collections.abc import Mapping, Sequence

from e2e.chaos.checker import Rewind, Window
from e2e.chaos.gang_judge import PROMISE, GangVerdict, judge_gangs
from tests.support.audit_log import AuditLog

OURS, OTHER = "replica-a", "admin"
LATER = 100.0
"""Seconds after which nothing is on its way any more."""


class Log(AuditLog):
    """The requests of clients and of a replica about one gang."""

    def __init__(self, least: int = 2) -> None:
        super().__init__()
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
        self.add(
            OTHER, "create", "podgroups", "g", answered={"metadata": {"name": "g"}, "spec": spec}
        )

    def make(self, *numbers: int) -> None:
        for number in numbers:
            metadata = {"name": f"g-{number}", "uid": f"uid-{number}"}
            spec = {"schedulingGroup": {"podGroupName": "g"}}
            self.add(
                OTHER,
                "create",
                "pods",
                f"g-{number}",
                answered={"metadata": metadata, "spec": spec},
            )

    def bind(self, *numbers: int, user: str = OURS) -> None:
        for number in numbers:
            sent = {"metadata": {"name": f"g-{number}", "uid": f"uid-{number}"}}
            self.add(user, "create", "pods/binding", f"g-{number}", sent=sent)

    def delete(self, number: int) -> None:
        self.add(OTHER, "delete", "pods", f"g-{number}")

    def wait(self) -> None:
        self.now += LATER
        self.add(OTHER, "create", "events", "later")

    def judged(
        self,
        windows: Sequence[Window] = (),
        rewinds: Sequence[Rewind] = (),
        lost: Mapping[str, float] | None = None,
    ) -> GangVerdict:
        verdict = judge_gangs(self.events, [OURS], windows, rewinds, lost)
        assert {each.promise for each in verdict.violations} <= {PROMISE}
        return verdict


def what(verdict: GangVerdict) -> list[str]:
    return [each.what for each in verdict.violations]


def test_a_gang_bound_whole_is_nothing() -> None:
    """Also if a member that is more than needed comes late."""
    log = Log()
    log.make(0, 1)
    log.bind(0, 1)
    log.make(2)
    log.bind(2)
    log.wait()

    assert log.judged() == GangVerdict([], 1)


def test_a_gang_bound_by_half() -> None:
    log = Log()
    log.make(0, 1)
    log.bind(0)
    log.wait()

    assert what(log.judged()) == ["g: g-0 bound as number 1, 2 are needed"]


def test_a_gang_that_is_whole_too_late() -> None:
    log = Log()
    log.make(0, 1)
    log.bind(0)
    log.wait()
    log.bind(1)

    assert what(log.judged()) == ["g: g-0 bound as number 1, 2 are needed"]
    assert log.judged().whole == 1


def test_a_member_bound_before_enough_are_there() -> None:
    """Even where the rest follows at once."""
    log = Log()
    log.make(0)
    log.bind(0)
    log.make(1)
    log.bind(1)
    log.wait()

    assert what(log.judged()) == ["g: g-0 bound with 1 members there, 2 are needed"]


def test_what_another_scheduler_binds_is_not_ours() -> None:
    log = Log()
    log.make(0, 1)
    log.bind(0, user=OTHER)
    log.wait()

    assert log.judged() == GangVerdict([], 0)


def test_the_rest_may_come_after_a_fault() -> None:
    log = Log()
    log.make(0, 1)
    log.bind(0)
    begin = log.now
    log.wait()
    log.bind(1)
    log.wait()

    assert log.judged([Window("leader killed", begin, log.now - LATER - 5)]).violations == []


def test_a_member_that_left_excuses() -> None:
    """Told by a deletion, or by a count where the server could not write it down."""
    log = Log()
    log.make(0, 1)
    log.bind(0)
    untold = len(log.events)
    log.delete(1)
    deleted = log.now
    log.wait()

    assert log.judged().violations == []
    del log.events[untold]
    assert len(log.judged().violations) == 1
    assert log.judged(lost={"uid-1": deleted}).violations == []


def test_a_member_that_left_before_does_not_excuse() -> None:
    """A scheduler knows of it by then."""
    log = Log()
    log.make(0, 1)
    log.delete(1)
    log.now += LATER
    log.bind(0)
    log.wait()

    assert len(log.judged().violations) == 1


def test_a_backup_excuses_and_takes_members_back() -> None:
    """What was bound after it was made is not bound any more, and is judged anew."""
    log = Log()
    log.make(0, 1)
    saved = log.now + 0.5
    log.bind(0, 1)
    restored = log.now + 0.5
    log.wait()
    log.bind(0)
    log.wait()

    rewinds = [Rewind(saved, restored)]
    assert what(log.judged(rewinds=rewinds)) == ["g: g-0 bound as number 1, 2 are needed"]
    log.events = log.events[:-2]
    assert log.judged(rewinds=rewinds).violations == []


def test_a_member_that_a_killed_server_did_not_write_down_counts() -> None:
    log = Log()
    log.make(0, 1)
    del log.events[-1]
    log.bind(0, 1)
    log.wait()

    assert log.judged().whole == 1
    assert log.judged().violations == []
