"""Whether the tests that come by a fault are found, and no others are run."""

import ast
from pathlib import Path

import pytest

from tests.mutants.faults import faults_in
from tests.mutants.planting import ROOT, modules_of
from tests.mutants.reach import Chosen, Reach, marked


class Item:
    """A test as pytest collects it."""

    def __init__(self, name: str) -> None:
        self.nodeid = name


def test_a_place_is_marked_before_its_statement() -> None:
    """What is on the way to it is no reason to count as somebody who came by."""
    text = "def f(x):\n    '''Text.'''\n    if x:\n        a = [\n            1,\n        ]\n"

    body = ast.parse(marked(text, {5: 7})).body[0].body

    assert ast.unparse(body[1].body[0]) == "__import__('came_by').mark(7)"
    assert ast.unparse(body[1].body[1]) == "a = [1]"


def test_every_line_with_a_fault_can_be_marked() -> None:
    """And the module can still be compiled."""
    for path in modules_of("cache"):
        text = (ROOT / path).read_text()
        lines = sorted({fault.line for fault in faults_in(ast.parse(text))})

        found = marked(text, {line: number for number, line in enumerate(lines)})

        compile(found, str(path), "exec")
        assert found.count("__import__('came_by')") == len(lines)


def test_who_came_by_is_known_by_name(tmp_path: Path) -> None:
    """Loading a module concerns all tests; one that fails without a fault tells nothing."""
    place, other = (Path("scheduler/a.py"), 1), (Path("scheduler/a.py"), 2)
    reach = Reach(tmp_path, [place, other, place])
    (tmp_path / "came_by.txt").write_text("0 \n0 t.py::a[x y]\n0 t.py::fails\n1 \n")
    reach.passed.write_text('{"t.py::a[x y]": 1.5, "t.py::b": 2.0}')

    found = reach.found()

    assert found == {
        "scheduler/a.py:1": {"t.py::a[x y]": 1.5},
        "scheduler/a.py:2": {"t.py::a[x y]": 1.5, "t.py::b": 2.0},
    }


@pytest.mark.parametrize("name", ["t.py::a[x]", "t.py::a", "t.py"])
def test_tests_are_chosen_by_name_by_function_or_by_file(name: str) -> None:
    """As named faults say them, too."""
    items = [Item("t.py::a[x]"), Item("u.py::a[x]")]

    Chosen([name]).pytest_collection_modifyitems(items)

    assert [item.nodeid for item in items] == ["t.py::a[x]"]
