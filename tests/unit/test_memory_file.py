"""Content as a file, with and without the system's help."""

import sys
import tempfile
from pathlib import Path

import pytest

from scheduler.memory_file import memory_file


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_it_can_be_read_inside_the_block(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    """As often as wanted, from its beginning; afterwards nothing is left."""
    monkeypatch.setattr(sys, "platform", platform)

    with memory_file(b"content" * 100_000) as path:
        assert path.read_bytes() == path.read_bytes() == b"content" * 100_000

    assert not path.exists()


def test_it_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing appears where temporary files would."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with memory_file(b"key"):
        assert list(tmp_path.iterdir()) == []
