"""What claims ask for: classes, selectors, requests with their alternatives, constraints."""

from tests.parity.generator.device_slices import GPU, NIC, NUMA, TAINT_KEYS, Habits
from tests.parity.generator.draw import Draw, Object

MODEL = f'device.attributes["{GPU}"].model'
INDEX = f'device.attributes["{GPU}"].index'
MEMORY = f'device.capacity["{GPU}"].memory'
VERSION = f'device.attributes["{GPU}"].driverVersion'

ACCELERATOR_SELECTORS = (
    f'{MODEL} == "h100"',
    f'{MODEL} in ["a100", "h100"]',
    f"{INDEX} < 2",
    f"{INDEX} >= 1 && {INDEX} <= 3",
    f'{MEMORY}.compareTo(quantity("60Gi")) > 0',
    f'{MEMORY}.isGreaterThan(quantity("30Gi"))',
    f'device.attributes["{GPU}"].healthy',
    f'!device.attributes["{GPU}"].healthy || {MODEL}.startsWith("h")',
    f'{VERSION}.isGreaterThan(semver("1.3.0"))',
    f'"model" in device.attributes["{GPU}"] && {MODEL}.endsWith("mig")',
    'device.attributes["numa.example.org"].node == 0',
    f'device.attributes["{GPU}"].?index.orValue(1) != 0',
    f'device.attributes["{GPU}"].exists(k, k == "model")',
    f'{MODEL} == "a100" ? {INDEX} < 3 : true',
    f'cel.bind(m, {MODEL}, m == "h100" || m == "a100")',
    "!device.allowMultipleAllocations",
)
INTERFACE_SELECTORS = (
    f'device.attributes["{NIC}"].kind == "rdma"',
    f'device.attributes["{NIC}"].mtu > 1500',
    f'device.capacity["{NIC}"].bandwidth.compareTo(quantity("9G")) >= 0',
    'device.attributes["numa.example.org"].node == 1',
    f'"queues" in device.capacity["{NIC}"]',
    "device.allowMultipleAllocations",
)
FRAGILE_SELECTORS = (
    f'device.attributes["{GPU}"].absent == 1 || device.driver == "{GPU}"',
    f'device.attributes["{GPU}"].absent == 1',
    f"{INDEX} < 2 && {MODEL} == 1",
    INDEX,
    f'device.driver == "{GPU}" || {INDEX} == 1',
)
"""Selectors that end in an error on some devices, and so end the whole attempt."""
EXTENDED = "example.com/accelerator"
IMPLICIT = "deviceclass.resource.kubernetes.io/"
ANY = "example.com/any-device"
CLASSES = {
    "gpu": ([f'device.driver == "{GPU}"'], EXTENDED),
    "big-gpu": (
        [f'device.driver == "{GPU}"', f'{MEMORY}.compareTo(quantity("60Gi")) >= 0'],
        "example.com/big-gpu",
    ),
    "nic": ([f'device.driver == "{NIC}"'], "example.com/interface"),
    "second-gpu": ([f'device.driver == "{GPU}" && {INDEX} > 0'], EXTENDED),
    "anything": ([], ANY),
}
"""Classes by name: selectors, and the extended resource that some of them stand for."""
DOMAINS = (NUMA, NUMA, f"{GPU}/model", f"{GPU}/index", f"{GPU}/driverVersion", f"{NIC}/kind")


def device_classes(draw: Draw, *, extended: bool) -> list[Object]:
    """Make the classes; now and then one is missing."""
    found = []
    for name, (selectors, resource) in CLASSES.items():
        if draw.maybe(0.03) or (name == "second-gpu" and not draw.maybe(0.5)):
            continue
        spec: Object = {"selectors": [_cel(text) for text in selectors]}
        if resource and (draw.maybe(0.85) if extended else draw.maybe(0.1)):
            spec["extendedResourceName"] = resource
        metadata: Object = {"name": name}
        if draw.maybe(0.5):
            metadata["creationTimestamp"] = draw.pick(
                ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
            )
        found.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": metadata,
                "spec": spec,
            }
        )
    return found


def claim_spec(draw: Draw, habits: Habits, *, admin: bool, fragile: float) -> Object:
    """Make the specification of a claim; `admin` tells whether its namespace allows that access."""
    asked = [
        _request(draw, f"r{i}", habits, admin=admin, fragile=fragile)
        for i in range(draw.pick((1, 1, 1, 1, 2, 3)))
    ]
    draw.shuffle(asked)
    devices: Object = {"requests": asked}
    if draw.maybe(0.2):
        devices["constraints"] = [_constraint(draw, asked) for _ in range(draw.pick((1, 1, 2)))]
    return {"devices": devices}


def _request(draw: Draw, name: str, habits: Habits, *, admin: bool, fragile: float) -> Object:
    if draw.maybe(0.25):
        alternatives = [
            {"name": sub, **_wanted(draw, habits, fragile=fragile)}
            for sub in draw.some(("first", "second", "third", "a"), 1, 3)
        ]
        return {"name": name, "firstAvailable": alternatives}
    wanted = _wanted(draw, habits, fragile=fragile)
    if admin and draw.maybe(0.4):
        wanted["adminAccess"] = True
    return {"name": name, "exactly": wanted}


def _wanted(draw: Draw, habits: Habits, *, fragile: float) -> Object:
    interface = draw.maybe(0.5 if habits.shares else 0.3)
    name = "nic" if interface else draw.pick(("gpu", "gpu", "gpu", "big-gpu", "anything"))
    if draw.maybe(0.02):
        name = draw.pick(("second-gpu", "gone"))
    wanted: Object = {"deviceClassName": name}
    known = INTERFACE_SELECTORS if interface else ACCELERATOR_SELECTORS
    if name == "anything":
        # Both drivers' devices are looked at: what one of them lacks would be an error.
        known = ("!device.allowMultipleAllocations", "device.driver.endsWith('.com')")
    selectors = draw.some(known, 0, 2) if draw.maybe(0.45) else []
    if draw.maybe(fragile):
        selectors.append(draw.pick(FRAGILE_SELECTORS))
    if selectors:
        wanted["selectors"] = [_cel(text) for text in selectors]
    if draw.maybe(0.08):
        wanted["allocationMode"] = "All"
    elif draw.maybe(0.2):
        wanted["count"] = draw.pick((1, 2, 2, 2, 3, 4))
    elif draw.maybe(0.01):
        wanted["count"] = draw.pick((20, 33))
    if draw.maybe(0.3 if habits.tainted else 0.05):
        wanted["tolerations"] = [_toleration(draw) for _ in range(draw.pick((1, 1, 2)))]
    if draw.maybe(0.6 if interface and habits.shares else 0.05):
        amounts: Object = {}
        if interface:
            amounts["bandwidth"] = draw.pick(("500M", "1G", "2500M", "3G", "5G", "12G", "1000M"))
            if draw.maybe(0.1):
                amounts["queues"] = draw.pick(("2", "8"))
        else:
            amounts["memory"] = draw.pick(("40Gi", "60Gi", "10Gi"))
        wanted["capacity"] = {"requests": amounts}
    return wanted


def _toleration(draw: Draw) -> Object:
    if draw.maybe(0.2):
        return {"operator": "Exists"}
    found: Object = {"key": draw.pick(TAINT_KEYS), "operator": draw.pick(("Exists", "Equal"))}
    if found["operator"] == "Equal":
        found["value"] = draw.pick(("1", "2", ""))
    if draw.maybe(0.4):
        found["effect"] = draw.pick(("NoSchedule", "NoExecute"))
    return found


def _constraint(draw: Draw, asked: list[Object]) -> Object:
    found: Object = {}
    if draw.maybe(0.6):
        names = []
        for request in draw.some(asked, 1, 3):
            subs = request.get("firstAvailable")
            if subs and draw.maybe(0.3):
                names.append(f"{request['name']}/{draw.pick(subs)['name']}")
            else:
                names.append(request["name"])
        found["requests"] = names
    key = "distinctAttribute" if draw.maybe(0.3) else "matchAttribute"
    found[key] = draw.pick(DOMAINS)
    return found


def _cel(text: str) -> Object:
    return {"cel": {"expression": text}}
