"""Schedulers and SchedulingProfiles as tests write them."""

import asyncio
from base64 import b64encode
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import msgspec

from scheduler.operator.configuring import plan
from scheduler.operator.packages import Wheels
from scheduler.operator.plans import ConfigurationPlan
from scheduler.operator.resources import FINALIZER, Json, Scheduler, SchedulingProfile


def make_scheduler(
    name: str = "stowage",
    namespace: str = "stowage",
    *,
    created: int = 0,
    is_leaving: bool = False,
    finalizers: tuple[str, ...] = (FINALIZER,),
    status: Json | None = None,
    annotations: dict[str, str] | None = None,
    unreadable: str = "",
    **spec: Any,
) -> Scheduler:
    """An instance; the fields of its spec are written as in YAML."""
    metadata = {**_metadata(name, namespace, created), "finalizers": list(finalizers)}
    metadata["annotations"] = annotations or {}
    if is_leaving:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    written = {"metadata": metadata, "spec": spec, "status": status or {}}
    return msgspec.convert({**written, "unreadable": unreadable}, Scheduler)


def make_profile(
    name: str,
    namespace: str = "stowage",
    *,
    created: int = 0,
    labels: dict[str, str] | None = None,
    in_force: Json | None = None,
    unreadable: str = "",
    **spec: Any,
) -> SchedulingProfile:
    """A profile that is named as the object is, unless it says otherwise."""
    metadata = {**_metadata(name, namespace, created), "labels": labels or {}}
    written = {"metadata": metadata, "spec": {"schedulerName": name, **spec}}
    if unreadable:
        written = {"metadata": metadata, "unreadable": unreadable}
    status = {} if in_force is None else {"inForce": in_force}
    return msgspec.convert({**written, "status": status}, SchedulingProfile)


def make_wheel(
    *provides: str,
    module: str = "racks",
    group: str = "stowage.plugins",
    beside: dict[str, bytes] | None = None,
) -> bytes:
    """A wheel with plugins of these names that do nothing."""
    classes = "".join(f"class {name}: pass\n" for name in provides)
    announced = "".join(f"{name} = {module}:{name}\n" for name in provides)
    info = f"{module}-1.0.dist-info"
    memory = BytesIO()
    with ZipFile(memory, "w") as archive:
        archive.writestr(f"{module}.py", classes)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {module}\n")
        archive.writestr(f"{info}/entry_points.txt", f"[{group}]\n{announced}")
        for name, content in (beside or {}).items():
            archive.writestr(name, content)
    return memory.getvalue()


def make_config_map(name: str, files: dict[str, bytes], namespace: str = "stowage") -> Json:
    """A ConfigMap with binary files, as the API server has it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "binaryData": {key: b64encode(content).decode() for key, content in files.items()},
    }


def planned(
    *objects: Scheduler | SchedulingProfile,
    wheels: Wheels | None = None,
    **namespaces: dict[str, str],
) -> ConfigurationPlan:
    """The plan for a cluster with these objects."""
    schedulers = [each for each in objects if isinstance(each, Scheduler)]
    profiles = [each for each in objects if isinstance(each, SchedulingProfile)]
    return asyncio.run(plan(schedulers, profiles, namespaces, wheels or {}))


def _metadata(name: str, namespace: str, created: int) -> Json:
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-of-{name}",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": f"2026-01-01T00:{created:02}:00Z",
    }
