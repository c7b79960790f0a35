"""What is planted at random, and what is not; and whether the faults with a name still exist."""

import ast

import pytest

from tests.mutants.faults import faults_in
from tests.mutants.named import FAULTS, ROOT, NamedFault
from tests.mutants.planting import modules_of


def faults(body: str) -> list[str]:
    """What can be planted in a function of this body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return sorted(fault.what for fault in faults_in(ast.parse(f"def f(x: int = 1):\n{lines}")))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "return x < 3",
            ["comparison swapped: x < 3", "off by one: 3", "returns None: return x < 3"],
            id="a comparison, its constant, the answer",
        ),
        pytest.param(
            "if x and y:\n    z = not x",
            [
                "`and` and `or` swapped: x and y",
                "`not` removed: not x",
                "condition negated: if x and y:",
                "statement dropped: z = not x",
            ],
            id="a condition and what depends on it",
        ),
        pytest.param(
            "if x == y:\n    raise KeyError",
            ["comparison swapped: x == y", "statement dropped: raise KeyError"],
            id="the opposite of a comparison, once",
        ),
        pytest.param("log.info('x', n=1 + 2)", [], id="a log line"),
        pytest.param("if verbose(2):\n    log.info('x')", [], id="a condition of log lines"),
        pytest.param("raise AssertionError('x')", [], id="what nothing gets to"),
        pytest.param("return NotImplemented", [], id="None by another name"),
        pytest.param("del x", [], id="the end of a name"),
        pytest.param("for _ in zip(x, x, strict=True):\n    pass", [], id="equal lengths"),
        pytest.param(
            "self.a = np.zeros(0, np.intp)\nself.b: Column = np.zeros(0)",
            ["statement dropped: self.a = np.zeros(0, np.intp)"],
            id="a column that begins empty",
        ),
        pytest.param(
            "del x[0]",
            ["off by one: 0", "statement dropped: del x[0]"],
            id="the end of an entry",
        ),
    ],
)
def test_what_is_planted(body: str, expected: list[str]) -> None:
    """Nothing that no test could notice."""
    assert faults(body) == expected


def test_every_fault_changes_the_module() -> None:
    """Each of a room, planted alone."""
    for path in modules_of("cache"):
        text = (ROOT / path).read_text()
        sound = ast.unparse(ast.parse(text))
        for number in range(len(faults_in(ast.parse(text)))):
            tree = ast.parse(text)
            faults_in(tree)[number].plant()
            assert ast.unparse(ast.fix_missing_locations(tree)) != sound


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_named_faults_can_be_planted(fault: NamedFault) -> None:
    """The place is there, once, and the test that notices it as well. `make mutants` runs it."""
    file, _, name = fault.test.partition("::")

    ast.parse(fault.planted())
    assert (ROOT / fault.module).read_text().count(fault.old) == 1
    assert f"def {name.rpartition('::')[2]}(" in (ROOT / file).read_text() or not name
