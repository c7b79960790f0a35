"""Replays the recordings of the replicas in new processes.

Every daemon records from its start. A killed daemon leaves a file that may end inside a block; the
replay must match up to that point.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.support.go_programs import CHECKOUT

PROMISE: Final = "what was recorded is decided again, byte for byte"
_SUFFIX: Final = ".recording"
_EVENTS: Final = re.compile(r"(\d+) events(: identical| before: identical)")
_CUT_OFF: Final = "it ends in the middle of a block"
_TIMEOUT_SECONDS: Final = 1800


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of one replay.

    Attributes:
        name: name of the recording.
        events: number of events replayed identically.
        is_cut_off: whether the file ends inside a block.
        problem: output of `stowage replay` if the replay was not identical.
    """

    name: str
    events: int
    is_cut_off: bool = False
    problem: str = ""


def replay_all(directories: Sequence[Path]) -> list[Replayed]:
    """Replay every recording in the directories."""
    return [
        _replayed(name, files)
        for directory in directories
        for name, files in _recordings(directory)
    ]


def _recordings(directory: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield name and files of each recording; skip daemons killed before their first write.

    A recording includes the file with its last minutes that a crash leaves.
    """
    parts: dict[str, list[Path]] = {}
    for path in sorted(directory.glob(f"stowage-*{_SUFFIX}")):
        if path.stat().st_size:
            parts.setdefault(path.name.rpartition("-")[0], []).append(path)
    yield from parts.items()


def _replayed(name: str, files: Sequence[Path]) -> Replayed:
    words = [sys.executable, "-m", "scheduler", "replay", *map(str, files)]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
        cwd=CHECKOUT,
    )
    output = (done.stdout + done.stderr).strip()
    found = _EVENTS.search(output)
    events = int(found[1]) if found else 0
    is_cut_off = _CUT_OFF in output
    is_identical = found is not None and (done.returncode == 0 or is_cut_off)
    return Replayed(name, events, is_cut_off, "" if is_identical else output)
