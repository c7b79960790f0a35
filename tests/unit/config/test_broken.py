"""Every mistake gets one message that says where, what was expected, and what came."""

from pathlib import Path

import pytest
import yaml

from scheduler.config.load import load
from scheduler.config.problems import ConfigError

HERE = Path(__file__).parent
BROKEN = sorted((HERE / "broken").glob("*.yaml"))
EXPECTED = {
    message.partition(".yaml")[0]: message
    for message in (HERE / "broken.txt").read_text().rstrip("\n").split("\n\n")
}


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="the messages are those of libyaml")
@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_broken_file_gets_its_message(path: Path) -> None:
    """The message is the one that was read and found helpful (record.py writes broken.txt)."""
    with pytest.raises(ConfigError) as caught:
        load(path.read_bytes(), source=path.name)

    assert str(caught.value) == EXPECTED[path.stem]


def test_there_are_at_least_fifty() -> None:
    """The collection only grows, and no message is left over."""
    assert len(BROKEN) >= 50
    assert {path.stem for path in BROKEN} == set(EXPECTED)
