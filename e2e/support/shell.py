"""A user's shell with a PATH, a kubeconfig and a working directory."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMEOUT_SECONDS = 300


class CommandError(AssertionError):
    """A command ended with an unexpected exit status; the message has its output."""


class CommandTimeoutError(CommandError):
    """A command did not end within the timeout; the message has its output so far."""


class Shell:
    """Runs command lines; working directory and variables persist between them.

    Args:
        directory: initial working directory.
        path: folders that precede the machine's PATH.
        variables: environment variables besides PATH.
        shell: the shell program.
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
        """Run one command line; return stdout, and stderr too if a failure is expected.

        Raises:
            CommandError: the exit status is not ``status``.
            CommandTimeoutError: the command does not end within the timeout.
        """
        try:
            done = self.attempt(command, stdin=stdin)
        except subprocess.TimeoutExpired as stuck:
            printed = b"".join(each or b"" for each in (stuck.stdout, stuck.stderr)).decode()
            raise CommandTimeoutError(f"{command}\ndid not end:\n{printed}") from None
        if done.returncode != status:
            raise CommandError(
                f"{command}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done.stdout if status == 0 else done.stdout + done.stderr

    def attempt(self, command: str, *, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run one command line and accept any exit status."""
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
