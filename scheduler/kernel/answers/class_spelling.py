"""Finds misspelled names of device classes: unknown names, one letter from known ones."""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from scheduler.api.devices import DeviceRequest, ResourceClaim
from scheduler.kernel.answers.claim_edits import asks_of
from scheduler.kernel.answers.model import Guess
from scheduler.kernel.answers.spelling import is_close, nearest_word
from scheduler.kernel.answers.trials import Trials
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.devices.pod_claims import ClaimProblem, claims_of
from scheduler.kernel.snapshot import Snapshot


def class_guesses(trials: Trials) -> Iterator[Guess | None]:
    """Yield for each unknown name the most similar class, and the nodes that would fit with it.

    Yields None where other work may run before the search continues.
    """
    if trials.devices is None or not trials.pod.resource_claims:
        return
    catalog, snapshot = trials.devices.catalog, trials.snapshot
    try:
        claims = [claim for _, claim in claims_of(trials.pod, catalog.claims)]
    except ClaimProblem:
        return
    devices = catalog.devices
    unknown = {
        (claim.key, ask.device_class_name): (claim, name)
        for claim in claims
        for request in claim.spec.devices.requests
        for name, ask in asks_of(request)
        if claim.status.allocation is None and ask.device_class_name not in devices.classes
    }
    for (key, written), (claim, name) in unknown.items():
        yield None
        close = (each for each in devices.classes if is_close(written, each))
        nodes = {each: _nodes_with(each, catalog, snapshot) for each in close}
        meant = nearest_word(written, nodes)
        if meant is not None:
            with trials.devices.claims([_respelled(claim, written, meant)], snapshot):
                fits = len(trials.rows())
            path = f"claim {key}, request {name}: deviceClassName"
            yield Guess(path, written, meant, nodes[meant], fits)


def _nodes_with(device_class: str, catalog: ClaimCatalog, snapshot: Snapshot) -> int:
    """Return the number of nodes that have devices of a class."""
    counts = catalog.devices.counts(device_class, snapshot)
    return 0 if counts is None else int(np.count_nonzero(counts.allocatable))


def _respelled(claim: ResourceClaim, written: str, meant: str) -> ResourceClaim:
    devices = claim.spec.devices
    requests = tuple(_with_class(request, written, meant) for request in devices.requests)
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=requests)))


def _with_class(request: DeviceRequest, written: str, meant: str) -> DeviceRequest:
    exactly = request.exactly
    if exactly is not None and exactly.device_class_name == written:
        request = replace(request, exactly=replace(exactly, device_class_name=meant))
    alternatives = tuple(
        replace(each, device_class_name=meant) if each.device_class_name == written else each
        for each in request.first_available
    )
    return replace(request, first_available=alternatives)
