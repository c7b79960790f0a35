"""Events: their bytes and their series."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from scheduler.api.written import WARNING, ObjectReference
from scheduler.daemon.client.event_series import EventSeries, Occurrence
from scheduler.daemon.client.events import EventEntry, cut_note, event_body, events_path

WALL = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
POD = ObjectReference(kind="Pod", namespace="ns", name="p", uid="u-1", resource_version="42")


def event(note: str = "no", at: datetime = WALL, **changes: Any) -> EventEntry:
    fields: dict[str, Any] = {
        "regarding": POD,
        "event_type": WARNING,
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": note,
        "reporting_controller": "stowage",
        "reporting_instance": "stowage-host",
        "event_time": at,
    }
    return EventEntry(**(fields | changes))


class TestBody:
    def test_an_event_as_the_api_has_it(self) -> None:
        """Every field upstream's recorder fills."""
        made = event(related=ObjectReference(kind="Node", name="n1"))

        assert msgspec.json.decode(event_body(made)) == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": "p.1886caf21c964970", "namespace": "ns"},
            "eventTime": "2026-01-02T03:04:05.000006Z",
            "reportingController": "stowage",
            "reportingInstance": "stowage-host",
            "action": "Scheduling",
            "reason": "FailedScheduling",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "p",
                "namespace": "ns",
                "uid": "u-1",
                "resourceVersion": "42",
            },
            "related": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
            "note": "no",
            "type": "Warning",
        }
        assert int("1886caf21c964970", 16) == 1767323045000006000

    def test_an_event_about_something_without_a_namespace_is_kept_in_default(self) -> None:
        """As upstream does."""
        about_node = event(regarding=ObjectReference(kind="Node", name="n1"))

        assert events_path(about_node) == "/apis/events.k8s.io/v1/namespaces/default/events"

    def test_two_events_of_one_moment_have_two_names(self) -> None:
        """Or the second would be taken for the first."""
        assert event(sequence=1).name != event(sequence=2).name

    def test_a_name_is_never_too_long(self) -> None:
        """Pods may have names of 253 characters themselves."""
        long = event(regarding=ObjectReference(kind="Pod", name="x" * 253))

        assert len(long.name) == 253

    @pytest.mark.parametrize("mark", ["-", ".", ".-."])
    def test_a_name_that_is_cut_is_still_a_dns_name(self, mark: str) -> None:
        """No part of it may end with a hyphen, nor be empty."""
        limit = 253 - len(event(regarding=ObjectReference(kind="Pod", name="")).name)
        name = "a" * (limit - len(mark)) + mark + "b" * 9

        found = event(regarding=ObjectReference(kind="Pod", name=name)).name

        assert all(part and not part.endswith("-") for part in found.split("."))

    @pytest.mark.parametrize(
        ("note", "cut"),
        [
            pytest.param("x" * 1024, "x" * 1024, id="fits"),
            pytest.param("x" * 1025, "x" * 1020 + " ...", id="one too many"),
            pytest.param("ä" * 600, "ä" * 510 + " ...", id="bytes count"),
            pytest.param("x" + "ä" * 600, "x" + "ä" * 509 + " ...", id="no half letters"),
        ],
    )
    def test_notes_are_cut_to_what_the_api_takes(self, note: str, cut: str) -> None:
        """1,024 bytes."""
        assert cut_note(note) == cut
        assert len(cut_note(note).encode()) <= 1024

    def test_a_note_that_utf8_cannot_say_is_sent_all_the_same(self) -> None:
        """What a plugin quotes must not end the task that sends events."""
        assert cut_note("no \udcff here") == "no ? here"


class TestSeries:
    def test_the_first_is_an_event_the_second_a_series_the_rest_is_counted(self) -> None:
        """Two requests, however often it happens within the refresh time."""
        series = EventSeries()
        times = [WALL + timedelta(seconds=i) for i in range(5)]

        sent = [series.observe(event(at=moment)) for moment in times]

        first = event(at=times[0])
        assert sent == [
            [Occurrence(first, 1, times[0])],
            [Occurrence(first, 2, times[1])],
            [],
            [],
            [],
        ]

    def test_an_ended_series_is_written_once_more_and_forgotten(self) -> None:
        """With its final count."""
        series = EventSeries()
        for i in range(5):
            series.observe(event(at=WALL + timedelta(seconds=i)))

        early = series.sweep(WALL + timedelta(minutes=5))
        late = series.sweep(WALL + timedelta(minutes=7))
        again = series.observe(event(at=WALL + timedelta(minutes=8)))

        assert early == []
        assert [(o.count, o.last_observed) for o in late] == [(5, WALL + timedelta(seconds=4))]
        assert [o.count for o in again] == [1]

    def test_a_long_series_is_refreshed(self) -> None:
        """People see its count grow before it ends."""
        series = EventSeries()
        counts = []
        for minute in range(62):
            now = WALL + timedelta(minutes=minute)
            series.observe(event(at=now))
            counts += [o.count for o in series.sweep(now)]

        assert counts == [32, 62]

    def test_a_single_event_is_forgotten_silently(self) -> None:
        """There is nothing to add."""
        series = EventSeries()
        series.observe(event())

        assert series.sweep(WALL + timedelta(minutes=7)) == []

    @pytest.mark.parametrize(
        "change",
        [
            {"reason": "Scheduled"},
            {"action": "Binding"},
            {"event_type": "Normal"},
            {"reporting_controller": "other"},
            {"regarding": ObjectReference(kind="Pod", name="q")},
            {"related": POD},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_what_differs_is_another_event(self, change: dict[str, Any]) -> None:
        """Only the note may differ within a series."""
        series = EventSeries()
        series.observe(event())

        assert [o.count for o in series.observe(event(**change))] == [1]
        assert [o.count for o in series.observe(event("other note"))] == [2]

    def test_memory_is_bounded(self) -> None:
        """The oldest series ends early, with its count."""
        series = EventSeries(capacity=2)
        pods = [ObjectReference(kind="Pod", name=f"p{i}") for i in range(3)]
        for _ in range(3):
            series.observe(event(regarding=pods[0]))
        series.observe(event(regarding=pods[1]))

        sent = series.observe(event(regarding=pods[2]))

        assert [(o.event.regarding.name, o.count) for o in sent] == [("p0", 3), ("p2", 1)]
