"""Promise: the lines of docs/configuration.md make bash, zsh and fish complete commands.

Shells that are not here are fetched as Debian's packages.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.support.debian import NotHereError, libraries, program
from e2e.support.go_programs import CHECKOUT
from tests.support.pages import shown

PAGE = CHECKOUT / "docs" / "configuration.md"
PACKAGES = {
    "bash": ("bash",),
    "zsh": ("zsh", "zsh-common"),
    "fish": ("fish", "fish-common", "libpcre2-32-0"),
}
ASK = {
    # As readline, zle and fish would, without a terminal.
    "bash": "COMP_WORDS=(stowage ver); COMP_CWORD=1; _stowage_completion stowage; "
    'printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": "autoload -U compinit; compinit -u; {line}; words=(stowage ver); CURRENT=2; "
    'compadd() {{ print -l -- "$@"; }}; _describe() {{ print -l -- "${{(P@)2}}"; print -l -- '
    '"${{(P@)3}}" }}; _stowage_completion',
    "fish": "{line}; complete --do-complete 'stowage ver'",
}


@pytest.mark.parametrize("shell", PACKAGES)
def test_a_shell_completes(shell: str, tmp_path: Path) -> None:
    """After the line of the page for it, `stowage ver` becomes `stowage version`."""
    try:
        path = program(shell, *PACKAGES[shell])
    except NotHereError as problem:
        pytest.skip(str(problem))
    [line] = [s.command for s in shown(PAGE) if f"_STOWAGE_COMPLETE={shell}_source" in s.command]
    folder = tmp_path / "bin"
    folder.mkdir()
    stowage = folder / "stowage"
    stowage.write_text(f'#!/bin/sh\nexec {sys.executable} -m scheduler "$@"\n')
    stowage.chmod(0o755)
    asked = ASK[shell]
    script = asked.format(line=line) if "{line}" in asked else f"{line}; {asked}"

    done = subprocess.run(
        [str(path), "-c", script],
        cwd=CHECKOUT,
        env={
            "PATH": os.pathsep.join([str(folder), os.environ["PATH"]]),
            "HOME": str(tmp_path),
            **_unpacked(path, shell),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert "version" in done.stdout.split(), done.stdout + done.stderr


def _unpacked(path: Path, shell: str) -> dict[str, str]:
    """What a shell that is not installed has to be told about where it is."""
    if shutil.which(shell) == str(path):
        return {}
    share = path.parents[1] / "share"
    functions = [str(folder) for folder in (share / "zsh" / "functions").glob("**")]
    return {**libraries(), "FPATH": os.pathsep.join(functions), "XDG_DATA_DIRS": str(share)}
