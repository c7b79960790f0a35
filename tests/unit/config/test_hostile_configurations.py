"""Whatever a configuration or a command line says: understood, or told what is wrong where."""

from copy import deepcopy
from random import Random
from typing import Any

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from scheduler.config.command_line import CONTEXT_SETTINGS, FlagCommand, flag_options
from scheduler.config.flags import BY_NAME
from scheduler.config.load import default_configuration, load, load_object
from scheduler.config.options import RunOptions, effective_configuration
from scheduler.config.problems import ConfigError
from scheduler.config.write import to_object
from scheduler.daemon.bootstrap.engine import build_engine
from scheduler.daemon.bootstrap.frameworks import FrameworkBuilder
from scheduler.errors import SchedulerError
from tests.support.ugly import NONSENSE

WORDS = (
    "profiles",
    "plugins",
    "pluginConfig",
    "name",
    "args",
    "enabled",
    "disabled",
    "multiPoint",
    "weight",
    "NodeResourcesFit",
    "DefaultPreemption",
    "NoSuchPlugin",
    "*",
    "extenders",
    "urlPrefix",
    "leaderElection",
    "leaseDuration",
    "15s",
    "-1h",
    "percentageOfNodesToScore",
    "<<",
)
EXTENDER: dict[str, Any] = {
    "urlPrefix": "https://127.0.0.1:1/x",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "bindVerb": "bind",
    "weight": 3,
    "enableHTTPS": True,
    "httpTimeout": "3s",
    "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
    "ignorable": True,
    "tlsConfig": {"insecure": True},
}


def whole() -> dict[str, Any]:
    """A configuration in which everything is written that can be."""
    document = msgspec.to_builtins(to_object(default_configuration()))
    document["extenders"] = [EXTENDER]
    return document


WHOLE = whole()


def spoilt(draw: Random) -> dict[str, Any]:
    """Nonsense in up to four places, among it words that mean something elsewhere."""
    document = deepcopy(WHOLE)
    for _ in range(draw.randint(1, 4)):
        body: Any = document
        while True:
            if not body:
                break
            key = draw.choice(list(body) if isinstance(body, dict) else range(len(body)))
            below = body[key]
            if isinstance(below, dict | list) and below and draw.random() < 0.85:
                body = below
                continue
            body[key] = deepcopy(draw.choice((*NONSENSE, *WORDS, below, [below, below])))
            if isinstance(body, dict) and draw.random() < 0.3:
                body[draw.choice(WORDS)] = draw.choice(NONSENSE)
            break
    return document


def check(error: ConfigError) -> None:
    """A person can act on it: lines, each with what is wrong and what else was expected."""
    lines = str(error).split("\n")
    assert lines
    assert all(": " in line for line in lines), lines


def test_what_is_spoilt_was_whole() -> None:
    """Else nothing that follows would prove anything."""
    assert load_object(WHOLE).extenders


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32))
def test_whatever_a_configuration_says_it_is_understood_or_told(seed: int) -> None:
    """What is understood can be built into an engine, or says why not."""
    document = spoilt(Random(seed))
    try:
        config = load_object(document)
    except ConfigError as error:
        check(error)
        return
    builder = FrameworkBuilder(lambda: 0.0)
    try:
        build_engine(config, builder, builder.build(config), seed=1)
    except SchedulerError as error:
        told = str(error)
    else:
        told = "an engine"
    assert told


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), noise=st.text(max_size=5))
def test_whatever_a_file_says_it_is_understood_or_told(seed: int, noise: str) -> None:
    """YAML with a piece of it gone, and noise in its place."""
    draw = Random(seed)
    text = yaml.safe_dump(WHOLE, sort_keys=False)
    place = draw.randrange(len(text))
    text = text[:place] + noise + text[place + draw.randrange(20) :]
    try:
        load(text)
    except ConfigError as error:
        check(error)


BOMB = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 20_000, id="nested too deeply"),
        pytest.param("{a: " * 20_000, id="mappings nested too deeply"),
        pytest.param("[" * 5000 + "]" * 5000, id="valid, but nested too deeply"),
        pytest.param("a: &a [x]\nb: *c", id="an alias of nothing"),
        pytest.param("a: &a [*a]", id="an alias of itself"),
        pytest.param("\n".join(BOMB), id="aliases of aliases"),
        pytest.param("a: " + "9" * 100_000, id="an endless number"),
        pytest.param("\ufeff---\n...\n", id="marks only"),
    ],
)
def test_what_no_reader_likes(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(text)

    check(raised.value)


VALUES = st.sampled_from(
    [
        "",
        "true",
        "-1",
        "0",
        "9" * 5000,
        "1e9",
        "15s",
        "-1h",
        "::",
        "[::1]",
        "a=b",
        "\x1b[31m",
        "²",
        ",",
    ]
) | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
FLAGS = st.lists(
    st.tuples(st.sampled_from(["--", "-", ""]), st.sampled_from([*BY_NAME, "no-such"]), VALUES),
    max_size=4,
).map(lambda flags: [f"{dashes}{name}={value}" for dashes, name, value in flags])


@click.command(cls=FlagCommand, context_settings=CONTEXT_SETTINGS)
@flag_options
def command(options: RunOptions) -> None:
    try:
        effective_configuration(options)
    except ConfigError as error:
        check(error)


@settings(max_examples=200)
@given(FLAGS)
def test_whatever_flags_say_they_are_understood_or_told(arguments: list[str]) -> None:
    """Exit status 0 or 2, and a text; never a trace."""
    result = CliRunner().invoke(command, arguments)

    assert result.exit_code in (0, 2), (arguments, result.exception, result.output)
    assert "Traceback" not in result.output
