"""Runs a DRA driver on a real node, and builds its DeviceClass and claim template."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from e2e.nodes.lab import Lab
from e2e.nodes.node import Node
from e2e.support.objects import Json
from e2e.support.waiting import wait_for

DRIVER: Final = "dra.e2e.stowage.dev"
CLAIM: Final[Json] = {
    "resources": {"claims": [{"name": "device"}]},
    "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "one"}],
}
"""Pod options that add one claim for a device."""


@contextmanager
def dra_driver(node: Node, lab: Lab) -> Iterator[None]:
    """Run a DRA driver with two devices; wait at the end until all claims are gone."""
    node.start_dra_driver(DRIVER, 2)
    try:
        yield
        wait_for(lambda: not lab.get("resourceclaims")["items"], "the claims to go", 180)
    finally:
        node.programs.pop("dra-driver").stop()
        lab.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={DRIVER}")


def devices() -> list[Json]:
    """Build the driver's DeviceClass, and a ResourceClaimTemplate for one device."""
    version = "resource.k8s.io/v1"
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    request = {"name": "any", "exactly": {"deviceClassName": "e2e"}}
    return [
        {
            "apiVersion": version,
            "kind": "DeviceClass",
            "metadata": {"name": "e2e"},
            "spec": {"selectors": [selector]},
        },
        {
            "apiVersion": version,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
    ]


def allocated_devices(lab: Lab) -> list[str]:
    """Return the allocated devices, one entry for each allocation."""
    return [
        result["device"]
        for claim in lab.get("resourceclaims")["items"]
        for result in claim["status"].get("allocation", {}).get("devices", {}).get("results", ())
    ]
