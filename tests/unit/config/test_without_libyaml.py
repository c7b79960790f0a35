"""PyYAML without libyaml: pip builds it so for a Python that PyYAML has no wheel for."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent / "accepted"
PROGRAM = """
import sys, yaml
from pathlib import Path
del yaml.CSafeLoader, yaml.CSafeDumper
from scheduler.config.load import load
from scheduler.config.problems import ConfigError
from scheduler.config.write import to_yaml
from scheduler.tools.offline.documents import documents_from_text

for name in sys.argv[1:]:
    config = load(Path(name).read_text())
    assert load(to_yaml(config)) == config
found = documents_from_text("a: 1\\n---\\nb: 2\\n", "file")
assert [each for _, each in found] == [{"a": 1}, {"b": 2}]
for text in ("a: [", "[" * 20_000):
    try:
        load(text)
    except ConfigError as problem:
        print(str(problem).splitlines()[0])
"""


def test_configurations_are_read_and_written() -> None:
    files = [str(path) for path in sorted(EXAMPLE.glob("*.yaml")) if path.stem != "json"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *files], capture_output=True, text=True, check=False
    )

    assert not done.stderr
    unfinished, deep = done.stdout.splitlines()
    assert "not valid YAML" in unfinished
    assert deep == "configuration: not readable: lists and mappings are nested too deeply"
