"""Each module has unit tests, its own or those of the modules that use it."""

from tests.where import modules_with_tests

MODULES = modules_with_tests()


def test_every_module_has_unit_tests() -> None:
    """`python -m tests.where MODULE` lists them."""
    assert [module for module, tests in MODULES.items() if not tests] == []


def test_a_module_that_tests_import_has_just_these() -> None:
    """Others that use it through another module are not its own."""
    tests = MODULES["scheduler/kernel/queue/backoff.py"]

    assert "tests/unit/queue/test_backoff.py" in tests
    assert "tests/unit/queue/test_scheduling_queue.py" not in tests
