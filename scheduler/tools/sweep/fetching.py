"""Recordings behind a URL. Imported only where the extra `dask` is wanted."""

from pathlib import Path

import fsspec

from scheduler.tools.offline.reading import InputError


def fetched(url: str) -> Path:
    """A copy of the file on this machine, kept for later runs.

    Raises:
        InputError: it cannot be fetched.
    """
    try:
        return Path(fsspec.open_local(f"simplecache::{url}", mode="rb"))
    except (ImportError, OSError, ValueError) as problem:
        raise InputError(f"{url}: cannot be read: {problem}") from problem
