"""Settings for all tests."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# The duration of an example depends on the machine, so there is no deadline.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# The gate is deterministic for a commit; `make hunt` searches for new examples.
settings.register_profile("gate", COMMON, derandomize=True)
settings.register_profile("hunt", COMMON, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

# Servers of tests are on the loopback interface; some clients would ask the user's proxy for them.
for _name in ("http_proxy", "https_proxy", "all_proxy"):
    os.environ.pop(_name, None)
    os.environ.pop(_name.upper(), None)

# A hook of git, or `git rebase --exec`, names the user's repository; tests make their own.
for _name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
    os.environ.pop(_name, None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests without garbage collection.

    Imported modules stay alive, so collections during imports only cost time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """Unfreezes the objects that commands under test froze, as at the end of their process."""
    gc.unfreeze()
