"""What is read of claims comes back whole when they are written."""

import json

import msgspec

from scheduler.api.devices import DeviceId, ResourceClaim, ResourceSlice

CLAIM = {
    "metadata": {
        "name": "c",
        "namespace": "ml",
        "uid": "1",
        "annotations": {"a": "b"},
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    },
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "firstAvailable": [
                        {
                            "name": "big",
                            "deviceClassName": "gpu",
                            "allocationMode": "ExactCount",
                            "count": 2,
                            "selectors": [{"cel": {"expression": "true"}}],
                            "tolerations": [{"operator": "Exists", "tolerationSeconds": 5}],
                            "capacity": {"requests": {"memory": "1Gi"}},
                        }
                    ],
                },
                {
                    "name": "look",
                    "exactly": {
                        "deviceClassName": "gpu",
                        "allocationMode": "All",
                        "adminAccess": False,
                    },
                },
            ],
            "constraints": [{"requests": ["gpu/big"], "matchAttribute": "example.com/numa"}],
            "config": [{"opaque": {"driver": "d", "parameters": {"kind": "X", "deep": [1, 2]}}}],
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "gpu/big",
                        "driver": "d",
                        "pool": "p",
                        "device": "x",
                        "shareID": "u",
                        "consumedCapacity": {"memory": "1Gi"},
                        "bindingConditions": ["ready"],
                    }
                ],
                "config": [
                    {"source": "FromClaim", "opaque": {"driver": "d", "parameters": {"k": None}}}
                ],
            },
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "2"}],
        "devices": [
            {
                "driver": "d",
                "pool": "p",
                "device": "x",
                "shareID": "u",
                "conditions": [
                    {
                        "type": "ready",
                        "status": "True",
                        "reason": "Ok",
                        "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
                "networkData": {"ips": ["10.0.0.1/8"]},
            }
        ],
    },
}


def _without_empty_texts(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_empty_texts(v) for k, v in value.items() if v != ""}
    if isinstance(value, list):
        return [_without_empty_texts(v) for v in value]
    return value


def test_a_claim_comes_back_as_it_was_written() -> None:
    claim = msgspec.json.decode(json.dumps(CLAIM), type=ResourceClaim)

    assert claim.key == "ml/c"
    assert json.loads(msgspec.json.encode(claim)) == _without_empty_texts(CLAIM)


def test_results_and_statuses_name_their_device() -> None:
    claim = msgspec.json.decode(json.dumps(CLAIM), type=ResourceClaim)
    assert claim.status.allocation is not None
    device = DeviceId("d", "p", "x")

    assert claim.status.allocation.devices.results[0].id == device
    assert claim.status.devices[0].id == device
    assert device.text == "d/p/x"


def test_absent_binding_conditions_are_told_from_empty_ones() -> None:
    """Upstream moves a pool to the end as soon as a device's list is there at all."""
    slice_ = msgspec.json.decode(
        b'{"metadata": {}, "spec": {"devices": [{"name": "a"}, {"bindingConditions": []}]}}',
        type=ResourceSlice,
    )

    assert [d.binding_conditions for d in slice_.spec.devices] == [None, ()]
