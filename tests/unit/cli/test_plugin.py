"""`stowage plugin new`: what it refuses. What it writes is tried in tests/unit/docs."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.tools.cli.plugin import plugin


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Cool", "'Cool' cannot be the name of a package here; expected small letters"),
        ("cool_racks", "cannot be the name"),
        ("-cool", "No such option"),
        ("cool-", "cannot be the name"),
        ("9lives", "cannot be the name"),
        ("../up", "cannot be the name"),
        ("x" * 51, "cannot be the name"),
        ("class", "which is Python's own or Stowage's"),
        ("json", "which is Python's own or Stowage's"),
        ("scheduler", "which is Python's own or Stowage's"),
        ("node-affinity", "would be the plugin NodeAffinity, which kube-scheduler has"),
        ("numpy", "'numpy' is the name of a package that is installed (version "),
        ("pyyaml", "'pyyaml' is the name of a package that is installed (version "),
        ("stowage-scheduler", "which pip would replace; choose another name, or uninstall it"),
        ("yaml", "'yaml' would be the module yaml, which is there already ("),
        ("cool-racks", "cool_racks.py)"),
        ("there", "there is there already"),
    ],
)
def test_names_that_cannot_be_used(tmp_path: Path, name: str, expected: str) -> None:
    """One message, and nothing is written."""
    (tmp_path / "there").mkdir()

    result = CliRunner().invoke(plugin, ["new", name, "--into", str(tmp_path)])

    assert result.exit_code == 2
    assert expected in result.stderr
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Says where, and why."""
    (tmp_path / "file").write_text("")

    result = CliRunner().invoke(plugin, ["new", "a", "--into", str(tmp_path / "file")])

    assert result.exit_code == 2
    assert "is a file" in result.stderr


def test_what_is_written_has_no_gaps(tmp_path: Path) -> None:
    """Every name is filled in, in files and in their names."""
    result = CliRunner().invoke(plugin, ["new", "warm-racks", "--into", str(tmp_path)])

    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[1:] == [
        f"  cd {tmp_path / 'warm-racks'}",
        "  python -m pytest",
        "  pip install --no-deps -e .",
        "  stowage explain --config deploy/config.yaml -f cluster.yaml",
    ]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 8
    for path in written:
        assert "{{" not in path.read_text() + str(path), path
    assert "class WarmRacks(" in (tmp_path / "warm-racks" / "warm_racks.py").read_text()
