"""The manifests that docs/groups.md shows are the files it names, which other tests apply."""

from pathlib import Path

import pytest

from tests.support.pages import blocks

CHECKOUT = Path(__file__).parents[3]
PAGE = CHECKOUT / "docs" / "groups.md"
FOLDER = CHECKOUT / "examples" / "groups"


@pytest.mark.parametrize("name", ["gang", "jobset", "kueue", "label"])
def test_a_manifest_is_shown_as_it_is(name: str) -> None:
    """But for the comments at its beginning."""
    path = FOLDER / f"{name}.yaml"
    lines = path.read_text().splitlines(keepends=True)
    manifest = "".join(line for line in lines if not line.startswith("#"))

    assert manifest in blocks(PAGE, "yaml")
    assert f"examples/groups/{name}.yaml" in PAGE.read_text()
