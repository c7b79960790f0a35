"""Objects as no test writes them and clusters have them: of every watched kind, and spoilt at will.

`WHOLE` has one rich object per kind; `UGLY` what API servers let pass, old versions left behind, or
Go's encoder makes of empty things; `spoilt` puts nonsense anywhere into an object.
"""

from copy import deepcopy
from random import Random
from typing import Any, Final

Object = dict[str, Any]

_META: Final[Object] = {"namespace": "ns", "uid": "u", "labels": {"app": "x"}, "annotations": {}}
_SELECTOR: Final[Object] = {
    "matchLabels": {"app": "x"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
}
_TERM: Final[Object] = {
    "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
}
_POD_TERM: Final[Object] = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": _SELECTOR,
    "namespaces": ["ns"],
    "namespaceSelector": {},
    "matchLabelKeys": ["app"],
}
_CONTAINER: Final[Object] = {
    "name": "c",
    "image": "registry.example/app:1",
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi", "example.com/gpu": "1"}},
    "ports": [{"hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"}],
    "restartPolicy": "Always",
}
POD_SPEC: Final[Object] = {
    "schedulerName": "default-scheduler",
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "overhead": {"cpu": "10m"},
    "priority": 5,
    "preemptionPolicy": "Never",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
    "schedulingGates": [],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": _TERM}],
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 9, "podAffinityTerm": _POD_TERM}
            ]
        },
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": _SELECTOR,
            "minDomains": 2,
            "nodeAffinityPolicy": "Honor",
            "nodeTaintsPolicy": "Ignore",
            "matchLabelKeys": ["app"],
        }
    ],
    "volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "b", "ephemeral": {}},
        {"name": "c", "csi": {"driver": "d"}},
        {"name": "d", "awsElasticBlockStore": {"volumeID": "v"}},
        {"name": "e", "rbd": {"monitors": ["m"], "image": "i"}},
    ],
    "resourceClaims": [
        {"name": "r", "resourceClaimName": "claim"},
        {"name": "t", "resourceClaimTemplateName": "template"},
    ],
    "schedulingGroup": {"podGroupName": "g"},
}

WHOLE: Final[dict[str, Object]] = {
    "pods": {
        "spec": POD_SPEC,
        "status": {
            "phase": "Pending",
            "nominatedNodeName": "n1",
            "resourceClaimStatuses": [{"name": "t", "resourceClaimName": "p-t-x"}],
            "conditions": [{"type": "PodScheduled", "status": "False"}],
        },
    },
    "nodes": {
        "spec": {
            "unschedulable": False,
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        },
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": 3},
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["registry.example/app:1"], "sizeBytes": 7}],
            "declaredFeatures": ["f"],
        },
    },
    "namespaces": {},
    "services": {"spec": {"selector": {"app": "x"}}},
    "replicationcontrollers": {"spec": {"selector": {"app": "x"}}},
    "replicasets": {"spec": {"selector": _SELECTOR}},
    "statefulsets": {"spec": {"selector": _SELECTOR}},
    "persistentvolumeclaims": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": _SELECTOR,
            "storageClassName": "class",
            "volumeName": "volume",
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Bound"},
    },
    "persistentvolumes": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"name": "claim", "namespace": "ns", "uid": "u"},
            "csi": {"driver": "d", "volumeHandle": "h"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [_TERM]}},
            "storageClassName": "class",
        },
        "status": {"phase": "Bound"},
    },
    "storageclasses": {
        "provisioner": "d",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["z"]}]}],
    },
    "csinodes": {
        "spec": {"drivers": [{"name": "d", "nodeID": "n1", "allocatable": {"count": 3}}]},
    },
    "csidrivers": {"spec": {"storageCapacity": True}},
    "csistoragecapacities": {
        "storageClassName": "class",
        "nodeTopology": _SELECTOR,
        "capacity": "1Gi",
        "maximumVolumeSize": "1Gi",
    },
    "volumeattachments": {
        "spec": {
            "attacher": "d",
            "nodeName": "n1",
            "source": {"persistentVolumeName": "volume"},
        }
    },
    "poddisruptionbudgets": {
        "spec": {"selector": _SELECTOR, "minAvailable": "50%"},
        "status": {"disruptionsAllowed": 1, "disruptedPods": {"p": None}},
    },
    "resourceclaims": {
        "spec": {
            "devices": {
                "requests": [
                    {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 1}},
                    {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "gpu"}]},
                ],
                "constraints": [{"requests": ["a"], "matchAttribute": "d/x"}],
                "config": [{"opaque": {"driver": "d", "parameters": {"x": [1]}}}],
            }
        },
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {
                            "request": "a",
                            "driver": "d",
                            "pool": "n1",
                            "device": "gpu-0",
                            "shareID": "s",
                            "consumedCapacity": {"memory": "1Gi"},
                        }
                    ]
                },
                "nodeSelector": {"nodeSelectorTerms": [_TERM]},
                "allocationTimestamp": "2026-01-01T00:00:00Z",
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "devices": [
                {
                    "driver": "d",
                    "pool": "n1",
                    "device": "gpu-0",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "data": {"x": 1},
                }
            ],
        },
    },
    "deviceclasses": {
        "spec": {
            "selectors": [{"cel": {"expression": "true"}}],
            "config": [{"opaque": {"driver": "d", "parameters": {"x": 1}}}],
            "extendedResourceName": "example.com/gpu",
        }
    },
    "resourceslices": {
        "spec": {
            "driver": "d",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {"model": {"string": "a"}, "index": {"int": 0}},
                    "capacity": {"memory": {"value": "80Gi"}},
                    "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
                    "consumesCounters": [{"counterSet": "s", "counters": {"x": {"value": "1"}}}],
                }
            ],
        }
    },
}
"""By the plural of the kind; what metadata they have is added by `named`."""

UGLY: Final[tuple[tuple[str, Object], ...]] = (
    ("csinodes", {"spec": {"drivers": None}}),
    ("csinodes", {"spec": {"drivers": [{"name": "d", "allocatable": {"count": -1}}]}}),
    ("nodes", {}),
    ("nodes", {"spec": None, "status": None}),
    ("nodes", {"status": {"images": [{"names": None, "sizeBytes": -1}]}}),
    ("nodes", {"status": {"allocatable": {"cpu": 4, "memory": 8e9, "pods": "1e2"}}}),
    ("nodes", {"status": {"allocatable": {"cpu": "-4", "memory": "9" * 40, "pods": "0"}}}),
    ("nodes", {"status": {"allocatable": {"": "1", "a/b/c": "1", "cpu": "1n"}}}),
    ("nodes", {"spec": {"taints": [{"key": "", "effect": "?"}, {}, {"key": "k"}, {"key": "k"}]}}),
    ("nodes", {"metadata": {"labels": {"kubernetes.io/hostname": "another", "": "", "k": ""}}}),
    ("pods", {"spec": {"containers": []}}),
    ("pods", {"spec": {"containers": [{}, {}]}}),
    ("pods", {"spec": {"containers": [{"resources": {"requests": None, "limits": None}}]}}),
    ("pods", {"spec": {"containers": [{"resources": {"requests": {"cpu": "1e400"}}}]}}),
    ("pods", {"spec": {"containers": [{"resources": {"requests": {"cpu": "-1", "": "0"}}}]}}),
    ("pods", {"spec": {"nodeName": "no such node", "containers": [{"ports": [{"hostPort": -1}]}]}}),
    ("pods", {"spec": {"priority": -(2**31), "containers": [{}]}}),
    ("pods", {"spec": {"priority": 2**31 - 1, "containers": [{}], "preemptionPolicy": "?"}}),
    ("pods", {"spec": {"affinity": {"nodeAffinity": {}, "podAffinity": {}}}}),
    (
        "pods",
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
                    }
                }
            }
        },
    ),
    (
        "pods",
        {
            "spec": {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {},
                            {"topologyKey": "", "labelSelector": {}},
                            {"topologyKey": "zone", "labelSelector": None, "namespaces": [""]},
                        ]
                    }
                }
            }
        },
    ),
    (
        "pods",
        {
            "spec": {
                "topologySpreadConstraints": [
                    {"maxSkew": 0, "topologyKey": "zone"},
                    {"maxSkew": -5, "topologyKey": "", "labelSelector": {}},
                    {"maxSkew": 2**31 - 1, "topologyKey": "zone", "whenUnsatisfiable": "?"},
                    {"topologyKey": "zone", "minDomains": 0, "matchLabelKeys": ["", "x"]},
                ]
            }
        },
    ),
    (
        "pods",
        {
            "spec": {
                "tolerations": [
                    {"operator": "Exists"},
                    {"operator": "Lt", "key": "k", "value": "?"},
                    {"operator": "?"},
                    {"effect": "?", "key": "k"},
                ]
            }
        },
    ),
    (
        "pods",
        {
            "spec": {
                "volumes": [
                    {"name": "a"},
                    {"name": "a", "persistentVolumeClaim": {}},
                    {"name": "b", "ephemeral": {}},
                    {"name": "c", "csi": {}},
                    {"name": "d", "rbd": {"monitors": None}},
                ]
            }
        },
    ),
    ("pods", {"spec": {"schedulingGates": [{}, {}]}, "status": {"nominatedNodeName": "gone"}}),
    ("pods", {"spec": {}, "metadata": {"ownerReferences": [{"controller": True}, {}]}}),
    ("pods", {"spec": {}, "metadata": {"deletionTimestamp": "yesterday"}}),
    ("pods", {"spec": {}, "status": {"phase": "?", "startTime": "2026-13-45T99:00:00Z"}}),
    ("pods", {"spec": {"resourceClaims": [{}, {"name": "x"}, {"name": "x"}]}}),
    ("pods", {"spec": {}, "status": {"resourceClaimStatuses": [{"name": "x"}, {}]}}),
    ("resourceclaims", {}),
    ("resourceclaims", {"spec": {"devices": {"requests": [{"name": ""}, {}]}}}),
    ("resourceclaims", {"spec": {"devices": {"constraints": [{"requests": [""]}, {}]}}}),
    ("resourceclaims", {"status": {"allocation": {}, "reservedFor": [{}, {}], "devices": [{}]}}),
    ("resourceclaims", {"status": {"allocation": {"devices": {"results": [{}, {}]}}}}),
    ("resourceclaims", {"status": {"allocation": {"allocationTimestamp": "yesterday"}}}),
    ("deviceclasses", {}),
    ("deviceclasses", {"spec": {"selectors": [{}, {"cel": {"expression": "device."}}]}}),
    ("deviceclasses", {"spec": {"extendedResourceName": ""}}),
    ("resourceslices", {}),
    ("resourceslices", {"spec": {"nodeName": "gone", "pool": {"generation": -1}}}),
    ("resourceslices", {"spec": {"allNodes": True, "devices": [{}, {"name": "x"}, {"name": "x"}]}}),
    (
        "resourceslices",
        {"spec": {"allNodes": True, "devices": [{"name": "x", "capacity": {"": {"value": "?"}}}]}},
    ),
    ("namespaces", {"metadata": {"labels": None}}),
    ("services", {"spec": {"selector": None}}),
    ("services", {"spec": {"selector": {}}}),
    ("services", {}),
    ("replicationcontrollers", {"spec": {"selector": {"": ""}}}),
    ("replicasets", {"spec": {"selector": None}}),
    ("statefulsets", {"spec": {"selector": {"matchExpressions": [{"key": "", "operator": "?"}]}}}),
    ("persistentvolumeclaims", {}),
    ("persistentvolumeclaims", {"spec": {"resources": {"requests": {"storage": "much"}}}}),
    ("persistentvolumeclaims", {"spec": {"volumeName": "gone", "accessModes": ["?", ""]}}),
    ("persistentvolumeclaims", {"metadata": {"annotations": {"pv.kubernetes.io/x": ""}}}),
    ("persistentvolumes", {}),
    ("persistentvolumes", {"spec": {"capacity": {"storage": "-1"}, "claimRef": {}}}),
    ("persistentvolumes", {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": None}}}}),
    ("storageclasses", {"volumeBindingMode": "?", "allowedTopologies": [{}]}),
    ("storageclasses", {"allowedTopologies": [{"matchLabelExpressions": [{"key": "z"}]}]}),
    ("csidrivers", {"spec": {}}),
    ("csistoragecapacities", {"capacity": "-1", "nodeTopology": {}}),
    (
        "csistoragecapacities",
        {"nodeTopology": {"matchExpressions": [{"key": "a", "operator": "?"}]}},
    ),
    ("volumeattachments", {"spec": {"source": {}}}),
    ("poddisruptionbudgets", {"spec": {"selector": None}, "status": {"disruptionsAllowed": -7}}),
    ("poddisruptionbudgets", {"spec": {"selector": {}}, "status": None}),
)

NONSENSE: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    2**31,
    -(2**63),
    2**64,
    0.5,
    1e300,
    "",
    "0",
    "1",
    "100m",
    "-1",
    "9" * 400,
    "1e999",
    "\x00",
    "\u2028\x1b[31m",
    "²",
    "kubernetes.io/hostname",
    "x" * 5000,
    [],
    [None],
    [""],
    [{}],
    {},
    {"": ""},
    {"matchLabels": {"": ""}},
    {"key": "", "operator": "Exists"},
)


def named(kind: str, name: str, body: Object) -> Object:
    """An object of a kind with a name, and a UID and a version of its own."""
    cluster_wide = ("nodes", "namespaces", "persistentvolumes", "storageclasses", "volumeattach")
    metadata = _META | body.get("metadata", {}) | {"name": name, "uid": f"uid-{name}"}
    if kind.startswith((*cluster_wide, "csinodes", "csidrivers")):
        metadata.pop("namespace")
    return body | {"metadata": metadata | {"resourceVersion": "1"}}


def spoilt(draw: Random, kind: str, name: str) -> Object:
    """The whole object of a kind with nonsense in up to three places."""
    body = deepcopy(WHOLE[kind])
    for _ in range(draw.randint(1, 3)):
        _spoil(draw, body)
    return named(kind, name, body)


def _spoil(draw: Random, body: Any) -> None:
    """Walks down at random, and puts nonsense where it stops."""
    while True:
        keys = list(body) if isinstance(body, dict) else list(range(len(body)))
        if not keys:
            return
        key = draw.choice(keys)
        below = body[key]
        if not isinstance(below, dict | list) or not below or draw.random() < 0.2:
            body[key] = deepcopy(draw.choice(NONSENSE))
            return
        body = below
