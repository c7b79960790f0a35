"""The version, as other programs need it."""

import re

import pytest

from scheduler.observability import build_info


@pytest.mark.parametrize("version", ["0.3.1", "0.3.1.dev4+g1a2b3c4.d20260131"])
def test_the_tag_of_an_image_is_one(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """A tag has no plus sign; a kubelet refuses the whole image name."""
    monkeypatch.setattr(build_info, "version", lambda _: version)

    assert re.fullmatch(r"\w[\w.-]{0,127}", build_info.image_tag())
