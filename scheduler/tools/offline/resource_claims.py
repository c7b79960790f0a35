"""The API server's and the controller's work on resource claims, for files and simulations.

Source: kubernetes pkg/apis/resource/v1/defaults.go, pkg/controller/resourceclaim v1.36.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.api.devices import ResourceClaim, ResourceClaimStatus
from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.claim_writes import FINALIZER
from scheduler.kernel.devices.extended_resources import IN_MEMORY
from scheduler.kernel.devices.plan import key_of
from scheduler.kernel.devices.pod_claims import ClaimProblem, claims_of, is_controlled_by
from scheduler.kernel.engine import Engine
from scheduler.kernel.engine.events import ObjectGone, ObjectSet
from scheduler.kernel.framework.results import Write

RESOURCE_CLAIMS: Final = "resourceclaims"
_CLAIM_OF_POD: Final = "resource.kubernetes.io/pod-claim-name"
_ENDED: Final = ("Succeeded", "Failed")
_EXACT: Final = {"allocationMode": "ExactCount", "count": 1}

Raw = Mapping[str, Any]


# --- as an API server has them --------------------------------------------------------------------


def completed_claim(raw: Raw) -> dict[str, Any]:
    """Complete a claim with a UID and the defaults of its requests."""
    metadata = raw.get("metadata", {})
    if isinstance(metadata, Mapping) and not metadata.get("uid"):
        uid = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        metadata = {**metadata, "uid": f"claim {uid}"}
    return {**raw, "metadata": metadata, "spec": _completed_spec(raw.get("spec"))}


def claims_of_templates(
    pod: Raw, templates: Mapping[tuple[str, str], Raw]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The pod with the names of the claims that the controller makes for it, and these claims.

    It makes none for a pod that is being deleted or has ended.

    Args:
        pod: with namespace and UID.
        templates: by namespace and name.
    """
    spec, status, meta = pod.get("spec"), pod.get("status"), pod["metadata"]
    wanted = spec.get("resourceClaims") if isinstance(spec, Mapping) else None
    status = status if isinstance(status, Mapping) else {}
    is_over = meta.get("deletionTimestamp") is not None or status.get("phase") in _ENDED
    if is_over or not isinstance(wanted, list):
        return dict(pod), []
    known = list(status.get("resourceClaimStatuses") or ())
    named = {each.get("name") for each in known if isinstance(each, Mapping)}
    made = []
    for each in wanted:
        source = each.get("resourceClaimTemplateName") if isinstance(each, Mapping) else None
        template = templates.get((meta["namespace"], source or ""))
        if template is None or each.get("name") in named:
            continue
        claim = _claim_of(meta, str(each.get("name", "")), template)
        made.append(claim)
        known.append({"name": each["name"], "resourceClaimName": claim["metadata"]["name"]})
    if not made:
        return dict(pod), []
    return {**pod, "status": {**status, "resourceClaimStatuses": known}}, made


def _claim_of(pod: Raw, name: str, template: Raw) -> dict[str, Any]:
    spec = template.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    given = spec.get("metadata")
    given = given if isinstance(given, Mapping) else {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    metadata = {
        "name": f"{pod['name']}-{name}-claim",
        "namespace": pod["namespace"],
        "labels": given.get("labels") or {},
        "annotations": {**(given.get("annotations") or {}), _CLAIM_OF_POD: name},
        "ownerReferences": [{**owner, "controller": True}],
    }
    return {"metadata": metadata, "spec": spec.get("spec") or {}}


def _completed_spec(spec: Any) -> Any:
    requests = spec.get("devices", {}).get("requests") if isinstance(spec, Mapping) else None
    if not isinstance(requests, list):
        return spec or {}
    completed = [_completed_request(request) for request in requests]
    return {**spec, "devices": {**spec["devices"], "requests": completed}}


def _completed_request(request: Any) -> Any:
    if not isinstance(request, Mapping):
        return request
    completed = dict(request)
    if isinstance(request.get("exactly"), Mapping):
        completed["exactly"] = _completed_ask(request["exactly"])
    if isinstance(request.get("firstAvailable"), list):
        completed["firstAvailable"] = [_completed_ask(each) for each in request["firstAvailable"]]
    return completed


def _completed_ask(ask: Any) -> Any:
    if not isinstance(ask, Mapping) or ask.get("allocationMode") == "All":
        return ask
    return {**_EXACT, **ask}


# --- as they become -------------------------------------------------------------------------------


def catalog_of(engine: Engine) -> ClaimCatalog | None:
    """The claims that the engine knows, if any plugin reads them."""
    return engine.core.states.known(ClaimCatalog)


def what_claims_are(engine: Engine, pod: PodInfo) -> Hashable:
    """Return a key, equal for pods of one kind with equal requests and allocations of claims."""
    catalog = catalog_of(engine)
    if catalog is None or not pod.resource_claims:
        return None
    try:
        claims = [claim for _, claim in claims_of(pod, catalog.claims)]
    except ClaimProblem as problem:
        return str(problem).replace(pod.key, "")
    shared = [None if is_controlled_by(c, pod) else c.key for c in claims]
    return key_of(claims), tuple(shared), msgspec.json.encode([c.status for c in claims])


def events_of_pre_bind(engine: Engine, pod: PodInfo) -> Iterator[ObjectSet]:
    """Yield the claims of a pod with a node as PreBind would write them."""
    catalog = catalog_of(engine)
    if catalog is None:
        return
    for claim in list(catalog.claims_in_flight(pod.uid)):
        metadata = claim.metadata
        if metadata.name == IN_MEMORY:
            metadata = replace(metadata, name=f"{pod.name}-extended-resources")
        yield ObjectSet(
            RESOURCE_CLAIMS, replace(claim, metadata=replace(metadata, finalizers=(FINALIZER,)))
        )
    for claim in list(catalog.to_reserve(pod)):
        yield ObjectSet(RESOURCE_CLAIMS, claim)


def events_of_pod_gone(engine: Engine, uid: str) -> Iterator[ObjectSet]:
    """Yield the claims that change when a pod is gone; without consumers they are deallocated."""
    catalog = catalog_of(engine)
    for claim in [] if catalog is None else list(catalog.claims.values()):
        users = claim.status.reserved_for
        left = tuple(user for user in users if user.uid != uid)
        if len(left) < len(users):
            status = replace(claim.status, reserved_for=left) if left else ResourceClaimStatus()
            yield ObjectSet(RESOURCE_CLAIMS, replace(claim, status=status))


def events_of_write(engine: Engine, write: Write) -> Iterator[ObjectSet | ObjectGone]:
    """Yield the change of a claim by a plugin's request."""
    catalog = catalog_of(engine)
    place, is_of_claim, rest = write.path.partition(f"/{RESOURCE_CLAIMS}/")
    if catalog is None or not is_of_claim:
        return
    namespace, name = place.rpartition("/")[2], rest.partition("/")[0]
    claim = catalog.claims.get(f"{namespace}/{name}")
    if claim is None:
        return
    if write.method == "DELETE":
        yield ObjectGone(RESOURCE_CLAIMS, namespace, name, claim.metadata.uid)
    elif "status" in (write.body or {}):
        yield ObjectSet(RESOURCE_CLAIMS, _patched(claim, (write.body or {})["status"]))


def _patched(claim: ResourceClaim, status: Raw) -> ResourceClaim:
    if status.get("reservedFor") is None:
        return replace(claim, status=ResourceClaimStatus())
    gone = {each["uid"] for each in status["reservedFor"] if each.get("$patch") == "delete"}
    left = tuple(user for user in claim.status.reserved_for if user.uid not in gone)
    return replace(claim, status=replace(claim.status, reserved_for=left))
