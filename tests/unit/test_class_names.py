"""A public class name of the product means one thing."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[2]
_CLASS: Final = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
"""At the top of a module. By the text: trees of all files take seconds."""


def test_no_public_class_name_stands_in_two_modules() -> None:
    """A reader who meets `Plan` or `Result` need not ask which one; an import never needs `as`."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sorted((CHECKOUT / "scheduler").rglob("*.py")):
        for name in _CLASS.findall(path.read_text()):
            modules[name].append(path.relative_to(CHECKOUT).as_posix())

    assert len(modules) > 1000, "classes are not found"
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}
