"""Files without a name, for libraries that read only files.

A pod's root file system is read-only and no volume is mounted: nothing can be written there, and
keys should not be.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def memory_file(content: bytes) -> Iterator[Path]:
    """Provide a path to this content, inside the block and for this process.

    The content stays in memory. Systems that have no such files (macOS) get a temporary file.

    Raises:
        OSError: there is no memory left, or no temporary file can be made.
    """
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("stowage", os.MFD_CLOEXEC), "wb") as file:
            file.write(content)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.NamedTemporaryFile(prefix="stowage-") as file:
            file.write(content)
            file.flush()
            yield Path(file.name)
