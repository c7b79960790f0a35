"""Commands on recordings that someone has edited: an answer, or one message; never a traceback."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from scheduler.config.load import default_configuration
from scheduler.config.write import to_object
from scheduler.daemon.recording.files import MAGIC, block
from scheduler.daemon.recording.records import Writer
from tests.support.commands import stowage
from tests.support.recordings import make_header
from tests.unit.recording.test_hostile_recordings import LINES

HEADER: dict[str, Any] = json.loads(
    Writer.header(make_header(configuration=to_object(default_configuration("stowage"))))
)
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
TICK = '{"type":"Tick"}'


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("recordings")
    (directory / "config.yaml").write_text(CONFIG)
    return directory


def written(directory: Path, header: Any, *lines: str | bytes) -> Path:
    path = directory / "x.recording"
    as_bytes = [line.encode() if isinstance(line, str) else line for line in lines]
    head = json.dumps(header).encode() + b"\n"
    path.write_bytes(MAGIC + block(head) + block(b"\n".join(as_bytes)))
    return path


def commands(directory: Path) -> list[tuple[str | Path, ...]]:
    path, config = directory / "x.recording", directory / "config.yaml"
    return [
        ("replay", path),
        ("replay", path, "--dump"),
        ("replay", path, "--config", config),
        ("replay", path, "--at", "50", "--dump", "--explain", "x"),
        ("replay", path, "--at", "inf"),
        ("replay", path, "--at", "2001-09-09T02:00:00Z"),
        ("replay", path, "--decisions", directory / "out.jsonl"),
        ("explain", "--recording", path),
    ]


def say_one_thing(path: Path, *words: str | Path) -> str:
    """What is wrong, or empty."""
    result = stowage(*words)
    assert result.exit_code in (0, 1, 2)
    if result.exit_code < 2:
        return ""
    told = result.stderr
    assert str(path) in told or "recorded configuration: " in told or "no such pod" in told
    return told


@pytest.mark.parametrize(
    "line",
    [
        f'["at",1.0,[{{"type":"Bind"}}],{TICK}]',
        f'["at",1.0,{{"a":1}},{TICK}]',
        f'["at",1e300,[],{TICK}]',
        f'["at",-1.0,[],{TICK}]',
        '["at",1.0,[],{"type":"Configure","configuration":{"profiles":5}}]',
        '["at",1.0,[],{"type":"ObjectSet","kind":"foo","object":5}]',
        '["at",1.0,[],{"type":"ObjectSet","kind":"foo","object":{"metadata":{}}}]',
    ],
)
def test_a_line_that_no_recorder_writes_is_named(directory: Path, line: str) -> None:
    """By every command, with the file."""
    path = written(directory, HEADER, line)

    for words in commands(directory):
        assert f"{path}: a line cannot be read: " in say_one_thing(path, *words)


@pytest.mark.parametrize(
    "fields",
    [{"started": 1e18}, {"clock": -1e12}, {"configuration": {"profiles": [{"schedulerName": 5}]}}],
)
def test_a_header_that_no_recorder_writes_is_named(directory: Path, fields: dict[str, Any]) -> None:
    """The same."""
    path = written(directory, HEADER | fields, f'["at",1.0,[],{TICK}]')

    for words in commands(directory):
        assert f"{path}: the header cannot be read: " in say_one_thing(path, *words)


@pytest.mark.parametrize("configuration", [{}, {"profiles": [{}]}])
def test_a_configuration_without_names_is_none_or_the_default(
    directory: Path, configuration: dict[str, Any]
) -> None:
    """In the header and in an event."""
    event = {"type": "Configure", "configuration": configuration}
    for header in (HEADER, HEADER | {"configuration": configuration}):
        path = written(directory, header, json.dumps(["at", 1.0, [], event]))
        for words in commands(directory):
            say_one_thing(path, *words)


VALUES: list[Any] = [
    None, 0, 1, -1, 5, 1e300, -1e300, 1e18, 10**30, 2**63, "", "x", {}, [], [{}], {"a": 1}, True,
    [{"type": "Bind"}], "\U0001f600",
]  # fmt: skip


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items:
        if isinstance(each, dict | list):
            yield from _paths(each, (*at, key))
        else:
            yield (*at, key)


def _edited(draw: Random, text: bytes) -> bytes:
    value = json.loads(text)
    *path, last = draw.choice(list(_paths(value)))
    place = value
    for key in path:
        place = place[key]
    place[last] = draw.choice(VALUES)
    return json.dumps(value).encode()


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_whatever_values_a_recording_has_it_is_read_or_told(directory: Path, seed: int) -> None:
    """Each field of each kind of line, and of the header."""
    draw, lines, header = Random(seed), list(LINES), HEADER
    if draw.randrange(4) == 0:
        header = json.loads(_edited(draw, json.dumps(HEADER).encode()))
    else:
        number = draw.randrange(len(lines))
        lines[number] = _edited(draw, lines[number])
    path = written(directory, header, *lines)

    say_one_thing(path, *draw.choice(commands(directory)))
