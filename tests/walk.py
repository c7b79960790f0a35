"""Counts the functions that a plain pod runs through, from its watch line to its binding.

    python -m tests.walk [--alone] [--list]

A daemon and the in-memory API server run in one loop. A trace records every function of
`scheduler/` that is entered from the first watch line until the last binding is written, properties
and plugins included. `TOGETHER` pods are created at once, and a function counts if it is entered
for each of them; a function that runs once per batch does not count. With `--alone` pods are
created one by one, and each is evaluated alone. Only functions of every walk count, so ticks and
other watches do not. Bindings are answered late, so that nothing else is sent during a walk.
"""

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import scheduler
from tests.scenario.world import World, play

PODS: Final = 8
TOGETHER: Final = 32
"""Pods that are created at once; few functions that run once per batch are entered as often."""
FIRST: Final = ("daemon/informers/intake.py", "Intake.take_line")
LAST: Final = ("daemon/client/http_connection.py", "HttpConnection.send")
REQUEST: Final = ("daemon/client/writes.py", "PodWrites.bind")
"""Only requests of bindings end a walk: on a busy machine a watch may be opened meanwhile."""
_PRODUCT: Final = f"{Path(scheduler.__file__).parent}/"
_LATE: Final = 3.0
"""Seconds until a binding is answered."""
_UNNAMED: Final = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")


class Walk:
    """Counts calls of functions from `FIRST` until each pod's `LAST`, in order of first calls."""

    def __init__(self, pods: int = 1) -> None:
        self.entered: Counter[CodeType] = Counter()
        self._pods = pods
        self._left = pods

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not self._left or not code.co_filename.startswith(_PRODUCT):
            return
        if self.entered or _place(code) == FIRST:
            self.entered[code] += 1
            self._left -= _place(code) == LAST and _is_within(frame, REQUEST)

    def functions(self) -> list[tuple[str, str]]:
        """Return file and qualified name of each function that ran for every pod and has a name."""
        return [
            _place(code)
            for code, times in self.entered.items()
            if times >= self._pods and code.co_name not in _UNNAMED
        ]


def _place(code: CodeType) -> tuple[str, str]:
    return code.co_filename.removeprefix(_PRODUCT), code.co_qualname


def _is_within(frame: FrameType | None, place: tuple[str, str]) -> bool:
    """Return whether a call is made by a function, directly or through other calls."""
    while frame is not None and _place(frame.f_code) != place:
        frame = frame.f_back
    return frame is not None


def _has_bound(world: World, count: int) -> bool:
    return world.bindings() >= count


def walks(together: int = 1) -> list[list[tuple[str, str]]]:
    """Return the functions of several walks, each of `together` pods, without the first walks."""
    found = []

    async def story(world: World) -> None:
        for number in range(3):
            world.node(f"n{number}")
        await world.start_daemon()
        for number in range(PODS if together == 1 else 3):
            walk = Walk(together)
            names = [f"p{number}-{each}" for each in range(together)]
            wanted = world.bindings() + together
            # No binding is answered before the last one is sent, so no event is sent either.
            world.sandbox.faults.delay(_LATE, verb="create", path="*/binding", times=together)
            sys.setprofile(walk)
            for name in names:
                world.pod(name, cpu="10m")
            await world.until(partial(_has_bound, world, wanted), "the binds")
            sys.setprofile(None)
            await world.settled()
            await world.until(partial(world.events, names[-1]), "the event")
            if number > 1:
                found.append(walk.functions())

    play(story)
    return found


def common(together: int = 1) -> list[tuple[str, str]]:
    """Return the functions that are in every walk, in the order of the last walk."""
    each = walks(together)
    seen = Counter(function for walk in each for function in walk)
    return [function for function in each[-1] if seen[function] == len(each)]


def main() -> None:
    """Print the number of functions, and with `--list` the functions."""
    functions = common(1 if "--alone" in sys.argv else TOGETHER)
    if "--list" in sys.argv:
        for file, name in functions:
            print(f"{file:45} {name}")
    print(f"{len(functions)} functions in {len({file for file, _ in functions})} files")


if __name__ == "__main__":
    main()
