"""Commands of `stowage` in processes that share their imports: most of what a start costs.

Run as a program it imports the commands once and forks for each start: a process with an end,
streams and an exit status of its own, as a shell would see it.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from click import Context

from scheduler.__main__ import main

PROGRAM: Final = __file__
VARIABLES: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""What the program's environment must have: threads of a library would not survive a fork."""


class Outcome(NamedTuple):
    """How a start ended: as a shell would see it."""

    status: int
    out: str
    err: str


def words_of(starts: Mapping[str, Sequence[str]]) -> list[str]:
    """What to give Python to run: the program with what it is to start, by name."""
    # -P: the folder of this file has modules of common names.
    return ["-P", PROGRAM, json.dumps(starts)]


def outcomes(printed: str | bytes) -> dict[str, Outcome]:
    """How each start ended, from what the program has printed."""
    return {name: Outcome(*told) for name, told in json.loads(printed).items()}


def _start(words: Sequence[str]) -> tuple[int, str, str]:
    # In memory: there may be no folder to write in.
    streams = [os.memfd_create(name) for name in ("out", "err")]
    process = os.fork()
    if not process:
        for number, stream in enumerate(streams, start=1):
            os.dup2(stream, number)
        sys.argv[1:] = words
        main(prog_name="python -m scheduler")
    _, status = os.waitpid(process, 0)
    out, err = (os.pread(stream, os.fstat(stream).st_size, 0).decode() for stream in streams)
    for stream in streams:
        os.close(stream)
    return os.waitstatus_to_exitcode(status), out, err


def _all(starts: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, str, str]]:
    context = Context(main)
    for command in {words[0] for words in starts.values()}:
        main.get_command(context, command)
    return {name: _start(words) for name, words in starts.items()}


if __name__ == "__main__":
    print(json.dumps(_all(json.loads(sys.argv[1]))))
