"""`stowage config` checks a file and prints what is in effect."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.config.load import default_configuration, load
from scheduler.config.types import ExtensionPoint
from scheduler.tools.cli.config import config
from tests.support.fake_plugins import NodeFilter

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins: {filter: {enabled: [{name: Mine}]}}
"""


class Mine(NodeFilter):
    """A plugin that kube-scheduler does not know."""

    NAME = "Mine"


class Broken(NodeFilter):
    """A plugin whose constructor fails."""

    NAME = "Broken"

    def __init__(self, *_: object) -> None:
        raise ValueError("no racks")


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins of other packages."""
    monkeypatch.setattr(
        "scheduler.tools.cli.config.out_of_tree_plugins",
        lambda: {"Mine": Mine, "Broken": Broken},
    )


def _run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(config, arguments, input=stdin)


def test_prints_the_effective_configuration(tmp_path: Path) -> None:
    """What is printed reads back as what was loaded; out-of-tree plugins are known."""
    path = tmp_path / "c.yaml"
    path.write_text(FILE)
    mine = {"Mine": frozenset((ExtensionPoint.FILTER,))}

    result = _run(str(path))

    assert (result.exit_code, result.stderr) == (0, "")
    assert load(result.stdout, out_of_tree=mine) == load(FILE, out_of_tree=mine)


def test_a_plugin_that_cannot_be_built_is_told(tmp_path: Path) -> None:
    """The daemon would not start with it."""
    path = tmp_path / "c.yaml"
    path.write_text(FILE.replace("Mine", "Broken"))

    result = _run(str(path))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        'stowage config: profile "a": plugin "Broken" cannot be built: ValueError: no racks\n'
    )


def test_reads_standard_input() -> None:
    """A dash is standard input, and messages call it so."""
    result = _run("-", stdin="parallelism: 0")

    assert result.exit_code == 2
    assert result.stderr.startswith("standard input: 3 problems")


def test_without_a_file_prints_the_defaults() -> None:
    """A start for one's own configuration."""
    assert load(_run().stdout) == default_configuration()


def test_feature_gates_are_those_of_the_scheduler_that_is_meant() -> None:
    """A gate that is on shows in the arguments; one that cannot be read is one message."""
    gate = "--feature-gates=StorageCapacityScoring"

    assert "shape:" not in _run(f"{gate}=false").stdout
    assert "shape:" in _run(f"{gate}=true").stdout
    refused = _run("--feature-gates=DRAWorkloadResourceClaims=true")
    assert refused.exit_code == 2
    assert "DRAWorkloadResourceClaims=true is not part of this version" in refused.stderr
    allowed = _run("--feature-gates=DRAWorkloadResourceClaims=true", "--allow-unsupported")
    assert allowed.exit_code == 0
    assert "DRAWorkloadResourceClaims=true is not part of this version" in allowed.stderr
    broken = _run(gate)
    assert broken.exit_code == 2
    assert "expected Name=true or Name=false" in broken.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, "cannot be read: no such file or directory", id="no file"),
        pytest.param(FILE.replace("filter", "filtre"), 'did you mean "filter"?', id="misspelt"),
    ],
)
def test_what_is_wrong_goes_to_standard_error(
    tmp_path: Path, text: str | None, expected: str
) -> None:
    """Exit status 2, nothing on standard output."""
    path = tmp_path / "c.yaml"
    if text is not None:
        path.write_text(text)

    result = _run(str(path))

    assert (result.exit_code, result.stdout) == (2, "")
    assert expected in result.stderr


def test_files_of_the_daemons_machine_may_be_missing_here(tmp_path: Path) -> None:
    """A note names them; the example of docs/extenders.md can be checked on any machine."""
    page = Path(__file__).parents[3] / "docs" / "extenders.md"
    path = tmp_path / "c.yaml"
    path.write_text(page.read_text().partition("```yaml\n")[2].partition("```")[0])

    result = _run(str(path))

    assert result.exit_code == 0
    assert result.stderr == (
        "note: extenders[0].tlsConfig.caFile: there is no file /etc/extender/ca.crt here; "
        "`stowage run` needs it\n"
    )
    assert "caFile: /etc/extender/ca.crt" in result.stdout


def test_a_file_that_is_here_is_read(tmp_path: Path) -> None:
    """Then a mistake in it is known before the daemon meets with it."""
    authority = tmp_path / "ca.crt"
    authority.write_text("no certificate")
    path = tmp_path / "c.yaml"
    tls = f"{{urlPrefix: 'https://x', filterVerb: f, tlsConfig: {{caFile: {authority}}}}}"
    path.write_text(f"{FILE}extenders: [{tls}]\n")

    result = _run(str(path))

    assert result.exit_code == 2
    assert "extenders[0].tlsConfig: " in result.stderr


def test_names_what_has_no_effect(tmp_path: Path) -> None:
    """On standard error, so that the output stays a configuration."""
    path = tmp_path / "c.yaml"
    path.write_text(FILE + "delayCacheUntilActive: true\n")

    result = _run(str(path))

    assert result.exit_code == 0
    assert result.stderr.startswith("note: delayCacheUntilActive has no effect")
