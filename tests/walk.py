"""Which functions a plain pod passes through, from its watch line to its bind: counted by a trace.

    python -m tests.walk [--alone] [--list]

A daemon and the in-memory API server run in one loop. Counted is every function of `scheduler/`
that is entered from the line of the watch until the bytes of the binding leave: properties and
plugins as well. Of pods that come together, those functions are counted that are entered for each
of them, so what is done once for a batch falls out. With `--alone` one pod comes after the other,
and each is evaluated by itself. What runs beside them (ticks, other watches) falls out, too.
Bindings are answered late, so that only their requests leave while it is counted.
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
"""Pods that come together; few functions that serve all of them are entered as often."""
FIRST: Final = ("daemon/informers/intake.py", "Intake.take_line")
LAST: Final = ("daemon/client/direct.py", "_Connection.send")
REQUEST: Final = ("daemon/client/writes.py", "PodWrites.bind")
"""Of what is sent only bindings end a walk: on a busy machine watches begin anew meanwhile."""
_PRODUCT: Final = f"{Path(scheduler.__file__).parent}/"
_LATE: Final = 3.0
"""Seconds until a binding is answered."""
_UNNAMED: Final = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")


class Walk:
    """How often each function ran from the first to the last, in the order of their first calls."""

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
        """File and qualified name of each that ran for every pod, those without a name left out."""
        return [
            _place(code)
            for code, times in self.entered.items()
            if times >= self._pods and code.co_name not in _UNNAMED
        ]


def _place(code: CodeType) -> tuple[str, str]:
    return code.co_filename.removeprefix(_PRODUCT), code.co_qualname


def _is_within(frame: FrameType | None, place: tuple[str, str]) -> bool:
    """Whether a call is made by a function, or by what that one calls."""
    while frame is not None and _place(frame.f_code) != place:
        frame = frame.f_back
    return frame is not None


def _has_bound(world: World, count: int) -> bool:
    return world.bindings() >= count


def walks(together: int = 1) -> list[list[tuple[str, str]]]:
    """One walk for each of several pods, or groups of pods; the first ones are not counted."""
    found = []

    async def story(world: World) -> None:
        for number in range(3):
            world.node(f"n{number}")
        await world.start_daemon()
        for number in range(PODS if together == 1 else 3):
            walk = Walk(together)
            names = [f"p{number}-{each}" for each in range(together)]
            wanted = world.bindings() + together
            # No answer comes before the last binding has left, so no event leaves either.
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
    """The functions of every walk, in the order of the last."""
    each = walks(together)
    seen = Counter(function for walk in each for function in walk)
    return [function for function in each[-1] if seen[function] == len(each)]


def main() -> None:
    """Count, and list them when asked to."""
    functions = common(1 if "--alone" in sys.argv else TOGETHER)
    if "--list" in sys.argv:
        for file, name in functions:
            print(f"{file:45} {name}")
    print(f"{len(functions)} functions in {len({file for file, _ in functions})} files")


if __name__ == "__main__":
    main()
