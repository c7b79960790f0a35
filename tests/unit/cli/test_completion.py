"""The three shells that docs/configuration.md names get a script."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes(shell: str) -> None:
    """The variable of the page makes a script for it, and commands are completed by it."""
    assert f"_STOWAGE_COMPLETE={shell}_source stowage" in PAGE.read_text()
    code = "from scheduler.tools.cli.main import main; main(prog_name='stowage')"

    def run(**environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    # click asks the bash that is there for its version before it writes the script.
    script = run(_STOWAGE_COMPLETE=f"{shell}_source")
    completed = run(
        _STOWAGE_COMPLETE=f"{shell}_complete",
        COMP_WORDS="stowage ver",
        COMP_CWORD="1" if shell != "fish" else "ver",
    )

    assert "_STOWAGE_COMPLETE" in script
    assert re.search(r"\bversion\b", completed)
