"""Changes of objects about devices while a pod waits, for questions about queueing hints."""

from tests.parity.generator.draw import Draw, Object

DEVICE_KINDS = ("ResourceClaim", "ResourceSlice", "DeviceClass")


def change_devices(draw: Draw, thing: Object, other: Object) -> None:
    """Change one field that scheduling reads, or one that it does not."""
    match thing["kind"]:
        case "ResourceClaim":
            _change_claim(draw, thing, other)
        case "DeviceClass":
            thing["spec"].pop("extendedResourceName", None)
            if "extendedResourceName" in other["spec"]:
                thing["spec"]["extendedResourceName"] = other["spec"]["extendedResourceName"]
        case _:
            thing["spec"]["pool"]["generation"] = draw.randint(0, 9)


def change_claim_names(draw: Draw, pod: Object, claims: list[str]) -> None:
    """Let the pod's status name other claims for its templates, none, or a claim not needed."""
    pod["status"].pop("resourceClaimStatuses", None)
    names = [c["name"] for c in pod["spec"].get("resourceClaims", ()) if draw.maybe(0.8)]
    statuses: list[Object] = [{"name": name} for name in names]
    for status in statuses:
        if claims and draw.maybe(0.8):
            status["resourceClaimName"] = draw.pick(claims)
    if statuses:
        pod["status"]["resourceClaimStatuses"] = statuses


def _change_claim(draw: Draw, claim: Object, other: Object) -> None:
    status, theirs = claim.setdefault("status", {}), other.get("status", {})
    match draw.pick(("labels", "finalizer", "allocation", "allocation", "reserved", "conditions")):
        case "labels":
            claim["metadata"]["labels"] = {"app": draw.pick(("a", "b"))}
        case "finalizer":
            claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        case "allocation":
            for key in ("allocation", "reservedFor", "devices"):
                status.pop(key, None)
            if "allocation" in theirs and draw.maybe(0.5):
                status["allocation"] = theirs["allocation"]
        case "reserved":
            status.pop("reservedFor", None)
            if "allocation" in status and draw.maybe(0.5):
                status["reservedFor"] = [
                    {"resource": "pods", "name": f"wait-{i}", "uid": f"u{i}"}
                    for i in range(draw.randint(0, 2))
                ]
        case _:
            for device in status.get("devices", ()):
                device["conditions"] = [
                    {
                        "type": "Ready",
                        "status": draw.pick(("True", "False")),
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                        "reason": "Changed",
                        "message": "",
                    }
                ]
