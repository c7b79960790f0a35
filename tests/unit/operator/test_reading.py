"""One object is one verdict: what is wrong with its bytes stands beside its name."""

import json
from typing import Any

import msgspec
import pytest

from scheduler.operator.raw_json import RawJson
from scheduler.operator.reading import (
    MAX_DEPTH,
    MAX_PROFILE_BYTES,
    UnreadableError,
    read_object,
)
from scheduler.operator.resources import Json, Scheduler, SchedulingProfile


def nested(depth: int) -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def profile(spec: Json, status: Json | None = None) -> SchedulingProfile:
    """A profile as it comes from the API server."""
    metadata = {"name": "p", "namespace": "n", "managedFields": [{"fieldsV1": {"f:spec": {}}}]}
    written = {"metadata": metadata, "spec": spec, "status": status or {}}
    return read_object(RawJson(json.dumps(written).encode()), SchedulingProfile)


def test_a_spec_as_deep_and_as_long_as_allowed_is_read() -> None:
    """And as a status that has such a spec in force."""
    long = {"text": "x" * (MAX_PROFILE_BYTES - len('{"text": ""}'))}
    deep = {"args": nested(MAX_DEPTH - 1)}

    assert (profile(long).spec, profile(long).unreadable) == (long, "")
    read = profile(deep, {"inForce": deep})
    assert (read.spec, read.status, read.unreadable) == (deep, {"inForce": deep}, "")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"args": nested(MAX_DEPTH)}, "expected at most 64 levels of nesting, got 65"),
        ({"args": nested(900)}, "expected at most 64 levels of nesting, got 901"),
        ({"text": "x" * MAX_PROFILE_BYTES}, "expected at most 32768 bytes, got 32780"),
        ([], "Expected `object`, got `array`"),
    ],
    ids=["too deep", "so deep that YAML could not be written", "too long", "no object"],
)
def test_what_is_wrong_with_a_spec_stands_beside_the_name(spec: Any, told: str) -> None:
    """Name and status can be read, so that the status can say it."""
    read = profile(spec, {"inForce": {"schedulerName": "a"}})

    assert read.unreadable == told
    assert (read.key, read.spec) == (("n", "p"), {})
    assert read.status == {"inForce": {"schedulerName": "a"}}


def test_a_status_that_cannot_be_read_is_none() -> None:
    """The operator writes another one."""
    assert profile({}, {"inForce": nested(900)}).status == {}


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"metadata":{}}', b'{"metadata":7}'])
def test_what_has_no_name_is_no_object(raw: bytes) -> None:
    """There is nothing to tell it to."""
    with pytest.raises(UnreadableError):
        read_object(RawJson(raw), Scheduler)


def test_a_scheduler_is_read_as_its_type() -> None:
    """Defaults and all."""
    raw = {"metadata": {"name": "s", "namespace": "n"}, "spec": {"replicas": 3}}

    read = read_object(RawJson(json.dumps(raw).encode()), Scheduler)

    assert read == msgspec.convert(raw, Scheduler)
