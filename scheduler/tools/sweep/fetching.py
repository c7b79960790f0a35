"""Fetches recordings from URLs. Importing this module needs the extra `dask`."""

from pathlib import Path

import fsspec

from scheduler.tools.offline.reading import InputError


def fetched(url: str) -> Path:
    """Return a local copy of the file, which is kept for later runs.

    Raises:
        InputError: the file cannot be fetched.
    """
    try:
        return Path(fsspec.open_local(f"simplecache::{url}", mode="rb"))
    except (ImportError, OSError, ValueError) as problem:
        raise InputError(f"{url}: cannot be read: {problem}") from problem
