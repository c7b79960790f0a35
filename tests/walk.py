"""Which functions a plain pod passes through, from its watch line to its bind: counted by a trace.

    python -m tests.walk [--list]

A daemon and the in-memory API server run in one loop. Counted is every function of `scheduler/`
that is entered for each of several pods of one workload, from the line of the watch until the
bytes of the binding leave: properties and plugins as well. What runs beside them (ticks, other
watches) does not come up every time, and falls out.
"""

import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import scheduler
from tests.scenario.world import World, play

PODS: Final = 8
FIRST: Final = ("daemon/informers/informer.py", "Informer._take_line")
LAST: Final = ("daemon/client/direct.py", "_Connection.send")
_PRODUCT: Final = f"{Path(scheduler.__file__).parent}/"
_UNNAMED: Final = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")


class Walk:
    """The functions that ran from the first to the last, in the order in which each was entered."""

    def __init__(self) -> None:
        self.entered: dict[CodeType, None] = {}
        self._is_over = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or self._is_over or not code.co_filename.startswith(_PRODUCT):
            return
        if self.entered or _place(code) == FIRST:
            self.entered.setdefault(code)
            self._is_over = _place(code) == LAST

    def functions(self) -> list[tuple[str, str]]:
        """File and qualified name of each, those without a name left out."""
        return [_place(code) for code in self.entered if code.co_name not in _UNNAMED]


def _place(code: CodeType) -> tuple[str, str]:
    return code.co_filename.removeprefix(_PRODUCT), code.co_qualname


def walks() -> list[list[tuple[str, str]]]:
    """One walk for each of several pods; the first ones of a workload are not counted."""
    found = []

    async def story(world: World) -> None:
        for number in range(3):
            world.node(f"n{number}")
        await world.start_daemon()
        for number in range(PODS):
            walk = Walk()
            asked = world.bindings()
            sys.setprofile(walk)
            world.pod(f"p{number}", cpu="100m")
            await world.until(lambda before=asked: world.bindings() > before, "the bind")
            sys.setprofile(None)
            await world.settled()
            await world.until(lambda name=f"p{number}": world.events(name), "the event")
            if number > 1:
                found.append(walk.functions())

    play(story)
    return found


def common() -> list[tuple[str, str]]:
    """The functions of every walk, in the order of the last."""
    each = walks()
    seen = Counter(function for walk in each for function in walk)
    return [function for function in each[-1] if seen[function] == len(each)]


def main() -> None:
    """Count, and list them when asked to."""
    functions = common()
    if "--list" in sys.argv:
        for file, name in functions:
            print(f"{file:45} {name}")
    print(f"{len(functions)} functions in {len({file for file, _ in functions})} files")


if __name__ == "__main__":
    main()
