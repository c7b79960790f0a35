"""Recordings in tests."""

from typing import Any

from scheduler.daemon.recording.records import Header


def make_header(**fields: Any) -> Header:
    """The beginning of a recording, with what a test says of it."""
    usual = {
        "recording": "r",
        "version": "1",
        "configuration": {},
        "seed": 7,
        "max_in_unschedulable_seconds": 300.0,
        "started": 1e9,
        "clock": 100.0,
    }
    return Header(**{**usual, **fields})
