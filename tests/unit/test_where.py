"""Each module has unit tests, its own or those of the modules that use it."""

import pytest

from tests.where import modules_with_tests


@pytest.fixture(scope="module")
def modules() -> dict[str, list[str]]:
    """Every file of tests is read for it: seconds, which no collection of tests is to take."""
    return modules_with_tests()


def test_every_module_has_unit_tests(modules: dict[str, list[str]]) -> None:
    """`python -m tests.where MODULE` lists them."""
    assert [module for module, tests in modules.items() if not tests] == []


def test_a_module_that_tests_import_has_just_these(modules: dict[str, list[str]]) -> None:
    """Others that use it through another module are not its own."""
    tests = modules["scheduler/kernel/queue/backoff.py"]

    assert "tests/unit/queue/test_backoff.py" in tests
    assert "tests/unit/queue/test_scheduling_queue.py" not in tests
