"""The command group."""

import subprocess
import sys

from click.testing import CliRunner

from scheduler import __version__
from scheduler.cli.main import main

COMMANDS = ("run", "explain", "simulate", "config", "demo")


def test_every_command_exists() -> None:
    """What the help lists can be called, and explains itself."""
    for command in COMMANDS:
        result = CliRunner().invoke(main, [command, "--help"])
        assert result.exit_code == 0, result.output
        assert f"main {command}" in result.output


def test_help_is_quick() -> None:
    """Asking for help, or for the version, imports neither engine nor client."""
    code = (
        "import sys\n"
        "from scheduler.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'kubernetes', 'aiohttp', 'scheduler.bootstrap'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)))"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )

    assert result.stderr.strip() == ""
    assert all(f"\n  {command} " in result.stdout for command in COMMANDS)


def test_the_version_is_told() -> None:
    """As in the package."""
    result = CliRunner().invoke(main, ["--version"])

    assert result.output == f"stowage, version {__version__}\n"


def test_an_unknown_command_is_no_traceback() -> None:
    """One message, exit status 2."""
    result = CliRunner().invoke(main, ["schedule"])

    assert result.exit_code == 2
    assert "No such command 'schedule'" in result.output
    assert "Did you mean 'explain'?" in CliRunner().invoke(main, ["explian"]).output
