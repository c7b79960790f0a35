"""Promise: the commands in docs/configuration.md enable completion in bash, zsh and fish.

Missing shells are downloaded as Debian packages.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.support.debian import ProgramNotFoundError, libraries, library_folders, program
from e2e.support.go_programs import CHECKOUT
from tests.support.pages import shown

PAGE = CHECKOUT / "docs" / "configuration.md"
PACKAGES = {
    "bash": ("bash",),
    "zsh": ("zsh", "zsh-common"),
    "fish": ("fish", "fish-common", "libpcre2-32-0"),
}
ASK = {
    # Calls of readline, zle and fish, without a terminal.
    "bash": "COMP_WORDS=(stowage ver); COMP_CWORD=1; _stowage_completion stowage; "
    'printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": "module_path+=({modules}); compdef() {{ : }}; {line}; words=(stowage ver); CURRENT=2; "
    '_describe() {{ print -l -- "${{(P@)3}}" }}; _stowage_completion',
    "fish": "{line}; complete --do-complete 'stowage ver'",
}


@pytest.mark.parametrize("shell", PACKAGES)
def test_a_shell_completes(shell: str, tmp_path: Path) -> None:
    """With the page's line for the shell, `stowage ver` completes to `stowage version`."""
    try:
        path = program(shell, *PACKAGES[shell])
    except ProgramNotFoundError as problem:
        pytest.skip(str(problem))
    [line] = [s.command for s in shown(PAGE) if f"_STOWAGE_COMPLETE={shell}_source" in s.command]
    modules = " ".join(map(str, (m for f in library_folders() for m in f.glob("zsh/*"))))
    asked = ASK[shell]
    script = asked.format(line=line, modules=modules) if "{line}" in asked else f"{line}; {asked}"

    done = subprocess.run(
        [str(path), "-c", script],
        cwd=CHECKOUT,
        env={
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(tmp_path),
            **libraries(),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert re.search(r"^version\b", done.stdout, re.MULTILINE), done.stdout + done.stderr
