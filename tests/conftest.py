"""Settings for all tests."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# A gate says the same of the same commit; new examples are looked for by `make hunt`.
settings.register_profile("gate", COMMON, derandomize=True)
settings.register_profile("hunt", COMMON, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the tests without looking for garbage.

    What they import stays: looking at it takes a fifth of the time, and looking again in every
    later round of the collector is as much in vain.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """Give back what commands froze that ran here, as if their process ended with them.

    Else the libraries that they loaded complain at the end of a leak.
    """
    gc.unfreeze()
