"""A driver of devices on a real node, and what administrators make for it."""

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
"""What makes a pod, or a Deployment, of the helpers one with a device."""


@contextmanager
def dra_driver(node: Node, lab: Lab) -> Iterator[None]:
    """A driver with two devices on a node; it stays until kubelet has given back every claim."""
    node.start_dra_driver(DRIVER, 2)
    try:
        yield
        wait_for(lambda: not lab.get("resourceclaims")["items"], "the claims to go", 60)
    finally:
        node.programs.pop("dra-driver").stop()
        lab.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={DRIVER}")


def devices() -> list[Json]:
    """The class of the driver's devices, and a template of claims for one."""
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


def given_devices(lab: Lab) -> list[str]:
    """The devices that claims have, one entry for each that has it."""
    return [
        result["device"]
        for claim in lab.get("resourceclaims")["items"]
        for result in claim["status"].get("allocation", {}).get("devices", {}).get("results", ())
    ]
