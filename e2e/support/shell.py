"""A shell as a user has one: programs on its PATH, a kubeconfig, a folder it is in."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMEOUT_SECONDS = 180


class CommandError(AssertionError):
    """A command did not end as it should; carries what it said."""


class EndlessError(CommandError):
    """A command did not end in time; carries what it had said by then."""


class Shell:
    """Runs command lines one after the other; folder and variables stay from one to the next.

    Args:
        directory: where it is.
        path: folders with programs, before those of the machine.
        variables: its environment, besides PATH.
        shell: the program that reads command lines.
    """

    def __init__(
        self, directory: Path, path: Sequence[Path], variables: Mapping[str, str], home: Path
    ) -> None:
        self.directory = directory
        self.home = home
        self.variables = {
            **variables,
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "PATH": os.pathsep.join([*map(str, path), "/usr/local/bin", "/usr/bin", "/bin"]),
        }

    def run(self, command: str, *, stdin: str = "", status: int = 0) -> str:
        """Runs one line; gives what it printed, errors included where it is to fail.

        Raises:
            CommandError: its exit status is another one.
            EndlessError: it does not end.
        """
        try:
            done = self.attempt(command, stdin=stdin)
        except subprocess.TimeoutExpired as stuck:
            printed = b"".join(each or b"" for each in (stuck.stdout, stuck.stderr)).decode()
            raise EndlessError(f"{command}\ndid not end:\n{printed}") from None
        if done.returncode != status:
            raise CommandError(
                f"{command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done.stdout if status == 0 else done.stdout + done.stderr

    def attempt(self, command: str, *, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Runs one line, however it ends."""
        state, place = self.home / ".variables", self.home / ".place"
        keep = f"status=$?; export -p > '{state}'; pwd > '{place}'; exit $status"
        known = f"source '{state}'; " if state.exists() else ""
        done = subprocess.run(
            ["/bin/bash", "-c", f"{known}set -a -o pipefail; {command}\n{keep}"],
            cwd=self.directory,
            env=self.variables,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
        if place.exists():
            self.directory = Path(place.read_text().strip())
        return done
