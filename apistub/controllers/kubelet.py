"""A stand-in for all kubelets: bound pods begin to run, pods being deleted end."""

from contextlib import suppress
from typing import Final

from apistub.controllers.background import BackgroundLoop
from apistub.rules.deletion import DeleteOptions, Deleter
from apistub.rules.registry import Registry
from apistub.storage.kinds import PODS, Object
from apistub.storage.status import StatusError
from apistub.storage.store import Entry

_BATCH: Final = 100
_AT_ONCE: Final = DeleteOptions(grace_seconds=0)
_NODE_ADDRESSES: Final = 256


class Kubelet:
    """Follows all pods and does what their kubelets would."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._collection = registry.store.collection(PODS)
        self._cursor = self._collection.end_cursor
        self._started = 0
        self.loop = BackgroundLoop([self._collection], self._follow)
        """Where it runs."""

    def _follow(self) -> bool:
        """Looks at the next changes; false when there are none."""
        collection = self._collection
        start = max(self._cursor - collection.first_cursor, 0)
        changes = collection.changes[start : start + _BATCH]
        self._cursor = collection.first_cursor + start + len(changes)
        for key in dict.fromkeys(change.entry.key for change in changes):
            entry = collection.get(key)
            if entry is not None:
                with suppress(StatusError):
                    self._attend(entry)
        return bool(changes)

    def _attend(self, entry: Entry) -> None:
        pod = entry.content()
        if not pod["spec"].get("nodeName"):
            return
        if "deletionTimestamp" in pod["metadata"]:
            if not pod["metadata"].get("finalizers"):
                self._deleter.delete(PODS, entry.key, _AT_ONCE)
        elif pod["status"].get("phase") == "Pending":
            self._started += 1
            status = running_status(pod, self._registry.now(), self._started)
            content = {"metadata": pod["metadata"], "status": status}
            self._registry.update(PODS, entry.key, content, "status")


def running_status(pod: Object, now: str, number: int) -> Object:
    """The status of a bound pod with all containers started; the number is its address."""
    conditions = [
        {"type": name, "status": "True", "lastTransitionTime": now}
        for name in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]
    kept = [
        condition
        for condition in pod["status"].get("conditions") or ()
        if condition["type"] == "PodScheduled"
    ]
    high, low = divmod(number, _NODE_ADDRESSES)
    address = f"10.{100 + high // _NODE_ADDRESSES % 100}.{high % _NODE_ADDRESSES}.{low}"
    return {
        **pod["status"],
        "phase": "Running",
        "startTime": now,
        "conditions": conditions + kept,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "containerID": f"stowage://{pod['metadata']['uid']}/{container['name']}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ],
    }
