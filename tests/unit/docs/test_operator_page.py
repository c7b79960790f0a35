"""docs/operator.md: the kustomization that is shown replaces what it says."""

import yaml

from tests.support.environment import CHECKOUT
from tests.support.pages import blocks


def test_the_argument_that_is_replaced_is_the_image() -> None:
    """A patch names it by its place."""
    [shown] = [
        block for block in blocks(CHECKOUT / "docs/operator.md", "yaml") if "patches" in block
    ]
    [patch] = yaml.safe_load(yaml.safe_load(shown)["patches"][0]["patch"])
    deployment = yaml.safe_load((CHECKOUT / "deploy/operator/deployment.yaml").read_text())
    place = int(patch["path"].rpartition("/")[2])

    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][place].partition("=")[0] == patch["value"].partition("=")[0]
