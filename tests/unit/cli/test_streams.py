"""Output that cannot be written."""

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")


def _stowage(arguments: str) -> subprocess.CompletedProcess[str]:
    return _shell(f"{sys.executable} -m scheduler {arguments}")


def _shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True, text=True)


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", ["version", "config", "--help", "help run"])
def test_a_full_disk_is_one_message(command: str) -> None:
    """No traceback, and not the status of a plugin that failed."""
    done = _stowage(f"{command} > /dev/full")

    assert done.stderr.endswith(": cannot write the output: No space left on device\n")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
def test_a_full_disk_for_errors_as_well() -> None:
    """Nothing can be said; the status is left."""
    assert _stowage("version > /dev/full 2> /dev/full").returncode == 2


def test_a_closed_output_is_one_message() -> None:
    """Output that is lost is an error, as with a full disk."""
    done = _stowage("version >&-")

    assert done.stderr.endswith(": cannot write the output: Bad file descriptor\n")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_an_error_about_another_file_is_no_output_that_cannot_be_written() -> None:
    """Nothing is written to find that out."""
    code = "from scheduler.tools.cli.streams import checked_streams as c\nwith c('x'): open('no')"
    done = _shell(f'{sys.executable} -c "{code}"')

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("No such file or directory: 'no'\n")


@pytest.mark.parametrize("command", ["explain --jsonl", "explain -f -", "config -"])
@pytest.mark.parametrize("stdin", ["0>/dev/null", "<&-"], ids=["cannot be read", "closed"])
def test_an_input_that_cannot_be_read_is_one_message(command: str, stdin: str) -> None:
    """Without it there is nothing to answer."""
    done = _stowage(f"{command} {stdin}")

    name = command.split(maxsplit=1)[0]
    expected = f"stowage {name}: standard input: cannot be read: bad file descriptor\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)


def test_all_streams_are_closed() -> None:
    """The status is left."""
    assert _stowage("version <&- >&- 2>&-").returncode == 2


def test_closed_errors_do_not_hide_the_status() -> None:
    """A message that cannot be shown changes nothing else."""
    done = _stowage("config does-not-exist.yaml 2>&-")

    assert (done.returncode, done.stdout) == (2, "")


def test_a_reader_that_goes_away_is_no_message() -> None:
    """As in `stowage config | head -1`; 1 would be a plugin that failed."""
    done = _shell(f"{{ {sys.executable} -m scheduler config; echo $? >&2; }} | true")

    assert done.stderr == "141\n"
