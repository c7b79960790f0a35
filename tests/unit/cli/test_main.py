"""The command group."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click import Context
from click.testing import CliRunner

from scheduler.observability.build_info import KUBERNETES_VERSION, stowage_version
from scheduler.tools.cli import main as main_module
from scheduler.tools.cli.main import main
from tests.unit.client.scripted_server import until

COMMANDS = ("run", "explain", "simulate", "replay", "config", "help", "version", "demo")
ANSWERING = ("explain", "simulate", "what-if", "capacity", "shadow", "replay", "sweep", "version")


def test_every_command_exists() -> None:
    """What the help lists can be called, and explains itself."""
    for command in COMMANDS:
        result = CliRunner().invoke(main, [command, "--help"])
        assert result.exit_code == 0, result.output
        assert f"main {command}" in result.output


def test_a_sweep_needs_no_affinity_of_processors() -> None:
    """MacOS does not tell it; all processors count there."""
    code = (
        "import os\n"
        "del os.sched_getaffinity\n"
        "from scheduler.tools.cli import sweep\n"
        "assert sweep._processors() == os.cpu_count()\n"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_help_is_quick() -> None:
    """Asking for help, or for the version, imports neither engine nor client."""
    code = (
        "import sys\n"
        "from scheduler.tools.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'kubernetes', 'aiohttp', 'scheduler.daemon.bootstrap'}\n"
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

    assert result.output == f"stowage, version {stowage_version()}\n"


def test_version_says_what_a_report_needs() -> None:
    """For people, and for machines."""
    text = CliRunner().invoke(main, ["version"])
    told = json.loads(CliRunner().invoke(main, ["version", "-o", "json"]).output)

    assert told.keys() == {"stowage", "gitCommit", "kubernetes", "python", "platform"}
    assert told["kubernetes"] == f"v{KUBERNETES_VERSION}"
    assert (text.exit_code, told["stowage"]) == (0, stowage_version())
    assert all(value in text.output for value in told.values())


@pytest.mark.parametrize("command", ANSWERING)
def test_an_output_is_given_once(command: str) -> None:
    """The last one would win in silence."""
    result = CliRunner().invoke(main, [command, "-o", "json", "--output=text"])

    assert result.exit_code == 2
    assert "Invalid value for '-o' / '--output': it is given 2 times" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("what-if", "--add-nodes", "1", "--like", "a", "--add-nodes", "2"),
        ("what-if", "--seed", "1", "--seed", "1"),
        ("explain", "--profile", "a", "--profile=b"),
        ("explain", "--changes", "--no-changes"),
        ("capacity", "--config", "a", "--config", "b"),
        ("simulate", "--feature-gates", "A=true", "--feature-gates", "B=true"),
        ("console", "--port", "1", "--port", "2"),
    ],
)
def test_an_option_with_one_value_is_given_once(arguments: tuple[str, ...]) -> None:
    """Nothing is asked before."""
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    assert "it is given 2 times, expected once" in result.stderr


def test_an_interrupted_command_has_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As other programs; 1 would be a plugin that failed."""

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module, "import_module", interrupted)

    result = CliRunner().invoke(main, ["explain"])

    assert (result.exit_code, result.output) == (130, "\n")


def test_help_has_a_short_name() -> None:
    """`-h` everywhere; in a process of its own, as click remembers how a command was asked."""
    code = (
        "from click.testing import CliRunner\n"
        "from scheduler.tools.cli.main import main\n"
        f"for command in {['', *COMMANDS]!r}:\n"
        "    words = command.split()\n"
        "    short = CliRunner().invoke(main, [*words, '-h'])\n"
        "    long = CliRunner().invoke(main, [*words, '--help'])\n"
        "    assert (short.exit_code, short.output) == (0, long.output), command\n"
    )

    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["", *COMMANDS, "plugin new"])
def test_help_is_a_command_too(command: str) -> None:
    """`stowage help explain` is `stowage explain --help`."""
    words = command.split()

    asked = CliRunner().invoke(main, ["help", *words], prog_name="stowage")

    told = CliRunner().invoke(main, [*words, "--help"], prog_name="stowage")
    assert (asked.exit_code, asked.output) == (0, told.output)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["explian"], "Did you mean 'explain'?"),
        (["explain", "more"], "stowage explain has no commands of its own."),
    ],
)
def test_help_about_nothing_is_one_message(words: list[str], expected: str) -> None:
    """With what was probably meant."""
    result = CliRunner().invoke(main, ["help", *words], prog_name="stowage")

    assert result.exit_code == 2
    assert expected in result.output


def test_an_unknown_command_is_no_traceback() -> None:
    """One message, exit status 2."""
    result = CliRunner().invoke(main, ["schedule"])

    assert result.exit_code == 2
    assert "No such command 'schedule'" in result.output
    assert "Did you mean 'explain'?" in CliRunner().invoke(main, ["explian"]).output


def test_a_command_of_an_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line instead of a guess, and no word of it in the help."""
    monkeypatch.setattr(main_module, "entry_points", lambda group: ())

    demo = CliRunner().invoke(main, ["demo", "--nodes", "12"])
    help_text = CliRunner().invoke(main, ["--help"]).output

    assert demo.exit_code == 1
    assert demo.output == (
        "Error: `stowage demo`: it is not installed: pip install 'stowage-scheduler[demo]', or "
        "`make install` in a checkout\n"
    )
    assert "demo" not in help_text


def test_another_distribution_cannot_take_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of others come beside ours, not in their place."""
    run = EntryPoint("run", "json:loads", "stowage.commands")
    extra = EntryPoint("extra", "scheduler.tools.cli.config:config", "stowage.commands")
    monkeypatch.setattr(main_module, "entry_points", lambda group: (run, extra))

    assert main.get_command(Context(main), "run").name == "run"
    assert "extra" in main.list_commands(Context(main))
    assert CliRunner().invoke(main, ["extra", "--help"]).exit_code == 0


def test_run_prints_its_version() -> None:
    """As kube-scheduler's flag; nothing is started."""
    result = CliRunner().invoke(main, ["run", "--version"])

    assert (result.exit_code, result.output.startswith("Stowage ")) == (0, True)
    assert "(kube-scheduler v1.36" in result.output


def child_of(pid: int) -> int:
    """The only child of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


HANGS = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


def test_the_first_process_of_a_container_ends_while_it_starts(tmp_path: Path) -> None:
    """The kernel keeps SIGTERM from it unless it is handled: a kubelet would kill it after 40 s.

    It starts for as long as the exec plugin of its kubeconfig takes.
    """
    outside = [str(shutil.which("unshare")), "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0 or subprocess.run([*outside, "true"], check=False).returncode:
        pytest.skip("no process namespaces")
    plugin, begun, kubeconfig = (tmp_path / name for name in ("plugin.py", "begun", "kubeconfig"))
    plugin.write_text(HANGS)
    exec_section = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-IS", str(plugin), str(begun)],
        "interactiveMode": "Never",
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {"exec": exec_section}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    kubeconfig.write_text(json.dumps(document))
    words = ["run", f"--kubeconfig={kubeconfig}", "--secure-port=0"]

    async def story() -> int:
        around = await asyncio.create_subprocess_exec(
            *outside, sys.executable, "-m", "scheduler", *words
        )
        try:
            await until(lambda: begun.exists() or around.returncode is not None)
            os.kill(child_of(around.pid), signal.SIGTERM)
            async with asyncio.timeout(30):
                return await around.wait()
        finally:
            if around.returncode is None:
                around.kill()
                await around.wait()

    assert asyncio.run(story()) == 128 + signal.SIGTERM
