"""Workers of Dask. Importing this module needs the extra `dask`."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Final

from distributed import Client, KilledWorker

from scheduler.tools.offline.reading import InputError
from scheduler.tools.sweep.executors import MAX_VAIN_ROUNDS, Workers

CONNECT_SECONDS: Final = 10
"""Time limit for a connection; a Dask that has just been started may not listen yet."""


def dask(address: str) -> Workers:
    """Return the workers of a Dask scheduler; they need the same version of Stowage."""

    @contextmanager
    def opened() -> Iterator[Executor]:
        try:
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as problem:
            raise InputError(f"--dask {address}: {problem}") from problem
        with client:
            executor = client.get_executor(pure=False, retries=MAX_VAIN_ROUNDS)
            try:
                yield executor
            finally:
                executor.shutdown(wait=False)

    return Workers(opened, deadly=(KilledWorker,))
