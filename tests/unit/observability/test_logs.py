"""Logs are a constant message with keys, and no secret gets into them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from scheduler.observability.logs import (
    JSON,
    TEXT,
    configure,
    configure_structlog,
    get_logger,
    verbose,
)
from scheduler.observability.redaction import HIDDEN, hidden
from tests.support.clock import FakeClock


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Leave logging as it was found."""
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    yield
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)
    configure_structlog()
    verbose.level = 0


def _logged(form: str, level: int = 0) -> io.StringIO:
    stream = io.StringIO()
    configure(FakeClock(), level, form, stream)
    return stream


def test_text_is_klogs_line() -> None:
    """Severity letter, time, module, quoted message, keys."""
    stream = _logged(TEXT)

    get_logger("scheduler.cycle.binding_cycle").info(
        "Successfully bound pod to node", v=2, pod="ns/a", feasible_nodes=3, ok=True
    )
    get_logger("scheduler.kernel.queue").error("It broke", reasons=["a", 1], err='say "no"\n')

    first, second = stream.getvalue().splitlines()
    assert first[0] == "I"
    assert first.endswith(
        'cycle.binding_cycle] "Successfully bound pod to node" pod="ns/a" feasible_nodes=3 ok=true'
    )
    assert second[0] == "E"
    assert second.endswith('queue] "It broke" reasons=["a", 1] err="say \\"no\\"\\n"')


def test_json_is_one_object_a_line() -> None:
    """ts, level, v and msg, then the keys."""
    stream = _logged(JSON)

    get_logger("scheduler.x").warning("Careful", v=1, pod="ns/a", what=object)

    line = json.loads(stream.getvalue())
    assert isinstance(line.pop("ts"), float)
    assert line == {
        "level": "warning",
        "v": 1,
        "msg": "Careful",
        "logger": "x",
        "pod": "ns/a",
        "what": str(object),
    }


@pytest.mark.parametrize("form", [TEXT, JSON])
def test_no_value_begins_a_line_of_its_own(form: str) -> None:
    """Whoever names things must not be able to write what looks like our message."""
    stream = _logged(form)

    forged = 'a"\nE0101 00:00:00.000000 engine] "Forged"\r\n\x1b[2J'
    get_logger("scheduler.kernel.engine").info("Said", pod=forged, reasons=[forged])

    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "\r" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("form", [TEXT, JSON])
@pytest.mark.parametrize(
    "forged",
    [
        pytest.param("\x9b2J", id="C1: clear the screen"),
        pytest.param("\x85E0202 00:00:00.000000 engine]", id="C1: next line"),
        pytest.param("\x7f\x7f", id="delete"),
        pytest.param("\u2028E0202", id="line separator"),
        pytest.param("\u202egnp.exe", id="writing turned around"),
    ],
)
def test_no_value_commands_a_terminal(form: str, forged: str) -> None:
    """Such characters are written out; what is only foreign is left as it is."""
    stream = _logged(form)
    foreign = "\u9875-\u00fc"

    get_logger("scheduler.kernel.engine").info(
        "Said", pod=forged, reasons=[forged], foreign=foreign
    )
    problem = ValueError(f"{forged}\nE0202 00:00:00.000000 engine] Forged")
    get_logger("scheduler.kernel.engine").error("Failed", exc_info=problem)

    text = stream.getvalue()
    assert forged[0] not in text
    assert f"\\u{ord(forged[0]):04x}" in text
    assert not any(line.startswith("E0202") for line in text.split("\n"))
    if form == TEXT:
        assert foreign in text


def test_levels_are_asked_for_first() -> None:
    """`verbose` follows its level at once, as PUT /debug/flags/v sets it."""
    _logged(TEXT, level=2)

    assert [verbose(level) for level in (0, 2, 3)] == [True, True, False]
    verbose.level = 5
    assert verbose(5)


def test_an_exception_is_told_with_its_trace() -> None:
    """Below the line in text, as a key in JSON."""
    stream = _logged(TEXT)
    try:
        int("Bearer abcdefghijkl")
    except ValueError:
        get_logger("scheduler.x").error("Unexpected", exc_info=True)

    lines = stream.getvalue().splitlines()
    assert lines[0].endswith('x] "Unexpected"')
    assert lines[1] == "  Traceback (most recent call last):"
    assert lines[-1].endswith(f"'Bearer {HIDDEN}'")


def test_messages_of_libraries_take_the_same_way() -> None:
    """Warnings and worse, redacted; configuring twice does not double them."""
    _logged(JSON)
    stream = _logged(JSON)

    logging.getLogger("aiohttp.client").warning("sent %s", "Authorization: Bearer abcdefghijkl")
    logging.getLogger("aiohttp.client").info("too much")

    line = json.loads(stream.getvalue())
    assert (line["logger"], line["level"]) == ("aiohttp.client", "warning")
    assert line["text"] == f"sent Authorization: Bearer {HIDDEN}"


JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("Bearer abc.def-ghi", f"Bearer {HIDDEN}", id="bearer token"),
        pytest.param("basic dXNlcjpwYXNz", f"basic {HIDDEN}", id="basic credentials"),
        pytest.param(f"got {JWT}!", f"got {HIDDEN}!", id="JWT"),
        pytest.param(f"a {PEM} b", f"a {HIDDEN} b", id="private key"),
        pytest.param("https://u:p@host/x", f"https://{HIDDEN}@host/x", id="password in a URL"),
        pytest.param({"Authorization": "x"}, {"Authorization": HIDDEN}, id="header"),
        pytest.param({"a": [{"token": 1}]}, {"a": [{"token": HIDDEN}]}, id="nested key"),
        pytest.param({"client-key-data": "x"}, {"client-key-data": HIDDEN}, id="kubeconfig key"),
        pytest.param({"secretName": "a"}, {"secretName": "a"}, id="the name of a secret"),
        pytest.param({"token_ttl": 10}, {"token_ttl": 10}, id="how long a token lives"),
        pytest.param(b"secret", "6 bytes", id="bytes"),
        pytest.param(ValueError(JWT), HIDDEN, id="text of an error"),
        pytest.param(("a", 1, None), ["a", 1, None], id="harmless values stay"),
    ],
)
def test_secrets_are_hidden(value: object, expected: object) -> None:
    """By the name of their key and by their look."""
    assert hidden(value) == expected


def test_a_secret_key_hides_whatever_it_holds() -> None:
    """At the top of a message as well."""
    stream = _logged(JSON)

    get_logger("scheduler.x").info("Connected", authorization="abc", cookie={"a": 1})

    line = json.loads(stream.getvalue())
    assert (line["authorization"], line["cookie"]) == (HIDDEN, HIDDEN)


def test_endless_nesting_is_cut() -> None:
    """A value that contains itself is not followed for ever."""
    value: dict[str, object] = {}
    value["self"] = value

    assert "..." in str(hidden(value))


def test_before_it_is_configured_it_logs_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Commands that never configure logging keep their standard output clean."""
    configure_structlog()

    get_logger("scheduler.x").warning("Careful")

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith('x] "Careful"\n')
